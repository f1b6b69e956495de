"""Q-learning near Q*: the sampled Bellman operator with the optimal policy held fixed.

Close to Q* the greedy policies are optimal, so that T_k Q = r_k + g P_k Pi Q: the draws P_k of the successors, then
the optimal action Pi of each. The errors e = Q - Q* then follow a linear recursion with the noise
xi_k = (T_k - T) Q*, independent from pair to pair. Where optimal actions tie, Pi shares them equally; the greedy
policy does not settle there, so what follows from it is an approximation. scipy costs start-up time, so it is imported
inside the functions.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from mqlearn.checks import check_int, choice
from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal
from mqlearn.problems.structure import optimal_pairs

MOST_PAIRS = 6000  # dense n x n matrices of 300 MB
_TABLES = 7  # of them at once
_DRAWS = 2.0  # s: the expected norms of all covariances;
_ENTRY = 2e-7  # s an entry of a covariance, in passes over them,
_ROOT = 6e-11  # and for their triangular roots, times the pairs;
_LAG = 3e-6  # s an entry of the lag's, in the products that solve for it,
_DENSE = 5e-9  # and for dense solutions, times the states


def cost(mdp: FiniteMDP) -> tuple[float, float]:
    """About how many seconds of one core, and bytes, the covariances of the rules that are compared take."""
    n, states = float(mdp.counted.sum()), float(mdp.counted.any(1).sum())
    return _DRAWS + (_ENTRY + _ROOT * n) * n**2 + (_LAG + _DENSE * states) * states**2, 8.0 * _TABLES * n**2


@dataclass(frozen=True, eq=False)
class Linearisation:
    """The model near Q*, over the n counted pairs and the S counted states that are not terminal.

    pairs (n, 2): state and action, in the order of the rows below.
    moves (n, S): P, the probability of each successor; terminal ones, of value 0, are left out.
    share (S, n): Pi, the optimal policy; a row has one 1, or equal shares where actions tie.
    noise (n,): D = Var(r + g V*(y)) of one draw; with the mean reward in the target Var(g V*(y)).
    with_values (n, S): p(y) times the deviation of r + g V*(y) from its mean, which gives its covariance with any v.
    discount: g.   batch: draws a pair and iteration, N.   tied_states: how many states share several actions.
    """

    pairs: np.ndarray
    moves: np.ndarray
    share: np.ndarray
    noise: np.ndarray
    with_values: np.ndarray
    discount: float
    batch: int
    tied_states: int

    @cached_property
    def chain(self) -> np.ndarray:
        """(S, S): Pi P, the moves of states under the optimal policy."""
        return self.share @ self.moves

    @cached_property
    def sparse(self) -> tuple[Any, Any, Any]:
        """P, Pi and Pi P as sparse arrays, each with few entries a row: for products with dense ones, on one core."""
        from scipy.sparse import csr_array

        return csr_array(self.moves), csr_array(self.share), csr_array(self.chain)

    def spread(self, second: np.ndarray) -> np.ndarray:
        """(n,): sum_y P(y) X(y, y) - (P X P')(xu, xu), the mean variance over y of a v with second moments X (S, S)."""
        return self.moves @ np.diag(second) - np.einsum("ij,ij->i", self.sparse[0] @ second, self.moves)


def linearise(mdp: FiniteMDP, reward: str = "mean", batch: int = 1, policy: np.ndarray | None = None) -> Linearisation:
    """The model near Q* for a reward in the target, "mean" or "sampled", and a number of draws.

    policy (S,): the optimal action of each state to hold fixed; by default optimal actions that tie share equally.
    Raises SettingError, also for an action that is not optimal.
    """
    choice("reward", reward, ("mean", "sampled"))
    batch = check_int("batch", batch, 1)
    return _without_policy(mdp, reward, batch) if policy is None else _linearised(mdp, reward, batch, policy)


@lru_cache(maxsize=1)
def _without_policy(mdp: FiniteMDP, reward: str, batch: int) -> Linearisation:
    """Of the rules of a table one after another; arrays that nobody writes to."""
    return _linearised(mdp, reward, batch, None)


def _linearised(mdp: FiniteMDP, reward: str, batch: int, policy: np.ndarray | None) -> Linearisation:
    optimum, counted = optimal(mdp), mdp.counted
    n = int(counted.sum())
    if n > MOST_PAIRS:
        seconds, n_bytes = cost(mdp)
        figure = f"it would take about {seconds / 60:.0f} minutes and {n_bytes / 2**30:.2g} GiB"
        expected = f"has {n} pairs: its covariance is computed for at most {MOST_PAIRS}; {figure}"
        raise SettingError("env", mdp.name, expected)
    live = np.flatnonzero(counted.any(1))
    column = np.full(mdp.n_states, -1)
    column[live] = np.arange(len(live))
    x, u = np.nonzero(counted)
    p, y = mdp.probabilities[x, u], mdp.successors[x, u]
    rewards = mdp.rewards[x, u] if reward == "sampled" else np.zeros_like(p)
    target = rewards + mdp.discount * optimum.v[y]
    deviation = target - (p * target).sum(1, keepdims=True)
    best = optimal_pairs(mdp, optimum)
    tied_states = int((best.sum(1) > 1).sum())
    if policy is not None:
        held = np.asarray(policy)[:, None] == np.arange(mdp.n_actions)
        if not (held & best).any(1)[live].all():
            raise SettingError("policy", policy, "must be an optimal action of each state")
        best = held & best
    chosen = best[x, u] / best.sum(1)[x]
    share = np.zeros((len(live), n))
    share[column[x], np.arange(n)] = chosen
    return Linearisation(
        pairs=np.column_stack([x, u]),
        moves=_by_state(p, column[y], len(live)),
        share=share,
        noise=(p * deviation**2).sum(1),
        with_values=_by_state(p * deviation, column[y], len(live)),
        discount=mdp.discount,
        batch=batch,
        tied_states=tied_states,
    )


@lru_cache(maxsize=1)
def spectrum(model: Linearisation) -> np.ndarray:
    """The different eigenvalues of P*: those of Pi P, and 0 where there are more pairs than states;
    read-only."""
    values = np.linalg.eigvals(model.chain).astype(complex)
    values = np.append(values, 0.0) if len(model.pairs) > len(model.chain) else values
    values.flags.writeable = False
    return values


def _by_state(values: np.ndarray, column: np.ndarray, n_states: int) -> np.ndarray:
    """(n, S): values (n, B) of outcomes added up by the column (n, B) of their successor; column -1 is left out."""
    table = np.zeros((len(values), n_states + 1))
    np.add.at(table, (np.arange(len(values))[:, None], column), values)
    return table[:, :-1]
