"""What is known of a problem of a suite, whatever rule runs on it."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.experiments.settings import identity
from mqlearn.suites.definition import Problem
from mqlearn.suites.references import certainty

_FLOOR_PAIRS = 500  # of a problem, beyond which its floor takes minutes


def facts(problem: Problem) -> dict[str, Any]:
    """What a leaderboard tells of a problem, whatever rule runs on it."""
    from mqlearn.problems.solvers import optimal
    from mqlearn.problems.structure import absorbing, deterministic, ergodic, kind, reward_depends_on

    mdp, settings = problem.cell.mdp, problem.cell.settings
    noisy = not deterministic(mdp) or reward_depends_on(mdp) == "chance"
    kinds = {
        "ergodic": ergodic(mdp),
        "absorbing": bool(absorbing(mdp).any() or (mdp.reachable & mdp.terminal).any()),
        "deterministic": not noisy,
        "noisy": noisy,
    }
    return {
        "problem": problem.name,
        "digest": problem.digest,
        "overrides": problem.overrides,
        "env": settings["env"]["name"],
        "model": _model(settings),
        "discount": settings["discount"],
        "reward": settings["reward"],
        "sampling": settings["sampling"]["name"],
        "clock": settings["sampling"].get("clock"),
        "metric": problem.metric,
        "pairs": problem.pairs,
        "budget": problem.budget,
        "tuning_budget": problem.tuning_budget or problem.budget,
        "seeds": vars(problem.seeds),
        "kind": kind(mdp, optimal(mdp)),
        "kinds": [name for name, holds in kinds.items() if holds],
        "floor": _floor(problem),
        "certainty": certainty(problem),
    }


def _model(settings: Mapping[str, Any]) -> str:
    """Equal for problems that differ in their discount alone."""
    text = identity.problem_key({**settings, "discount": 0.5})
    return hashlib.sha256(text.encode()).hexdigest()


def _floor(problem: Problem) -> float | None:
    """The least expected sup error that a rule can have for large budgets, at this one; None where it is not known."""
    from mqlearn.algorithms.operators import is_bellman
    from mqlearn.theory.asymptotic import floor
    from mqlearn.theory.sup import expected_sup

    arguments = problem.cell.run_arguments
    known = arguments["features"] is None and is_bellman(arguments["operator"])
    if not (problem.synchronous and known and problem.metric == "q_error") or problem.pairs > _FLOOR_PAIRS:
        return None
    try:
        least = expected_sup(floor(problem.cell.mdp, problem.cell.settings["reward"]).floor).value
    except SettingError:
        return None
    value = float(least / np.sqrt(problem.budget / problem.pairs))
    return value if value > 0 else None
