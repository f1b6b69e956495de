"""Checks against the asymptotic theory: is the error at the end as large as predicted, and in the predicted order?"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Any

import numpy as np

from mqlearn.analysis.cases import case_of
from mqlearn.analysis.claims.checks import OPEN, ClaimCheck, Look, Seen, level_of_each, looked_at
from mqlearn.analysis.claims.claim import filled
from mqlearn.analysis.claims.criteria import decide
from mqlearn.analysis.claims.pairs import Wanted, medians, wanted_pairs
from mqlearn.theory.tables import asymptotic_row, uncovered

METRICS = {"rms": "q_error_l2", "norm": "q_error_l2", "sup": "q_error"}


def predictions(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[ClaimCheck]:
    """The error at the last iteration against the asymptotic one, in root mean square over pairs, or in sup norm.

    norm: "rms" (the root of the mean square over seeds and pairs) or "sup" (the mean over seeds).   tolerance: of the
    ratio of measured to predicted, see `criteria`. Open where nothing is predicted, or only for shared ties.
    The intervals of one check hold together (Bonferroni).
    """
    checks = []
    level = level_of_each(spec, places)
    for said, seen in looked_at(spec, places, look):
        norm, case = str(spec["norm"]), case_of(seen.cell)
        silent = uncovered(case)
        row = {"reason": silent} if silent else asymptotic_row(case)
        error = _finite_errors(seen, METRICS[norm])
        told = {"metric": METRICS[norm], "norm": norm, "n_finite": len(error), "digests": [seen.run.digest]}
        ties = f"{row['tied_states']} states with several optimal actions" if row.get("approximate") else ""
        why = row["reason"] or ties
        if why or len(error) < 2:
            checks.append(ClaimCheck(said, OPEN, {**told, "reason": why or "too few finite seeds"}))
            continue
        value, low, high = _size(error, norm, int(seen.cell.mdp.counted.sum()), level)
        root, theory = float(np.sqrt(seen.run.curves["iteration"][-1])), float(row[f"{norm}_sqrt_k"])
        within, floor = float(spec["tolerance"]), float(row[f"floor_{norm}_sqrt_k"])
        ratio, ends = value * root / theory, (low * root / theory, high * root / theory)
        numbers = {
            "measured_over_predicted": ratio, "low": ends[0], "high": ends[1], "level": level, "tolerance": within,
            "predicted_sqrt_k": theory, "measured_sqrt_k": value * root, "floor_sqrt_k": floor,
            "predicted_efficiency": theory / floor, "measured_efficiency": value * root / floor,
        }  # fmt: skip
        checks.append(ClaimCheck(said, decide(spec, numbers), {**numbers, **told}))
    return checks


def wanted_orders(spec: Mapping[str, Any], places: Sequence[Mapping[str, str]], look: Look) -> list[Wanted]:
    """A pair to test for each two rules that theory puts in an order: the better one is to have the smaller mean error.

    norm: "sup" or "norm" (Euclidean), whose mean over seeds is predicted.   apart: two rules are in an order if their
    predictions differ by more than this share of the smaller one. The floor of a model is common to its rules, so the
    order of errors is that of efficiencies. Models on which optimal actions tie have no prediction, and so no pair.
    """
    wanted, norm = [], str(spec["norm"])
    shared = {"test": "pairs", "metric": METRICS[norm], "quantity": spec["quantity"], "aside": spec["aside"]}
    level = spec["level"]
    for place in places:
        theory = {str(label): _exact(look(place, str(label)), norm) for label in spec["of"]}
        for pair in itertools.combinations([label for label, value in theory.items() if value is not None], 2):
            better, worse = sorted(pair, key=lambda label: theory[label] or 0.0)
            ratio = (theory[better] or 0.0) / (theory[worse] or 1.0)
            if ratio * (1 + float(spec["apart"])) < 1:
                told = {"predicted_ratio": ratio}
                (one,) = wanted_pairs(filled({**shared, "a": [better], "b": [worse]}, level), [place], look)
                wanted.append(replace(one, extra=lambda found, told=told: medians(found) | told))
    return wanted


def _exact(seen: Seen, norm: str) -> float | None:
    """The predicted error times sqrt(k); None where there is none, or one for shared ties only."""
    case = case_of(seen.cell)
    if uncovered(case):
        return None
    row = asymptotic_row(case)
    return None if row["reason"] or row["approximate"] else float(row[f"{norm}_sqrt_k"])


def _finite_errors(seen: Seen, metric: str) -> np.ndarray:
    error = seen.run.curves[metric][:, -1]
    return error[np.isfinite(error)]


def _size(error: np.ndarray, norm: str, n_pairs: int, level: float) -> tuple[float, float, float]:
    """The error over the seeds with its normal interval."""
    values = error**2 / n_pairs if norm == "rms" else error
    mean, half = values.mean(), NormalDist().inv_cdf((1 + level) / 2) * values.std(ddof=1) / np.sqrt(len(values))
    found = np.maximum([mean, mean - half, mean + half], 0.0)
    value, low, high = (np.sqrt(found) if norm == "rms" else found).tolist()
    return value, low, high
