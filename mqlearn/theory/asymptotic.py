"""The asymptotic error of a rule from the model: sqrt(k) (Q_k - Q*) -> N(0, Sigma), synchronous sampling.

Let p + q + s + t = 1 with q_k -> q, t_k -> t and s_k + t_k = c/k + O(1/k^2), and |q| + g |t| < 1. If Q* has one optimal
action in each state and Q_k -> Q* almost surely, then, with N draws a pair,

    H = -(q I + t g P*),   G = (I - H)^-1
    Vs = (c^2 D + g^2 t^2 diag[ sum_y P(y) Sd(y*, y*) - (P* Sd P*')(xu, xu) ]) / N,    Sd = H Sd H' + Vs
    B Sigma + Sigma B' + G Vs G' = 0,   B = I/2 - c G (I - g P*),

provided c Re lambda > 1/2 for every eigenvalue of G (I - g P*); else the error falls more slowly than 1/sqrt(k).
The lag k (Q_k - Q_{k-1}) has the covariance Sd; y* is the pair of y and its optimal action. No rule has less than the
floor M D M'/N, M = (I - g P*)^-1. scipy costs start-up time, so it is imported inside the functions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from mqlearn.algorithms.rule import Rule
from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import ConvergenceError
from mqlearn.theory.limits import Limit, limit_of
from mqlearn.theory.linearisation import Linearisation, linearise, spectrum

_FEW = 200  # states: dense products up to here
_KRYLOV = 12  # tables of states with states that GMRES keeps


@dataclass(frozen=True, eq=False)
class Asymptotic:
    """What sqrt(k) (Q_k - Q*) tends to, over the n counted pairs, and under which conditions.

    sigma (n, n): the covariance; NaN where nothing is predicted, and `reason` says why.
    floor (n, n): the least covariance that any rule can have on this model.
    pairs (n, 2): state and action of the rows.
    tied_states: states with several optimal actions; unless 0 the prediction is approximate, for shared actions.
    reward: in the target, "mean" or "sampled".   discount.   batch: draws a pair and iteration.
    """

    sigma: np.ndarray
    floor: np.ndarray
    pairs: np.ndarray
    tied_states: int
    reward: str
    discount: float
    batch: int
    reason: str | None = None

    @property
    def rms_sqrt_k(self) -> float:
        """Root mean square error over the pairs times sqrt(k); NaN without a prediction."""
        return _rms(self.sigma)

    @property
    def max_sqrt_k(self) -> float:
        """Standard deviation of the worst pair times sqrt(k); NaN without a prediction."""
        return _largest(self.sigma)

    @property
    def floor_rms_sqrt_k(self) -> float:
        return _rms(self.floor)

    @property
    def floor_max_sqrt_k(self) -> float:
        return _largest(self.floor)

    @property
    def approximate(self) -> bool:
        """Whether optimal actions tie: then the proposition does not apply."""
        return self.tied_states > 0


def covariance(
    mdp: FiniteMDP, rule: Rule | Limit, reward: str = "mean", batch: int = 1, policy: np.ndarray | None = None
) -> Asymptotic:
    """The asymptotic covariance of a four-number rule under its own step size, or of a given (q, t, c).

    policy (S,): optimal actions held fixed; by default those that tie share equally. Without a prediction (a step that
    is not c/k, or at or below the critical constant) `reason` says why. Raises SettingError for a model that is too
    large, a reward, a batch or a policy that is none.
    """
    model = linearise(mdp, reward, batch, policy)
    try:
        limit = rule if isinstance(rule, Limit) else limit_of(rule)
        return answer(model, reward, recursion(model, limit))
    except SettingError as error:
        return answer(model, reward, None, str(error))


def floor(mdp: FiniteMDP, reward: str = "mean", batch: int = 1) -> Asymptotic:
    """The floor M D M'/N as a prediction: of averaging k^-w, 1/2 < w < 1, and of any matrix gain that tends to M."""
    model = linearise(mdp, reward, batch)
    return answer(model, reward, floor_of(model))


def answer(model: Linearisation, reward: str, sigma: np.ndarray | None, reason: str | None = None) -> Asymptotic:
    """A covariance, or the reason why there is none, with all that belongs beside it."""
    least = floor_of(model)
    sigma = np.full_like(least, np.nan) if sigma is None else sigma
    return Asymptotic(sigma, least, model.pairs, model.tied_states, reward, model.discount, model.batch, reason)


@lru_cache(maxsize=1)
def floor_of(model: Linearisation) -> np.ndarray:
    """(n, n): M D M'/N, read-only."""
    found = sandwich(model, 1.0, -model.discount, model.noise / model.batch)
    found.flags.writeable = False
    return found


def recursion(model: Linearisation, limit: Limit) -> np.ndarray:
    """Sigma (n, n) of the proposition. Raises SettingError where a condition fails.

    P* = P Pi goes through the S states, and so does every function of it: with C = Pi P, a = 1 + q, b = t g,
    R = (a I + b C)^-1 one has G = (I - b P R Pi)/a and B = o I + P K Pi, o = 1/2 - c/a, K = c (a g + b)/a R. Then
    Y = Pi Sigma Pi' solves an equation of (S, S), Z = Sigma Pi' follows from Y, and Sigma from Z.
    """
    from scipy.linalg import solve_continuous_lyapunov

    q, t, c = limit
    a, b, g = 1 + q, t * model.discount, model.discount
    if abs(q) + abs(b) >= 1:
        reason = f"|q| + g|t| = {abs(q) + abs(b):.6g} is not below 1: the lag may not settle"
        raise SettingError("algorithm", f"q={q:.6g}, t={t:.6g}", reason)
    bend = a * g + b
    newton = abs(bend) < 1e-12  # the gain is a multiple of M, and all modes are equal
    modes = np.zeros(1) if newton else spectrum(model)
    check_gain(c, c * (1 - g * modes) / (a + b * modes))
    v = sandwich(model, a, b, noise_of_step(model, limit))
    own = 0.5 - c / a
    if newton:
        v /= -2 * own
        return v
    p, pi, n_states = model.sparse[0], model.share, len(model.chain)
    k = c * bend / a * np.linalg.inv(a * np.eye(n_states) + b * model.chain)
    drift = own * np.eye(n_states) + model.sparse[2] @ k
    at_states = (model.sparse[1] @ v).T  # V Pi', as V is symmetric
    y = solve_continuous_lyapunov(drift, -(model.sparse[1] @ at_states))
    if len(pi.T) == n_states:  # one action a state: Pi = I
        return y
    z = -np.linalg.solve(own * np.eye(n_states) + drift, (at_states + p @ (k @ y)).T).T
    ahead = p @ (k @ z.T)
    v += ahead
    v += ahead.T
    v /= -2 * own
    return v


def sandwich(model: Linearisation, a: float, b: float, noise: np.ndarray) -> np.ndarray:
    """(n, n): G diag(noise) G' with G = (a I + b P*)^-1 and noise (n,).

    With R = (a I + b Pi P)^-1 and W = diag(noise), a G = I - b P R Pi, and Pi W Pi' is diagonal.
    """
    p, pi, _ = model.sparse
    inner = b * np.linalg.inv(a * np.eye(len(model.chain)) + b * model.chain)  # (S, S)
    half = p @ (inner * (model.sparse[1] ** 2 @ noise / 2) @ inner.T)  # the rest is this product with P, and its mirror
    half -= pi.multiply(noise).T.tocsr() @ inner.T
    half = p @ np.ascontiguousarray(half.T)
    found = half + half.T
    found[np.diag_indices(len(noise))] += noise
    found /= a**2
    return found


def check_gain(c: float, rates: np.ndarray) -> None:
    """Refuse a step at or below the critical constant: SettingError unless every mode has Re > 1/2."""
    slowest = float(np.real(rates).min())
    if slowest <= 0.5 * (1 + 1e-9):
        reason = "the error falls more slowly than 1/sqrt(k)"
        if slowest > 0:
            reason = f"{reason}: the slowest mode needs c > {c / (2 * slowest):.6g} (it falls like k^-{slowest:.3g})"
        raise SettingError("step_size", f"c={c:.6g}", f"is at or below the critical constant, so {reason}")


def critical_gain(mdp: FiniteMDP, visits: np.ndarray | None = None) -> float:
    """The c up to which sqrt(k) times the error of Q-learning with steps c/k is unbounded.

    It is 1/(2 min Re lambda) over the eigenvalues of D (I - g P*), D = diag(visits).   visits (S, A): the share of the
    samples that each pair has, one sample an iteration on one clock; None: each pair has one at every iteration, D = I.
    Raises SettingError for a model that is too large. Source: Devraj and Meyn 2017, the gain g of steps g/n.
    """
    model = linearise(mdp)
    own = np.ones(len(model.pairs)) if visits is None else visits[model.pairs[:, 0], model.pairs[:, 1]]
    rates = np.linalg.eigvals(own[:, None] * (np.eye(len(own)) - model.discount * model.moves @ model.share))
    return float(1 / (2 * rates.real.min()))


def noise_of_step(model: Linearisation, limit: Limit) -> np.ndarray:
    """(n,): Vs, the variance of one step, the part that the lag feeds back included.

    The lag enters through its values at states alone, X = Pi Sd Pi' (S, S), which solves X = Hs X Hs' + diag(w) with
    w = Pi^2 Vs: a linear equation for w.
    """
    own = limit.c**2 * model.noise / model.batch
    fed = (model.discount * limit.t) ** 2 / model.batch
    if fed == 0:
        return own
    found = _of_few(model, limit, own, fed) if len(model.chain) <= _FEW else _of_many(model, limit, own, fed)
    return own + fed * found


def _of_few(model: Linearisation, limit: Limit, own: np.ndarray, fed: float) -> np.ndarray:
    """(n,): the mean variance that the lag feeds back, of w as the unknown: each product with its equation sums X."""
    squares, n_states = model.share**2, len(model.chain)
    shift = _slowest(model)
    lag = -limit.q * np.eye(n_states) - limit.t * model.discount * model.chain
    lag = lag - lag.mean(0) if shift else lag
    powers = _powers(lag)

    def variance(w: np.ndarray) -> np.ndarray:
        return fed * model.spread(_lag(powers, w))

    w = _solved(lambda w: w - squares @ variance(w), squares @ own, min(n_states, 100))
    return model.spread(_lag(powers, w))


def _of_many(model: Linearisation, limit: Limit, own: np.ndarray, fed: float) -> np.ndarray:
    """The same of X as the unknown, X - Hs X Hs' - diag[Pi^2 fed spread(X)] = diag(Pi^2 own): products with sparse Hs
    alone, where sums of X would multiply dense powers of it."""
    from scipy.sparse import eye_array

    squares, n_states = (model.sparse[1] ** 2), len(model.chain)
    lag = -limit.q * eye_array(n_states) - limit.t * model.discount * model.sparse[2]
    mean = np.asarray(lag.mean(0)).ravel() if _slowest(model) else None
    spread = _spread_of_few(model)

    def ahead(x: np.ndarray) -> np.ndarray:
        return lag @ x if mean is None else lag @ x - mean @ x

    def left(x: np.ndarray) -> np.ndarray:
        x = x.reshape(n_states, n_states)
        found = x - ahead(ahead(x.T).T)
        found[np.diag_indices(n_states)] -= squares @ (fed * spread(x))
        return found.ravel()

    x = _solved(left, np.diag(squares @ own).ravel(), _KRYLOV, 1e-12, short=True)
    return spread(x.reshape(n_states, n_states))


def _spread_of_few(model: Linearisation) -> Callable[[np.ndarray], np.ndarray]:
    """`Linearisation.spread`; where pairs have few successors y from the entries X(y, y') that count alone."""
    from scipy.sparse import csr_array

    moves, n_states = model.sparse[0], len(model.chain)
    counts = np.diff(moves.indptr).astype(np.int64)
    if (counts**2).sum() > model.moves.size:
        return model.spread
    pair, first = np.repeat(np.arange(len(counts)), counts), moves.indptr[:-1]
    one = np.repeat(np.arange(moves.nnz), counts[pair])  # each move with each of its pair
    other = np.arange(len(one)) - np.repeat(np.cumsum(counts[pair]) - counts[pair], counts[pair]) + first[pair[one]]
    y, z = moves.indices[one].astype(np.int64), moves.indices[other]
    shares = np.where(y == z, moves.data[one], 0.0) - moves.data[one] * moves.data[other]
    table = csr_array((shares, (pair[one], y * n_states + z)), shape=(len(counts), n_states**2))
    return lambda x: table @ x.ravel()


def _slowest(model: Linearisation) -> bool:
    """Whether the mean over states is to be taken off the lag, and with it the slowest mode: a constant has no variance
    over y, where no move ends."""
    return np.allclose(model.moves.sum(1), 1, rtol=0, atol=1e-12)


def _solved(
    left: Callable[[np.ndarray], np.ndarray], right: np.ndarray, restart: int, rtol: float = 1e-13, short: bool = False
) -> np.ndarray:
    """A solution (n,) of left(x) = right by GMRES. Raises ConvergenceError.

    short: from what BiCGSTAB (van der Vorst 1992) finds, which keeps few vectors; GMRES goes on where that breaks down.
    """
    from scipy.sparse.linalg import LinearOperator, bicgstab, gmres

    operator = LinearOperator((len(right), len(right)), matvec=lambda x: left(x.ravel()), dtype=float)  # type: ignore  # scipy does not declare these keywords
    x, unsolved = bicgstab(operator, right, rtol=rtol, atol=0.0, maxiter=1000) if short else (0.0 * right, 1)
    if unsolved:
        start = x if np.isfinite(x).all() and x.any() else None
        x, _ = gmres(operator, right, start, rtol=rtol, atol=0.0, restart=restart, maxiter=2000 // restart)
    if not np.abs(operator @ x - right).max(initial=0.0) <= 1e-10 * np.abs(right).max(initial=0.0):
        raise ConvergenceError("the variance of the lag was not found")
    return x


def _powers(matrix: np.ndarray) -> list[np.ndarray]:
    """matrix, its square, the square of that, ... until they vanish."""
    powers = [matrix]
    while np.abs(powers[-1]).sum(1).max() > 1e-9:
        powers.append(powers[-1] @ powers[-1])
    return powers


def _lag(powers: list[np.ndarray], w: np.ndarray) -> np.ndarray:
    """X (S, S) = sum_j A^j diag(w) A'^j, from the powers of A by doubling."""
    x = np.diag(w)
    for power in powers:
        x = x + power @ x @ power.T
    return x


def _rms(sigma: np.ndarray) -> float:
    return float(np.sqrt(np.diag(sigma).mean()))


def _largest(sigma: np.ndarray) -> float:
    return float(np.sqrt(np.diag(sigma).max()))
