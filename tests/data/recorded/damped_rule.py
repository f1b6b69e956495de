"""A rule of a user's own, by which runs were recorded: Q-learning with a part of its step."""

from dataclasses import dataclass

from mqlearn import Rule


@dataclass(frozen=True)
class Damped(Rule):
    gain: float = 0.5

    def update(self, k, q, q_prev, target, target_prev):
        a = self.gain * self.step_size(k)
        return (1 - a) * q + a * target
