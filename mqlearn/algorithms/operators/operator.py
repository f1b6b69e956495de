"""The base of the operators, and what each of them states."""

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mqlearn.checks import PlainNumbers


class Numbers(NamedTuple):
    """Factors of r, V(y), V(x), Q(x, u) and s."""

    reward: float = 1.0
    ahead: float = 0.0
    here: float = 0.0
    own: float = 0.0
    common: float = 0.0


@dataclass(frozen=True)
class Operator(PlainNumbers):
    """Base of the operators.

    functional: V of a state, "max", "clipped" (the max, within -parameter and parameter), "mellowmax" (log mean exp
    over the admissible actions, at the temperature 1/parameter) or "soft" (log sum exp).   scalar: what s is, "none",
    "mean" (of Q over the learned pairs) or "least" (of V over the states).   counts_terminals: whether terminal states,
    whose V is 0, are among these states.   with_features: whether linear features have a fixed point of it to be
    measured against; only without s and Q(x, u).
    """

    functional: ClassVar[str] = "max"
    scalar: ClassVar[str] = "none"
    with_features: ClassVar[bool] = False
    fixed_point: ClassVar[str] = "Q*"  # in words

    @property
    def parameter(self) -> float:
        """Of the functional."""
        return 0.0

    @property
    def counts_terminals(self) -> bool:
        return True

    def numbers(self, discount: float) -> Numbers:
        """The five numbers."""
        return Numbers(ahead=discount)

    def on(self, facts: Any) -> Self:
        """The operator with what it leaves open filled in. Raises SettingError where it has no fixed point."""
        return self

    def warnings(self, facts: Any) -> list[str]:
        """What a user should know of it on a problem."""
        return []

    def limits(self, facts: Any) -> dict[str, float]:
        """What a problem says of its parameters, by name, for `mqlearn truth`."""
        return {}

    def contraction(self, facts: Any) -> float | None:
        """A Lipschitz constant below 1 in the sup norm; None where none is proven."""
        return facts.discount

    def to_optimum(self, q: np.ndarray, v: np.ndarray, mean: float, discount: float) -> np.ndarray | None:
        """Q* from the fixed point q (..., S, A), its maxima v (..., S) and its mean over the learned pairs; None if
        these do not say what Q* is."""
        return q

    def values(self, q: np.ndarray, admissible: np.ndarray) -> np.ndarray:
        """V (...) of the values q (..., A) of the admissible actions (..., A) bool."""
        allowed = np.where(admissible, q, -np.inf)
        best = allowed.max(-1)
        if self.functional == "max":
            return best
        if self.functional == "clipped":
            return np.clip(best, -self.parameter, self.parameter)
        exps = np.exp(self.parameter * (allowed - best[..., None]))
        n = admissible.sum(-1) if self.functional == "mellowmax" else 1
        return best + np.log(exps.sum(-1) / n) / self.parameter

    def slopes(self, q: np.ndarray, admissible: np.ndarray) -> np.ndarray:
        """(..., A): the derivative of V in each value; where maxima tie, of the first."""
        allowed = np.where(admissible, q, -np.inf)
        if self.functional in ("max", "clipped"):
            first = np.arange(q.shape[-1]) == allowed.argmax(-1)[..., None]
            inside = self.functional == "max" or np.abs(allowed.max(-1))[..., None] <= self.parameter
            return 1.0 * (first & inside)
        exps = np.exp(self.parameter * (allowed - allowed.max(-1, keepdims=True)))
        return exps / exps.sum(-1, keepdims=True)
