"""What is measured of the samples of a cell on fresh ones: the bias of Markovian samples, the memory of replay."""

import math
from typing import Any

import numpy as np

from mqlearn.algorithms import Rule
from mqlearn.experiments.settings.cell import Cell
from mqlearn.learners.initial import of_all_seeds
from mqlearn.theory.linear_features import LinearFeatures

_SEEDS = 100  # of what is measured on fresh samples: the bias, the memory of replay,
_BIASED = 100_000  # up to so many iterations,
_TIMES = 13  # at so many of them,
_REMEMBERED = 4e6  # with so many stored transitions


def bias_of(cell: Cell, linear: LinearFeatures) -> dict[str, Any] | None:
    """The lemma's bound at the last iteration, kappa = a_T, and the bias as measured over seeds."""
    case, rule = linear.case, linear.rule
    if linear.no_bias() or not isinstance(rule, Rule):
        return None
    last, known = case.iterations, linear.constants(case.last_step)
    k = np.unique(np.geomspace(1, min(last, _BIASED), _TIMES).astype(int))
    found = linear.bias_bounds(np.append(k, last))
    at: list[float | None] = [None] * (len(k) + 1) if found is None else found.tolist()
    seen = measured_bias(cell, linear, rule, k)
    measured = {
        "iteration": k.tolist(), "seeds": len(seen), "mean": seen.mean(0).tolist(),
        "standard_error": (seen.std(0, ddof=1) / math.sqrt(len(seen))).tolist(), "bound": at[:-1],
    }  # fmt: skip
    return {"iteration": last, "bound": at[-1], "tau": known.tau if known else None, "measured": measured}


def measured_bias(cell: Cell, linear: LinearFeatures, rule: Rule, iteration: np.ndarray) -> np.ndarray:
    """(seeds, C)."""
    from mqlearn.learning import bias

    given = cell.run_arguments
    return bias.measured_bias(
        linear.mdp, linear.features, given["linear"], given["sampling"], rule, linear.mu, linear.root.theta, iteration,
        n_seeds=_SEEDS, seed=int(given["seed"]), theta0=of_all_seeds(given["theta0"]),
        mean_reward=given["reward"] == "mean",
    )  # fmt: skip


def memory_of(cell: Cell) -> dict[str, Any] | None:
    """Total variation between the memory of replay and mu over time; None for other samplings, or without mu."""
    from mqlearn.learning.bias import replay_distance
    from mqlearn.sampling.protocol import stationary

    sampling, last = cell.run_arguments["sampling"], int(cell.settings["iterations"])
    if not sampling.capacity or not last or sampling.adaptive:
        return None
    mu = stationary(sampling, cell.mdp)
    if mu is None:
        return None
    k = np.unique(np.geomspace(1, min(last, _BIASED), _TIMES).astype(int))
    n_seeds = max(1, min(_SEEDS, int(_REMEMBERED / sampling.capacity)))
    found = replay_distance(cell.mdp, sampling, mu, k, n_seeds=n_seeds, seed=int(cell.run_arguments["seed"]))
    return {"iteration": k.tolist(), "mean": found.mean(0).tolist(), "seeds": n_seeds, "capacity": sampling.capacity}
