"""Rules with state of their own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import mqlearn as mq
from mqlearn import learners
from mqlearn.algorithms.four_numbers import FourNumbers
from mqlearn.sampling.chains import Chain, Samples

from .all_pairs import synchronous_in_c
from .measuring import Row, fastest
from .starting import SEEDS
from .yardstick import Yardstick


@dataclass(frozen=True)
class _StatefulQ(mq.Stateful):
    """Q-learning as a rule with state."""

    def init(self, q0):
        return {"q": q0}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha)


def stateful(c: Yardstick) -> Iterator[Row]:
    """Rules with state against the kernels of four numbers on Q-learning, 20 seeds; shared: samples drawn before.

    The bounds of the synchronous ones are in units of the C, where there is one; that kernel is close to it.
    """
    lake, small = mq.frozen_lake("8x8", discount=0.9), mq.six_state(discount=0.9)
    momentum = FourNumbers(mq.MomentumQ())
    ways = (
        ("synchronous", mq.Synchronous(), lake, ((_StatefulQ(), 2.0), (mq.DoubleQ(), 3.0), (momentum, 3.0))),
        ("asynchronous", mq.Markovian(), lake, ((_StatefulQ(), 1.0), (mq.DoubleQ(), 1.2), (momentum, 2.0))),
        ("asynchronous", mq.Markovian(), small, ((mq.Zap(), 20.0),)),
        ("asynchronous", mq.Markovian(), mq.garnet(n_states=25, n_actions=4, discount=0.9), ((mq.Zap(), 400.0),)),
        ("asynchronous", mq.Markovian(), mq.frozen_lake("8x8", discount=0.9), ((mq.Zap(), 1400.0),)),  # 212 pairs
    )
    for way, sampling, mdp, rules in ways:
        n = 2000 if way == "synchronous" else 500 if isinstance(rules[0][0], mq.Zap) and mdp is not small else 20_000
        four = mq.QLearning()
        contenders = {"four": _advancing(mdp, sampling, four, n)}
        in_c = way == "synchronous" and not c.missing_avx512
        if in_c:
            contenders["c"] = partial(synchronous_in_c, c, mdp, four, 10 * n)
        for rule, _wanted in rules:
            contenders[_rule_name(rule)] = _advancing(mdp, sampling, rule.with_step_size(mq.Harmonic()).at(0.9), n)
        if way == "asynchronous" and mdp is lake:
            samples = Samples(Chain(mdp, sampling, SEEDS[:20], 0, False))
            samples.draw(n)
            rule = _StatefulQ().with_step_size(mq.Harmonic()).at(0.9)
            contenders["shared"] = _advancing(mdp, sampling, rule, n, samples)
            rules = (*rules, ("shared", 0.3))
        seconds = fastest(contenders)
        for rule, wanted in rules:
            name = rule if isinstance(rule, str) else _rule_name(rule)
            time_ns, ratio = seconds[name] / (20 * n) * 1e9, seconds[name] / seconds["four"]
            against = "four numbers"
            if in_c:
                against = f"time of AVX-512 C, {ratio:.3g} times the four numbers"
                ratio = 10 * seconds[name] / seconds["c"]
            name += f", {len(mdp.pairs)} pairs" if isinstance(rule, mq.Zap) else ""
            yield Row(f"{way[:5]} {name}", time_ns, "ns an iteration", against, ratio, wanted)


def _rule_name(rule: Any) -> str:
    return {"_StatefulQ": "Q-learning", "FourNumbers": "MomentumQ"}.get(type(rule).__name__, type(rule).__name__)


def _advancing(mdp: Any, sampling: Any, rule: Any, n: int, samples: Samples | None = None) -> Callable[[], Any]:
    """n iterations of 20 seeds of a rule, again and again from where they are."""
    weights = rule.weights(0, n)
    common = mdp, sampling, None, mq.Linear(), 0, 0.0, isinstance(sampling, mq.Synchronous), SEEDS[:20]
    learner = learners.start(*common, samples, rule)
    return lambda: learner.advance(0, n, weights)
