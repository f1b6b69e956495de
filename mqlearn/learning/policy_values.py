"""What is exact about greedy policies: their values, their expected returns, their probabilities of success."""

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import policy_values_at_start
from mqlearn.sampling.tables import transition_model

if TYPE_CHECKING:
    from mqlearn import kernels

SMALL = 128  # states: up to here eight policies at a time, by elimination
_MOVES = 4096  # beyond, that many moves take as long as one sparse LU


class PolicyValues:
    """Exact quantities of the greedy policies of tables q (n, S, A), uniform among equal best actions, on one model."""

    def __init__(self, mdp: FiniteMDP) -> None:
        self.mdp = mdp

    def of_pairs(self, q: np.ndarray) -> np.ndarray:
        """Tables (n, S, A) as (n, pairs)."""
        return q.reshape(len(q), -1).take(self.mdp.places, axis=1)

    def at_start(self, q: np.ndarray) -> np.ndarray:
        """(n,): discounted values, means over the start distribution. Undiscounted, -inf of policies that may never
        end."""
        from mqlearn import kernels

        if self.mdp.n_states <= SMALL:
            values = kernels.policy_values if self.mdp.discount < 1 else kernels.undiscounted_values
            return values(self.of_pairs(q), self.expectations)
        if self._follows:
            return self._solved(q, self._successes(q, 0, self.mdp.discount)[1])
        return policy_values_at_start(self.mdp, greedy_policies(self.mdp, q))

    def success(self, q: np.ndarray, limit: int) -> dict[str, np.ndarray]:
        """Metric -> (n,): probability of a goal within `limit` moves."""
        return self._named(self._successes(q, limit)[0])

    def at_start_and_success(self, q: np.ndarray, limit: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """`at_start` and `success`; of many states in one pass, if both are sums of the same terms."""
        if self.mdp.n_states <= SMALL or not self._follows:
            return self.at_start(q), self.success(q, limit)
        reached, values = self._successes(q, limit, self.mdp.discount)
        return self._solved(q, values), self._named(reached)

    def returns(self, q: np.ndarray, limit: int) -> np.ndarray:
        """(n,): undiscounted return from the start of episodes of at most `limit` moves."""
        from mqlearn import kernels

        few = self.mdp.n_states <= SMALL
        return (kernels.expected_returns if few else kernels.returns_of_many)(
            self.of_pairs(q), self.expectations, limit
        )

    def _solved(self, q: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Values with those that are too small to follow from moves, by a solve."""
        left = np.isnan(values)
        if left.any():
            values[left] = policy_values_at_start(self.mdp, greedy_policies(self.mdp, q[left]))
        return values

    def _named(self, reached: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "success_probability": (reached * self.mdp.start).sum(axis=1),
            "success_uniform": np.ascontiguousarray(reached[:, ~self.mdp.terminal]).mean(axis=1),
        }

    def _successes(self, q: np.ndarray, limit: int, discount: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
        """(n, S) probabilities of success from each state, and (n,) values at the start (`kernels.successes`)."""
        from mqlearn import kernels

        mdp = self.mdp
        x, u = mdp.pairs.T
        starts = np.flatnonzero((mdp.start > 0) & ~mdp.terminal)
        return kernels.successes(
            self.of_pairs(q), self._model, np.ascontiguousarray(mdp.probabilities[x, u]), mdp.goal.astype(np.uint8),
            limit, starts.astype(np.uint32), mdp.start[starts], discount, max(limit, _MOVES),
        )  # fmt: skip

    @cached_property
    def _follows(self) -> bool:
        """Whether values follow from probabilities of success, by fewer moves than a solve costs: where the reward is 1
        on entering a goal, which ends, and else 0."""
        mdp = self.mdp
        possible = (mdp.probabilities > 0) & mdp.learned[:, :, None]
        moves = math.log(1e14) / -math.log(mdp.discount) if mdp.discount < 1 else math.inf
        if moves > _MOVES or (mdp.goal & ~mdp.terminal).any():
            return False
        return bool(((mdp.rewards == mdp.goal[mdp.successors]) | ~possible).all())

    @cached_property
    def _model(self) -> Any:
        return transition_model(self.mdp, mean_reward=False)

    @cached_property
    def expectations(self) -> "kernels.Expectations":
        """The model with its probabilities, as kernels read it."""
        from mqlearn import kernels

        mdp = self.mdp
        x, u = mdp.pairs.T
        return kernels.Expectations(
            offsets=mdp.pair_offsets.astype(np.uint64),
            successors=mdp.successors[x, u].astype(np.uint32),
            probabilities=np.ascontiguousarray(mdp.probabilities[x, u]),
            rewards=np.ascontiguousarray(mdp.mean_rewards[x, u]),
            counted=mdp.counted[x, u],
            start=mdp.start.copy(),
            discount=mdp.discount,
        )


def greedy_policies(mdp: FiniteMDP, q: np.ndarray) -> np.ndarray:
    """Greedy policies as probabilities (..., S, A): uniform among equal best admissible actions, 0 at terminals."""
    allowed = np.where(mdp.learned, q, -np.inf)
    best = mdp.learned & (allowed == allowed.max(axis=-1, keepdims=True))
    return best / np.maximum(best.sum(axis=-1, keepdims=True), 1)
