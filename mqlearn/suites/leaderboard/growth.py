"""How the samples to an error grow with 1/(1 - discount), for models that a suite has at several discounts."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mqlearn.suites.leaderboard import aggregate
from mqlearn.suites.leaderboard.aggregate import Resampled
from mqlearn.suites.results import Results
from mqlearn.suites.scores import LEVELS

_LEAST = 3  # discounts that an exponent needs


def growth(every: Sequence[Results], names: Sequence[str], scores: np.ndarray) -> list[dict[str, Any]]:
    """Samples to 10 % and 1 % as a power of 1/(1 - discount), with its interval, by model and rule.

    scores (R, 4, P, S): of the tuned rules. Problems that differ in their discount alone are one model. The samples at
    a discount are the median over seeds, in which a seed that never got there counts as beyond all others. A discount
    whose median is beyond is left out of the line; without the largest one there is no exponent: it would be that of
    the easy problems alone.
    """
    found = []
    for model, places in _models(every).items():
        horizon = np.log([1 / (1 - every[p].facts["discount"]) for p in places])
        if len(set(horizon.tolist())) < _LEAST:
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
    slope = float(_slope(horizon, medians(logs, np.ones((1, *logs.shape))))[0])
    told: dict[str, Any] = {"discounts": int(np.isfinite(np.median(logs, axis=1)).sum())}
    if not math.isfinite(slope):
        return told | {"exponent": None, "low": None, "high": None}
    with np.errstate(invalid="ignore"):  # between two resamples without an exponent
        low, high = aggregate.interval(_slope(horizon, medians(logs, seeds.counts)))
    return told | {
        "exponent": slope,
        "low": low if math.isfinite(low) else None,
        "high": high if math.isfinite(high) else None,
    }


def medians(values: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(B, P): medians over the seeds of values (P, S), each counted `counts` (B, P, S) times; inf if beyond."""
    order = np.argsort(values, axis=1)
    ordered = np.take_along_axis(values, order, 1)
    after = np.cumsum(np.take_along_axis(counts, order[None], 2), 2)
    n = values.shape[1]
    middle = [(after >= place).argmax(2) for place in ((n + 1) // 2, n // 2 + 1)]  # the same one if n is odd
    rows = np.arange(len(values))
    return (ordered[rows, middle[0]] + ordered[rows, middle[1]]) / 2


def _slope(horizon: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """(B,): least-squares slopes of logs (B, P) that are finite; infinite without the largest one or below three."""
    there = np.isfinite(logs)
    n = np.maximum(there.sum(1, keepdims=True), 1)
    away = np.where(there, horizon - np.where(there, horizon, 0).sum(1, keepdims=True) / n, 0)
    distinct = np.array([len(set(horizon[row].tolist())) for row in there])
    told = there[:, horizon.argmax()] & (distinct >= _LEAST)
    square = np.where(told, (away**2).sum(1), 1)
    return np.where(told, (away * np.where(there, logs, 0)).sum(1) / square, np.inf)
