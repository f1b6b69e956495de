"""Operators in plain Python, written from their table alone: five numbers, V of a state's values, and s.

    target = reward r + ahead V(y) + here V(x) + own Q(x, u) + common s

One seed, one transition at a time; shares no code with the package but for its models.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from random_mdps import random_mdp

import mqlearn as mq
from mqlearn.problems.mdp import FiniteMDP


@dataclass(frozen=True)
class ExpectedSarsa(mq.Operator):
    """A user's: V of the epsilon-greedy policy."""

    epsilon: float = 0.2
    with_features: ClassVar[bool] = True

    def value(self, q, by):
        return (1 - self.epsilon) * q[by.argmax()] + self.epsilon * q.mean()

    def to_optimum(self, q, v, mean, discount):
        return None


class Row(NamedTuple):
    """A row of the table at discount g: the five numbers, V, and what s is of the values of the pairs and of V."""

    numbers: Callable[[float], tuple[float, float, float, float, float]]
    v: Callable[[list[float]], float] = max
    s: Callable[[list[float], list[float], list[float]], float] = lambda q, every, living: 0.0


def _bellman(g: float) -> tuple[float, float, float, float, float]:
    return 1, g, 0, 0, 0


def _softmax(omega: float, q: list[float]) -> list[float]:
    exps = [math.exp(omega * x) for x in q]
    return [x / sum(exps) for x in exps]


# Operator, and its row; `every`: V of all states, `living`: of those that are not terminal.
TABLE: dict[str, tuple[Any, Row]] = {
    "bellman": (mq.Bellman(), Row(_bellman)),
    "relaxed": (mq.Relaxed(w=0.7), Row(lambda g: (0.7, 0.7 * g, 0.3, 0, 0))),
    "over-relaxed": (mq.Relaxed(w=1.05), Row(lambda g: (1.05, 1.05 * g, -0.05, 0, 0))),
    "relative": (mq.Relative(kappa=0.6), Row(lambda g: (1, g, 0, 0, -0.6), s=lambda q, *_: sum(q) / len(q))),
    "robust": (
        mq.Robust(radius=0.2),
        Row(lambda g: (1, 0.8 * g, 0, 0, 0.2 * g), s=lambda q, every, living: min(every)),
    ),
    "robust, living": (
        mq.Robust(radius=0.2, terminals=False),
        Row(lambda g: (1, 0.8 * g, 0, 0, 0.2 * g), s=lambda q, every, living: min(living)),
    ),
    "advantage": (mq.Advantage(a=0.4), Row(lambda g: (1, g, -0.4, 0.4, 0))),
    "mellowmax": (
        mq.Mellowmax(omega=3.0),
        Row(_bellman, lambda q: math.log(sum(math.exp(3 * x) for x in q) / len(q)) / 3),
    ),
    "soft": (mq.Soft(omega=3.0), Row(_bellman, lambda q: math.log(sum(math.exp(3 * x) for x in q)) / 3)),
    "boltzmann": (
        mq.Boltzmann(temperature=0.5),
        Row(_bellman, lambda q: sum(p * x for p, x in zip(_softmax(2, q), q, strict=True))),
    ),
    "truncated": (mq.Truncated(bound=0.3), Row(_bellman, lambda q: max(-0.3, min(0.3, max(q))))),
    "expected": (mq.Expected(epsilon=0.2), Row(_bellman, lambda q: 0.8 * max(q) + 0.2 * sum(q) / len(q))),
    "expected sarsa": (ExpectedSarsa(), Row(_bellman, lambda q: 0.8 * max(q) + 0.2 * sum(q) / len(q))),
}
LINEAR = (
    "bellman",
    "relaxed",
    "over-relaxed",
    "mellowmax",
    "soft",
    "truncated",
    "expected",
    "expected sarsa",
    "boltzmann",
)


def model(name: str, seed: int = 3) -> FiniteMDP:
    """A random model with ragged actions and terminal states; for the relative operator these go on, and pay nothing.

    Nine states, up to three actions, up to four successors, rewards of both signs, discount 0.9.
    """
    mdp = random_mdp(seed, 9, 3, 4, 0.9, "mixed")
    assert mdp.terminal.any() and not mdp.admissible.all()
    return replace(mdp, terminal=np.zeros(9, bool)) if name == "relative" else mdp


def target(mdp: FiniteMDP, name: str, q: Any, pair: int, y: Any, r: Any, by: Any = None) -> float:
    """The target of one transition at a table q over the pairs; maxima at the greedy action of `by`."""
    row, q, by = TABLE[name][1], list(map(float, q)), list(map(float, q if by is None else by))
    reward, ahead, here, own, common = row.numbers(mdp.discount)
    edges = mdp.pair_offsets.tolist()

    def v(x: int) -> float:
        first, end = edges[x], edges[x + 1]
        if first == end:
            return 0.0
        if name.startswith("expected"):
            return 0.8 * q[max(range(first, end), key=by.__getitem__)] + 0.2 * sum(q[first:end]) / (end - first)
        if name == "boltzmann":
            return sum(a * b for a, b in zip(_softmax(2, by[first:end]), q[first:end], strict=True))
        if q is not by and by != q:
            if name not in ("mellowmax", "soft"):
                return row.v([q[max(range(first, end), key=by.__getitem__)]])
            p = dv(name, by[first:end])  # <p, q> and the entropy of p, for mellowmax relative to the uniform p
            n = len(p) if name == "mellowmax" else 1
            return sum(a * b for a, b in zip(p, q[first:end], strict=True)) - sum(a * math.log(n * a) for a in p) / 3
        return row.v(q[first:end])

    x = int(mdp.pairs[pair, 0])
    total = reward * r + ahead * v(y) + here * v(x) + own * q[pair]
    if common:
        every = [v(state) for state in range(mdp.n_states)]
        living = [value for state, value in enumerate(every) if not mdp.terminal[state]]
        total += common * row.s(q, every, living)
    return total


def dv(name: str, q: list[float]) -> list[float]:
    """The derivative of V in the values of its state."""
    if name in ("mellowmax", "soft"):
        return _softmax(3, q)
    if name == "boltzmann":
        p = _softmax(2, q)
        mean = sum(a * b for a, b in zip(p, q, strict=True))
        return [a * (1 + 2 * (b - mean)) for a, b in zip(p, q, strict=True)]
    if name.startswith("expected"):
        return [0.8 * (i == q.index(max(q))) + 0.2 / len(q) for i in range(len(q))]
    inside = name != "truncated" or abs(max(q)) <= 0.3
    return [1.0 * (inside and i == q.index(max(q))) for i in range(len(q))]


def derivative(mdp: FiniteMDP, name: str, q: np.ndarray, pair: int, y: Any) -> np.ndarray:
    """(pairs,): of the target of one transition, in the values of all pairs."""
    _, ahead, here, own, common = TABLE[name][1].numbers(mdp.discount)
    edges, slopes = mdp.pair_offsets.tolist(), np.zeros(len(q))
    parts = [(int(y), ahead), (int(mdp.pairs[pair, 0]), here)]
    if name.startswith("robust"):
        states = [x for x in range(mdp.n_states) if name == "robust" or not mdp.terminal[x]]
        parts.append((min(states, key=lambda x: max(q[edges[x] : edges[x + 1]], default=0.0)), common))
    for x, factor in parts:
        some = slice(edges[x], edges[x + 1])
        slopes[some] += [factor * slope for slope in dv(name, q[some].tolist())] if edges[x] < edges[x + 1] else []
    slopes[pair] += own
    return slopes + common / len(q) if name == "relative" else slopes
