"""`mqlearn upload`: deliver run folders to the tracking store."""

from collections.abc import Sequence

from mqlearn.cli.arguments import only, parse
from mqlearn.errors import SettingError
from mqlearn.experiments.execute import store_of
from mqlearn.experiments.presentation.mlflow_view import shows
from mqlearn.experiments.settings import compose
from mqlearn.files import is_there
from mqlearn.storage import connection, runs, tracking


def upload(arguments: Sequence[str]) -> int:
    """`mqlearn upload`: deliver run folders to the store, each once. Raises SettingError for one that is damaged."""
    options = parse(arguments)
    folders = [argument for argument in options.overrides if is_there(argument) or "=" not in argument]
    overrides = [argument for argument in options.overrides if argument not in folders]
    if not folders:
        raise SettingError("upload", " ".join(arguments), "must name at least one run folder")
    only("upload", overrides, ("tracking",))
    settings = compose.compose(["tracking=mlflow", *overrides])
    for folder in folders:
        settings["experiment"] = runs.recorded_settings(runs.load(folder))["experiment"]
        track, uri = store_of(settings)
        try:
            track.prepare()
            show = shows(track.store)
            run_id = tracking.upload(folder, uri, track.experiment, track.per_seed, show=show)
        except connection.TrackingError as error:
            connection.say_untracked(f"not delivered: {error}")
            return 0
        print(f"{folder}: MLflow run {run_id}")
    return 0
