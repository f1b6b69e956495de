"""The tables that the kernels draw from: outcomes of pairs, behaviour and episodes of chains, by 32-bit words."""

from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.protocol import stationary

if TYPE_CHECKING:
    from mqlearn import kernels

_WORD = 2**32


def transition_model(mdp: FiniteMDP, mean_reward: bool) -> "kernels.Model":
    """The model as the kernels of sampling chains read it, over the learned pairs."""
    from mqlearn import kernels

    y, r, edges = outcome_tables(mdp, mean_reward)
    shift = np.uint64(max(1, mdp.n_successors - 1).bit_length())
    if len(mdp.pairs) << int(shift) >= _WORD:
        raise SettingError("env", mdp.name, "has too many pairs and successors for one 32-bit number of a transition")
    return kernels.Model(mdp.pair_offsets.astype(np.uint64), y, r, edges, shift)


def outcome_tables(mdp: FiniteMDP, mean_reward: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Successors (n, B) uint32, rewards (n, B) and 32-bit lower edges (n, B) of the outcomes of the learned pairs."""
    x, u = mdp.pairs.T
    p, y = mdp.probabilities[x, u], mdp.successors[x, u].astype(np.uint32)
    r = mdp.rewards[x, u].copy()
    last = p.shape[1] - 1 - (p[:, ::-1] > 0).argmax(axis=1)
    for b in range(p.shape[1]):  # outcomes after the last possible one repeat it: a word at the edge must not leave
        beyond = b > last
        y[beyond, b], r[beyond, b] = y[beyond, last[beyond]], r[beyond, last[beyond]]
    if mean_reward:
        r[:] = mdp.mean_rewards[x, u][:, None]
    # Sums of the outcomes before: a difference like cumsum(p) - p rounds, and opens a gap of one word for p = 0.
    before = np.cumsum(np.pad(p[:, :-1], ((0, 0), (1, 0))), axis=1)
    share = np.arange(p.shape[1]) / p.shape[1] if equally_likely(mdp) else before
    edges = np.minimum(np.ceil(np.broadcast_to(share, p.shape) * _WORD), _WORD - 1)
    return y, r, edges.astype(np.uint32)


def digits_of_words(mdp: FiniteMDP) -> tuple[int, int]:
    """How many pairs one 32-bit word of synchronous sampling serves, and the base B of its digits.

    Where all B successors of every pair have probability 1/B, one word serves several pairs by its base-B digits: each
    digit is uniform to 2^-32, and the digits of one word are jointly uniform to a relative 2^-16. With 0 nothing is
    random.
    """
    n = mdp.n_successors
    if n == 1:
        return 0, 1
    return (max(1, int(16 / np.log2(n))), n) if equally_likely(mdp) else (1, 1)


def equally_likely(mdp: FiniteMDP) -> bool:
    """Whether every learned pair has B successors of probability 1/B."""
    x, u = mdp.pairs.T
    return bool(np.abs(mdp.probabilities[x, u] - 1 / mdp.n_successors).max() < 1e-12)


def chain_tables(sampling: Any, mdp: FiniteMDP, mode: int) -> "kernels.ChainTables":
    """How chains of this sampling mode move, as the kernels read it."""
    from mqlearn import kernels

    walk = sampling.walk(mdp)
    x, u = mdp.pairs.T
    edges = np.zeros(len(x), np.uint64)
    if walk.policy is None:
        behaviour = kernels.EPSILON_GREEDY  # with a temperature, the greedy pair is drawn
    elif walk.uniform:
        behaviour = kernels.UNIFORM
    else:
        behaviour = kernels.TABLE
        edges = _behaviour_edges(mdp, walk.policy)
    starts = np.flatnonzero(walk.starts > 0)
    keep, alias = alias_table(walk.starts[starts])
    pair_keep, pair_alias = np.zeros(1, np.uint64), np.zeros(1, np.uint32)
    if mode == kernels.IID:
        mu = stationary(sampling, mdp)
        assert mu is not None  # independent samples do not depend on what is learned
        pair_keep, pair_alias = alias_table(mu[x, u])
    return kernels.ChainTables(
        mode=mode,
        period=sampling.draws,
        behaviour=behaviour,
        edges=edges,
        starts=starts.astype(np.int64),
        keep=keep,
        alias=alias,
        restart=round(walk.restart_probability * _WORD),
        limit=0 if walk.time_limit is None else int(walk.time_limit),
        epsilon=walk.exploration,
        temperature=walk.temperature,
        goal=mdp.goal.astype(np.uint8),
        pair_keep=pair_keep,
        pair_alias=pair_alias,
    )


def _behaviour_edges(mdp: FiniteMDP, policy: np.ndarray) -> np.ndarray:
    """(n,) uint64 lower edges of the pairs' shares of a 32-bit word."""
    x, u = mdp.pairs.T
    share = policy[x, u]
    before = np.concatenate([[0.0], np.cumsum(share)])[:-1]
    before -= before[mdp.pair_offsets[x]]
    # The edge of an impossible action at the end of a state's list lies beyond every word, whatever was rounded.
    return np.where(before < 1 - 1e-9, np.ceil(before * _WORD), _WORD).astype(np.uint64)


def alias_table(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Vose's alias method: draw j uniformly, take it when a 32-bit word is below keep[j] (uint64), else alias[j]."""
    n = len(weights)
    scaled = np.asarray(weights, dtype=np.float64) * (n / weights.sum())
    keep, alias = np.ones(n), np.arange(n)
    if np.abs(scaled - 1).max() > 1e-12:
        small = [j for j in range(n) if scaled[j] < 1]
        large = [j for j in range(n) if scaled[j] >= 1]
        while small and large:
            low, high = small.pop(), large[-1]
            keep[low], alias[low] = scaled[low], high
            scaled[high] -= 1 - scaled[low]
            if scaled[high] < 1:
                small.append(large.pop())
        for j in small:  # rounding has left them just below 1
            if weights[j] == 0:
                keep[j], alias[j] = 0.0, int(np.argmax(weights))
    return np.round(keep * _WORD).astype(np.uint64), alias.astype(np.uint32)
