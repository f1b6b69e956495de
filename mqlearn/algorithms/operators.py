"""Operators that a rule may use in place of Bellman's: five numbers in space, beside the four in time.

    (T_k Q)(x, u) = reward r + ahead V(y) + here V(x) + own Q(x, u) + common s

from one sampled transition (x, u, r, y). V is a functional of the admissible values of one state (`values`), and 0 at a
terminal state whatever the functional. s is one number an iteration, of the table that T_k acts on (`scalar`). A rule's
T_k Q_k and T_k Q_{k-1} each have the V and s of their own table.

    mq.run(mdp, mq.MomentumQ(), iterations=10_000, operator=mq.Relaxed(w=1.1))
    mqlearn run algorithm=momentum_q operator=relaxed operator.w=1.1
    mqlearn truth operator=relaxed operator.w=1.1       # its fixed point, the residual, and the map to Q*
    mqlearn run -m algorithm=q_learning operator=bellman,relaxed,mellowmax

Errors are measured against the fixed point of the operator in use, which `mqlearn.problems.operators` computes. What an
operator has to know of a problem, `facts`, are its `Facts`.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from mqlearn.checks import finite, within
from mqlearn.errors import SettingError


class Numbers(NamedTuple):
    """Factors of r, V(y), V(x), Q(x, u) and s."""

    reward: float = 1.0
    ahead: float = 0.0
    here: float = 0.0
    own: float = 0.0
    common: float = 0.0


@dataclass(frozen=True)
class Operator:
    """Base of the operators.

    functional: V of a state, "max", "clipped" (the max, within -parameter and parameter), "mellowmax" (log mean exp
    over the admissible actions, at the temperature 1/parameter) or "soft" (log sum exp).   scalar: what s is, "none",
    "mean" (of Q over the learned pairs) or "least" (of V over the states).   terminals: whether terminal states, whose
    V is 0, are among these states.   with_features: whether linear features have a fixed point of it to be measured
    against.   exact: whether greedy actions of the fixed point are those of Q*.
    """

    functional: ClassVar[str] = "max"
    scalar: ClassVar[str] = "none"
    with_features: ClassVar[bool] = False
    exact: ClassVar[bool] = True
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
        best = np.where(admissible, q, -np.inf).max(-1)
        if self.functional == "max":
            return best
        if self.functional == "clipped":
            return np.clip(best, -self.parameter, self.parameter)
        exps = np.where(admissible, np.exp(self.parameter * (np.where(admissible, q, -np.inf) - best[..., None])), 0.0)
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


@dataclass(frozen=True)
class Bellman(Operator):
    """Bellman's optimality operator, the target of every rule unless another one is asked for.

        r + g max_v Q(y, v)

    Fixed point Q*; it contracts by g.
    """

    with_features: ClassVar[bool] = True


def is_plain(operator: Operator) -> bool:
    """Whether it is Bellman's."""
    return type(operator) is Bellman


@dataclass(frozen=True)
class Relaxed(Operator):
    """Successive over-relaxation (Kamanchi, Diddigi, Bhatnagar 2020, "Successive over-relaxation Q-learning"):

        w (r + g max_v Q(y, v)) + (1 - w) max_v Q(x, v)

    Fixed point w Q* + (1 - w) V*(x): values and greedy actions are right, Q* is not. It contracts by 1 - w + w g up to
    w* = 1 / (1 - g min P(x | x, u)).

    w: relaxation, above 0; beyond w* the rule may diverge. Raises SettingError.
    """

    w: float = 0.9
    with_features: ClassVar[bool] = True
    fixed_point: ClassVar[str] = "w Q* + (1 - w) V*"

    def __post_init__(self) -> None:
        within("operator.w", self.w, 0)

    def numbers(self, discount):
        return Numbers(self.w, self.w * discount, 1 - self.w)

    def largest_w(self, facts: Any) -> float:
        """w*, up to which it is known to contract."""
        return 1 / (1 - facts.discount * facts.stay)

    def limits(self, facts):
        return {"largest_w": self.largest_w(facts)}

    def contraction(self, facts):
        return 1 - self.w + self.w * facts.discount if self.w <= self.largest_w(facts) else None

    def warnings(self, facts):
        if self.w <= self.largest_w(facts):
            return []
        limit = f"w* = {self.largest_w(facts):.6g} = 1/(1 - discount min P(x|x,u)), where min P is {facts.stay:.4g}"
        return [f"operator.w={self.w:g} is above {limit}: the operator may not contract, and the rule may diverge"]

    def to_optimum(self, q, v, mean, discount):
        return (q - (1 - self.w) * v[..., None]) / self.w


@dataclass(frozen=True)
class Relative(Operator):
    """Relative Q-learning (Devraj, Meyn 2022, "Q-learning with uniformly bounded variance"):

        r + g max_v Q(y, v) - kappa <mu, Q>,   mu uniform over the learned pairs

    Fixed point H*, Q* = H* + kappa <mu, H*> / (1 - g). It contracts in the span seminorm only. Constants are
    multiplied by g - kappa, which has to lie between -1 and 1. A terminal state, whose value is held at 0, would give
    it another fixed point: it is refused.

    kappa: between g - 1 and g + 1. Raises SettingError.
    """

    kappa: float = 0.5
    scalar: ClassVar[str] = "mean"
    fixed_point: ClassVar[str] = "Q* - kappa <mu, Q*> / (1 - g + kappa)"

    def __post_init__(self) -> None:
        finite("operator.kappa", self.kappa)

    def numbers(self, discount):
        return Numbers(ahead=discount, common=-self.kappa)

    def on(self, facts):
        g = facts.discount
        if facts.terminal:
            expected = "has no such fixed point where states are terminal (their values are held at 0)"
            raise SettingError("operator", "relative", f"{expected}; use an environment that goes on, or bellman")
        if not -1 < g - self.kappa < 1:
            expected = f"must lie between discount - 1 and discount + 1, here {g - 1:.4g} and {g + 1:.4g}"
            raise SettingError("operator.kappa", self.kappa, expected)
        return self

    def contraction(self, facts):
        return None

    def to_optimum(self, q, v, mean, discount):
        return q + self.kappa * mean / (1 - discount)


@dataclass(frozen=True)
class Robust(Operator):
    """R-contamination (Wang, Zou 2021, "Online robust reinforcement learning with model uncertainty"):

        r + g (1 - R) max_v Q(y, v) + g R min_x V(x)

    Fixed point: Q* of the kernel (1 - R) P + R e_z, z the state of least V.

    radius: R, in [0, 1).   terminals: whether z may be a terminal state, of value 0. Raises SettingError.
    """

    radius: float = 0.1
    terminals: bool = True
    scalar: ClassVar[str] = "least"
    exact: ClassVar[bool] = False
    fixed_point: ClassVar[str] = "Q* of the contaminated kernel"

    def __post_init__(self) -> None:
        within("operator.radius", self.radius, 0, 1, ends="[)")

    @property
    def counts_terminals(self) -> bool:
        return self.terminals

    def numbers(self, discount):
        return Numbers(ahead=discount * (1 - self.radius), common=discount * self.radius)

    def warnings(self, facts):
        if not (self.radius and self.terminals and facts.terminal and facts.no_costs):
            return []
        shorter = f"discount {facts.discount * (1 - self.radius):.6g} = {facts.discount:g} (1 - {self.radius:g})"
        return [
            f"operator=robust is Bellman's with {shorter} here: no reward is negative, and the least value is 0, that "
            "of a terminal state (operator.terminals=false leaves these out)"
        ]

    def to_optimum(self, q, v, mean, discount):
        return None if self.radius else q


@dataclass(frozen=True)
class Advantage(Operator):
    """Advantage learning (Baird 1999; Bellemare et al. 2016, "Increasing the action gap"):

        r + g max_v Q(y, v) - a (max_v Q(x, v) - Q(x, u))

    Fixed point V* - (V* - Q*) / (1 - a): gaps between actions grow. No contraction is proven.

    a: in [0, 1). Raises SettingError.
    """

    a: float = 0.5
    fixed_point: ClassVar[str] = "V* - (V* - Q*) / (1 - a)"

    def __post_init__(self) -> None:
        within("operator.a", self.a, 0, 1, ends="[)")

    def numbers(self, discount):
        return Numbers(ahead=discount, here=-self.a, own=self.a)

    def contraction(self, facts):
        return None if self.a else facts.discount

    def warnings(self, facts):
        return [f"operator=advantage with a={self.a:g}: no contraction is proven for it"] if self.a else []

    def to_optimum(self, q, v, mean, discount):
        return v[..., None] - (1 - self.a) * (v[..., None] - q)


@dataclass(frozen=True)
class Mellowmax(Operator):
    """log mean exp in place of the max (Asadi, Littman 2017, "An alternative softmax operator"):

        r + g log(mean_v exp(omega Q(y, v))) / omega,   the mean over the admissible actions

    Its fixed point lies below Q*, by at most log(A)/omega g/(1-g).

    omega: above 0; the larger, the nearer to the max. Raises SettingError.
    """

    omega: float = 10.0
    functional: ClassVar[str] = "mellowmax"
    with_features: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    fixed_point: ClassVar[str] = "the smoothed Q, below Q*"

    def __post_init__(self) -> None:
        within("operator.omega", self.omega, 0)

    @property
    def parameter(self) -> float:
        return self.omega

    def to_optimum(self, q, v, mean, discount):
        return None


@dataclass(frozen=True)
class Soft(Mellowmax):
    """log sum exp in place of the max (soft Q-learning): as `Mellowmax` without the mean, and above Q*.

    omega: above 0; the larger, the nearer to the max. Raises SettingError.
    """

    functional: ClassVar[str] = "soft"
    fixed_point: ClassVar[str] = "the smoothed Q, above Q*"


@dataclass(frozen=True)
class Truncated(Operator):
    """V clipped to [-bound, bound]:  r + g clip(max_v Q(y, v)).

    Fixed point Q* if bound >= max |V*| over the states that can be reached in one step, since only the values of
    successors are clipped. The default, R/(1-g) with R the largest |r|, always suffices; 1/(1 - g) does so for
    |r| <= 1 only.

    bound: above 0, None for the default. Raises SettingError.
    """

    bound: float | None = None
    functional: ClassVar[str] = "clipped"
    with_features: ClassVar[bool] = True
    fixed_point: ClassVar[str] = "Q* if no V* of a successor is clipped"

    def __post_init__(self) -> None:
        if self.bound is not None:
            within("operator.bound", self.bound, 0)

    @property
    def parameter(self) -> float:
        assert self.bound is not None, "a run fills it in"
        return float(self.bound)

    def on(self, facts):
        own = facts.largest_reward / (1 - facts.discount)
        return self if self.bound is not None else replace(self, bound=own or 1.0)

    def suffices(self, facts: Any) -> bool:
        """Whether no V* of a state that can be reached in one step is clipped, up to rounding."""
        return self.parameter >= facts.largest_value * (1 - 1e-12)

    def warnings(self, facts):
        if self.suffices(facts):
            return []
        largest = f"{facts.largest_value:.6g}, the largest |V*| that can be reached in one step"
        short = f"operator.bound={self.parameter:g} is below {largest}"
        return [f"{short}: the fixed point may not be Q*, and its greedy actions may not be optimal"]

    def to_optimum(self, q, v, mean, discount):
        return q if np.abs(v).max(initial=0.0) <= self.parameter * (1 + 1e-12) else None
