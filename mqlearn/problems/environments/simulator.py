"""Environments without an exact model: they can be stepped, by Gymnasium itself, and that is all."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from mqlearn.checks import discounted
from mqlearn.errors import SettingError
from mqlearn.problems.mdp import check_discount

if TYPE_CHECKING:
    import gymnasium

_STEPPING = 2  # raised by hand whenever runs on simulators give other numbers; part of their digests


@dataclass(frozen=True, eq=False, repr=False)
class Simulator:
    """An environment that can only be stepped. make: a fresh copy of it.   name: with what changes it."""

    name: str
    make: Callable[[], "gymnasium.Env"]
    discount: float

    def __post_init__(self) -> None:
        instead = "nobody knows of an environment without a model whether its episodes end; use 0.999, or env.estimate"
        discounted(self.discount, "discount", 1, instead)

    def __repr__(self) -> str:
        return f"Simulator({self.name!r}, discount {self.discount:g})"

    @cached_property
    def env(self) -> "gymnasium.Env":
        """A copy for its spaces. Raises SettingError for an environment that cannot be copied."""
        try:
            return self.make()
        except (TypeError, AttributeError, NotImplementedError, RuntimeError) as error:
            expected = f"cannot be copied (copy.deepcopy), so no run on it could be repeated: {error}"
            raise SettingError("env.id", self.name, expected) from None

    @property
    def n_actions(self) -> int:
        return int(self.env.action_space.n)  # type: ignore[attr-defined]  # Discrete: checked when it was made

    @property
    def n_observations(self) -> int | None:
        """How many observations there are, None for a Box that was one from the start."""
        return getattr(self.env, "n_observations", None)

    def with_discount(self, discount: float) -> "Simulator":
        """The same environment with another discount."""
        return replace(self, discount=check_discount(discount))

    def digest(self) -> str:
        """Hexadecimal SHA-256 of the name, the discount, Gymnasium's version and how it is stepped."""
        from importlib.metadata import version

        parts = (self.name, self.discount.hex(), version("gymnasium"), str(_STEPPING))
        return hashlib.sha256(" ".join(parts).encode()).hexdigest()
