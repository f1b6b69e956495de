"""The base of the operators, and what each of them states."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mqlearn.checks import PlainNumbers

SCALARS = ("none", "mean", "least")  # what s may be
_STEP = 2.0**-17  # of central differences: the cube root of the rounding


class Numbers(NamedTuple):
    """The five numbers of an operator, its factors of r, V(y), V(x), Q(x, u) and s.

    reward: of the reward r.   ahead: of V(y), y the successor.   here: of V(x).   own: of Q(x, u).   common: of s, one
    number for all pairs.
    """

    reward: float = 1.0
    ahead: float = 0.0
    here: float = 0.0
    own: float = 0.0
    common: float = 0.0

    def target(self, reward: Any, ahead: Any, here: Any, own: Any, s: Any) -> Any:
        """The target of a transition that pays `reward`: ahead, here: V of y and of x.   own: Q(x, u). Kernels compile
        it; all that learns by an operator, and its exact fixed point, come from here."""
        return self.reward * reward + self.ahead * ahead + self.here * here + self.own * own + self.common * s


def differences(value: Callable[[np.ndarray, np.ndarray], float], q: np.ndarray) -> np.ndarray:
    """(n,): the derivative of value(q, q) in each of q (n,) by central differences, to about 1e-10 of its size."""
    slopes, at = np.empty(q.shape[0]), q.copy()
    for i in range(q.shape[0]):
        step = _STEP * max(1.0, abs(q[i]))
        at[i] = q[i] + step
        above, up = value(at, at), at[i]
        at[i] = q[i] - step
        slopes[i] = (above - value(at, at)) / (up - at[i])
        at[i] = q[i]
    return slopes


@dataclass(frozen=True)
class Operator(PlainNumbers):
    """Base of the operators. V stands in `value`, once: kernels compile it, the exact fixed point is solved with it.

    scalar: what s is, "none", "mean" (of Q over the learned pairs) or "least" (of V over the states).
    counts_terminals: whether terminal states, whose V is 0, are among these states.   with_features: whether linear
    features have a fixed point of it to be measured against; only without s and Q(x, u).   needs_discount: whether a
    discount of 1 is refused, where most have no fixed point, or several.
    """

    scalar: ClassVar[str] = "none"
    with_features: ClassVar[bool] = False
    needs_discount: ClassVar[bool] = True
    fixed_point: ClassVar[str] = "Q*"  # in words
    differences: ClassVar[Callable[..., np.ndarray]] = staticmethod(differences)

    def value(self, q: np.ndarray, by: np.ndarray) -> float:
        """V of a state that is not terminal, from the values q (n,) of its admissible actions; by default the largest.

        by: (n,), q itself but for rules that choose by another table: then V is what the policy of `by` is worth by q.
        Written with numbers of self, Python's arithmetic and NumPy's functions: it is compiled.
        """
        return q[by.argmax()]

    def slopes(self, q: np.ndarray) -> np.ndarray:
        """(n,): the derivative of value(q, q) in each value, of the first maximum; by default of differences."""
        if self.greedy:
            slopes = np.zeros(len(q))
            slopes[q.argmax()] = 1.0
            return slopes
        return differences(self.value, q)

    @property
    def own_slopes(self) -> bool:
        """Whether the derivative is written down."""
        return type(self).slopes is not Operator.slopes

    @property
    def greedy(self) -> bool:
        """Whether V is the largest value, of which kernels have a form of their own."""
        return type(self).value is Operator.value

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
        return facts.discount if facts.discount < 1 else None

    def to_optimum(self, q: np.ndarray, v: np.ndarray, mean: float, discount: float) -> np.ndarray | None:
        """Q* from the fixed point q (..., S, A), its maxima v (..., S) and its mean over the learned pairs; None if
        these do not say what Q* is."""
        return q
