"""Which learner a run needs: by its sampling mode, its features, and its rule."""

from typing import Any

import numpy as np

from mqlearn.algorithms.four_numbers import FourNumbers, FourNumbersLinear
from mqlearn.algorithms.rule import Rule, replaced
from mqlearn.algorithms.stateful import Stateful
from mqlearn.learners.asynchronous import AsynchronousTable, RoundsTable, SharedTable
from mqlearn.learners.counting import SampledPlans, SynchronousPlans
from mqlearn.learners.initial import Initial
from mqlearn.learners.learner import Learner
from mqlearn.learners.linear import Linear, LinearLearner, OwnChainLinearLearner
from mqlearn.learners.operators import BELLMAN, BoundOperator
from mqlearn.learners.stateful import ChainStateful, SharedStateful
from mqlearn.learners.stateful_sweeps import SynchronousStateful
from mqlearn.learners.synchronous import SynchronousTable
from mqlearn.problems.feature_rows import Features
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.chains import Chain, Samples
from mqlearn.sampling.modes import Sampling
from mqlearn.sampling.recorded import RecordedSamples


def start(
    mdp: FiniteMDP,
    sampling: Sampling,
    features: Any,
    linear: Linear,
    seed: int,
    initial: Initial,
    mean_reward: bool,
    lanes: np.ndarray,
    samples: Any = None,
    rule: Any = None,
    operator: BoundOperator = BELLMAN,
) -> Learner:
    """A fresh learner for the seed indices `lanes` (L,) uint32: Q_0 or theta_0 is `initial`.

    samples: of these very lanes and this sampling, if the learner is to share them: `shared_samples`.   rule: that it
    is to follow; one of four numbers needs not be named, its numbers are all that a learner has to know, if the
    sampling says its clock.   operator: of its targets.
    """
    sampling, rule = on_clock(sampling, rule, features), with_state(rule, features, linear)
    plans = isinstance(rule, Stateful) and rule.plans
    if sampling.all_pairs:
        if plans:
            return SynchronousPlans(mdp, lanes, seed, initial, mean_reward)
        if isinstance(rule, Stateful):
            return SynchronousStateful(rule, mdp, lanes, seed, initial, mean_reward, operator)
        return SynchronousTable(mdp, lanes, seed, initial, mean_reward, operator)
    if samples is None and (features is not None or sampling.recorded or plans):
        samples = shared_samples(mdp, sampling, features, linear, seed, mean_reward, lanes)
    if plans:
        assert samples is not None  # its behaviour is non-adaptive, see `acts`
        return SampledPlans(samples, sampling, initial)
    if isinstance(rule, Stateful):
        clock = sampling.clock if features is None else "global"
        if samples is not None:
            return SharedStateful(rule, samples, features, initial, operator, clock)
        chain = Chain(mdp, sampling, lanes, seed, mean_reward)
        return ChainStateful(rule, chain, features, initial, linear.projection, operator, clock)
    if samples is not None:
        if features is None:
            return SharedTable(samples, initial, sampling.clock, operator)
        return _averaged(LinearLearner(samples, features, linear, initial, operator), rule)
    chain = Chain(mdp, sampling, lanes, seed, mean_reward)
    if features is not None:
        return _averaged(OwnChainLinearLearner(chain, features, linear, initial, operator), rule)
    if sampling.update == "rounds":
        return RoundsTable(chain, initial, operator)
    return AsynchronousTable(chain, initial, sampling.clock, operator)


def on_clock(sampling: Any, rule: Any, features: Any) -> Any:
    """The sampling with what `clock="auto"` comes to with a rule."""
    if sampling.clock != "auto":
        return sampling
    return replaced(sampling, clock=usual_clock(rule, features is None, sampling.update))


def usual_clock(rule: Any, tabular: bool, update: str = "pair") -> str:
    """By what the step size of a rule counts unless it is said: by the visits of the pair.

    Rules with state of their own, minibatches, means and clips count iterations, as they all did once; features have
    no pairs, and rounds move all.
    """
    can = tabular and update == "pair" and isinstance(with_state(rule, None, None), Rule)
    return "local" if can else "global"


def with_state(rule: Any, features: Any, linear: Linear | None) -> Any:
    """The rule that is run: one of four numbers as one with state, where a minibatch, average or clip asks for that."""
    asked = isinstance(rule, Rule) and (
        rule.batch > 1 or (features is None and (rule.averaged or rule.clip is not None))
    )
    if not asked:
        return rule
    made = FourNumbers(rule)
    if features is not None and linear is not None:
        same_sample, zero_first = linear.previous_gradient == "same_sample", linear.first_gradient == "zero"
        made = FourNumbersLinear(rule, same_sample, zero_first)
    return replaced(made, batch=rule.batch, averaged=rule.averaged, clip=rule.clip)


def _averaged(learner: Any, rule: Any) -> Any:
    """A linear learner, which has the mean of its parameters in any case, with the word whether its table counts."""
    learner.averaged = rule is not None and rule.averaged
    return learner


def can_share(sampling: Any, features: Any, linear: Linear) -> bool:
    """Whether rules can learn from the same samples, drawn beforehand: under a non-adaptive behaviour.

    With a projection every iteration takes so long that drawing is nothing beside it.
    """
    if sampling.all_pairs or sampling.adaptive:
        return False
    if features is None:
        return sampling.update == "pair"
    return isinstance(features, Features) and linear.projection is None


def shared_samples(
    mdp: FiniteMDP,
    sampling: Any,
    features: Any,
    linear: Linear,
    seed: int,
    mean_reward: bool,
    lanes: np.ndarray,
) -> Samples | RecordedSamples | None:
    """The samples of some seeds, for learners of any rule; None where each learner draws its own."""
    if sampling.recorded:
        return RecordedSamples(mdp, sampling, lanes, seed, mean_reward)
    return Samples(Chain(mdp, sampling, lanes, seed, mean_reward)) if can_share(sampling, features, linear) else None
