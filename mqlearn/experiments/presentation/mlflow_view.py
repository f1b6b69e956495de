"""How a run is shown in MLflow: its name, its note, the picture of its error, the problem as its input."""

import contextlib
from collections.abc import Mapping
from functools import partial
from typing import Any

from mqlearn.errors import SettingError
from mqlearn.experiments.presentation import names, note, picture
from mqlearn.experiments.settings import instantiate, records
from mqlearn.experiments.settings import plugins as user_modules
from mqlearn.learning.metric_kinds import kind_of
from mqlearn.storage import runs
from mqlearn.storage.mlflow_payload import Show, Shown


def shows(store: Mapping[str, str]) -> Show:
    """How runs are shown in a store; `store`: the setting that names it in commands, empty for the usual one."""
    return partial(_shown, store=store)


def _shown(run: runs.Run, tags: Mapping[str, Any], *, store: Mapping[str, str]) -> Shown:
    settings = run.settings
    metrics = [name for name in run.curves if name not in runs.AXES] if run.status in runs.DONE else []
    error = next((name for name in metrics if kind_of(name).scale == "log"), "")
    chosen = error or (metrics[0] if metrics else "")
    named = names.of_run(run, tags)
    model = (run.summary.get("made_of") or {}).get("model")
    return Shown(
        name=named,
        note=note.of_run(run, _kind(settings), store),
        about=note.of_experiment(settings["experiment"]["name"], store) if "experiment" in settings else "",
        error=error,
        model=(names.of_problem(settings["env"]), model) if isinstance(model, str) else None,
        pictures=picture.error_curve(run.curves["iteration"], run.curves[chosen], chosen, named) if metrics else {},
    )


def _kind(settings: Mapping[str, Any]) -> type | None:
    """The class of a rule; None if it lies in a module that the user has not named."""
    with contextlib.suppress(SettingError, KeyError):
        modules = user_modules.known(records.in_use(settings, ["algorithm"]))
        found = instantiate.locate("algorithm._target_", settings["algorithm"]["_target_"], modules)
        return found if isinstance(found, type) else None
    return None
