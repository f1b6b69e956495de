"""How many reporting seeds the order of the rules needs: group-sequential tests on the scores by seed of a board.

What is compared of two tuned rules is one number a seed: the mean over the problems that both ran on of log10 of the
error of a over that of b (see `mqlearn.suites.scores`). The unit is the seed, so that a verdict is on other seeds of
these problems; of other problems the signed-rank tests of the board speak (`over_problems`). The design is that of
`mqlearn.decide`: see `mqlearn.analysis.decisions.design`. Nothing is run: seeds that a leaderboard has are looked at as
if they had come in turn, and a pair that a look decides is not looked at again.
"""

import csv
import io
import math
import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mqlearn.analysis.comparison.columns import aligned
from mqlearn.analysis.decisions import design
from mqlearn.analysis.decisions.decision import A_BETTER, B_BETTER, EQUAL, SAME, UNDECIDED, method_words
from mqlearn.analysis.decisions.plan import Plan
from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.progress import Counting
from mqlearn.suites.leaderboard.board import by_setting
from mqlearn.suites.leaderboard.over_problems import LEVEL

_LEVELS = 12  # of a closed test that are tried one by one, see `_sizes`
_WIDTH = 80


def decide(
    found: Mapping[str, Any], against: str | None = None, margin: float | None = None, looks: Any = None
) -> dict[str, Any]:
    """Of each asked pair of tuned rules the verdict, at how many seeds it was reached, and the words for all of it.

    found: a leaderboard (`board.board`).   against: a rule; by default your own ones against each rival, and where
    there are none all pairs.   margin: a factor above 1; the errors of equal rules differ by less.   looks: at how many
    seeds it is looked, by default 10, 15, 20, ... as far as there are seeds. Raises SettingError.
    """
    areas = _areas(found)
    pairs = _asked(found, [*areas], against)
    plan = _plan(found, len(pairs), margin, looks)
    differences = [_difference(areas[a], areas[b]) for a, b in pairs]
    crossed, p = _crossings([d for d, _ in differences], plan)
    verdicts = _in_turn(differences, crossed, plan)
    told = [
        _told(pair, d, problems, verdict, plan, p[number])
        for number, (pair, (d, problems), verdict) in enumerate(zip(pairs, differences, verdicts, strict=True))
    ]
    asked = f"the error of tuned rules, a geometric mean over log samples and {len(found['problems'])} problems,"
    return {
        "suite": found["suite"], "seeds": found["seeds"], "n_seeds": found["n_seeds"], "against": against,
        "asked": asked, "method": method_words(asked, plan.looks, LEVEL, len(pairs), plan.margin, plan.most),
        "error": LEVEL, "margin": plan.margin, "looks": list(plan.looks),
        "spent": [LEVEL * design.share(n) for n in plan.looks], "pairs": told, "notes": _notes(found),
    }  # fmt: skip


def _areas(found: Mapping[str, Any]) -> dict[str, dict[str, np.ndarray]]:
    """By tuned rule and problem the scores of the seeds (S,), log10, in the order of the board."""
    areas: dict[str, dict[str, np.ndarray]] = {
        row["rule"]: {} for row in by_setting(found, "tuned") if row["score"] is not None
    }
    for one in found["scores"]:
        if one["league"] == "tuned" and one["rule"] in areas and one["score"] is not None:
            scores = areas[one["rule"]].setdefault(one["problem"], np.full(found["n_seeds"], np.nan))
            scores[one["seed"]] = math.log10(one["score"])
    return areas


def _asked(found: Mapping[str, Any], names: Sequence[str], against: str | None) -> list[tuple[str, str]]:
    if against is not None and against not in names:
        raise SettingError("against", against, f"must be one of {', '.join(names)}{nearest(against, names)}")
    own = [row["rule"] for row in by_setting(found, "tuned") if row["own"] and row["rule"] in names]
    if against is None and any(row["own"] for row in found["rules"]) and not own:
        raise SettingError("decide", True, "your rule ran on no problem of the baseline's: there is nothing to decide")
    places = {name: place for place, name in enumerate(names)}
    chosen = [against] if against is not None else own or names
    pairs = {tuple(sorted((a, b), key=places.__getitem__)): None for a in chosen for b in names if a != b}
    if not pairs:
        raise SettingError("decide", True, f"needs two rules at least that ran: there is {', '.join(names)}")
    return [(a, b) for a, b in pairs]


def _plan(found: Mapping[str, Any], pairs: int, margin: float | None, looks: Any) -> Plan:
    n = found["n_seeds"]
    first = max(design.FIRST, design.fewest(LEVEL, pairs))
    if looks is None and n < first:
        few = f"needs {first} reporting seeds for {pairs} pair{'s' * (pairs != 1)}, and suite {found['suite']} has {n}"
        raise SettingError("decide", True, f"{few}; against=RULE asks fewer pairs")
    if looks is not None and max(looks, default=0) > n:
        expected = f"must end at {n} or before: suite {found['suite']} has so many reporting seeds"
        raise SettingError("looks", list(looks), expected)
    return Plan.checked(pairs, LEVEL, margin, looks, n)


def _difference(a: Mapping[str, np.ndarray], b: Mapping[str, np.ndarray]) -> tuple[np.ndarray, int]:
    """(S,): the mean over the problems that both ran on of log10 of the error of a over that of b; and how many."""
    both = [problem for problem in a if problem in b]
    if not both:
        return np.zeros(0), 0
    d = np.mean([a[problem] - b[problem] for problem in both], axis=0)
    return np.where(np.abs(d) < 1e-12, 0.0, d), len(both)  # scores are quotients: of equal ones only rounding is left


# --- the tests ----------------------------------------------------------------------------------------------------


def _sizes(pairs: int) -> np.ndarray:
    """Of intersections of 1, 2, ..., `pairs` hypotheses those at whose level error/size is tested.

    All up to some; of many pairs only some larger ones: an intersection of another size is tested at the level of the
    next larger one, which is stricter, and so keeps the error.
    """
    sizes = {*range(1, min(pairs, _LEVELS) + 1), pairs}
    sizes |= {math.ceil(_LEVELS * 1.3**i) for i in range(40) if _LEVELS * 1.3**i < pairs}
    return np.array(sorted(sizes))


def _crossings(differences: Sequence[np.ndarray], plan: Plan) -> tuple[np.ndarray, np.ndarray]:
    """(pairs, looks, sides, pairs) bool: whether a pair has crossed by a look, for the level of each size; and p.

    The paths of a pair depend on its own differences alone, so that one pair follows the other.
    """
    m, n_looks, sides = len(differences), len(plan.looks), 1 if plan.margin is None else 3
    sizes = _sizes(m)
    bits = design.enumerated(LEVEL, m)
    signs = design.signs(bits, plan.looks[-1])
    crossed = np.zeros((m, n_looks, sides, len(sizes)), bool)
    p = np.full((m, n_looks), np.nan)
    with Counting("decided", m, "pairs") as counting:
        for number, d in enumerate(differences):
            counting(1)
            if not d.any():
                continue
            shift = 0.0 if plan.margin is None else math.log10(plan.margin)
            several = np.array([d, d - shift, -d - shift][:sides])
            tests = [design.Crossings(LEVEL / sizes, bits, one_sided=bool(side)) for side in range(sides)]
            for look, n in enumerate(plan.looks):
                sums = signs[:, :n] @ several[:, :n].T
                for side, test in enumerate(tests):
                    test.look(sums[:, side], float(np.abs(several[side, :n]).sum()), n, design.share(n))
                    crossed[number, look, side] = test.crossed[:, 0]
                p[number, look] = tests[0].p(sums[:, 0])
    return crossed[..., np.searchsorted(sizes, np.arange(1, m + 1))], p


def _in_turn(differences: Sequence[Any], crossed: np.ndarray, plan: Plan) -> list[tuple[str, int, bool]]:
    """Of each pair its verdict, the number of the look that reached it, and whether it is better by less than the
    margin. A decided pair stays where it was, as it would if its rules had got no further seeds."""
    m = len(differences)
    done: dict[int, tuple[str, int, bool]] = {
        number: (SAME if len(d) else UNDECIDED, 0, False) for number, (d, _) in enumerate(differences) if not d.any()
    }
    for look in range(len(plan.looks)):
        at = np.array([done[number][1] if number in done else look for number in range(m)])
        now = crossed[np.arange(m), at]
        if plan.margin is None:
            shown, equal = design.rejected(now)[:, 0], np.zeros(m, bool)
        else:
            both = np.stack([now[:, 0], now[:, 1] & now[:, 2]], axis=1)
            shown, equal = design.rejected(both).T
        for number in range(m):
            if number not in done and (shown[number] or equal[number]):
                less = differences[number][0][: plan.looks[look]].mean() < 0
                verdict = (A_BETTER if less else B_BETTER) if shown[number] else EQUAL
                done[number] = verdict, look, bool(shown[number] and equal[number])
    return [done.get(number, (UNDECIDED, len(plan.looks) - 1, False)) for number in range(m)]


def _told(
    pair: tuple[str, str], d: np.ndarray, problems: int, verdict: tuple[str, int, bool], plan: Plan, p: np.ndarray
) -> dict[str, Any]:
    said, look, within = verdict
    n = plan.looks[look]
    factor = float(10.0 ** d[:n].mean()) if problems else None
    a, b = pair if said != B_BETTER else pair[::-1]
    seeds = f"after {n} seeds"
    sentence = {
        EQUAL: f"{a} and {b} are equal within the margin, {seeds}",
        SAME: f"{a} and {b} have the same score in every seed",
        UNDECIDED: f"undecided between {a} and {b} {seeds}" if problems else f"{a} and {b} ran on no common problem",
    }.get(said, f"{a} is better than {b}{', by less than the margin' * within}, {seeds}")
    return {
        "a": pair[0], "b": pair[1], "verdict": said, "seeds": n, "look": look + 1, "within": within,
        "factor": factor, "p": None if math.isnan(p[look]) else float(p[look]), "problems": problems,
        "sentence": sentence,
    }  # fmt: skip


# --- words --------------------------------------------------------------------------------------------------------


def _notes(found: Mapping[str, Any]) -> list[str]:
    return [
        "The unit is the seed: verdicts are on other seeds of these problems, not on other problems, and on the "
        "settings that were chosen on the tuning seeds.",
        f"All {found['n_seeds']} reporting seeds were run before the first look, also of your own rule, since means "
        "and ranks are over the same seeds of all rules; this says how many would have been enough.",
    ]


def terminal(found: Mapping[str, Any]) -> str:
    """At most 80 columns: how it was decided, how many pairs by when, and what is open."""
    pairs = found["pairs"]
    texts = [found["method"], *_counts(found), *found["notes"]]
    lines = [line for text in texts for line in textwrap.wrap(text, _WIDTH)]
    names = [name for one in pairs for name in (one["a"], one["b"])]
    common = [name for name, count in Counter(names).items() if count == len(pairs)]
    if common:
        table = [["a", "b", "a / b", "p", "seeds", "verdict"], *map(_cells, pairs)]
        lines += ["", *aligned(table, _WIDTH, (), ("verdict",))[0]]
    return "\n".join(lines)


def _counts(found: Mapping[str, Any]) -> list[str]:
    pairs, n = found["pairs"], found["n_seeds"]
    at = Counter(one["seeds"] for one in pairs if one["verdict"] not in (UNDECIDED, SAME))
    texts = [f"{sum(at.values())} of {len(pairs)} pairs decided: " + ", ".join(
        f"{count} at {seeds} seeds" for seeds, count in sorted(at.items())) + "."] if at else [
        f"None of {len(pairs)} pairs is decided at {n} seeds."]  # fmt: skip
    if same := [f"{one['a']} and {one['b']}" for one in pairs if one["verdict"] == SAME]:
        texts.append(f"The same score in every seed: {'; '.join(same)}.")
    open_: dict[str, list[str]] = {}
    for one in pairs:
        if one["verdict"] == UNDECIDED and one["problems"]:
            open_.setdefault(one["a"], []).append(one["b"])
    if open_:
        told = "; ".join(f"{a} and {', '.join(several)}" for a, several in open_.items())
        texts.append(f"Undecided at {found['looks'][-1]} seeds, between: {told}.")
    apart = [f"{one['a']} and {one['b']}" for one in pairs if not one["problems"]]
    return [*texts, *[f"Ran on no common problem: {'; '.join(apart)}."] * bool(apart)]


def _cells(one: Mapping[str, Any]) -> list[str]:
    words = {A_BETTER: "a better", B_BETTER: "b better", EQUAL: "equal", SAME: "the same", UNDECIDED: "undecided"}
    within = ", within margin" * one["within"]
    factor, p = ("–" if value is None else f"{value:.3g}" for value in (one["factor"], one["p"]))
    return [one["a"], one["b"], factor, p, str(one["seeds"]), f"{words[one['verdict']]}{within}"]


def comma_separated(found: Mapping[str, Any]) -> str:
    """CSV: a row for each pair."""
    out = io.StringIO()
    writer = csv.DictWriter(out, [*found["pairs"][0]], lineterminator="\n")
    writer.writeheader()
    writer.writerows(found["pairs"])
    return out.getvalue()
