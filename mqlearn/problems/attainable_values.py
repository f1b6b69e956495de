"""What `mqlearn truth` says of an environment: how large it is, how good one can be, and how well that is known."""

from typing import Any

from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal, optimal_actions, shortest_path, success_probability


def report(mdp: FiniteMDP) -> dict[str, Any]:
    """Facts for people and for JSON. Values at the start are means over the start distribution."""
    from mqlearn.problems import known, structure

    return {
        "environment": mdp.name,
        "discount": mdp.discount,
        "states": mdp.n_states,
        "actions": mdp.n_actions,
        "pairs": int(mdp.counted.sum()),
        **attainable_values(mdp),
        "shortest_path": shortest_path(mdp),
        "optimal_actions": optimal_actions(mdp),
        "max_reward": mdp.max_reward,
        **structure.facts(mdp, optimal(mdp)),
        **known.known(mdp),
    }


def attainable_values(mdp: FiniteMDP) -> dict[str, Any]:
    """The best that can be reached from the start; success_probability is None for an environment without a goal."""
    optimum = optimal(mdp)
    return {
        "start_value": optimum.start_value,
        "certified_error": optimum.error_bound,
        "success_probability": float(mdp.start @ success_probability(mdp)) if mdp.goal.any() else None,
    }
