"""The leaderboard of a suite as plain data: what `--json` writes, and what the tables and the page are made of.

Rules stand in the order of their scores, tuned; equal inputs in another order give the same leaderboard.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.suites.definition import BASELINE
from mqlearn.suites.leaderboard import aggregate, beside, limits, over_problems
from mqlearn.suites.leaderboard.aggregate import Resampled
from mqlearn.suites.leaderboard.growth import growth
from mqlearn.suites.leaderboard.kinds import by_kind
from mqlearn.suites.results import LEAGUES, Results
from mqlearn.suites.scores import LEVELS, SCORES
from mqlearn.suites.search import SETTINGS

PROFILE = np.linspace(-4, 2, 121)  # log10 of the error over the baseline's
_AREA, _LAST = SCORES.index("area"), SCORES.index("last")
_TUNED = LEAGUES.index("tuned")
_RANKS = ("rank", "rank_low", "rank_high")


class _League:
    """What is computed of all rules with one kind of setting, of areas (R, P, S): means (R, P), ranks, tests."""

    def __init__(self, names: Sequence[str], areas: np.ndarray, seeds: Resampled) -> None:
        self.means = areas.mean(2)
        self.ranks = aggregate.mean_ranks(areas, seeds)
        self.n_ranked = int(aggregate.common(areas).sum())
        self.tests = over_problems.compare(names, self.means) if areas.shape[1] > 1 else []


def board(
    suite: str, every: Sequence[Results], own: Collection[str] = (), config_dir: str | None = None
) -> dict[str, Any]:
    """The leaderboard of results, which have the same rules; the baseline is among them. own: names to mark.

    config_dir: of the user's configurations, for the commands that are shown. Raises SettingError if the baseline ran
    on no problem: scores are relative to it.
    """
    names = sorted(every[0].entries)
    _require_baseline(suite, every)
    scores = _scores(every, names)  # (R, league, score, P, S)
    seeds = Resampled.of(len(every), scores.shape[-1])
    base = scores[names.index(BASELINE), _TUNED, _AREA]
    leagues = [_League(names, scores[:, league, _AREA], seeds) for league in range(len(LEAGUES))]
    rows = [
        _row(every, names, r, league, scores, base, leagues[league], seeds)
        for league in range(len(LEAGUES))
        for r in range(len(names))
    ]
    for row in rows:
        row["own"] = row["rule"] in own
    beside.add(rows, every, names, scores, seeds)
    rows.sort(key=lambda row: (row["setting"] != "tuned", _last_if_absent(row["score"]), row["rule"]))
    tuned, not_run = leagues[_TUNED], _not_run(every, names, _TUNED)
    beaten = {test.a if test.better == test.b else test.b for test in tuned.tests if test.better}
    return {
        "suite": suite,
        "config_dir": config_dir,
        "baseline": BASELINE,
        "n_seeds": scores.shape[-1],
        "seeds": every[0].facts["seeds"],
        "rules": rows,
        "problems": [_problem(one, p, names, tuned.means) for p, one in enumerate(every)],
        "tests": [_test(test, name) for name, league in zip(LEAGUES, leagues, strict=True) for test in league.tests],
        "common": _common(names, aggregate.pairwise(scores[:, _TUNED, _AREA], seeds)),
        "improvement": _improvement(names, aggregate.improvement(scores[:, _TUNED, _AREA], seeds)),
        "improvement_crossed": _crossed(names, aggregate.crossed_improvement(scores[:, _TUNED, _AREA])),
        "unbeaten": [row["rule"] for row in rows if row["setting"] == "tuned" and row["rule"] not in beaten
                     and row["score"] is not None],
        "kinds": by_kind(every, names, scores[:, _TUNED, _AREA], base, seeds),
        "not_run": not_run,
        "not_run_by_default": {rule: rest for rule, reasons in _not_run(every, names, LEAGUES.index("default")).items()
                               if (rest := _others(reasons, not_run.get(rule, {})))},
        "growth": growth(every, names, scores[:, _TUNED]),
        "at_end": _at_end(every, names),
        "at_limit": limits.counts(every, names, config_dir),
        "tuned_over": {name: _tuned_over(every, name) for name in names},
        "n_settings": SETTINGS,
        "conclusive": bool(tuned.tests) and _least_p(every, len(names)) <= over_problems.LEVEL,
        "scores": _seed_scores(every, names, scores[:, :, _AREA], base),
        "notes": _notes(every, scores.shape[-1], len(names)),
    }  # fmt: skip


def _require_baseline(suite: str, every: Sequence[Results]) -> None:
    reasons = _reasons(every, BASELINE)
    if len(reasons) == len(every):
        told = "; ".join(f"{', '.join(places)}: {reason}" for reason, places in by_reason(reasons).items())
        raise SettingError("suite", suite, f"must have a problem that {BASELINE} runs on, the baseline ({told})")


def _scores(every: Sequence[Results], names: Sequence[str]) -> np.ndarray:
    whole = [entry for one in every for entry in one.entries.values() if entry.ran]
    shape = whole[0].scores.shape
    found = np.full((len(names), len(every), *shape), np.nan)
    for p, one in enumerate(every):
        for r, name in enumerate(names):
            if one.entries[name].ran:
                found[r, p] = one.entries[name].scores
    return np.moveaxis(found, 1, -2)


def _row(
    every: Sequence[Results],
    names: Sequence[str],
    r: int,
    league: int,
    scores: np.ndarray,
    base: np.ndarray,
    found: _League,
    seeds: Resampled,
) -> dict[str, Any]:
    own = scores[r, league]
    centre, low, high = aggregate.relative(own[_AREA], base, seeds)
    better = [one for one in found.tests if one.better == names[r]]
    worse = [one for one in found.tests if one.better and names[r] in (one.a, one.b) and one.better != names[r]]
    ran = ~np.isnan(own[_AREA]).any(1)
    both = ran & ~np.isnan(base).any(1)
    same = names[r] == BASELINE and LEAGUES[league] == "tuned"
    pair = aggregate.improvement(np.stack([own[_AREA], base]), seeds)
    chance = [None if same or math.isnan(part[0, 1]) else float(part[0, 1]) for part in pair]
    floors = np.array([one.facts["floor"] or np.nan for one in every])
    with np.errstate(invalid="ignore"):
        over_floor = own[_LAST].mean(1) / floors
    return {
        "rule": names[r],
        "setting": LEAGUES[league],
        "score": _factor(centre),
        "low": _factor(low) if len(base[0]) > 1 else None,
        "high": _factor(high) if len(base[0]) > 1 else None,
        **{key: _finite(float(part[r])) for key, part in zip(_RANKS, found.ranks, strict=True)},
        "improvement": dict(zip(("p", "low", "high"), chance, strict=True)),
        "better_than": sorted(_other(one, names[r]) for one in better),
        "worse_than": sorted(_other(one, names[r]) for one in worse),
        "n_problems": int(both.sum()),
        "n_ranked": found.n_ranked if math.isfinite(found.ranks[0][r]) else 0,
        "profile": aggregate.profile(own[_AREA], base, PROFILE).tolist(),
        "reached": [float(np.isfinite(own[1 + i])[ran].mean()) if ran.any() else None for i in range(len(LEVELS))],
        "problems": {
            one.name: _cell(one, names[r], league, own[:, p], base[p], over_floor[p])
            for p, one in enumerate(every)
        },
    }  # fmt: skip


def _cell(one: Results, rule: str, league: int, own: np.ndarray, base: np.ndarray, over_floor: float) -> dict[str, Any]:
    """A rule on a problem: own (4, S), base (S,)."""
    entry = one.entries[rule]
    if entry.reasons[league] is not None:
        return {"reason": entry.reasons[league]}
    reached = [float(np.median(own[1 + i])) for i in range(len(LEVELS))]
    return {
        "area": float(own[_AREA].mean()),
        "score": _factor(float((own[_AREA] - base).mean())),
        "to_10": _finite(reached[0]),
        "to_1": _finite(reached[1]),
        "reached_10": float(np.isfinite(own[1]).mean()),
        "reached_1": float(np.isfinite(own[2]).mean()),
        "last": _finite(float(own[_LAST].mean())),
        "over_floor": _finite(float(over_floor)),
        "iterations": entry.iterations,
        "rule": list(entry.rule),
        "setting": list(entry.settings[entry.chosen if league == _TUNED else 0]),
        "at_end": list(entry.ends) if league == _TUNED else [],
        "curve": np.round(entry.curve[league].astype(float), 4).tolist(),
    }


def _problem(one: Results, p: int, names: Sequence[str], means: np.ndarray) -> dict[str, Any]:
    order = sorted((float(means[r, p]), name) for r, name in enumerate(names) if not math.isnan(means[r, p]))
    keys = ("kind", "kinds", "env", "discount", "reward", "sampling", "metric", "pairs", "budget", "floor", "overrides")
    facts = {key: one.facts[key] for key in keys}
    facts |= {"clock": one.facts.get("clock"), "tuning_budget": one.facts.get("tuning_budget") or one.facts["budget"]}
    cost = one.facts.get("cost")
    facts["measured"] = cost and {key: cost[key] for key in ("machine", "date")}
    return {"problem": one.name, **facts, "order": [name for _, name in order]}


def _test(test: over_problems.PairTest, setting: str) -> dict[str, Any]:
    return {
        "a": test.a, "b": test.b, "setting": setting, "problems": test.problems,
        "difference": _finite(test.difference), "p": _finite(test.p), "p_holm": _finite(test.p_holm),
        "better": test.better,
    }  # fmt: skip


def _improvement(names: Sequence[str], found: tuple[np.ndarray, ...]) -> dict[str, dict[str, Any]]:
    """By rule and rival: the probability of improvement, tuned against tuned, with its interval."""
    return {
        a: {b: [_finite(float(part[i, j])) for part in found] for j, b in enumerate(names) if i != j}
        for i, a in enumerate(names)
    }


def _crossed(names: Sequence[str], found: np.ndarray) -> dict[str, dict[str, float | None]]:
    """By rule and rival: rliable's probability of improvement, each seed against all seeds of the rival."""
    return {a: {b: _finite(float(found[i, j])) for j, b in enumerate(names) if i != j} for i, a in enumerate(names)}


def _common(names: Sequence[str], pairs: Sequence[tuple]) -> list[dict[str, Any]]:
    """Of each pair of tuned rules the error of a over that of b, on the problems that both ran on."""
    return [
        {"a": names[i], "b": names[j], "problems": problems, "score": _factor(centre), "low": _factor(low),
         "high": _factor(high)}
        for i, j, problems, centre, low, high in pairs
    ]  # fmt: skip


def _seed_scores(
    every: Sequence[Results], names: Sequence[str], areas: np.ndarray, base: np.ndarray
) -> list[dict[str, Any]]:
    """The score of each seed: areas (R, league, P, S) over the baseline's (P, S); null where either did not run."""
    with np.errstate(over="ignore"):
        factors = 10.0 ** (areas - base)
    return [
        {"rule": name, "league": league, "problem": one.name, "seed": seed, "score": _finite(float(value))}
        for r, name in enumerate(names)
        for i, league in enumerate(LEAGUES)
        for p, one in enumerate(every)
        for seed, value in enumerate(factors[r, i, p])
    ]


def _at_end(every: Sequence[Results], names: Sequence[str]) -> dict[str, Any]:
    """How many of the choices of tuned rules lie at an end of what was tried that is no limit, in all and by rule."""
    ran = [(name, one.entries[name]) for one in every for name in names if one.entries[name].reasons[_TUNED] is None]
    rules = {name: sum(bool(entry.ends) for own, entry in ran if own == name) for name in names}
    return {
        "choices": len(ran),
        "at_end": sum(rules.values()),
        "rules": {name: count for name, count in rules.items() if count},
    }


def _tuned_over(every: Sequence[Results], name: str) -> list[str]:
    """The numbers that were tuned of a rule; none if its step size is not described by numbers and it has none."""
    return list(dict.fromkeys(setting for one in every for setting in one.entries[name].tuned))


def by_reason(reasons: Mapping[str, str]) -> dict[str, list[str]]:
    """The problems of each reason."""
    found: dict[str, list[str]] = {}
    for problem, reason in reasons.items():
        found.setdefault(reason, []).append(problem)
    return found


def _reasons(every: Sequence[Results], name: str, league: int = _TUNED) -> dict[str, str]:
    """Why a rule did not run with one kind of setting, by problem."""
    reasons = {one.name: one.entries[name].reasons[league] for one in every}
    return {problem: reason for problem, reason in reasons.items() if reason is not None}


def _not_run(every: Sequence[Results], names: Sequence[str], league: int) -> dict[str, dict[str, str]]:
    return {name: reasons for name in names if (reasons := _reasons(every, name, league))}


def _others(reasons: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    return {problem: reason for problem, reason in reasons.items() if problem not in known}


# --- what cannot be concluded -------------------------------------------------------------------------------------


def _notes(every: Sequence[Results], n_seeds: int, n_rules: int) -> list[str]:
    notes = []
    if missed := _reasons(every, BASELINE):
        text = f"{BASELINE} did not run on {', '.join(missed)}"
        notes.append(f"{text}: scores are of the other {len(every) - len(missed)} problems")
    if len(every) == 1:
        notes.append("one problem: nothing can be concluded of other problems; no tests, and ranks are of this one")
    elif (least := _least_p(every, n_rules)) > over_problems.LEVEL:
        text = f"{len(every)} problems are too few for {n_rules} rules: the smallest p after Holm would be {least:.2g}"
        notes.append(f"{text}, so no rule can be said to beat another")
    if (models := len({one.facts["model"] for one in every})) < len(every):
        text = f"the {len(every)} problems are of {models} model{'s' * (models > 1)} only"
        notes.append(f"{text}: they are not independent cases, as the tests take them to be")
    if n_seeds == 1:
        notes.append("one seed: there are no intervals; nothing can be concluded of other seeds")
    return notes


def _least_p(every: Sequence[Results], n_rules: int) -> float:
    """The least corrected p that a test could have here."""
    return over_problems.smallest_p(len(every), n_rules)


def _other(test: over_problems.PairTest, name: str) -> str:
    return test.b if test.a == name else test.a


def _factor(log: float) -> float | None:
    """A factor of the error from its log10."""
    return None if math.isnan(log) else float(10.0**log)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _last_if_absent(score: float | None) -> float:
    return math.inf if score is None else score


def by_setting(found: Mapping[str, Any], setting: str) -> list[dict[str, Any]]:
    """The rows of one kind of setting, in order."""
    return [row for row in found["rules"] if row["setting"] == setting]
