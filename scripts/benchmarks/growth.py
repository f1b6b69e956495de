"""How the cost of a comparison, and of looking at what there is, grows with the number of runs."""

import io
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import numpy as np

from mqlearn.analysis.comparison import run_tables, tables
from mqlearn.analysis.comparison.labels import Entry, entries
from mqlearn.analysis.comparison.pairing import answers, asked
from mqlearn.analysis.comparison.seed_values import Question
from mqlearn.experiments.settings import compose, identity
from mqlearn.experiments.settings.cell import build, run_cells
from mqlearn.storage.runs import Run

from .many_runs import many_runs, store_size, under_way
from .measuring import Row, fastest
from .yardstick import Yardstick


def growth(_: Yardstick) -> Iterator[Row]:
    """From runs in memory to the printed tables: every pair of one block, and all against the best.

    Of 20 runs there are 190 pairs, of 100 4,950 and of 200 19,900: at best the time grows by 26 and 105.
    """
    few = fastest({"20": partial(_compared, _runs(20, 10), "all")}, turns=1)["20"]
    for n, wanted in ((100, 26), (200, 105)):
        seconds = fastest({"all": partial(_compared, _runs(n, 10), "all")}, turns=1)["all"]
        yield Row(f"compare_{n}", seconds, "CPU s", "time of 20 runs", seconds / few, wanted)
    few, many = (fastest({"best": partial(_compared, _runs(n, 10), "best")}, turns=1)["best"] for n in (100, 400))
    yield Row("compare_best_400", many, "CPU s", "time of 100 runs", many / few, 4.5)
    yield from many_runs()
    yield from under_way()
    yield from store_size()


def _runs(n: int, n_seeds: int) -> list[Run]:
    """As many runs of one problem, that differ in their step size and in their errors."""
    words = ["env=two_state", "iterations=200", "n_checkpoints=10", f"n_seeds={n_seeds}", "step_size.offset=1"]
    cell = build(compose.compose(words))
    result = run_cells([cell])[0]
    made_of = {"model": identity.model_digest(cell.settings), "sources": {}}
    random, made = np.random.default_rng(0), []
    for number in range(n):
        summary = {"digest": f"{number:064x}", "name": f"run {number}", "status": "finished", "diverged": {}}
        run = Run(Path(), summary | {"numerics_version": 1, "made_of": made_of})
        error = result.curves["q_error"] * random.lognormal(number / n, 0.05, (n_seeds, 1))
        settings = {**cell.settings, "step_size": {**cell.settings["step_size"], "offset": number}}
        run.__dict__.update(settings=settings, curves={"iteration": result.iteration, "q_error": error})
        made.append(run)
    return made


def _compared(some: list[Run], against: str) -> None:
    question = Question()
    made: list[Entry] = entries(some)
    wanted, _ = asked(made, question, against)
    with redirect_stdout(io.StringIO()):
        print(tables.terminal(answers(wanted, question), question, heads=run_tables.runs(made, question)))
