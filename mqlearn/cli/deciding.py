"""`mqlearn compare decide=true`: rules on as many seeds as the question needs; what is missing is run."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn.analysis.comparison import pairing, selection
from mqlearn.analysis.comparison.common_numbers import pairing as streams
from mqlearn.analysis.comparison.labels import Entry, entries
from mqlearn.analysis.comparison.seed_values import Question
from mqlearn.analysis.decisions import design
from mqlearn.analysis.decisions.decide import State, resolved
from mqlearn.analysis.decisions.decision import Decision
from mqlearn.analysis.decisions.plan import MOST, Plan, check_margin
from mqlearn.cli.cells_in_turn import CellsInTurn, but, with_seeds
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import identity
from mqlearn.experiments.settings import plugins as user_modules
from mqlearn.experiments.settings.cell import Cell, measured_by, rebuild
from mqlearn.experiments.settings.sections import NOT_TRACKED
from mqlearn.files import write_whole
from mqlearn.learning.loop import NUMERICS_VERSION
from mqlearn.learning.setup import samples_an_iteration
from mqlearn.storage import addresses, runs


def decide(request: Any, question: Question, outputs: Path) -> list[tuple[str, Decision, Path]]:
    """Of each block its name, its decision and the file that keeps it. Runs that it made are written and tracked.

    request: a `cli.compare.Request`. Raises SettingError before anything runs.
    """
    own = request.own
    for text in request.overrides:
        if text.lstrip("+").startswith("n_seeds="):
            expected = "is what a decision finds out; give most= for how many there may be"
            raise SettingError("n_seeds", text.partition("=")[2], expected)
    cells, known = _asked(request, question, outputs)
    made = entries([_as_run(cell) for cell in cells], question.summary)
    if own.get("against") == pairing.BEST:
        raise SettingError("against", pairing.BEST, "does not go with decide=true: name a run")
    pairs, _ = pairing.asked(made, question, own.get("against"))
    by_digest = {cell.digest: cell for cell in cells}
    blocks: dict[str, list[tuple[Entry, Entry]]] = {}
    for a, b in pairs:
        paired, why = streams(a.run, b.run)
        if not paired:
            raise SettingError("seed", f"{a.label} and {b.label}", f"must be common, for paired seeds: {why}")
        blocks.setdefault(a.block, []).append((a, b))
    ready = []
    for block, asked in blocks.items():
        members = list({id(entry): entry for pair in asked for entry in pair}.values())
        theirs = [by_digest[entry.run.digest] for entry in members]
        ready.append((block, *_prepared(own, question, asked, members, theirs, outputs)))
    found = []
    for block, state, turn, path in ready:
        turn.known = [_longest(cell, known) for cell in turn.cells]
        state.predict(told=True)
        found.append((block, _decided(block, state, turn, path, own, outputs), path))
    return found


def _decided(block: str, state: State, turn: CellsInTurn, path: Path, own: dict[str, Any], outputs: Path) -> Decision:
    """The decision of a block. What was looked at, and the seeds of it, are kept whatever happens after a look."""
    before, whole = _read(path).get("looks", [0])[-1], False

    def keep(decision: Decision) -> None:
        if whole or decision.looks[-1] > before:  # earlier looks are had again first, and are on record
            _keep(path, block, turn, decision, own)

    state.keep = keep
    try:
        with user_modules.own_code():
            decision = state.decided()
        whole = True
    finally:
        if state.looks and (whole or state.looks[-1] > before):
            turn.write(outputs, path)
            keep(state.answer())
    return decision


def _asked(request: Any, question: Question, outputs: Path) -> tuple[list[Cell], list[runs.Run]]:
    """The cells that overrides stand for, with one seed each, and finished runs that may hold seeds of theirs.

    With experiment.name= they are those of finished runs, as `mqlearn compare` selects them; else those that
    `mqlearn run -m` would run.
    """
    store = addresses.named(request.tracking, outputs)
    if request.names:
        found = selection.find(outputs, request.names, store)
        chosen = selection.latest_runs(selection.select(found.runs, request.overrides), question.summary).runs
        tracking = {"tracking": NOT_TRACKED} if "tracking=none" in request.tracking else {}
        more = {"n_seeds": 1, "n_workers": None, **tracking}
        return [rebuild({**run.settings, **more}, pinned=True) for run in chosen], list(found.runs)
    from mqlearn.experiments.sweep.plan import plan

    planned = plan([*request.overrides, *request.plugins, *request.tracking, "n_seeds=1"], [], request.config_dir)
    cells = [one.cell for one in planned]
    known: list[runs.Run] = []
    for name in {cell.settings["experiment"]["name"] for cell in cells}:
        if any((outputs / "runs").glob(f"{runs.slug(name)}/*")):
            known += selection.find(outputs, [name], None).runs
    return cells, known


def _as_run(cell: Cell) -> runs.Run:
    """A cell as comparisons read a run, without curves."""
    told = {"made_of": cell.made_of, "effective": cell.effective, "numerics_version": NUMERICS_VERSION}
    told |= {"digest": cell.digest, "name": cell.name, "status": "finished", "diverged": {}}
    made = runs.Run(cell.subfolder, told)
    vars(made).update(settings=cell.settings, curves={})
    return made


def _prepared(
    own: dict[str, Any],
    question: Question,
    asked: Sequence[tuple[Entry, Entry]],
    members: Sequence[Entry],
    cells: Sequence[Cell],
    outputs: Path,
) -> tuple[State, CellsInTurn, Path]:
    """A block before its first look: with the looks that it has had, if it was asked before."""
    place = {id(entry): number for number, entry in enumerate(members)}
    numbers = [(place[id(a)], place[id(b)]) for a, b in asked]
    pairs = sorted(sorted((cells[i].digest, cells[j].digest)) for i, j in numbers)
    # The margin of a question stands for itself.
    asks = {name: value for name, value in asdict(_resolved(question, cells)).items() if name != "margin"}
    about = [pairs, asks, own.get("margin")]
    key = hashlib.sha256(json.dumps(about).encode()).hexdigest()[:16]
    path, most, looks = outputs / "decisions" / f"{key}.json", own.get("most", MOST), own.get("looks")
    had = _read(path)
    plan = Plan.checked(len(numbers), question.level, own.get("margin"), looks, most)
    if had:  # what was looked at stays looked at
        done = had["looks"][-1]
        if early := [n for n in looks or () if n <= done and n not in had["looks"]]:
            expected = f"{early[0]} is not beyond the {done} seeds that were looked at (at {had['looks']})"
            raise SettingError("looks", looks, f"{expected}: no earlier look can be had afterwards")
        later: tuple[int, ...] = tuple(n for n in looks or () if n > done)
        if looks is None and most > done:
            later = Plan.checked(len(numbers), question.level, own.get("margin"), None, most, done).looks
        plan = Plan(len(numbers), question.level, own.get("margin"), (*had["looks"], *later), max(most, done), True)
    check_margin(plan.margin, question, cells[0].mdp)
    turn = CellsInTurn(cells, plan.most)
    state = State([entry.label for entry in members], numbers, plan, question, turn)
    state.notes = _other_questions(outputs, cells, key)
    return state, turn, path


def _resolved(question: Question, cells: Sequence[Cell]) -> Question:
    """What the question is with all that it leaves open, before anything runs: by that its record is found again.

    All metrics are taken for measured at every checkpoint.
    """
    views = []
    for cell in cells:
        each = samples_an_iteration(cell.rule, cell.mdp, cell.setup.sampling_of(cell.rule))
        ones = np.ones((1, len(cell.setup.iteration)))
        made = _as_run(cell)
        vars(made).update(
            settings={**cell.settings, "n_seeds": 1},
            curves={
                "iteration": cell.setup.iteration,
                "samples": cell.setup.iteration * each,
                **dict.fromkeys(measured_by(cell), ones),
            },
        )
        views.append(made)
    return resolved(question, views)


def _read(path: Path) -> dict[str, Any]:
    """What an earlier decision left. Raises SettingError for a file that is none."""
    if not path.is_file():
        return {}
    try:
        had = json.loads(path.read_text(encoding="utf-8"))
        if had["looks"] != sorted({*map(int, had["looks"])}) or not had["looks"]:
            raise ValueError("looks")
        if not isinstance(had["asked"], str) or not all(isinstance(digest, str) for digest in had["cells"]):
            raise ValueError("asked, cells")
    except (ValueError, KeyError, TypeError) as error:
        raise SettingError("decide", path, f"is no record of a decision ({error}): move it away") from None
    return had


def _other_questions(outputs: Path, cells: Sequence[Cell], key: str) -> tuple[str, ...]:
    """What must be said where other questions were decided on the same seeds."""
    own, told = {cell.digest for cell in cells}, []
    for path in sorted((outputs / "decisions").glob("*.json")):
        if path.stem == key:
            continue
        try:
            had = _read(path)
        except SettingError:
            told.append(f"decisions/{path.name} is no record of a decision: which question it was, cannot be said.")
            continue
        if len(own & {*had.get("cells", ())}) > 1:
            told.append(
                f"A second question on the same seeds: {had['asked']} was decided before ({path.name}). Each decision "
                "has its own error; that one of several is false is up to their sum."
            )
    return tuple(told)


def _longest(cell: Cell, known: Sequence[runs.Run]) -> runs.Run | None:
    """The finished run of a cell that has most seeds."""
    rest = but(identity.resolved(cell.settings), ("n_seeds", "experiment", "tracking", "n_workers", "plugins"))
    for run in sorted(known, key=lambda run: -run.settings["n_seeds"]):
        mine = but(identity.resolved(run.settings), ("n_seeds", "experiment", "tracking", "n_workers", "plugins"))
        if mine == rest and identity.digest_of(run) == with_seeds(cell, run.settings["n_seeds"]).digest:
            return run
    return None


def _keep(path: Path, block: str, turn: CellsInTurn, decision: Decision, own: dict[str, Any]) -> None:
    """The record that a later decision goes on from: what was looked at, and what came of it."""
    write_whole(path, json.dumps(record(block, decision) | {
        "cells": [cell.digest for cell in turn.cells], "runs": turn.written, "looks_given": own.get("looks"),
    }, indent=2, default=str) + "\n")  # fmt: skip


def record(block: str, decision: Decision) -> dict[str, Any]:
    """A decision as plain data."""
    return {
        "group": block,
        "asked": decision.asked,
        "method": decision.method,
        "error": decision.error,
        "margin": decision.margin,
        "most": decision.most,
        "looks": list(decision.looks),
        "spent": [decision.error * design.share(n) for n in decision.looks],
        "prediction": list(decision.prediction),
        "notes": list(decision.notes),
        "pairs": runs.plain([{**asdict(p), "sentence": p.sentence} for p in decision.pairs], finite=True),
    }
