"""What a run finds beside its curves: theta* of its chain, what its chains have seen, the sum of its step sizes."""

from typing import Any

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.step_sizes import total
from mqlearn.learning.initial import Initial
from mqlearn.learning.operators import BELLMAN, OnModel
from mqlearn.learning.record import Ended
from mqlearn.learning.sampling import Sampling, stationary
from mqlearn.learning.sampling_protocol import exploration_rate
from mqlearn.learning.simulation import SimulatedLearner
from mqlearn.learning.without_model import seen_by_simulators
from mqlearn.problems.mdp import FiniteMDP

_STARTS = 3  # of the search for theta*
_fixed_points: dict[tuple, Any] = {}


def fixed_point(
    mdp: FiniteMDP, features: Any, sampling: Any, theta0: Initial, warnings: list[str], operator: OnModel = BELLMAN
) -> tuple[dict[str, Any], Any]:
    """theta* of the very chain that is sampled, and what the summary says of it; None where there is none."""
    from mqlearn.problems.fixed_points import theta_star

    mu = stationary(sampling, mdp)
    if mu is None:
        warnings.append("epsilon-greedy behaviour has no stationary chain: theta_error is absent")
        return {}, None
    held = 0.0 if isinstance(theta0, tuple) else theta0
    key = (mdp.digest(), features.digest(), mu.tobytes(), held, operator.operator)
    if key not in _fixed_points:  # the rules of a comparison share it
        _fixed_points[key] = theta_star(
            mdp, features, mu, starts=_STARTS, theta0=held, operator=None if operator.plain else operator.operator
        )
    point = _fixed_points[key]
    facts = {
        "theta_star": {
            "residual": point.residual,
            "n_roots": point.n_roots,
            "starts": _STARTS,
            "distance_to_q_star": point.distance,
            "exists": point.exists,
        }
    }
    if not point.exists:
        warnings.append(f"no theta* was found (residual {point.residual:.3g}): theta_error is absent")
        return facts, None
    paid = (mdp.probabilities > 0) & (mdp.rewards != 0)
    if not point.theta[point.used].any() or not paid[mu > 0].any():
        reason = "theta* is 0, as no reward is in reach of the chain that is sampled"
        warnings.append(f"{reason}: theta_error, a distance relative to its length, is absent")
        return facts, None
    return facts, point


def seen(
    mdp: Any, learners: list[Any], ended: list[Ended], iterations: int, sampling: Any, warnings: list[str]
) -> dict[str, Any]:
    """What the chains of all seeds have seen, of diverged ones until then, and a warning when that taught nothing."""
    states = [*(learner.chain_state() for learner in learners), *(gone.chain_state for gone in ended)]
    chains = [state for state in states if state is not None]
    if not chains:
        every = [*learners, *(gone.learner for gone in ended)]
        return seen_by_simulators([one for one in every if isinstance(one, SimulatedLearner)], iterations, sampling)
    _, _, steps, episodes, goals, rewards = np.concatenate([states for states, _ in chains]).sum(axis=0).tolist()
    visited = np.concatenate([visits for _, visits in chains]) > 0
    facts = {
        "chain_steps": steps,
        "episodes": episodes,
        "goals": goals,
        "rewards_seen": rewards,
        "pairs_visited": float(visited[:, mdp.counted[*mdp.pairs.T]].mean()),
        "common_random_numbers": "uniforms, not the trajectory" if sampling.adaptive else "samples",
    }
    if sampling.adaptive:
        facts["exploration"] = float(exploration_rate(sampling.exploration, iterations))
    if iterations and not rewards:
        facts["outcome"] = "no reward seen"
        warnings.append(
            f"no seed ever saw a reward: goal reached {goals} times in {steps} steps, "
            f"{facts['pairs_visited']:.1%} of the pairs visited; nothing was learned about it"
        )
    return facts


def horizon(rule: Rule, mdp: FiniteMDP, sampling: Sampling, iterations: int, warnings: list[str]) -> dict[str, Any]:
    """The whole steps that a pair is worth of step sizes, and a warning if plain Q-learning ends on their plateau."""
    pairs = len(mdp.pairs) // sampling.pairs_each(mdp)

    def summed(steps: int) -> float:
        if sampling.clock == "local":
            return total(rule.step_size, steps // pairs)
        return total(rule.step_size, steps) / pairs

    reached, wanted = summed(iterations), 1 / (1 - mdp.discount)
    vanilla = not rule.weights(0, 3)[:, [1, 3]].any()
    if vanilla and pairs == 1 and reached < wanted / 5 and reached < 1.15 * summed(iterations // 2):
        warnings.append(
            f"the step sizes sum to {reached:.3g} only, and hardly grow any more, while values add up over "
            f"1/(1 - discount) = {wanted:.3g} steps: expect a plateau, which is the schedule's"
        )
    return {"effective_horizon": reached}
