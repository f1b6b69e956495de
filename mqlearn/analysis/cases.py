"""From settings to objects: what theory is asked about, of a cell and its run."""

import numpy as np

from mqlearn.experiments.settings.cell import Cell
from mqlearn.storage.runs import Run
from mqlearn.theory.case import Case


def case_of(cell: Cell) -> Case:
    """The rule of a cell on its problem."""
    given = cell.run_arguments
    return Case(
        mdp=cell.mdp, rule=cell.rule, step_size=given["step_size"], sampling=given["sampling"],
        operator=given["operator"], features=given["features"], projection=given["linear"].projection,
        reward=cell.settings["reward"], q0=given["q0"], theta0=given["theta0"],
        iterations=int(cell.settings["iterations"]),
    )  # fmt: skip


def largest_error(run: Run | None) -> float | None:
    """sup |Q_k - Q*| over seeds and checkpoints of a run, where they are finite; None where no run has it."""
    return None if run is None or "q_error" not in run.curves else float(np.nanmax(run.curves["q_error"]))
