"""Cells whose seeds come in turn, for decisions on the command line; what finished runs have is read."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mqlearn.analysis.decisions.decision import DECIDED
from mqlearn.experiments import execute
from mqlearn.experiments.settings.cell import Cell, build
from mqlearn.learning.in_turn import SeedsInTurn
from mqlearn.learning.setup import validated
from mqlearn.storage import runs

_RULE = ("algorithm", "step_size", "experiment", "tracking", "n_seeds")


def but(settings: dict[str, Any], names: Sequence[str]) -> str:
    return json.dumps({key: value for key, value in settings.items() if key not in names}, sort_keys=True, default=str)


def with_seeds(cell: Cell, n_seeds: int) -> Cell:
    return build({**cell.settings, "n_seeds": n_seeds})


class CellsInTurn:
    """Cells whose seeds come in turn, as `SeedsInTurn`; those that a finished run has are read. known: by cell."""

    def __init__(self, cells: Sequence[Cell], most: int) -> None:
        self.cells = list(cells)
        self.known: list[runs.Run | None] = [None] * len(self.cells)
        self.written: list[str] = []  # digests of their runs, once these are on disk
        self.setup, self.rules = cells[0].setup, [cell.rule for cell in cells]
        alike: dict[str, list[int]] = {}
        for number, cell in enumerate(cells):
            alike.setdefault(but(cell.settings, _RULE), []).append(number)
        self._turns: dict[int, tuple[SeedsInTurn, int]] = {}
        for members in alike.values():
            first = cells[members[0]]
            given = {k: v for k, v in first.run_arguments.items() if k not in ("rule", "step_size", "n_seeds")}
            validated(first.mdp, n_seeds=most, **given)
            turn = SeedsInTurn(first.mdp, [cells[number].rule for number in members], **given)
            self._turns |= {number: (turn, place) for place, number in enumerate(members)}

    def upto(self, n_seeds: int, numbers: Sequence[int]) -> None:
        wanted: dict[int, tuple[SeedsInTurn, list[int]]] = {}
        for number in numbers:
            run = self.known[number]
            if run is None or run.settings["n_seeds"] < n_seeds:
                turn, place = self._turns[number]
                wanted.setdefault(id(turn), (turn, []))[1].append(place)
        for turn, places in wanted.values():
            turn.upto(n_seeds, places)

    def check(self, n_seeds: int) -> None:
        for turn, _ in self._turns.values():
            turn.check(n_seeds)

    def result(self, number: int) -> Any:
        turn, place = self._turns[number]
        return turn.result(place) if turn.n_seeds[place] else _OnDisk(self.known[number])

    def write(self, outputs: Path, decision: Path) -> None:
        """The runs that were made, as ordinary ones with the seeds that they came to. decision: its file."""
        self.written = [with_seeds(cell, self.n_seeds(number)).digest for number, cell in enumerate(self.cells)]
        for number, cell in enumerate(self.cells):
            turn, place = self._turns[number]
            if turn.n_seeds[place]:
                final = with_seeds(cell, turn.n_seeds[place])
                result, track = turn.result(place), execute.tracker(cell.settings)
                with execute.claimed([final]):
                    run = execute.write(final, outputs / "runs" / final.subfolder, result, {DECIDED: decision.name})
                execute.quietly(track.prepare)
                track.log(run)

    def n_seeds(self, number: int) -> int:
        turn, place = self._turns[number]
        run = self.known[number]
        return turn.n_seeds[place] or (run.settings["n_seeds"] if run is not None else 0)


class _OnDisk:
    """A finished run, as a `Result` is read here."""

    def __init__(self, run: Any) -> None:
        self.iteration, self.samples = run.curves["iteration"], run.curves.get("samples")
        self.curves = {name: curve for name, curve in run.curves.items() if name not in runs.AXES}
        self.diverged, self.status = run.diverged, run.status
