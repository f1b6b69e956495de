"""Rules with state of their own, for tests: small ones that use every verb."""

from dataclasses import dataclass

import numpy as np

import mqlearn as mq
from mqlearn.algorithms.rule import replaced


@dataclass(frozen=True)
class Plain(mq.Stateful):
    """Q-learning."""

    def init(self, q0):
        return {"q": q0}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha)


@dataclass(frozen=True)
class Double(mq.Stateful):
    """Two tables, a coin a step, and one table's value of the other's greedy action."""

    draws_own = True

    def init(self, q0):
        return {"a": q0, "b": q0.copy()}

    def step(self, z, s, c):
        a, b = (z.a, z.b) if s.uniform[0] < 0.5 else (z.b, z.a)
        s.move(a, s.target(b, a), c.alpha)

    def estimate(self, z):
        return (z.a + z.b) / 2


@dataclass(frozen=True)
class Memory(mq.Stateful):
    """MomentumQ with its previous table: the four numbers written out."""

    m: int = 2

    def init(self, q0):
        return {"q": q0, "last": q0.copy()}

    def numbers(self, k):
        rule = mq.MomentumQ(m=self.m).with_step_size(self.alpha)
        return dict(zip("pqst", [rule.update(k, *unit) + 0 * k for unit in np.eye(4)], strict=True))

    def step(self, z, s, c):
        change = (c.p - 1) * s.value(z.q) + c.q * s.value(z.last) + c.s * s.target(z.q) + c.t * s.target(z.last)
        s.follow(z.last, z.q)
        s.add(z.q, change)


@dataclass(frozen=True)
class Gain(mq.Stateful):
    """A matrix gain: the mean Jacobian, a solve and whole-array statements."""

    def init(self, q0):
        return {"q": q0, "delta": np.zeros_like(q0), "gain": -2.0 * np.eye(len(q0))}

    def numbers(self, k):
        return {"alpha": self.alpha(k), "gamma": 1 / (k + 2)}

    def step(self, z, s, c):
        z.gain[:] *= 1 - c.gamma
        s.add_jacobian(z.gain, z.q, c.gamma)
        z.delta[:] = 0.0
        s.add(z.delta, s.target(z.q) - s.value(z.q))
        z.q[:] -= c.alpha * mq.solve(z.gain, z.delta)


@dataclass(frozen=True)
class Residual(mq.Stateful):
    """A second successor, written to at its greedy action."""

    @property
    def samples_per_iteration(self):
        return 2

    def init(self, q0):
        return {"q": q0}

    def step(self, z, s, c):
        d = s.target(z.q) - s.value(z.q)
        s.again.add_best(z.q, -0.5 * c.alpha * s.discount * d)
        s.add(z.q, c.alpha * d)


@dataclass(frozen=True)
class Epochs(mq.Stateful):
    """An anchor that follows every five iterations, and acts; another table is measured."""

    def init(self, q0):
        return {"q": q0, "anchor": q0.copy()}

    def numbers(self, k):
        return {"alpha": self.alpha(k), "ends": (k + 1) % 5 == 0}

    def step(self, z, s, c):
        s.move(z.q, s.best(z.anchor) * s.discount + (s.target(z.q) - s.discount * s.best(z.q)), c.alpha)
        if c.ends:
            s.follow(z.anchor, z.q)

    def acting(self, z):
        return z.anchor


@dataclass(frozen=True)
class Many(mq.Stateful):
    """Statements of all kinds: a loop, a choice on a setting, whole arrays, functions of numbers and of arrays."""

    scale: float = 0.5
    kind: str = "mean"

    def init(self, q0):
        return {"q": q0, "m": np.zeros_like(q0), "seen": np.zeros((2, 3)), "last": q0.copy()}

    def numbers(self, k):
        return {"alpha": self.alpha(k), "even": k % 2 == 0}

    def step(self, z, s, c):
        d = s.target(z.q) - s.value(z.q)
        d = np.maximum(d, -_BOUND)
        if self.kind == "mean":
            s.move(z.m, d, self.scale)
        else:
            s.move(z.m, -d, self.scale)
        if not c.even:
            z.seen[0, 1] += 1
            return
        for i in range(3):
            z.seen[1, i] += c.alpha * i
        s.follow(z.last, z.q)
        s.add(z.q, c.alpha * _damped(s.value(z.m)) + 0.0 * np.sqrt(abs(s.best(z.last, by=z.q))))
        z.m[:] = 0.9 * z.m + (z.q - z.last) * self.scale
        z.m *= 1 - 0.1 * c.alpha


_BOUND = 2.0


def _damped(x):
    return x / 2


RULES = (Plain(), Double(), Memory(), Gain(), Residual(), Epochs(), Many())
UNCOMPILED = tuple(replaced(rule, compiled=False) for rule in RULES)
