"""The files of a run folder, read as plain values of the types and shapes that they must have (`shapes`)."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn import files
from mqlearn.errors import SettingError
from mqlearn.storage import checksums, formats, record_schema


def file(path: Path, read: Callable[[Path], Any]) -> Any:
    """What `read`, one of the functions below, makes of a file.

    Raises SettingError, which names folder and file; OtherVersion, which is one, for a newer format.
    """
    try:
        return read(path)
    except formats.OtherVersion:
        raise
    except FileNotFoundError:
        problem = f"{path.name} is missing: not a complete run folder"
        raise SettingError("folder", path.parent, problem) from None
    except Exception as error:  # a damaged file fails in any of its reader's ways
        reason = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        problem = f"{path.name} is damaged or unreadable ({reason})"
        raise SettingError("folder", path.parent, problem) from error


def summary(path: Path) -> dict[str, Any]:
    """The summary, without its checksum."""
    content = json.loads(files.text_of(path))
    if isinstance(content, dict):  # of a newer format nothing else is known
        formats.check("folder", path.parent, content.get(formats.KEY), content.get("versions"))
    record_schema.check_summary(content)
    own = checksums.of_summary(content)
    if content.pop("checksum", None if formats.KEY in content else own) != own:  # which the first format had not always
        raise ValueError("it is not what was written")
    return content


def settings(path: Path) -> dict[str, Any]:
    """The settings as they stand there: a record is data, in which nothing is resolved."""
    import yaml

    class Loader(yaml.SafeLoader):
        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):  # none is written, and a few of them can stand for gigabytes
                raise ValueError("it holds an alias")
            return super().compose_node(parent, index)

    text = files.text_of(path)
    # An alias is written with *. Where there is none, libyaml reads the same values in a tenth of the time.
    content = yaml.load(text, Loader if "*" in text else getattr(yaml, "CSafeLoader", Loader))
    record_schema.check_settings(content)
    for group in record_schema.GROUPS:  # a label that is not given
        node = content.get(group)
        if isinstance(node, dict) and isinstance(node.get("_target_"), str):
            node.setdefault("name", node["_target_"].rpartition(".")[2])
    return content


def curves(path: Path) -> dict[str, np.ndarray]:
    """All arrays of the curves, read-only."""
    arrays = _arrays(path)
    record_schema.check_curves(arrays)
    return arrays


def tables(path: Path) -> dict[str, np.ndarray]:
    """All tables, read-only."""
    arrays = _arrays(path)
    record_schema.check_tables(arrays)
    return arrays


def check_table_heads(path: Path) -> None:
    """`record_schema.check_tables` by what the arrays say of themselves: tables can be large."""
    record_schema.check_tables(files.heads(path))


def _arrays(path: Path) -> dict[str, np.ndarray]:
    arrays = files.arrays(path)
    for array in arrays.values():
        array.flags.writeable = False
    return arrays
