"""`mqlearn ui`: the MLflow UI on the tracking store."""

from collections.abc import Sequence

from mqlearn.checks import check_int
from mqlearn.cli.arguments import only, parse, take
from mqlearn.experiments.execute import store_of
from mqlearn.experiments.settings import compose
from mqlearn.storage.ui import open_ui


def ui(arguments: Sequence[str]) -> int:
    """`mqlearn ui`: open the page of an experiment and stay until it is interrupted; returns 0."""
    options = parse(arguments)
    port = check_int("port", take(options, "port") or "5000", 1, 65535, written=True)
    host = take(options, "host") or "127.0.0.1"
    only("ui", options.overrides, ("tracking", "host", "port", "experiment"))
    track, uri = store_of(compose.compose(["tracking=mlflow", *options.overrides]))
    named = any(text.startswith("experiment") for text in options.overrides)
    open_ui(uri, track.experiment, named=named, host=host.strip("'\""), port=port)
    return 0
