"""What a report is about: runs with a label and a panel each, and what can be built again from their settings."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.selection import SILENT, flat, shown, text_of
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import identity
from mqlearn.experiments.settings.cell import Cell, rebuild_for_reading, rebuild_without_rule
from mqlearn.learning.loop import NUMERICS_VERSION
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.storage.runs import Run


@dataclass(frozen=True, eq=False)
class Subject:
    """A run with its label, its block of comparable runs and the block's short title.

    cell: its settings built again, None where they cannot be (`why`: a module of the user's that is not here).
    problem: the cell, or one with another rule where the rule alone cannot be built; None if neither can.
    same_code: whether the cell is made of what the run was made of.
    """

    run: Run
    label: str
    block: str
    panel: str
    cell: Cell | None
    problem: Cell | None = None
    why: str = ""

    @property
    def same_code(self) -> bool:
        if self.cell is None:
            return False
        known = self.run.summary.get("numerics_version") == NUMERICS_VERSION and identity.made_of(self.run)
        return self.cell.made_of == known or self.cell.digest == identity.digest_of(self.run)

    @property
    def mdp(self) -> FiniteMDP | None:
        """The exact model, where there is one."""
        return self.problem.mdp if self.problem is not None and isinstance(self.problem.mdp, FiniteMDP) else None


def subjects(entries: Sequence[Entry]) -> list[Subject]:
    """One for each entry; panels are named by what tells their blocks apart."""
    blocks = list(dict.fromkeys(entry.block for entry in entries))
    words = [block.split(", ") for block in blocks]
    shared = [word for word in words[0] if all(word in other for other in words)] if len(blocks) > 1 else words[0][1:]
    titles = {
        block: ", ".join(word for word in own if word not in shared) or own[0]
        for block, own in zip(blocks, words, strict=True)
    }
    return [Subject(e.run, e.label, e.block, titles[e.block], *_built(e.run)) for e in entries]


def _built(run: Run) -> tuple[Cell | None, Cell | None, str]:
    try:
        cell = rebuild_for_reading(run.settings)
        return cell, cell, ""
    except SettingError as error:
        why = str(error)
    try:
        return None, rebuild_without_rule(run.settings), why
    except SettingError:
        return None, None, why


def by_panel(some: Sequence[Subject]) -> dict[str, list[Subject]]:
    panels: dict[str, list[Subject]] = {}
    for one in some:
        panels.setdefault(one.panel, []).append(one)
    return panels


def scientific(settings: dict[str, Any]) -> dict[str, str]:
    """Settings by dotted name as texts, without those that change no number and without targets; long ones cut."""
    kept = {key: value for key, value in settings.items() if key not in (*SILENT, "figure")}
    texts = {key: shown(value) for key, value in flat(kept).items() if not key.endswith("_target_")}
    return {key: text if len(text) <= 200 else f"{text[:180]}… ({len(text)} characters)" for key, text in texts.items()}


def differing(some: Sequence[Subject]) -> tuple[list[str], dict[str, str]]:
    """Names of the settings that differ between the runs that have them, and the others with their values.

    The rows of a map are left out where the name of the environment differs too: the report draws them.
    """
    flats = [scientific(one.run.settings) for one in some]
    names = list(dict.fromkeys(name for one in flats for name in one))
    held = {name: {text_of(one[name]): one[name] for one in flats if name in one} for name in names}
    varied = [name for name in names if len(held[name]) > 1]
    if "env.name" in varied and "env.map" in varied:
        varied.remove("env.map")
    shared = {name: next(iter(held[name].values())) for name in names if len(held[name]) == 1}
    return varied, shared
