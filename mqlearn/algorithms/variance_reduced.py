"""Variance-reduced Q-learning (Wainwright 2019, "Variance-reduced Q-learning is minimax optimal")."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import RescaledLinear, StepSize
from mqlearn.checks import check_int, discounted


@dataclass(frozen=True)
class VarianceReduced(Stateful):
    """Epoch m = 1, 2, ...: B = Q, and M = mean of N_m draws of T B; then K steps Q += l_j (T_k Q - T_k B + M - Q).

    One fresh draw serves T_k Q and T_k B; l_j = alpha_j for j = 1 .. K, its own 1/(1 + (1 - g) j); N_m = first 4^m.
    Measured and acting: B, the table of the last whole epoch. A budget that cuts the last epoch wastes what was drawn
    in it. `steps` K null: ceil(10/(1 - g)), a practical choice; the theorem's K and N_m are larger.

    Raises SettingError for values that are not admissible.
    """

    first: int = 50
    steps: int | None = None
    modes: ClassVar[tuple[str, ...]] = ("synchronous",)

    def __post_init__(self) -> None:
        check_int("algorithm.first", self.first, 1)
        check_int("algorithm.steps", self.steps, 1, null="ceil(10/(1 - discount))")

    def own_step_size(self, discount: float) -> StepSize:
        return RescaledLinear(discount)

    def effective(self, discount: float) -> dict[str, Any]:
        return {"steps": self.length(discount)}

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        return {"anchor": q0, "q": q0.copy(), "mean": np.zeros_like(q0)}

    def length(self, discount: float) -> int:
        """K, the steps of an epoch after its batch."""
        if self.steps is not None:
            return self.steps
        discounted(discount, "algorithm.steps", None, "say how many there are, and choose a step_size")
        return math.ceil(round(10 / (1 - discount), 9))  # rounded: 10/(1 - 0.9) is 100 and a rounding error

    def epochs(self, last: float, discount: float) -> tuple[np.ndarray, np.ndarray]:
        """N_m of the epochs m = 1, 2, ... up to that of iteration `last`, and the iteration at which each is over."""
        batches, end = [], 0
        while end <= last:
            batches.append(self.first * 4 ** (len(batches) + 1))
            end += batches[-1] + self.length(discount)
        sizes = np.array(batches, np.float64)
        return sizes, np.cumsum(sizes + self.length(discount))

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        sizes, ends = self.epochs(k.max(initial=0), self.discount)
        epoch = np.searchsorted(ends, k, side="right")
        seen = k - ends[epoch] + self.length(self.discount) + sizes[epoch]  # iterations of this epoch before this one
        later = np.maximum(0.0, seen - sizes[epoch])  # of them, after the batch
        share = np.where(seen < sizes[epoch], 1 / sizes[epoch], 0.0)
        return {"share": share, "alpha": self.alpha(later), "ends": ends[epoch] == k + 1}

    def step(self, z: Any, s: Any, c: Any) -> None:
        at_anchor = s.target(z.anchor)
        if c.share > 0:
            s.add(z.mean, c.share * at_anchor)
        else:
            s.move(z.q, s.target(z.q) - at_anchor + s.value(z.mean), c.alpha)
        if c.ends:
            z.anchor[:] = z.q
            z.mean[:] = 0.0
