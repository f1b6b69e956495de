"""What MLflow is told of a run: metrics, parameters, tags, and what people see of it beside its numbers.

Each metric NAME of `curves` gives curves/NAME (mean over the finite seeds) at checkpoints that are spread evenly among
all, the first and the last among them: _ERROR of the error that a run is shown by, _OTHERS of any other, all if there
are no more. The error also gives curves/0_log10_NAME, the logarithm of its mean where that is above 0, at _LOG of them.
A value costs SQLite 190 bytes (MLflow's table and three indexes), and all values of all seeds are in the run's artifact
curves.npz, from which runs are read back. At the last of these checkpoints come spread/NAME_std, spread/NAME_low and
spread/NAME_high (95 % interval of the mean) of the error, of all metrics if there is none; the picture of the error has
its interval all along, and summary.json has those of all metrics. spread/NAME_n_finite is where some, but not all,
seeds are finite. All these are told while two seeds are finite, and on request seeds/NAME_seed_I, at _LOG checkpoints.
last/NAME is the mean at the last checkpoint, only if all seeds are finite there, so that sorting by it never puts a
diverged run first. What is not finite is not written. MLflow's charts are in sections by what stands before the slash,
in alphabetical order, and by name within a section: so the curves come first, and of these the logarithm. (Runs that
were recorded by earlier versions have values at every checkpoint; the first ones the same numbers as NAME, NAME_std,
NAME_low, NAME_high, NAME_n_finite, NAME_seed_I and NAME_final.)

Parameters are the settings by dotted key, without those that are null, and without the class of what has a name.
"""

import json
import logging
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.storage import runs, sql
from mqlearn.storage.summary import aggregate

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

METRICS_A_BATCH, PARAMETERS_A_BATCH, PARAMETER_LENGTH = 1000, 100, 6000  # MLflow's limits
_LOG, _ERROR, _OTHERS = 20, 10, 5  # checkpoints of a curve, at most
NOTE = "mlflow.note.content"  # the tag that MLflow shows as a description, of a run and of an experiment
_LOG10 = "0_log10"  # digits come first in the order of names
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shown:
    """What people see of a run in MLflow beside its numbers.

    name: of the run.   note, about: Markdown, on the run and on its experiment.   error: the metric whose logarithm is
    a curve too; empty for none.   model: name and digest of the problem that was learned.   pictures: file name ->
    content.
    """

    name: str
    note: str = ""
    about: str = ""
    error: str = ""
    model: tuple[str, str] | None = None
    pictures: Mapping[str, bytes] = field(default_factory=dict)


Show = Callable[[runs.Run, Mapping[str, Any]], Shown]  # from a run and the tags that it gets


def plainly(run: runs.Run, _: Mapping[str, Any]) -> Shown:
    """A run by its name alone."""
    return Shown(run.name)


def metric_name(text: str) -> str:
    """`text` if MLflow allows it as a name, else its nearest form of letters, digits, blanks and . - _ /."""
    name = text
    if not re.fullmatch(r"[\w.\- /]+", name):
        name = re.sub(r"_{2,}", "_", re.sub(r"[^\w.\- /]+", "_", name)).strip("_ ")
    if posixpath.normpath(name) != name or name.startswith(("..", "/")) or name == ".":
        name = re.sub("/+", "_", name).strip("./_ ")
    if len(name) > 200:  # of 250, the rest is for the section and _std, _seed_19, ...
        name = f"{name[:180]}_{sha256(name.encode()).hexdigest()[:8]}"
    return name or "metric"


def metric_names(run: runs.Run) -> dict[str, str]:
    """Metric of `curves` -> its name in MLflow; none for a run that has failed."""
    return _unique(metric for metric in run.curves if metric not in runs.AXES) if run.status in runs.DONE else {}


def _unique(texts: Iterable[str]) -> dict[str, str]:
    """Text -> name in MLflow, such that no two names coincide."""
    names: dict[str, str] = {}
    for text in texts:
        name, number = metric_name(text), 1
        while name in names.values():
            number += 1
            name = f"{metric_name(text)}_{number}"
        names[text] = name
    return names


def tags(run: runs.Run, metrics: Mapping[str, str], more: Mapping[str, Any], shown: Shown) -> dict[str, str]:
    """The tags of a run, `more` among them: what it is found by, and MLflow's own for its note and its source."""
    groups = ("algorithm", "env", "sampling", "step_size")
    tags = {group: run.settings[group].get("name") for group in groups if group in run.settings}
    tags |= {"digest": run.digest, "status": run.status, "folder": run.folder}
    tags |= {key: run.summary.get(key) for key in ("git_commit", "error", "digest_version")}
    tags["diverged"] = "; ".join(f"seed {seed} at iteration {step}" for seed, step in run.diverged.items())
    renamed = {name: text for text, name in metrics.items() if name != text}
    if renamed:
        tags["renamed_metrics"] = json.dumps(renamed, ensure_ascii=False)
        _log.warning("metric names that MLflow does not allow were changed: %s", tags["renamed_metrics"])
    tags |= {NOTE: shown.note, "mlflow.source.name": "mqlearn", "mlflow.source.type": "LOCAL"}
    tags["mlflow.source.git.commit"] = str(run.summary.get("git_commit") or "").partition("-")[0]
    return {key: str(value)[:8000] for key, value in (tags | dict(more)).items() if value not in (None, "")}


def metric_values(
    run: runs.Run, names: Mapping[str, str], error: str, per_seed: bool
) -> Iterator[tuple[str, float, int]]:
    """(metric, value, iteration), finite and in plain Python numbers, of all metrics of `curves`."""
    for text, name in names.items():
        log_is_free = f"{_LOG10}_{name}" not in names.values()
        yield from _values(run, text, name, text == error, log_is_free, per_seed, spread=error in ("", text))


def _values(
    run: runs.Run, text: str, name: str, is_error: bool, log_is_free: bool, per_seed: bool, spread: bool
) -> Iterator[tuple[str, float, int]]:
    values, iteration = run.curves[text], run.curves["iteration"]
    columns = aggregate(values)
    n_finite = columns["n_finite"]
    whole = n_finite == len(values)
    if len(values) > 1:  # so that the last mean, std, low and high that the store shows are of one checkpoint
        columns["mean"] = np.where(n_finite > 1, columns["mean"], np.nan)
    mean, most = columns["mean"], _ERROR if is_error else _OTHERS
    series = {f"curves/{name}": (mean, most)}
    if spread:
        series |= {f"spread/{name}_{key}": (columns[key], 1) for key in ("std", "low", "high")}
    if is_error and log_is_free:
        series[f"curves/{_LOG10}_{name}"] = np.log10(mean, out=np.full_like(mean, np.nan), where=mean > 0), _LOG
    series[f"spread/{name}_n_finite"] = np.where(~whole & (n_finite > 1), n_finite, np.nan), most
    last = np.arange(len(iteration)) == len(iteration) - 1
    series[f"last/{name}"] = np.where(last & whole, mean, np.nan), 1
    if per_seed:
        series |= {f"seeds/{name}_seed_{i}": (row, _LOG) for i, row in enumerate(values)}
    for key, (row, number) in series.items():
        there = _thinned(np.flatnonzero(np.isfinite(row)), number)
        for value, step in zip(row[there].tolist(), iteration[there].tolist(), strict=True):
            yield key, float(value), int(step)


def _thinned(places: np.ndarray, most: int) -> np.ndarray:
    """At most so many of some rising numbers, evenly spread among them: the first and the last; the last, if one."""
    if len(places) <= most:
        return places
    return places[np.linspace(len(places) - 1, 0, most).round().astype(int)[::-1]]


def parameters(settings: Mapping[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings by dotted key, but not those of tracking: they change no number and may hold a password. Left out is
    what is null, and the class of what has a name.

    Those that MLflow would cut are a checksum, and second, their texts by the file of the run that they go to.
    """
    flat = dict(_flat({key: value for key, value in settings.items() if key != "tracking"}))
    told, long = {}, {}
    for key, name in _unique(flat).items():
        if flat[key] is None or (key.endswith("._target_") and flat.get(f"{key.removesuffix('_target_')}name")):
            continue
        text = flat[key] if isinstance(flat[key], str) else json.dumps(flat[key], ensure_ascii=False)
        if len(text) > PARAMETER_LENGTH:
            long[f"parameters/{name}.txt"] = text
            text = f"sha256:{sha256(text.encode()).hexdigest()}"
        told[name] = text
    return told, long


def log_parameters(client: "MlflowClient", run_id: str, settings: Mapping[str, Any]) -> None:
    """`parameters`, in MLflow's batches."""
    from mlflow.entities import Param

    told, long = parameters(settings)
    for name, text in long.items():
        client.log_text(run_id, text, name)
    some = [Param(name, text) for name, text in told.items()]
    for start in range(0, len(some), PARAMETERS_A_BATCH):
        client.log_batch(run_id, params=some[start : start + PARAMETERS_A_BATCH])


def log_metrics(client: "MlflowClient", uri: str, run_id: str, values: list[tuple[str, float, int]], time: int) -> None:
    """(metric, value, iteration) of a new run, in one step if its store is SQLite, else in MLflow's batches."""
    if sql.write_metrics(uri, run_id, values, time):
        return
    from mlflow.entities import Metric

    metrics = [Metric(key, value, time, step) for key, value, step in values]
    for start in range(0, len(metrics), METRICS_A_BATCH):
        client.log_batch(run_id, metrics=metrics[start : start + METRICS_A_BATCH])


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def model_input(name: str, digest: str) -> tuple[str, str, str]:
    """A problem as a data set: its name, digest (which has 36 letters there) and source in MLflow's words."""
    source = json.dumps({"tags": {"mlflow.source.name": name, "mlflow.source.type": "LOCAL"}})
    return name[:500], digest[:36], source


def log_model(client: "MlflowClient", run_id: str, name: str, digest: str) -> None:
    """The problem that a run learned, as its input: a data set in MLflow's words.

    A store looks whether it has the data set and then adds it. If another run adds it in between, the store refuses
    the second as not unique; asked again, it finds the data set.
    """
    from mlflow.entities import Dataset, DatasetInput, InputTag
    from mlflow.exceptions import MlflowException

    called, number, source = model_input(name, digest)
    data = Dataset(called, number, "code", source)
    inputs = [DatasetInput(data, [InputTag("mlflow.data.context", "problem")])]
    try:
        client.log_inputs(run_id, inputs)
    except MlflowException as error:
        if not any(word in str(error).lower() for word in ("unique", "duplicate")):  # the words of databases
            raise
        client.log_inputs(run_id, inputs)


def log_pictures(client: "MlflowClient", run_id: str, pictures: Mapping[str, bytes]) -> None:
    """Pictures as artifacts of a run, beside its files."""
    if pictures:
        with TemporaryDirectory() as folder:
            for name, content in pictures.items():
                Path(folder, name).write_bytes(content)
            client.log_artifacts(run_id, folder)
