"""Whether rules stand in another order on a kind of problem than elsewhere."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from mqlearn.suites.leaderboard import aggregate
from mqlearn.suites.leaderboard.aggregate import Resampled
from mqlearn.suites.results import Results

KINDS = ("ergodic", "absorbing", "deterministic", "noisy")


def by_kind(
    every: Sequence[Results], names: Sequence[str], areas: np.ndarray, base: np.ndarray, seeds: Resampled
) -> dict[str, Any]:
    """By kind: how many problems, the order of the rules there, and pairs whose order is the other way round elsewhere.

    Such a pair differs in its interquartile mean, with an interval on either side of 0, on the problems of the kind and
    on all others. Rules that miss a problem are left out and named.
    """
    whole = [r for r in range(len(names)) if not np.isnan(areas[r]).any()]
    overall = {r: aggregate.centre(areas[r], base) for r in whole}
    known: dict[bytes, list[tuple[int, int]]] = {}
    found: dict[str, Any] = {}
    for kind in KINDS:
        inside = np.array([kind in one.facts["kinds"] for one in every])
        if not (inside & ~np.isnan(base).any(1)).any():
            continue
        scores = {names[r]: aggregate.centre(areas[r, inside], base[inside]) for r in whole}
        turned: list[tuple[int, int]] = []
        if 2 <= inside.sum() <= len(every) - 2:
            if (~inside).tobytes() in known:  # the kind of all the others, as deterministic of noisy
                turned = [(j, i) for i, j in known[(~inside).tobytes()]]
            else:
                turned = _turned(areas, whole, inside, seeds)
            known[inside.tobytes()] = turned
            turned = sorted(turned, key=lambda pair: sorted(overall[r] for r in pair))
        found[kind] = {
            "problems": int(inside.sum()),
            "order": sorted(scores, key=lambda name: (scores[name], name)),
            "changed": [[names[i], names[j]] for i, j in turned],
        }
    return found


def _turned(areas: np.ndarray, whole: Sequence[int], inside: np.ndarray, seeds: Resampled) -> list[tuple[int, int]]:
    """Pairs of rules of which the first is surely better inside and the second surely better outside."""
    parts = [(some, seeds.of_problems(some, aggregate.FEW)) for some in (inside, ~inside)]
    found = []
    for i, j in combinations(whole, 2):
        centres = [aggregate.centre(areas[i, some], areas[j, some]) for some, _ in parts]
        if centres[0] * centres[1] < 0:  # else not even the estimates disagree
            (_, low, high), (_, low_outside, high_outside) = (
                aggregate.relative(areas[i, some], areas[j, some], drawn) for some, drawn in parts
            )
            found += [(i, j)] if high < 0 < low_outside else [(j, i)] if high_outside < 0 < low else []
    return found
