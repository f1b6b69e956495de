"""A result in one file: its arrays, its model, and its settings as plain data. What is read is data: no code runs."""

import dataclasses
import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn import files
from mqlearn.analysis.in_memory import origin_of, record_of
from mqlearn.errors import SettingError
from mqlearn.experiments.provenance import versions
from mqlearn.finding import of_record
from mqlearn.learning.record import Origin, Result
from mqlearn.problems.feature_rows import Features
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.storage import formats, record_schema, runs

_ABOUT = "about"  # the JSON text, as bytes
_PLAIN = ("seconds", "reward", "facts")
_MODEL = ("successors", "probabilities", "rewards", "terminal", "admissible", "start", "goal")
_FEATURES = ("active", "values")
_RECORD = {"settings": dict, "digest": str, "name": str, "made_of": dict, "effective": dict, "numerics_version": int}
_NOT_ARRAYS = {"curves", "diverged", "findings", "origin", *_PLAIN}
_ARRAYS = tuple(field.name for field in dataclasses.fields(Result) if field.name not in _NOT_ARRAYS)


def save(result: Result, path: str | Path) -> Path:
    """`Result.save`."""
    record, origin = record_of(result), origin_of(result)
    if strange := [name for name in result.curves if not name.isprintable()]:  # which `read` would refuse
        raise SettingError("save", ascii(strange[0]), "is the name of a metric, and cannot be printed")
    arrays = {name: table for name in _ARRAYS if (table := getattr(result, name)) is not None}
    arrays |= {f"curves/{name}": curve for name, curve in result.curves.items()}
    about: dict[str, Any] = {formats.KEY: formats.FORMAT, "kind": "result", "versions": versions(), "record": record}
    about |= {name: getattr(result, name) for name in _PLAIN} | {"diverged": result.diverged}
    about["findings"] = [found.record() for found in result.findings]
    about["model"] = None
    if isinstance(origin.mdp, FiniteMDP):
        arrays |= {f"model/{name}": getattr(origin.mdp, name) for name in _MODEL}
        mdp = origin.mdp
        about["model"] = {"discount": mdp.discount, "name": mdp.name, "layout": mdp.layout, "notes": mdp.notes}
    arrays |= {f"origin/{name}": array for name, array in _origin_arrays(origin).items()}
    about = runs.plain(about)
    about["checksum"] = _checksum(about, arrays)
    text = json.dumps(about, sort_keys=True).encode()
    buffer = io.BytesIO()
    runs.save_arrays(buffer, {_ABOUT: np.frombuffer(text, np.uint8), **arrays})
    target = files.target("save", str(path))
    files.deliver("save", target, [buffer.getvalue()])
    return target


def read(path: str | Path) -> Result:
    """The result that `Result.save` wrote: every number as it was, with what it says of its settings.

    path: of the file. It is compared, drawn and saved as the result itself; `theory` needs a rule that comes with
    mqlearn. Raises SettingError, one line, for a file that is missing, damaged, of another kind, or of a newer mqlearn.

    >>> import tempfile, pathlib
    >>> result = mq.run(mq.two_state(), mq.QLearning(), iterations=10, n_seeds=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = mq.read(result.save(pathlib.Path(folder) / "result.npz"))
    >>> bool((again.q == result.q).all())
    True
    """
    try:
        return _read(Path(path))
    except formats.OtherVersion:
        raise
    except FileNotFoundError:
        raise SettingError("read", Path(path), "no such file") from None
    except Exception as error:  # a damaged or foreign file fails in any of its reader's ways
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        problem = f"is no result that Result.save wrote, or is damaged ({reason})"
        raise SettingError("read", Path(path), problem) from error


def _read(path: Path) -> Result:
    arrays = files.arrays(path, packed=False)
    text = arrays.pop(_ABOUT, None)
    if text is None or text.dtype != np.uint8:
        raise ValueError(f"it has no entry {_ABOUT}")
    about = json.loads(text.tobytes())
    if not isinstance(about, dict) or about.get("kind") != "result":
        raise ValueError("it is of another kind")
    formats.check("read", path, about.get(formats.KEY), about.get("versions"))
    if about.pop("checksum", None) != _checksum(about, arrays):
        raise ValueError("it is not what was written")
    for array in arrays.values():
        array.flags.writeable = False
    parts: dict[str, dict[str, np.ndarray]] = {"": {}, "curves": {}, "model": {}, "origin": {}}
    for name, array in arrays.items():
        place, _, key = name.rpartition("/")
        parts[place][key] = array
    record_schema.check_curves({"iteration": parts[""]["iteration"], **parts["curves"]})
    _check_record(about["record"], parts["curves"])
    mdp = None if about["model"] is None else FiniteMDP(**parts["model"], **_model(about["model"]))
    return Result(
        **{name: parts[""].get(name) for name in _ARRAYS},  # type: ignore[arg-type]  # checked by its checksum
        **{name: about[name] for name in _PLAIN},
        curves=parts["curves"],
        diverged={int(seed): step for seed, step in about["diverged"].items()},
        findings=of_record(about),
        origin=Origin(mdp, record=about["record"], arrays=parts["origin"]),
    )


def _check_record(record: Any, curves: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless a record has what comparisons and predictions read of it."""
    if not isinstance(record, dict):
        raise ValueError("its record is no mapping")
    for key, kind in _RECORD.items():
        if not isinstance(record.get(key), kind) or isinstance(record.get(key), bool):
            raise ValueError(f"{key} of its record is missing, or no {kind.__name__}")
    record_schema.check_settings(record["settings"])
    record_schema.check_complete(record["settings"])
    for name, curve in curves.items():
        if not name.isprintable():
            raise ValueError(f"the name of the metric {name!r} cannot be printed")
        if len(curve) != record["settings"]["n_seeds"]:
            raise ValueError(f"{name} has {len(curve)} seeds, its settings say {record['settings']['n_seeds']}")


def _model(told: Mapping[str, Any]) -> dict[str, Any]:
    return {**told, "layout": told["layout"] and tuple(told["layout"]), "notes": tuple(told["notes"])}


def _origin_arrays(origin: Origin) -> Mapping[str, np.ndarray]:
    """What settings cannot say of a run: the rows of its features, and where it started."""
    if origin.setup is None:
        return origin.arrays
    features = origin.setup.features
    found = {name: value for name in ("q0", "theta0") if isinstance(value := getattr(origin.setup, name), np.ndarray)}
    if isinstance(features, Features):
        found |= {name: getattr(features, name) for name in _FEATURES}
    return found


def _checksum(about: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> str:
    code = hashlib.sha256(json.dumps(about, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        code.update(f"{name}{array.shape}{array.dtype.str}".encode())
        code.update(np.ascontiguousarray(array).tobytes())
    return code.hexdigest()
