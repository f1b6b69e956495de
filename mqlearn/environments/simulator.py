"""Environments without an exact model: they can be stepped, by Gymnasium itself, and that is all."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import gymnasium


@dataclass(frozen=True, eq=False)
class Simulator:
    """An environment that can only be stepped. make: a fresh copy of it.   name: with what changes it."""

    name: str
    make: Callable[[], "gymnasium.Env"]
    discount: float

    @cached_property
    def env(self) -> "gymnasium.Env":
        """A copy for its spaces."""
        return self.make()

    @property
    def n_actions(self) -> int:
        return int(self.env.action_space.n)  # type: ignore[attr-defined]  # Discrete: checked when it was made

    def digest(self) -> str:
        """Hexadecimal SHA-256 of the name, the discount and Gymnasium's version."""
        from importlib.metadata import version

        return hashlib.sha256(f"{self.name} {self.discount.hex()} {version('gymnasium')}".encode()).hexdigest()
