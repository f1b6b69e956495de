"""What is kept of a problem of a suite: per-seed scores and the mean curve of each rule, in one array file.

A file of results holds arrays over (problems, rules, ...), float32, and a text in JSON that says what they are. The
committed results of a suite are such a file with all of its problems.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn import files
from mqlearn.errors import SettingError
from mqlearn.files import write_whole
from mqlearn.paths import committed, outputs_folder
from mqlearn.storage import formats
from mqlearn.suites.definition import CHECKPOINTS, Problem, Suite
from mqlearn.suites.scores import SCORES
from mqlearn.suites.search import SETTINGS

LEAGUES = ("default", "tuned")
_FORMAT = 3  # what is kept, and how scores and facts are made: files of another are made again


@dataclass(frozen=True, eq=False)
class Entry:
    """A rule on a problem.

    digest: of the rule.   rule: overrides that choose it.   iterations: of its runs.
    settings: those that were tried, as overrides, the default first; `chosen` is the number of the best on the tuning
    seeds.   tuning (15, n): areas there.
    scores (2, 4, n_seeds): of the default and of the chosen setting (see `scores`).
    curve (2, C): log10 of the error over the initial one, mean over seeds, on the problem's axis.
    reasons: why it did not run by default, and why not tuned; its numbers are NaN there, and without either all else is
    empty.
    tuned: the numbers that were searched, and `ends` those whose best value is the last that was tried on a side.
    """

    digest: str
    rule: tuple[str, ...] = ()
    iterations: int = 0
    settings: tuple[tuple[str, ...], ...] = ()
    chosen: int = 0
    tuning: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.float32))
    scores: np.ndarray = field(default_factory=lambda: np.empty((0, 0, 0), np.float32))
    curve: np.ndarray = field(default_factory=lambda: np.empty((0, 0), np.float32))
    reasons: tuple[str | None, str | None] = (None, None)
    tuned: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()

    @classmethod
    def refused(cls, digest: str, reason: str) -> "Entry":
        """A rule that cannot be run at all."""
        return cls(digest, reasons=(reason, reason))

    @property
    def ran(self) -> bool:
        """Whether it ran in one setting at least."""
        return None in self.reasons


@dataclass(frozen=True, eq=False)
class Results:
    """The entries of a problem by rule.   facts: what is known of the problem: its name, digest, kind and so on."""

    facts: dict[str, Any]
    entries: Mapping[str, Entry]

    @property
    def name(self) -> str:
        return self.facts["problem"]

    def of(self, digests: Mapping[str, str]) -> "Results":
        """The entries of the rules with these digests alone."""
        return Results(self.facts, {rule: one for rule, one in self.entries.items() if digests.get(rule) == one.digest})


def place(suite: str, problem: Problem) -> Path:
    """The array file of a problem."""
    from mqlearn.storage.runs import slug

    return outputs_folder() / "bench" / slug(suite) / f"{slug(problem.name)}.npz"


def write(path: Path, some: Sequence[Results]) -> None:
    """Write results, in one step."""
    rules = sorted({rule for one in some for rule in one.entries})
    whole = [entry for one in some for entry in one.entries.values() if entry.ran]
    n_tuning, n_seeds = (whole[0].tuning.shape[1], whole[0].scores.shape[2]) if whole else (0, 0)
    size = (len(some), len(rules))
    arrays = {
        "tuning": np.full((*size, SETTINGS, n_tuning), np.nan, np.float32),
        "scores": np.full((*size, len(LEAGUES), len(SCORES), n_seeds), np.nan, np.float32),
        "curve": np.full((*size, len(LEAGUES), CHECKPOINTS), np.nan, np.float32),
    }
    told: list[dict[str, Any]] = []
    for p, one in enumerate(some):
        described = {}
        for r, rule in enumerate(rules):
            if rule not in one.entries:
                continue
            entry = one.entries[rule]
            if entry.ran:
                arrays["tuning"][p, r, : len(entry.tuning)] = entry.tuning
                arrays["scores"][p, r], arrays["curve"][p, r] = entry.scores, entry.curve
            described[rule] = {
                "digest": entry.digest,
                "rule": entry.rule,
                "iterations": entry.iterations,
                "settings": entry.settings,
                "chosen": entry.chosen,
                "tuned": entry.tuned,
                "ends": entry.ends,
                "reasons": entry.reasons,
            }
        told.append({"facts": one.facts, "entries": described})
    meta = json.dumps({"format": _FORMAT, "rules": rules, "problems": told}, sort_keys=True)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, meta=np.frombuffer(meta.encode(), np.uint8), **arrays)
    write_whole(path, buffer.getvalue())


class EarlierVersion(ValueError):
    """A file of results that an earlier version of mqlearn wrote."""


def read(path: Path) -> list[Results]:
    """The results in a file.

    Raises ValueError for one that is damaged or no such file, or of an earlier version; OtherVersion for a newer one.
    """
    try:
        arrays = files.arrays(path)
        meta = json.loads(arrays["meta"].tobytes())
        if meta["format"] > _FORMAT:
            problem = f"was written by a newer mqlearn; this is {formats.installed()}: use that version"
            raise formats.OtherVersion("file", str(path), problem)
        if meta["format"] != _FORMAT:
            raise EarlierVersion(f"format {meta['format']}, and this version has {_FORMAT}")
        return [
            Results(one["facts"], {rule: _entry(told, arrays, p, r) for rule, told, r in _each(one, meta["rules"])})
            for p, one in enumerate(meta["problems"])
        ]
    except (OSError, LookupError, TypeError, AttributeError) as error:  # also where the text is not what it was
        raise ValueError(f"{type(error).__name__}: {error}") from error


def _each(one: Mapping[str, Any], rules: Sequence[str]) -> list[tuple[str, Any, int]]:
    return [(rule, told, rules.index(rule)) for rule, told in one["entries"].items()]


def _entry(told: Mapping[str, Any], arrays: Mapping[str, np.ndarray], p: int, r: int) -> Entry:
    default, tuned = told["reasons"]
    if default is not None and tuned is not None:
        return Entry(told["digest"], reasons=(default, tuned))
    settings = tuple(map(tuple, told["settings"]))
    tuning = arrays["tuning"][p, r, : len(settings)]
    described = (told["digest"], tuple(told["rule"]), told["iterations"], settings, told["chosen"])
    measured = (tuning, arrays["scores"][p, r], arrays["curve"][p, r], (default, tuned))
    return Entry(*described, *measured, tuple(told["tuned"]), tuple(told["ends"]))


def kept(suite: str, problem: Problem) -> tuple[Results | None, str | None]:
    """What is kept of a problem under its present digest, and why its file is made again if it cannot be used."""
    path = place(suite, problem)
    if not path.is_file():
        return None, None
    try:
        (one,) = read(path)
    except formats.OtherVersion:
        raise
    except EarlierVersion as error:
        return None, f"a file of an earlier version is made again: {path}: {error}"
    except ValueError as error:
        return None, f"a damaged file is made again: {path}: {error}"
    return (one if one.facts.get("digest") == problem.digest else None), None


def committed_of(suite: Suite) -> dict[str, Results]:
    """The committed results of a suite by problem; none if nothing is committed.

    Raises SettingError where they were made by other numerics, or for other problems, budgets or seeds.
    """
    path = committed(f"bench_{suite.name}.npz")
    if path is None:
        return {}
    remedy = f"`{suite.command}` without algorithm= makes them here"
    try:
        found = {one.name: one for one in read(path)}
    except ValueError as error:
        raise SettingError("suite", suite.name, f"committed results cannot be read ({error}); {remedy}") from None
    wrong = [
        one.name for one in suite.problems if one.name not in found or found[one.name].facts["digest"] != one.digest
    ]
    if wrong or len(found) != len(suite.problems):
        expected = f"committed results are of other numerics or of another suite (not of {', '.join(wrong) or 'all'})"
        raise SettingError("suite", suite.name, f"{expected}; {remedy}")
    return found
