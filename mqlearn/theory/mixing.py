"""How fast the states of a sampling chain forget where they started (Assumption 4), by exact total variation.

    d(k) = max_x TV(P(x_k | x_0 = x), mu) <= sigma rho^k for all k.

Since TV(p P^m, p' P^m) <= r TV(p, p') with r the largest distance of two rows of P^m, d(i + j m) <= d(i) r^j: so
rho = r^(1/m) and sigma = max over i < m of d(i)/rho^i are certified for every k, from m exact steps.
"""

import math
from dataclasses import dataclass

import numpy as np

from mqlearn.problems.mdp import FiniteMDP

_ENOUGH = 1e-3  # d(m) at which m is long enough
_MOST_STEPS = 20_000
_WORK = 2e11  # multiplications


@dataclass(frozen=True, eq=False)
class Mixing:
    """sigma, rho: of Assumption 4, NaN where r was still 1 after the last step.   distance (m + 1,): d(0) .. d(m)."""

    sigma: float
    rho: float
    distance: np.ndarray

    @property
    def certified(self) -> bool:
        return math.isfinite(self.rho)

    def tau(self, kappa: float) -> int:
        """min{k >= 1: sigma rho^k <= kappa}, the paper's mixing time."""
        return max(1, math.ceil(math.log(kappa / max(self.sigma, 1e-300)) / math.log(self.rho)))


def chain(mdp: FiniteMDP, behaviour: np.ndarray, start: np.ndarray, restart_probability: float = 0.0) -> np.ndarray:
    """(S', S'): the moves from sample to sample, over the states that occur; an episode that ends begins again.

    behaviour (S, A): probabilities of the actions.   start (S,): of the first state of an episode.
    """
    moves = np.zeros((mdp.n_states, mdp.n_states))
    share = np.where(mdp.learned, behaviour, 0.0)[:, :, None] * mdp.probabilities
    x = np.broadcast_to(np.arange(mdp.n_states)[:, None, None], share.shape)
    np.add.at(moves, (x, mdp.successors), share)
    ends = restart_probability + (1 - restart_probability) * moves[:, mdp.terminal].sum(1)
    moves = (1 - restart_probability) * np.where(mdp.terminal, 0.0, moves) + ends[:, None] * start
    occurs = start > 0
    while True:
        more = occurs | (moves[occurs] > 0).any(0)
        if (more == occurs).all():
            break
        occurs = more
    return moves[np.ix_(occurs, occurs)]


def mixing(moves: np.ndarray) -> Mixing:
    """sigma and rho of a chain (S, S) with one stationary distribution."""
    n = len(moves)
    system = np.vstack([moves.T - np.eye(n), np.ones(n)])
    mu = np.linalg.lstsq(system, np.append(np.zeros(n), 1.0), rcond=None)[0]
    most = int(min(_MOST_STEPS, max(50, _WORK / n**3)))
    power, distances = np.eye(n), [float(1 - mu.min())]
    while len(distances) <= most and (len(distances) == 1 or distances[-1] > _ENOUGH):
        power = power @ moves
        distances.append(float(np.abs(power - mu).sum(1).max()) / 2)
    distance, steps = np.array(distances), len(distances) - 1
    shrinks = max(2 * distance[-1], 1e-12)  # two rows of P^m are no further apart than both from mu; not 0: rho^0 = 1
    if shrinks >= 1:
        return Mixing(math.nan, math.nan, distance)
    rho = float(shrinks ** (1 / steps))
    return Mixing(float((distance[:-1] / rho ** np.arange(steps)).max()), rho, distance)
