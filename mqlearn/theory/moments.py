"""The error of a rule at every k, from the model: no simulation, one recursion of the first two moments.

With the optimal policy held fixed, T_k Q = r_k + g P_k Pi Q, the errors e = Q - Q* of a four-number rule follow

    e_{k+1} = p e_k + q e_{k-1} + g P_k Pi (s e_k + t e_{k-1}) + (s + t) xi_k

and the noise of a step, independent from pair to pair, has the variance

    ( (s + t)^2 D + g^2 [ sum_y P X(y, y) - (P X P')(xu, xu) ] + 2 (s + t) g Cov_y(r + g V*(y), v(y)) ) / N

with X and v the second moment and the mean of Pi (s e_k + t e_{k-1}). So the means and second moments of (e_k, e_{k-1})
follow a linear recursion, which is exact for evaluating the optimal policy: of the rule it leaves out the error of the
greedy choice only. Targets see errors through the values of states, so moments of pairs with states suffice.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal
from mqlearn.theory.linearisation import Linearisation, linearise

_CHUNK = 4096  # iterations whose weights are computed at once


@dataclass(frozen=True, eq=False)
class Moments:
    """What the recursion gives at the checkpoints (C,), over the n counted pairs.

    mean, second (C, n): E e and E e^2 of each pair.   reward, discount, batch, tied_states: as of `Asymptotic`.
    """

    iteration: np.ndarray
    mean: np.ndarray
    second: np.ndarray
    pairs: np.ndarray
    tied_states: int
    reward: str
    discount: float
    batch: int

    @property
    def rms(self) -> np.ndarray:
        """(C,): the root of the mean square error over pairs and draws."""
        return np.sqrt(self.second.mean(1))

    @property
    def rms_sqrt_k(self) -> np.ndarray:
        """(C,): rms times sqrt(k), which tends to `Asymptotic.rms_sqrt_k`."""
        return self.rms * np.sqrt(self.iteration)


def moments(
    mdp: FiniteMDP, rule: Rule, iteration: np.ndarray, reward: str = "mean", batch: int = 1, q0: float | str = 0.0,
    policy: np.ndarray | None = None,
) -> Moments:  # fmt: skip
    """Moments of the error of a four-number rule after each number of iterations (C,), increasing.

    q0: the constant initial table, or "optimal" for a start at Q*.   policy (S,): as of `asymptotic.covariance`.
    The recursion of a rule that diverges ends in infinities. Raises SettingError.
    """
    model = linearise(mdp, reward, batch, policy)
    steps = np.asarray(iteration)
    if steps.ndim != 1 or not steps.size or steps[0] < 0 or (np.diff(steps) <= 0).any():
        raise SettingError("iteration", iteration, "must be increasing numbers of iterations, from 0")
    x, u = model.pairs.T
    start = np.zeros(len(x)) if q0 == "optimal" else float(q0) - optimal(mdp).q[x, u]
    state = _start(model, start)
    wanted = set(steps.tolist())
    kept: list[tuple[np.ndarray, np.ndarray]] = []
    with np.errstate(over="ignore", invalid="ignore"):
        for k in range(int(steps[-1]) + 1):
            if k in wanted:
                kept.append((state.mean, state.second))
            if k % _CHUNK == 0:
                weights = rule.weights(k, k + _CHUNK).tolist()
            state = _step(model, state, *weights[k % _CHUNK])
    mean, second = (np.array(column) for column in zip(*kept, strict=True))
    return Moments(steps, mean, second, model.pairs, model.tied_states, reward, mdp.discount, model.batch)


class _State(NamedTuple):
    """Moments of e = e_k and f = e_{k-1}; eps = Pi e and phi = Pi f are their values at states.

    mean, mean_f, second = E e^2, lagged = E e f, second_f = E f^2 (n,); e_eps = E e eps', e_phi, f_eps, f_phi (n, S).
    """

    mean: np.ndarray
    mean_f: np.ndarray
    second: np.ndarray
    lagged: np.ndarray
    second_f: np.ndarray
    e_eps: np.ndarray
    e_phi: np.ndarray
    f_eps: np.ndarray
    f_phi: np.ndarray


def _start(model: Linearisation, error: np.ndarray) -> _State:
    """Q_0 = Q_{-1}: the error (n,) is known."""
    outer = np.outer(error, model.share @ error)
    return _State(error, error, *[error**2] * 3, *[outer] * 4)


def _step(model: Linearisation, z: _State, p: float, q: float, s: float, t: float) -> _State:
    """The moments after one iteration with the weights p, q, s, t."""
    g, (moves, pi, chain) = model.discount, model.sparse
    seen_eps, seen_phi = s * z.e_eps + t * z.f_eps, s * z.e_phi + t * z.f_phi  # E (s e + t f) eps', ... phi'
    new_eps = p * z.e_eps + q * z.f_eps + g * (moves @ (pi @ seen_eps))  # E e_{k+1} eps'
    new_phi = p * z.e_phi + q * z.f_phi + g * (moves @ (pi @ seen_phi))
    ahead_e = s * z.e_eps + t * z.e_phi  # E e (s eps + t phi)'
    ahead_f = s * z.f_eps + t * z.f_phi
    second, mean = pi @ (s * ahead_e + t * ahead_f), pi @ (s * z.mean + t * z.mean_f)  # X and v
    noise = (s + t) ** 2 * model.noise + g**2 * model.spread(second) + 2 * (s + t) * g * model.with_values @ mean
    noise = noise / model.batch
    ahead_new = s * new_eps + t * new_phi
    new_e = p * z.second + q * z.lagged + g * _rows(model.moves, ahead_e)  # E e_{k+1} e
    new_f = p * z.lagged + q * z.second_f + g * _rows(model.moves, ahead_f)
    return _State(
        mean=p * z.mean + q * z.mean_f + g * (moves @ mean),
        mean_f=z.mean,
        second=p * new_e + q * new_f + g * _rows(model.moves, ahead_new) + noise,
        lagged=new_e,
        second_f=z.second,
        e_eps=p * new_eps + q * new_phi + g * (chain @ ahead_new.T).T + noise[:, None] * model.share.T,
        e_phi=new_eps,
        f_eps=p * z.e_eps + q * z.e_phi + g * (chain @ ahead_e.T).T,
        f_phi=z.e_eps,
    )


def _rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """(n,): the inner products of the rows of two (n, S)."""
    return np.einsum("ij,ij->i", a, b)
