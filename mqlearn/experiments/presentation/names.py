"""Names of runs for lists and charts, which cut them: what tells them apart comes first."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mqlearn.storage import runs

_GROUPS = "algorithm|step_size|env|sampling|features"
_OWN_GROUP = re.compile(rf"(?<!\S)(?:algorithm|step_size)\.|(?<!\S)(?:{_GROUPS})=")


def of_run(run: runs.Run, tags: Mapping[str, Any]) -> str:
    """What was swept, then what else the run is, then the first letters of its digest."""
    swept = _swept(run, tags)
    said = {*swept.split()}
    rest = [" ".join(word for word in part.split() if word not in said) for part in run.name.split(", ")]
    return ", ".join(filter(None, [swept, *rest, run.digest[:8]]))


def _swept(run: runs.Run, tags: Mapping[str, Any]) -> str:
    """The label of a cell in its sweep, and its panel in a figure, in short; empty for a run of its own."""
    cell, group = (str(tags.get(key) or "") for key in ("cell", "group"))
    if not cell or cell == run.name:
        return ""
    settings = run.settings
    derived = "env" not in settings or group.startswith(f"{of_problem(settings['env'])} discount=")
    words = plain_label(cell if derived or not group else f"{cell} {group}")
    return _OWN_GROUP.sub("", words)


def of_problem(env: Mapping[str, Any]) -> str:
    """What the problem of some settings is called: its name, of a model from a file (env=file) the file's."""
    named = str(env.get("name") or env.get("_target_"))
    return Path(str(env["path"])).stem if named == "file" and env.get("path") else named


def plain_label(label: str) -> str:
    """The label of a curve without TeX, for terminals and lists: `NeSA $\\zeta=0.1$` is NeSA zeta=0.1."""
    return re.sub(r"[$\\]", "", label) if "$" in label else label
