"""Random MDPs for property tests: padding, inadmissible actions, terminal states, equal successors, traps."""

import numpy as np
from hypothesis import strategies as st

from mqlearn.problems.mdp import FiniteMDP


def random_mdp(seed: int, n_states: int, n_actions: int, n_successors: int, discount: float, rewards: str) -> FiniteMDP:
    """Rewards: "positive", "negative" or "mixed". The last of several states is a terminal goal."""
    rng = np.random.default_rng(seed)
    shape = (n_states, n_actions, n_successors)
    terminal = rng.random(n_states) < 0.2
    terminal[-1], terminal[0] = n_states > 1, False
    admissible = rng.random(shape[:2]) < 0.8
    admissible[np.arange(n_states), rng.integers(n_actions, size=n_states)] = True
    successors = rng.integers(n_states, size=shape)
    probabilities = rng.random(shape) * (rng.random(shape) < 0.7)
    probabilities[:, :, 0] += 1e-3
    probabilities /= probabilities.sum(2, keepdims=True)
    low, high = {"positive": (0, 1), "negative": (-1, 0), "mixed": (-1, 1)}[rewards]
    values = rng.uniform(low, high, shape) * (rng.random(shape) < 0.5)
    stay = np.arange(n_states)[:, None, None]
    successors = np.where(terminal[:, None, None], stay, successors)
    values = np.where(terminal[:, None, None], 0.0, values)
    start = rng.random(n_states) * ~terminal * (rng.random(n_states) < 0.5)
    start[0] += 0.1
    goal = np.zeros(n_states, bool)
    goal[-1] = n_states > 1
    return FiniteMDP(
        successors, probabilities, values, terminal, admissible, start / start.sum(), discount, goal, "random"
    )


def mdps(
    discounts: tuple[float, ...] = (0.3, 0.9, 0.99),
    signs: tuple[str, ...] = ("positive", "negative", "mixed"),
) -> st.SearchStrategy[FiniteMDP]:
    return st.builds(
        random_mdp,
        seed=st.integers(0, 2**32 - 1),
        n_states=st.integers(1, 7),
        n_actions=st.integers(1, 4),
        n_successors=st.integers(1, 4),
        discount=st.sampled_from(discounts),
        rewards=st.sampled_from(signs),
    )
