"""What a leaderboard tells of a rule beside its score, which takes no account of it: how far it is from certainty
equivalence on the same samples, and the errors after equal samples and after equal CPU time.

Of the problems whose results have these facts (see `suites.references`); without any, nothing is told.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mqlearn.suites.definition import BASELINE, axis_of
from mqlearn.suites.leaderboard import aggregate
from mqlearn.suites.leaderboard.aggregate import Resampled
from mqlearn.suites.results import LEAGUES, Results
from mqlearn.suites.scores import SCORES

_AREA, _LAST, _TUNED = SCORES.index("area"), SCORES.index("last"), LEAGUES.index("tuned")
_UNKNOWN = {"value": None, "low": None, "high": None, "n_problems": 0}
_FAR = 6.0  # log10: a seed that diverged counts as so far away
NAMES = ("over_certainty", "by_sample", "by_cpu", "cost")


def add(
    rows: Sequence[dict[str, Any]], every: Sequence[Results], names: Sequence[str], scores: np.ndarray, seeds: Resampled
) -> None:
    """Tell of each row and of each of its problems. scores: (R, league, score, P, S).

    over_certainty: the last error over that of certainty equivalence on the same seed, interquartile mean of its
    logarithm over problems and seeds, with its interval; where nothing is random, that is exact, and has no place here.
    by_sample, by_cpu: the error of the mean curve over the one of the tuned baseline at the budget, at the budget and
    when the CPU time of the baseline is spent; interquartile mean over the problems that have both.   cost: CPU time of
    a sample over the baseline's, geometric mean over the problems; on a problem it is measured there.
    """
    axes = [axis_of(one.facts["pairs"], one.facts["budget"]) for one in every]
    base = [one.entries[BASELINE].curve[_TUNED, -1] if one.entries[BASELINE].ran else np.nan for one in every]
    for row in rows:
        r, league = names.index(row["rule"]), LEAGUES.index(row["setting"])
        own = scores[r, league]
        far = over_certainty(own[_LAST], ~np.isnan(own[_AREA]).any(1), [one.facts for one in every])
        times = np.full((3, len(every)), np.nan)  # at the budget, at equal CPU time, cost
        for p, one in enumerate(every):
            entry, cost = one.entries[row["rule"]], (one.facts.get("cost") or {"of": {}})["of"].get(row["rule"])
            if entry.reasons[league] is None and cost is not None:
                curve = entry.curve[league].astype(float)
                times[:, p] = curve[-1] - base[p], at_equal_cpu(curve, axes[p], cost) - base[p], np.log10(cost)
            told = row["problems"][one.name]
            if "reason" not in told:
                told |= {"over_certainty": _factor(float(far[p].mean())), "by_cpu": _factor(times[1, p]),
                         "cost": _factor(times[2, p])}  # fmt: skip
        centre, low, high = aggregate.relative(far, np.zeros_like(far), seeds)
        n = int((~np.isnan(far).any(1)).sum())
        few = far.shape[1] < 2
        row["over_certainty"] = None if not n else {
            "value": _factor(centre), "low": None if few else _factor(low), "high": None if few else _factor(high),
            "n_problems": n,
        }  # fmt: skip
        known = times[:, ~np.isnan(times).any(0)]
        row["by_sample"], row["by_cpu"] = (_factor(aggregate.centre(part, np.zeros(()))) for part in known[:2])
        row["cost"] = _factor(float(known[2].mean())) if known.size else None


def over_certainty(last: np.ndarray, ran: np.ndarray, facts: Sequence[Mapping[str, Any]]) -> np.ndarray:
    """(P, S): log10 of last errors (P, S) over those of certainty equivalence; NaN where either is not there.

    ran: (P,) whether the rule did. A seed of it that diverged counts as 10^6 times.
    """
    found = np.full(last.shape, np.nan)
    for p, one in enumerate(facts):
        if ran[p] and one.get("certainty"):
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log10(last[p]) - np.log10(np.array(one["certainty"]))
            found[p] = np.clip(np.where(np.isnan(logs), _FAR, logs), -_FAR, _FAR)
    return found


def at_equal_cpu(curve: np.ndarray, axis: np.ndarray, cost: float) -> float:
    """log10 of the error over the initial one of a mean curve (C,) after samples `axis` (C,), when the CPU time is
    spent that the baseline takes for the budget; of a cheaper rule at the budget, where its curve ends."""
    return float(np.interp(np.log(axis[-1] / max(cost, 1.0)), np.log(axis), curve, left=0.0))


def told_of(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tuned rows in order, if any of them has something of this; else none."""
    rows = [row for row in found["rules"] if row["setting"] == "tuned"]
    return rows if any(row[name] is not None for row in rows for name in NAMES) else []


def far_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """How far a row is from certainty equivalence, for what is written; nothing in it where that is not known."""
    return row["over_certainty"] or _UNKNOWN


def words(found: Mapping[str, Any]) -> str:
    """What these columns are, in a paragraph."""
    machines = dict.fromkeys(
        f"{one['machine']}, {one['date']}" for problem in found["problems"] if (one := problem["measured"])
    )
    n = max((far_of(row)["n_problems"] for row in told_of(found)), default=0)
    return (
        f"Beside the score, and no part of it. Over CE: the last error over that of certainty equivalence on the same "
        f"samples, interquartile mean over seeds and the {n} problems on which something is random, with its 95 % "
        f"interval. By sample, by CPU: the error over that of tuned {found['baseline']} at the budget, after as many "
        f"samples, and after the CPU time that {found['baseline']} takes for them (a cheaper rule at the budget); "
        f"interquartile mean over problems. Cost: CPU time of a sample, drawn and learned from, over that of "
        f"{found['baseline']}, geometric mean; measured on {'; '.join(machines)}."
    )


def _factor(log: float) -> float | None:
    return None if np.isnan(log) else float(10.0**log)
