"""What is said after a run: facts beside its curves for the record, and findings on what came of it.

What is said before it stands in `run_warnings.py`.
"""

from typing import Any

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.step_sizes import total
from mqlearn.finding import Finding
from mqlearn.learners.counting import SampledPlans, SynchronousPlans
from mqlearn.learners.initial import Initial, of_all_seeds
from mqlearn.learners.operators import BELLMAN, BoundOperator
from mqlearn.learning.record import Ended, Recorder
from mqlearn.learning.setup import AnyRule, Setup
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal
from mqlearn.sampling.modes import Sampling, stationary
from mqlearn.sampling.protocol import BY_VISITS, exploration_rate
from mqlearn.simulators.linear import SimulatedLearner
from mqlearn.stateful.step_size import uses_step_size

_STARTS = 3  # of the search for theta*
_GROWN = 10.0  # times its start: an error that ends there has not come down
_fixed_points: dict[tuple, Any] = {}

Diagnosis = tuple[dict[str, Any], list[Finding]]  # facts for the record, findings for people


def after_run(setup: Setup, rule: AnyRule, learners: list[Any], recorder: Recorder) -> Diagnosis:
    """Of a run of a rule that `setup` has made ready. learners: of the seeds that are finite at its end."""
    mdp, sampling = setup.mdp, setup.sampling_of(rule)
    facts, findings = of_samples(mdp, learners, recorder.ended, setup.iterations, sampling)
    used = uses_step_size(rule)
    if not sampling.all_pairs:
        facts["clock"] = sampling.clock if setup.features is None else "global"
    if used and isinstance(rule, Rule) and isinstance(mdp, FiniteMDP) and setup.features is None:
        known, found = horizon(rule, mdp, sampling, setup.iterations)
        facts, findings = facts | known, findings + found
    if not used:
        facts["step_size_used"] = False
        facts |= of_plans(learners)
    if "q_error" in recorder.curves:
        findings = findings + grown(recorder.curves["q_error"])
    if "policy_value" in recorder.curves:
        findings = findings + endless(recorder.curves["policy_value"])
    return facts, findings


def of_plans(learners: list[Any]) -> dict[str, Any]:
    """The largest certified error of any plan of certainty equivalence; nothing of other rules."""
    bounds = [learner.bounds.max() for learner in learners if isinstance(learner, SynchronousPlans | SampledPlans)]
    return {"plan_certified_error": float(max(bounds))} if bounds else {}


def fixed_point(
    mdp: FiniteMDP, features: Any, sampling: Any, theta0: Initial, operator: BoundOperator = BELLMAN
) -> tuple[Any, Diagnosis]:
    """theta* of the very chain that is sampled, None where there is none, and what is known of it."""
    from mqlearn.problems.fixed_points import theta_star

    absent = "theta_error is absent"
    mu = stationary(sampling, mdp)
    if mu is None:
        text = f"a behaviour that sees what is learned has no stationary chain: {absent}"
        return None, ({}, [Finding("no_stationary_chain", text)])
    common = of_all_seeds(theta0)
    held = 0.0 if isinstance(common, tuple) else common
    key = (mdp.digest(), features.digest(), mu.tobytes(), np.asarray(held).tobytes(), operator.operator)
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
        text = f"no theta* was found (residual {point.residual:.3g}): {absent}"
        return None, (facts, [Finding("no_theta_star", text, {"residual": point.residual})])
    paid = (mdp.probabilities > 0) & (mdp.rewards != 0)
    if not point.theta[point.used].any() or not paid[mu > 0].any():
        reason = "theta* is 0, as the sampled chain reaches no reward"
        text = f"{reason}: {absent}, as it is relative to the length of theta*"
        return None, (facts, [Finding("zero_theta_star", text)])
    return point, (facts, [])


def of_samples(mdp: Any, learners: list[Any], ended: list[Ended], iterations: int, sampling: Any) -> Diagnosis:
    """What the chains of all seeds have sampled, of diverged ones until then; whether any reward was among it."""
    states = [*(learner.chain_state() for learner in learners), *(gone.chain_state for gone in ended)]
    chains = [state for state in states if state is not None]
    simulated = [one for one in (*learners, *(gone.learner for gone in ended)) if isinstance(one, SimulatedLearner)]
    facts: dict[str, Any]
    if chains:
        _, _, steps, episodes, goals, rewards = np.concatenate([states for states, _ in chains]).sum(axis=0).tolist()
        visited = np.concatenate([visits for _, visits in chains]) > 0
        facts = {
            "chain_steps": steps,
            "episodes": episodes,
            "goals": goals,
            "rewards_seen": rewards,
            "pairs_visited": float(visited[:, mdp.counted[*mdp.pairs.T]].mean()),
        }
    elif simulated:
        counts = np.sum([learner.seen() for learner in simulated], axis=0).tolist()
        facts = dict(zip(("chain_steps", "episodes", "episodes_terminated"), counts, strict=True))
    else:
        return {}, []
    facts["common_random_numbers"] = "uniforms, not the trajectory" if sampling.adaptive else "samples"
    if sampling.adaptive and sampling.cooling is not None:
        _, last, span = sampling.cooling  # the last one as it was set, and not first + (last - first)
        facts["temperature"] = float(last if iterations >= span else exploration_rate(sampling.cooling, iterations))
    elif sampling.adaptive and sampling.exploration[2] != BY_VISITS:
        facts["exploration"] = float(exploration_rate(sampling.exploration, iterations))
    if not iterations or facts.get("rewards_seen", 1):  # a simulator's rewards are not counted
        return facts, []
    facts["outcome"] = "no reward seen"
    numbers = {name: facts[name] for name in ("goals", "chain_steps", "pairs_visited")}
    text = (
        f"no seed ever saw a reward: goal reached {facts['goals']} times in {facts['chain_steps']} steps, "
        f"{facts['pairs_visited']:.1%} of the pairs visited; the estimates carry no information on the reward"
    )
    return facts, [Finding("no_reward_seen", text, numbers)]


def horizon(rule: Rule, mdp: FiniteMDP, sampling: Sampling, iterations: int) -> Diagnosis:
    """The whole steps that a pair is worth of step sizes; whether plain Q-learning ends on their plateau."""
    pairs, states = len(mdp.pairs) // sampling.pairs_each(mdp), int((~mdp.terminal).sum())

    def summed(steps: int) -> float:
        if sampling.clock == "local":
            return total(rule.step_size, steps // pairs)
        if sampling.clock == "state":
            return total(rule.step_size, steps // states) * states / pairs
        return total(rule.step_size, steps) / pairs

    reached, needed = summed(iterations), optimal(mdp).horizon
    facts = {"effective_horizon": reached}
    vanilla = not rule.weights(0, 3)[:, [1, 3]].any()
    if not (vanilla and pairs == 1 and reached < needed / 5 and reached < 1.15 * summed(iterations // 2)):
        return facts, []
    steps = f"1/(1 - discount) = {needed:.3g} steps" if mdp.discount < 1 else f"{needed:.3g} steps to an end"
    text = (
        f"the step sizes sum to {reached:.3g} and hardly grow any more, while values add up over "
        f"{steps}: expect a plateau of the error, which is due to the step sizes"
    )
    return facts, [Finding("step_size_plateau", text, {"effective_horizon": reached, "needed": needed})]


def endless(policy_value: np.ndarray) -> list[Finding]:
    """If greedy policies may go on for ever at the end, undiscounted. policy_value: (n_seeds, C)."""
    seeds = int(np.isneginf(policy_value[:, -1]).sum())
    if not seeds:
        return []
    text = (
        f"the greedy policies of {seeds} of {len(policy_value)} seeds may never end, which undiscounted is worth -inf; "
        "expected returns are of episodes that the time limit breaks off"
    )
    return [Finding("endless_policy", text, {"seeds": seeds, "n_seeds": len(policy_value)})]


def grown(q_error: np.ndarray) -> list[Finding]:
    """If the error of some seeds ends far above its start. q_error: (n_seeds, C)."""
    first, last = q_error[:, 0], q_error[:, -1]
    finite = np.isfinite(last) & (first > 0)
    times = last[finite] / first[finite]
    above = times[times > _GROWN]
    if not above.size:
        return []
    numbers = {"seeds": above.size, "n_seeds": len(q_error), "median": float(np.median(above))}
    text = (
        f"{above.size} of {len(q_error)} seeds end with an error more than {_GROWN:g} times its start "
        f"(median of these: {numbers['median']:.3g} times): the rule does not converge with these settings"
    )
    return [Finding("error_grew", text, numbers)]
