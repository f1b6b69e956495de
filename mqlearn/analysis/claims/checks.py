"""Does a claim hold? Checks of finished runs, each under its conditions, and the verdict that they give together.

A check holds, fails (the data say the opposite at the level of the tests) or stays open (not shown). A claim is
reproduced if all its checks hold, not reproduced if none does, and conditional otherwise.
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from mqlearn.analysis.comparison import comparison
from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.samples import Question, metric_of
from mqlearn.analysis.statistics import survival
from mqlearn.analysis.statistics.intervals import generator
from mqlearn.errors import SettingError, nearest
from mqlearn.storage.runs import Run

HOLDS, FAILS, OPEN = "holds", "fails", "open"
VERDICTS = ("reproduced", "not_reproduced", "conditional")
MEASURES = ("error", "peak", "overshoot", "spread")
LEVEL = 0.05
ITSELF = "itself"  # as a rival: the same rule under the conditions b_in


class Seen(NamedTuple):
    """A finished run with its cell and label."""

    run: Run
    cell: Any
    label: str


# (conditions, label) -> the run; conditions map each factor to one level.
Look = Callable[[Mapping[str, str], str], Seen]


@dataclass(frozen=True)
class Check:
    """conditions: what distinguishes it from the other checks of its claim; evidence: plain data."""

    conditions: dict[str, str]
    outcome: str
    evidence: dict[str, Any] = field(default_factory=dict)


def verdict(checks: Sequence[Check]) -> str:
    """reproduced: all hold; not_reproduced: none does; conditional: some do. Raises SettingError without checks."""
    if not checks:
        raise SettingError("checks", "", "must not be empty: nothing was tested")
    holding = sum(check.outcome == HOLDS for check in checks)
    return VERDICTS[0] if holding == len(checks) else VERDICTS[2] if holding else VERDICTS[1]


def conditions(
    checks: Sequence[Check], by: Sequence[str] = (), *, depth: int = 3, within: Mapping[str, str] | None = None
) -> list[str]:
    """Where the checks hold and where they do not, in words: a tree of at most `depth` splits.

    It is split by the factors of `by` in their order, then by the one that separates best; levels that agree make one
    line.
    """
    within = dict(within or {})
    holding = sum(check.outcome == HOLDS for check in checks)
    factors = {
        name: list(dict.fromkeys(check.conditions[name] for check in checks))
        for name in dict.fromkeys(name for check in checks for name in check.conditions)
        if name not in within and all(name in check.conditions for check in checks)
    }
    factors = {name: levels for name, levels in factors.items() if len(levels) > 1}
    if holding in (0, len(checks)) or depth == 0 or not factors:
        return [_line(checks, within)]

    def part(name: str, level: str) -> list[Check]:
        return [check for check in checks if check.conditions[name] == level]

    def impurity(name: str) -> float:
        shares = [np.mean([c.outcome == HOLDS for c in part(name, level)]) for level in factors[name]]
        sizes = [len(part(name, level)) for level in factors[name]]
        return float(sum(size * share * (1 - share) for size, share in zip(sizes, shares, strict=True)))

    best = next((name for name in by if name in factors), None) or min(factors, key=impurity)
    alike: dict[Any, list[str]] = {}
    for level in factors[best]:
        some = sum(check.outcome == HOLDS for check in part(best, level))
        pure = some in (0, len(part(best, level)))
        alike.setdefault(some > 0 if pure else level, []).append(level)
    lines = []
    for levels in alike.values():
        members = [check for check in checks if check.conditions[best] in levels]
        lines += conditions(members, by, depth=depth - 1, within={**within, best: _joined(levels)})
    return lines


def _joined(levels: Sequence[str]) -> str:
    """The levels as a list, without repeating the first word that they share."""
    first = {level.partition(" ")[0] for level in levels}
    if len(levels) > 1 and len(first) == 1 and all(" " in level for level in levels):
        return f"{first.pop()} {', '.join(level.partition(' ')[2] for level in levels)}"
    return "; ".join(levels) if any("," in level for level in levels) else ", ".join(levels)


def _line(checks: Sequence[Check], within: Mapping[str, str]) -> str:
    holding, total = sum(check.outcome == HOLDS for check in checks), len(checks)
    opposite = sum(check.outcome == FAILS for check in checks)
    what = "holds" if holding == total else "holds in part" if holding else "does not hold"
    counted = f"{holding} of {total}" + (f", {opposite} the other way" if opposite else "")
    where = ", ".join(level if name in _PLAIN else f"{name} {level}" for name, level in within.items())
    return f"{what} ({counted}): {where or 'everywhere'}"


_PLAIN = ("rule", "map", "quantity")  # factors whose levels speak for themselves


# --- pairs of runs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wanted:
    """One pair to test: conditions, both entries, the question, and what the claim expects (a_better | b_better)."""

    conditions: dict[str, str]
    a: Entry
    b: Entry
    question: Question
    expect: str
    margin: float = 1.0  # b is multiplied by it
    extra: Callable[[comparison.Verdict], dict[str, Any]] | None = None


def places_of(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """The conditions of a `pairs` check: without the factors that a_in and b_in fix."""
    fixed = {*(spec.get("a_in") or {}), *(spec.get("b_in") or {})}
    left = {tuple((name, level) for name, level in place.items() if name not in fixed): None for place in places}
    return [dict(place) for place in left]


def n_pairs(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]]) -> int:
    """How many pairs a `pairs` check tests."""
    rest = len(spec["a"]) * len(spec["b"]) * len(spec.get("summary", ["error"])) * len(spec.get("at", [1]))
    return len(places_of(spec, places)) * rest


def wanted_pairs(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[Wanted]:
    """The pairs of a `pairs` check, at each of `places` (conditions), each a and b, summary and share of T."""
    made = []
    for here in places_of(spec, places):
        for a_label, rival in itertools.product(spec["a"], spec["b"]):
            for summary, share in itertools.product(spec.get("summary", ["error"]), spec.get("at", [1])):
                made.append(_wanted(spec, here, str(a_label), rival, str(summary), float(share), look))
    return made


def _wanted(
    spec: Mapping[str, Any], here: dict[str, str], a_label: str, rival: Any, summary: str, share: float, look: Look
) -> Wanted:
    a_in, b_in = (dict(spec.get(f"{side}_in") or {}) for side in "ab")
    a = look(here | a_in, a_label)
    at = round(share * a.cell.settings["iterations"])
    metric = metric_of(Question(summary=summary, metric=spec.get("metric")), a.run)
    question = Question(summary=summary, metric=metric, at=at, level=LEVEL)
    first = a.run
    if isinstance(rival, Mapping) and "best_of" in rival:
        candidates = [look(here | b_in, label) for label in rival["best_of"]]
        first, second, b_label = _tuned(first, candidates, question, at)
    elif isinstance(rival, Mapping):
        second, b_label = frozen(first, metric, round(rival["itself"] * at)), _rival_words(rival)
    else:
        b_label = a_label if rival == ITSELF else str(rival)
        second = look(here | b_in, b_label).run
    measure, margin = spec.get("measure", "error"), float(spec.get("margin", 1))
    margin = margin if question.less_is_better else 1 / margin
    said = {**here, **_quantity(spec), "rule": a_label}
    said |= {} if rival == ITSELF else {"rival": _rival_words(rival)}
    said |= {"measured by": metric, "k": str(at)}
    return Wanted(
        said,
        Entry(measured(first, metric, measure), a_label, _words(here | a_in)),
        Entry(measured(second, metric, measure, margin), b_label, _words(here | b_in)),
        question,
        spec.get("expect", "a_better"),
        margin,
        spreads if measure == "spread" else None,
    )


def _words(place: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {level}" for name, level in place.items())


def _quantity(spec: Mapping[str, Any]) -> dict[str, str]:
    return {"quantity": spec["quantity"]} if "quantity" in spec else {}


def decide(wanted: Sequence[Wanted]) -> list[Check]:
    """All pairs of a claim tested, corrected together by Holm's method. Raises SettingError for too few seeds."""
    resamples = comparison.resamples_for(len(wanted), LEVEL)
    asked = [comparison.ask(one.a, one.b, one.question, resamples=resamples) for one in wanted]
    checks = []
    for one, found in zip(wanted, comparison.decide(asked, resamples=resamples), strict=True):
        if found.verdict == "impossible":
            n_seeds = one.a.run.settings["n_seeds"]
            raise SettingError("n_seeds", n_seeds, f"are too few to test {len(wanted)} pairs: {found.reason}")
        outcome = HOLDS if found.verdict == one.expect else OPEN if found.verdict == "no_difference" else FAILS
        evidence = {name: getattr(found, name) for name in _KEPT} | (one.extra(found) if one.extra else {})
        ratio = one.margin * found.value_a / found.value_b if found.value_b else math.nan
        evidence |= {"expected": one.expect, "ratio": ratio, "margin": one.margin}
        evidence |= {"notes": found.notes} if found.notes else {}
        evidence |= {"digests": list(dict.fromkeys([found.digest_a, found.digest_b]))}
        checks.append(Check(one.conditions, outcome, evidence))
    return checks


_KEPT = (
    "a", "b", "metric", "at", "verdict", "value_a", "value_b", "effect", "low", "high", "p", "p_corrected", "paired",
    "n_finite", "n_finite_a", "n_finite_b", "seeds_needed", "test",
)  # fmt: skip


def _rival_words(rival: Any) -> str:
    if not isinstance(rival, Mapping):
        return str(rival)
    if "best_of" in rival:
        return f"best of {', '.join(rival['best_of'])}"
    return "its initial error" if rival["itself"] == 0 else f"itself at {rival['itself']:g} k"


def measured(run: Run, metric: str, measure: str, margin: float = 1.0) -> Run:
    """The run with `metric` (n, C) replaced, times `margin`.

    error: as it is.   peak: the largest error of the checkpoints 1 to k, over the initial one.   overshoot: what
    of the peak is above 1.   spread: distance of a seed from the median of the finite seeds. Raises SettingError.
    """
    curve = run.curves[metric]
    if measure not in MEASURES:
        raise SettingError("measure", measure, f"must be one of {', '.join(MEASURES)}{nearest(measure, MEASURES)}")
    if measure in ("peak", "overshoot"):
        later = np.maximum.accumulate(curve[:, 1:], axis=1)
        curve = np.concatenate([curve[:, :1], later], axis=1) / curve[:, :1]
        curve = curve if measure == "peak" else np.maximum(curve - 1, 0)
    elif measure == "spread":
        curve = np.abs(curve - np.array([np.median(c[np.isfinite(c)]) if np.isfinite(c).any() else 0 for c in curve.T]))
    return _view(run, {"iteration": run.curves["iteration"], metric: margin * curve})


def frozen(run: Run, metric: str, at: int) -> Run:
    """The run as if its curve had stayed where it was at the last checkpoint up to `at`."""
    iteration = run.curves["iteration"]
    place = np.flatnonzero(iteration <= at)[-1]
    curve = np.broadcast_to(run.curves[metric][:, place, None], run.curves[metric].shape)
    return _view(run, {"iteration": iteration, metric: curve})


def half(run: Run, *, second: bool) -> Run:
    """The run with its first or its second half of the seeds."""
    n = run.settings["n_seeds"]
    chosen = range(n // 2, n) if second else range(n // 2)
    curves = {name: c if name == "iteration" else c[chosen.start : chosen.stop] for name, c in run.curves.items()}
    diverged = {str(seed - chosen.start): step for seed, step in run.diverged.items() if seed in chosen}
    return _view(run, curves, {"n_seeds": len(chosen)}, diverged)


def _view(
    run: Run, curves: dict[str, np.ndarray], changes: Mapping[str, Any] | None = None, diverged: Any = None
) -> Run:
    made = Run(run.folder, run.summary if diverged is None else run.summary | {"diverged": diverged})
    # What the cached properties would read from disk.
    made.__dict__.update(curves=curves, settings={**run.settings, **(changes or {})})
    return made


def _tuned(run: Run, candidates: Sequence[Seen], question: Question, at: int) -> tuple[Run, Run, str]:
    """The run and the candidate with the best mean on the first half of the seeds, both on the second half."""
    metric = question.metric or ""

    def mean(one: Seen) -> float:
        iteration = one.run.curves["iteration"]
        values = half(one.run, second=False).curves[metric][:, np.flatnonzero(iteration <= at)[-1]]
        mean = values.mean() if question.less_is_better else -values.mean()
        return float(mean) if math.isfinite(mean) else math.inf

    best = min(candidates, key=mean)
    return half(run, second=True), half(best.run, second=True), f"{best.label} (chosen on the other half of the seeds)"


def spreads(found: comparison.Verdict) -> dict[str, Any]:
    """Root mean square of what was tested, deviations from the median, a over b, with its paired bootstrap interval."""
    squares = np.column_stack(found.tested) ** 2
    drawn = generator("spreads", len(squares)).multinomial(len(squares), np.full(len(squares), 1 / len(squares)), 9999)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.sqrt((drawn @ squares[:, 0]) / (drawn @ squares[:, 1]))
        value = float(np.sqrt(squares[:, 0].sum() / squares[:, 1].sum()))
    low, high = np.quantile(ratios, [0.025, 0.975])
    return {"ratio_of_spreads": value, "ratio_low": float(low), "ratio_high": float(high)}


# --- single runs --------------------------------------------------------------------------------------------------


def rates(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[Check]:
    """Slopes on a window, given as shares of T: of log mean error^power on log k, or on k if the claim is of a speed.

    exponent: the theorem's, on log k; "contraction": log(1 - 2 alpha delta) an iteration, of Theorem 1. Holds if the
    interval of the slope lies below it (faster), or contains it and is narrower than `resolution` times its size. The
    intervals of one check hold together (Bonferroni).
    """
    checks = []
    level = 1 - LEVEL / (len(places) * len(spec["of"]))
    for here, label in ((dict(place), str(label)) for place in places for label in spec["of"]):
        seen = look(here, label)
        metric = metric_of(Question(metric=spec.get("metric")), seen.run)
        end = seen.cell.settings["iterations"]
        iteration, curves = seen.run.curves["iteration"], seen.run.curves[metric] ** spec.get("power", 1)
        window = tuple(share * end for share in spec["window"])
        if spec["exponent"] == "contraction":
            exponent = math.log1p(-2 * seen.cell.settings["step_size"]["alpha"] * contraction(seen.cell))
            start, stop = map(math.exp, spec["window"])
            scaled = survival.rate(np.exp(iteration / end), curves, (start, stop), level)
            found = scaled._replace(value=scaled.value / end, low=scaled.low / end, high=scaled.high / end)
            unit = "log E error^2 an iteration"
        else:
            exponent, found = float(spec["exponent"]), survival.rate(iteration, curves, window, level)
            unit = f"log mean {metric}^{spec.get('power', 1)} on log k"
        outcome = rate_outcome(found.low, found.high, exponent, spec.get("resolution", 0.5))
        evidence = {
            "slope": found.value, "low": found.low, "high": found.high, "level": level,
            "exponent": exponent, "unit": unit, "window": list(window), "n_finite": found.n_finite,
            "metric": metric, "digests": [seen.run.digest],
        }  # fmt: skip
        said = {**here, **_quantity(spec), "rule": label}
        checks.append(Check(said, outcome, evidence))
    return checks


def contraction(cell: Any) -> float:
    """The delta of Assumption 2 for a cell of one-hot features under a uniform behaviour. Raises SettingError."""
    from mqlearn.learning.sampling import stationary
    from mqlearn.theory import bounds

    mdp, settings = cell.mdp, cell.settings
    if settings["features"].get("name") != "one_hot" or settings["sampling"].get("behaviour") != "uniform":
        raise SettingError("features", settings["features"].get("name"), "must be one_hot, under a uniform behaviour")
    mu = stationary(cell.run_arguments["sampling"], mdp)
    assert mu is not None  # a uniform behaviour has a stationary chain
    return bounds.contraction(mdp, mu)


def rate_outcome(low: float, high: float, exponent: float, resolution: float) -> str:
    """holds: [low, high] lies below the exponent, or contains it and is narrow; fails: above; open: else, or none."""
    if low > exponent:
        return FAILS
    return HOLDS if high <= exponent or high - low <= resolution * abs(exponent) else OPEN


def bounds(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[Check]:
    """Theorem 3 at every checkpoint T > m: holds if at most a share `delta` of the seeds is ever above the bound."""
    from mqlearn.problems.solvers import optimal
    from mqlearn.theory.bounds import theorem_3

    checks = []
    for here, label in ((dict(place), str(label)) for place in places for label in spec["of"]):
        seen = look(here, label)
        mdp, iteration, error = seen.cell.mdp, seen.run.curves["iteration"], seen.run.curves["q_error"]
        # |Q_k| <= |Q*| + |Q_k - Q*|, at the checkpoints: never less than what was measured there.
        v_max = float(np.abs(optimal(mdp).q[mdp.counted]).max() + np.nanmax(error))
        x, u = mdp.pairs.T
        rewards = mdp.mean_rewards if seen.cell.settings["reward"] == "mean" else mdp.rewards
        constants = {
            "m": seen.cell.run_arguments["rule"].order, "discount": mdp.discount, "v_max": v_max,
            "r_max": float(np.abs(rewards[x, u]).max()), "n_pairs": len(x), "delta": spec["delta"],
        }  # fmt: skip
        bound = theorem_3(iteration, **constants, corrected=bool(spec.get("corrected")))
        valid = np.isfinite(bound)
        above = ~(error[:, valid] <= bound[valid])
        share = float(above.any(axis=1).mean())
        evidence = {
            **constants, "share_of_seeds_above": share, "bound_at_T": float(bound[-1]),
            "largest_error_over_bound": float(np.nanmax(error[:, valid] / bound[valid])),
            "n_finite": int(np.isfinite(error).all(axis=1).sum()),
            "metric": "q_error", "digests": [seen.run.digest],
        }  # fmt: skip
        said = {**here, **_quantity(spec), "rule": label}
        checks.append(Check(said, HOLDS if share <= spec["delta"] else FAILS, evidence))
    return checks
