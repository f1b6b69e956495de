"""Step sizes alpha_k for k = 0, 1, 2, ..., on arrays of k.

A step size is a callable from k (float64 array, any shape) to alpha_k (same shape). Any function of that kind will
do; the classes here check their parameters and print themselves.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from mqlearn.checks import PlainNumbers, check_int, discounted, within
from mqlearn.errors import SettingError, asked, user_code

_SUMMED = 100_000  # terms

StepSize = Callable[[np.ndarray], np.ndarray]


def total(step_size: StepSize, iterations: int) -> float:
    """alpha_0 + ... + alpha_{T-1}: how many whole steps a schedule is worth, its effective horizon.

    Exact for the first 100,000 terms; those that follow by the trapezoidal rule on a logarithmic grid.
    """
    exact = min(iterations, _SUMMED)
    with user_code("step_size", step_size):
        value = float(np.sum(step_size(np.arange(exact, dtype=np.float64)) + np.zeros(exact)))
        if iterations > exact:
            k = np.geomspace(exact - 0.5, iterations - 0.5, 10_001)  # a term reaches half an iteration to either side
            value += float(np.trapezoid(step_size(k) + np.zeros(k.size), k))
    return value


def own_of(rule: Any, discount: float) -> StepSize:
    """The step size that a rule has of its own at a discount. Raises SettingError if it has none."""
    own: Any = asked("algorithm", rule, "own_step_size", discount)
    if not callable(own) or isinstance(own, type):
        expected = f"own_step_size(discount) must return a step size, such as mq.Constant(0.1), not {own!r}"
        raise SettingError("algorithm", type(rule).__name__, expected)
    return cast(StepSize, own)


@dataclass(frozen=True)
class Harmonic(PlainNumbers):
    """alpha_k = 1/(k + 1 + offset), offset >= 0 (the paper's Algorithm 1 with offset 0).

    Takes k and returns alpha_k, of one shape. Raises SettingError for an offset below 0.

    >>> mq.Harmonic()(np.array([0.0, 1.0, 3.0])).tolist()
    [1.0, 0.5, 0.25]
    """

    offset: float = 0.0

    def __post_init__(self) -> None:
        within("step_size.offset", self.offset, 0.0, ends="[)")

    def __call__(self, k: np.ndarray) -> np.ndarray:
        return 1.0 / (k + 1.0 + self.offset)


@dataclass(frozen=True)
class Polynomial(PlainNumbers):
    """alpha_k = scale/(k + 1 + offset)^exponent, scale > 0, exponent >= 0 (Even-Dar and Mansour 2003).

    With a cap, min(cap, that): `Polynomial(1, scale=N, cap=c)` is min(c, N/(k + 1)). Where the cap ends, nothing
    is left of it: limits and rates are those without. c/(k + c) is `Polynomial(1, scale=c, offset=c - 1)`.

    cap: the largest step, > 0; None for none. Takes k and returns alpha_k, of one shape. Raises SettingError for
    values that are not admissible.

    >>> mq.Polynomial(exponent=0.5, scale=3.0)(np.array([0.0, 3.0, 8.0])).tolist()
    [3.0, 1.5, 1.0]
    >>> mq.Polynomial(exponent=1.0, scale=10.0, cap=0.5)(np.array([0.0, 18.0, 19.0, 39.0])).tolist()
    [0.5, 0.5, 0.5, 0.25]
    """

    exponent: float = 0.7
    scale: float = 1.0
    offset: float = 0.0
    cap: float | None = None

    def __post_init__(self) -> None:
        within("step_size.exponent", self.exponent, 0.0, ends="[)")
        within("step_size.scale", self.scale, 0.0)
        within("step_size.offset", self.offset, 0.0, ends="[)")
        if self.cap is not None:
            within("step_size.cap", self.cap, 0.0)

    def without_effect(self) -> dict[str, str]:
        idle = {} if self.exponent else {"offset": "exponent is 0"}
        above = self.cap is None or float(self._uncapped(np.zeros(1))[0]) > self.cap
        return idle if above else idle | {"cap": "no step is above it"}

    def _uncapped(self, k: np.ndarray) -> np.ndarray:
        return self.scale / (k + 1.0 + self.offset) ** self.exponent

    def __call__(self, k: np.ndarray) -> np.ndarray:
        return self._uncapped(k) if self.cap is None else np.minimum(self.cap, self._uncapped(k))


@dataclass(frozen=True)
class RescaledLinear(PlainNumbers):
    """alpha_k = 1/(1 + (1 - discount)(k + 1)) (Wainwright 2019, the strong baseline that the paper leaves out).

    discount: in (0, 1). Takes k and returns alpha_k, of one shape. Raises SettingError for values that are not
    admissible.

    >>> mq.RescaledLinear(discount=0.5)(np.array([1.0, 5.0])).tolist()
    [0.5, 0.25]
    """

    discount: float

    def __post_init__(self) -> None:
        instead = "choose step_size=polynomial, harmonic or constant, also for a rule of which this is its own"
        discounted(self.discount, "step_size.discount", self.discount, instead)
        within("step_size.discount", self.discount, 0.0, 1.0)

    def __call__(self, k: np.ndarray) -> np.ndarray:
        return 1.0 / (1.0 + (1.0 - self.discount) * (k + 1.0))


@dataclass(frozen=True)
class Constant(PlainNumbers):
    """alpha_k = alpha > 0 (Theorem 1 of the paper).

    Takes k and returns alpha_k, of one shape. Raises SettingError for values that are not admissible.

    >>> mq.Constant(0.1)(np.arange(3.0)).tolist()
    [0.1, 0.1, 0.1]
    """

    alpha: float = 0.1

    def __post_init__(self) -> None:
        within("step_size.alpha", self.alpha, 0.0)

    def __call__(self, k: np.ndarray) -> np.ndarray:
        return np.full_like(k, self.alpha, dtype=np.float64)


@dataclass(frozen=True)
class InverseSqrt(PlainNumbers):
    """alpha_k = alpha sqrt(h/(k + h)); h = 1 is alpha/sqrt(k + 1) (Theorem 2, whose alpha/sqrt(k) is infinite at 0).

    Takes k and returns alpha_k, of one shape. Raises SettingError for values that are not admissible.

    >>> mq.InverseSqrt(alpha=0.5)(np.array([0.0, 3.0])).tolist()
    [0.5, 0.25]
    """

    alpha: float = 0.1
    h: float = 1.0

    def __post_init__(self) -> None:
        within("step_size.alpha", self.alpha, 0.0)
        within("step_size.h", self.h, 0.0)

    def __call__(self, k: np.ndarray) -> np.ndarray:
        return self.alpha * np.sqrt(self.h / (k + self.h))


@dataclass(frozen=True)
class ToZero(PlainNumbers):
    """alpha_k = initial (1 - k/T)^power for k < T, then 0 (Bonnerjee, Lou, Wu; from their abstract; power 1 is linear).

    It knows the horizon: runs of other lengths have other steps from the first iteration on, and the last step of a
    run of T iterations is initial T^-power. On a local clock k is the visits of a pair, which stay far below T.

    iterations: T >= 1, on the command line that of the run.   initial > 0.   power >= 0. Takes k and returns alpha_k,
    of one shape. Raises SettingError for values that are not admissible.

    >>> mq.ToZero(iterations=4, initial=0.5)(np.array([0.0, 2.0, 3.0, 4.0])).tolist()
    [0.5, 0.25, 0.125, 0.0]
    """

    iterations: int
    initial: float = 1.0
    power: float = 1.0

    def __post_init__(self) -> None:
        check_int("step_size.iterations", self.iterations, 1)
        within("step_size.initial", self.initial, 0.0)
        within("step_size.power", self.power, 0.0, ends="[)")

    def __call__(self, k: np.ndarray) -> np.ndarray:
        left = np.maximum(0.0, 1.0 - k / self.iterations)
        return np.where(k < self.iterations, self.initial * left**self.power, 0.0)


@dataclass(frozen=True)
class Switched(PlainNumbers):
    """alpha_k = 1/(1 + (1 - discount)(k + 1)) for k < at, then alpha (Zhao, Xiong, Liang 2021): two pieces.

    They have 2/(2 + (1 - g) t) first, which is that of discount (1 + g)/2.

    discount: in (0, 1), of the first piece.   at: k >= 1 from which on it is alpha > 0. Takes k and returns alpha_k, of
    one shape. Raises SettingError for values that are not admissible.

    >>> mq.Switched(discount=0.5, at=2, alpha=0.125)(np.array([0.0, 1.0, 2.0, 9.0])).tolist()
    [0.6666666666666666, 0.5, 0.125, 0.125]
    """

    discount: float
    at: int = 1000
    alpha: float = 0.001

    def __post_init__(self) -> None:
        within("step_size.discount", self.discount, 0.0, 1.0)
        check_int("step_size.at", self.at, 1)
        within("step_size.alpha", self.alpha, 0.0)

    def __call__(self, k: np.ndarray) -> np.ndarray:
        return np.where(k < self.at, 1.0 / (1.0 + (1.0 - self.discount) * (k + 1.0)), self.alpha)


@dataclass(frozen=True)
class Matched(PlainNumbers):
    """alpha_k = base_k/(1 - beta lam^k): the vanilla schedule that moves as far as momentum beta lam^k with base_k.

    With one-hot or aggregated features one gradient of MomentumQ finally moves theta by a_k/(1 - beta_k) for slowly
    varying schedules, so a comparison of MomentumQ with vanilla Q-learning has to include this schedule.

    base: a step size.   beta: in [0, 1).   lam: in [0, 1). Raises SettingError for values that are not admissible.

    >>> mq.Matched(mq.Constant(0.25), beta=0.5, lam=0.0)(np.arange(2.0)).tolist()
    [0.5, 0.25]
    """

    base: StepSize
    beta: float = 0.8
    lam: float = 0.999

    def __post_init__(self) -> None:
        if not callable(self.base):
            raise SettingError("step_size.base", self.base, "must be a step size, such as constant or inverse_sqrt")
        within("step_size.beta", self.beta, 0.0, 1.0, ends="[)")
        within("step_size.lam", self.lam, 0.0, 1.0, ends="[)")

    def without_effect(self) -> dict[str, str]:
        return {} if self.beta else {"lam": "beta is 0"}

    def __call__(self, k: np.ndarray) -> np.ndarray:
        return self.base(k) / (1.0 - self.beta * self.lam**k)
