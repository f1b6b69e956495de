"""`mqlearn theory`: what theory predicts for a cell, beside what a finished run of it measured."""

import json
import shlex
from collections.abc import Sequence
from typing import Any

from mqlearn.analysis.theory_text import terminal
from mqlearn.cli.arguments import CONFIG_DIR, deliver, parse
from mqlearn.errors import SettingError
from mqlearn.experiments import forecast
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import Cell, build
from mqlearn.experiments.settings.models import build_environment
from mqlearn.paths import outputs_folder
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.theory.linearisation import MOST_PAIRS, cost


def theory(arguments: Sequence[str]) -> int:
    """`mqlearn theory`: print tables, write --json; returns 0. Raises SettingError for an environment without model."""
    from mqlearn.analysis.predictions import predictions
    from mqlearn.storage.runs import plain

    options = parse(arguments, values=CONFIG_DIR, written=("--json",))
    settings = compose.compose(options.overrides, options.config_dir)
    mdp = build_environment(settings)
    if not isinstance(mdp, FiniteMDP):
        raise SettingError("env", mdp.name, "no exact model: theory has nothing to compute from")
    cell = build(settings)
    if cell.mdp.counted.sum() <= MOST_PAIRS:
        forecast.tell(forecast.of_model(cell.mdp, *cost(cell.mdp)), cell.mdp, "covariances")
    facts = predictions(cell, finished(cell))
    config = ["--config-dir", options.config_dir] if options.config_dir else []
    facts["command"] = shlex.join(["mqlearn", "run", *config, *options.overrides])

    def text() -> str:
        return json.dumps(plain(facts, finite=True), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    if deliver(options.files, {"--json": text}):
        print(terminal(facts))
    return 0


def finished(cell: Cell) -> Any:
    """A finished run of the cell's digest on this disk, of any experiment; None if there is none."""
    from mqlearn.experiments.settings import identity
    from mqlearn.storage import lookup, runs

    outputs = outputs_folder()
    for folder in sorted((outputs / "runs").glob(f"*/{cell.digest[:16]}")):
        run = runs.complete(folder, cell.digest)
        if run is not None:
            return run
    name = cell.settings["experiment"]["name"]
    return lookup.finished(outputs, name, store=None, digests=[cell.digest], digest_of=identity.digest_of).get(
        cell.digest
    )
