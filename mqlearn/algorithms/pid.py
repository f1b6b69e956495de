"""PID Q-learning (Bedaywi, Rakhsha, Farahmand 2024, "PID accelerated temporal difference algorithms")."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import RescaledLinear, StepSize
from mqlearn.checks import check_bool, choice, within


@dataclass(frozen=True)
class PID(Stateful):
    """With the error E = T_k Q - Q and U = be Z + al0 E:  Q += alpha_k (kp E + ki U + kd (Q - Q')), from old values.

    Z += alpha_k (U - Z) is the integral, Q' += alpha_k (Q - Q') follows the old table. Gains (1, 0, 0) are Q-learning.

    eta > 0 adapts the gains of each pair when it is visited, before its step. With E' the error, on the same draw, of
    the table before the pair's last step, and N = eps + a running mean of E'^2: kp = 1 + (1 - lam)(kp - 1) +
    eta E E'/N, and kd, ki likewise (towards 0) with the old Q - Q' and the old U in place of E'. The source's lam = 0
    does not converge, since E and E' share their noise, so that kp grows for ever: take lam > 0, or `previous_draw`,
    for which E' is the error of the pair's last visit. `gains` "common": all pairs have the same three, which every
    visit adapts, as in most programs of the source; not with synchronous sampling.

    Raises SettingError for values that are not admissible.
    """

    kp: float = 1.0
    ki: float = 0.0
    kd: float = 0.0
    al0: float = 0.05
    be: float = 0.95
    eta: float = 1e-4
    lam: float = 0.0
    eps: float = 0.1
    previous_draw: bool = False
    gains: Literal["pair", "common"] = "pair"

    def __post_init__(self) -> None:
        for name in ("kp", "ki", "kd"):
            within(f"algorithm.{name}", getattr(self, name), -np.inf)
        for name in ("al0", "be", "lam"):
            within(f"algorithm.{name}", getattr(self, name), 0.0, 1.0, ends="[]")
        within("algorithm.eta", self.eta, 0.0, ends="[)")
        within("algorithm.eps", self.eps, 0.0)
        check_bool("algorithm.previous_draw", self.previous_draw)
        choice("algorithm.gains", self.gains, ("pair", "common"))

    @property
    def modes(self):
        return ("asynchronous",) if self.gains == "common" else ("synchronous", "asynchronous")

    def own_step_size(self, discount: float) -> StepSize:
        return RescaledLinear(discount)

    def init(self, q0: np.ndarray) -> dict[str, Any]:
        zero = ("integral", "old_integral", "last", "squares")
        return {
            **{name: q0.copy() for name in ("q", "slow", "old_q", "old_slow")},
            **{name: np.zeros_like(q0) for name in zero},
            **{name: np.full_like(q0, getattr(self, name)) for name in ("kp", "ki", "kd")},
        }

    def numbers(self, k: np.ndarray) -> dict[str, Any]:
        settings = ("al0", "be", "eta", "lam", "eps", "previous_draw")
        common = self.gains == "common"
        return {"alpha": self.alpha(k), "common": common, **{name: getattr(self, name) for name in settings}}

    def step(self, z: Any, s: Any, c: Any) -> None:
        error = s.target(z.q) - s.value(z.q)
        if c.eta > 0:
            old = s.target(z.old_q) - s.value(z.old_q)
            if c.previous_draw:
                old = 1.0 * s.value(z.last)
            s.move(z.squares, old * old, 0.5)
            share = c.eta * error / (c.eps + s.value(z.squares))
            by_kp = share * old + c.lam * (1 - s.value(z.kp))
            by_ki = share * (c.be * s.value(z.old_integral) + c.al0 * old) - c.lam * s.value(z.ki)
            by_kd = share * (s.value(z.old_q) - s.value(z.old_slow)) - c.lam * s.value(z.kd)
            if not c.common:
                s.add(z.kp, by_kp)
                s.add(z.ki, by_ki)
                s.add(z.kd, by_kd)
            elif s.single:  # always: sweeps are refused
                z.kp[:] += by_kp
                z.ki[:] += by_ki
                z.kd[:] += by_kd
            s.move(z.old_q, s.value(z.q), 1.0)
            s.move(z.old_slow, s.value(z.slow), 1.0)
            s.move(z.old_integral, s.value(z.integral), 1.0)
            s.move(z.last, error, 1.0)
        u = c.be * s.value(z.integral) + c.al0 * error
        ahead = s.value(z.q) - s.value(z.slow)
        change = s.value(z.kp) * error + s.value(z.ki) * u + s.value(z.kd) * ahead
        s.add(z.slow, c.alpha * ahead)
        s.move(z.integral, u, c.alpha)
        s.add(z.q, c.alpha * change)

    def without_effect(self) -> dict[str, str]:
        names = () if self.eta else (*(() if self.ki else ("al0", "be")), "lam", "eps", "previous_draw", "gains")
        return dict.fromkeys(names, "eta is 0" + ("" if self.ki else ", and ki too"))

    def warnings(self, discount: float) -> list[str]:
        if self.eta > 0 and self.lam == 0 and not self.previous_draw:
            return ["lam=0 never converges: both errors share their noise, and kp grows; set lam > 0 or previous_draw"]
        if self.eta > 0 or (self.kp, self.ki, self.kd) == (1, 0, 0):
            return []
        return ["fixed gains: with step sizes that fall, they only rescale the step"]
