"""What `mqlearn truth` says of an environment: how large it is, how good one can be, and how well that is known."""

from typing import Any

from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal, optimal_actions, shortest_path, success_probability

NEGLIGIBLE_VALUE = 1e-6  # of the largest reward: below this, errors and returns tell rules apart no more
NEGLIGIBLE_SUCCESS = 1e-3


def report(mdp: FiniteMDP) -> tuple[dict[str, Any], list[str]]:
    """Facts for people and for JSON, and warnings. Values at the start are means over the start distribution."""
    best, warnings = prospects(mdp)
    warnings += mdp.notes
    facts = {
        "environment": mdp.name,
        "discount": mdp.discount,
        "states": mdp.n_states,
        "actions": mdp.n_actions,
        "pairs": int(mdp.counted.sum()),
        **best,
        "shortest_path": shortest_path(mdp),
        "optimal_actions": optimal_actions(mdp),
        "max_reward": mdp.max_reward,
    }
    return facts, warnings


def prospects(mdp: FiniteMDP) -> tuple[dict[str, Any], list[str]]:
    """The best that can be reached from the start, and warnings when it is negligible.

    success_probability is None for an environment without a goal.
    """
    optimum = optimal(mdp)
    success = float(mdp.start @ success_probability(mdp)) if mdp.goal.any() else None
    warnings = []
    value = abs(optimum.start_value)
    known = "" if value > optimum.error_bound else f", certified to {optimum.error_bound:.2g} only"
    if value < 1e-60:
        warnings.append(f"the optimal value at the start is below 1e-60 (computed: {optimum.start_value:.3g}{known})")
    elif value < NEGLIGIBLE_VALUE * mdp.max_reward:
        warnings.append(f"the optimal value at the start is negligible ({optimum.start_value:.3g}{known})")
    if success is not None and success < NEGLIGIBLE_SUCCESS:
        warnings.append(f"even the best policy reaches the goal with probability {success:.3g} only")
    facts = {
        "start_value": optimum.start_value,
        "certified_error": optimum.error_bound,
        "success_probability": success,
    }
    return facts, warnings
