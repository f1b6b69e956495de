"""Greedy episodes that are played at checkpoints: how many, from where, and by which random numbers."""

from dataclasses import dataclass

import numpy as np

from mqlearn.checks import PlainNumbers, check_int, choice
from mqlearn.problems.mdp import FiniteMDP


@dataclass(frozen=True)
class Evaluation(PlainNumbers):
    """Greedy episodes at every checkpoint, with random numbers of their own: learning never notices them.

    episodes: None is 150 for one sample an iteration, 0 for synchronous tables.   start: "uniform" over non-terminal
    states, "start" from the MDP's distribution, or "both".   time_limit: moves of an episode, None is 16 times the
    longer side of a grid map and at least 100; it holds for the exact `expected_return` of every run too.   draws:
    "fresh" numbers at every checkpoint, or "fixed", the same ones, so that a lucky start stays lucky; in both cases
    common to all rules.   Equal best actions are chosen uniformly, anew at every visit.

    Raises SettingError for values that are not admissible.

    >>> ten = mq.Evaluation(episodes=10, start="start", draws="fresh")
    >>> result = mq.run(mq.frozen_lake("4x4"), mq.QLearning(), iterations=20, n_seeds=2, evaluation=ten)
    >>> [name for name in result.curves if name.startswith("return")]
    ['return_start']
    """

    episodes: int | None = None
    start: str = "both"
    time_limit: int | None = None
    draws: str = "fixed"

    def __post_init__(self) -> None:
        check_int("evaluation.episodes", self.episodes, 0, null="the default")
        choice("evaluation.start", self.start, ("uniform", "start", "both"))
        check_int("evaluation.time_limit", self.time_limit, 1, of="moves", null="the default")
        choice("evaluation.draws", self.draws, ("fresh", "fixed"))

    def place(self, iteration: int) -> int | None:
        """Which numbers the episodes of a checkpoint have: None, the ones that all have, or those of its iteration."""
        return int(iteration) if self.draws == "fresh" else None

    def limit(self, mdp: FiniteMDP) -> int:
        """Moves after which an episode of this MDP is broken off."""
        if self.time_limit is not None:
            return self.time_limit
        side = max(len(mdp.layout), len(mdp.layout[0])) if mdp.layout else int(np.ceil(np.sqrt(mdp.n_states)))
        return max(100, 16 * side)

    def warnings(self, mdp: FiniteMDP) -> list[str]:
        """A limit below the shortest path makes the return 0 by force."""
        from mqlearn.problems.solvers import shortest_path

        path, limit = shortest_path(mdp), self.limit(mdp)
        if (self.episodes or self.time_limit is not None) and path is not None and limit < path:
            return [f"evaluation.time_limit={limit} is below the shortest path from the start, {path} moves"]
        return []
