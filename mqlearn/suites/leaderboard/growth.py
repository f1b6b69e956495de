"""How the samples to an error grow with 1/(1 - discount), for models that a suite has at several discounts."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mqlearn.analysis.statistics.exponents import LEAST, medians, slopes
from mqlearn.suites.leaderboard import aggregate
from mqlearn.suites.leaderboard.aggregate import Resampled
from mqlearn.suites.results import Results
from mqlearn.suites.scores import LEVELS


def growth(every: Sequence[Results], names: Sequence[str], scores: np.ndarray) -> list[dict[str, Any]]:
    """Samples to 10 % and 1 % as a power of 1/(1 - discount), with its interval, by model and rule.

    scores (R, 4, P, S): of the tuned rules. Problems that differ in their discount alone are one model. The samples at
    a discount are the median over seeds, in which a seed that never got there counts as beyond all others. A discount
    whose median is beyond is left out of the line, as is a discount of 1; without the largest one there is no exponent:
    it would be that of the easy problems alone.
    """
    found = []
    for model, places in _models(every).items():
        places = [p for p in places if every[p].facts["discount"] < 1]
        horizon = np.log([1 / (1 - every[p].facts["discount"]) for p in places])
        if len(set(horizon.tolist())) < LEAST:
            continue
        seeds = Resampled.of(len(places), scores.shape[-1])
        for r, name in enumerate(names):
            for i, level in enumerate(LEVELS):
                told = {"model": model, "rule": name, "level": level, "of": len(places)}
                found.append(told | _exponent(horizon, scores[r, 1 + i][places], seeds))
    return found


def _models(every: Sequence[Results]) -> dict[str, list[int]]:
    """The places of problems by model: its environment, and its first problem where that has several models."""
    groups: dict[str, list[int]] = {}
    for p, one in enumerate(every):
        groups.setdefault(one.facts["model"], []).append(p)
    firsts = [every[places[0]] for places in groups.values()]
    envs = [one.facts["env"] for one in firsts]
    labels = [env if envs.count(env) == 1 else f"{env} ({one.name})" for env, one in zip(envs, firsts, strict=True)]
    return dict(zip(labels, groups.values(), strict=True))


def _exponent(horizon: np.ndarray, samples: np.ndarray, seeds: Resampled) -> dict[str, Any]:
    """The exponent of samples (P, S) with its interval over seeds; None where the largest discount has no median."""
    logs = np.log(np.where(np.isnan(samples), np.inf, samples))
    slope = float(slopes(horizon, medians(logs, np.ones((1, *logs.shape))))[0])
    told: dict[str, Any] = {"discounts": int(np.isfinite(np.median(logs, axis=1)).sum())}
    if not math.isfinite(slope):
        return told | {"exponent": None, "low": None, "high": None}
    with np.errstate(invalid="ignore"):  # between two resamples without an exponent
        low, high = aggregate.interval(slopes(horizon, medians(logs, seeds.counts)))
    return told | {
        "exponent": slope,
        "low": low if math.isfinite(low) else None,
        "high": high if math.isfinite(high) else None,
    }
