"""Environments with finitely many observations and no table P: numbered to learn from, or their table estimated."""

import functools
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.checks import check_int, fits_memory
from mqlearn.errors import SettingError, user_code
from mqlearn.problems.environments.transition_table import Table, close
from mqlearn.problems.mdp import FiniteMDP

if TYPE_CHECKING:
    import gymnasium

_SELDOM = 10  # tries of a pair, of which an estimate says little
_MOST = 10**8  # steps of an estimate


def sizes(space: Any) -> tuple[int, ...] | None:
    """How many values each part of an observation has: of Discrete, MultiDiscrete and Tuples of Discrete; else None."""
    from gymnasium.spaces import Discrete, MultiDiscrete, Tuple

    if isinstance(space, Discrete):
        return (int(space.n),)
    if isinstance(space, MultiDiscrete):
        return tuple(int(n) for n in np.ravel(space.nvec))
    if isinstance(space, Tuple) and space.spaces and all(isinstance(part, Discrete) for part in space.spaces):
        return tuple(int(part.n) for part in space.spaces)  # type: ignore[attr-defined]  # Discrete
    return None


def number(observation: Any, space: Any) -> int:
    """The observation as a whole number from 0: the parts of several are digits, the last one changes fastest."""
    parts = getattr(space, "spaces", [space])
    first = np.concatenate([np.ravel(getattr(part, "start", 0)) for part in parts])
    return int(np.ravel_multi_index(tuple(np.ravel(observation).astype(int) - first), sizes(space) or ()))


def as_box(env: "gymnasium.Env") -> "gymnasium.Env":
    """The environment with its observation's number as a Box of one axis."""
    return _wrapper()(env)


@functools.cache
def _wrapper() -> type:
    import gymnasium

    class Numbered(gymnasium.ObservationWrapper):
        """n_observations: how many there are; each is in the middle of its part of the box."""

        def __init__(self, env: "gymnasium.Env") -> None:
            super().__init__(env)
            self.n_observations = math.prod(sizes(env.observation_space) or ())
            self.observation_space = gymnasium.spaces.Box(-0.5, self.n_observations - 0.5, (1,), np.float64)

        def observation(self, observation: Any) -> np.ndarray:
            return np.array([number(observation, self.env.observation_space)], np.float64)

    return Numbered


def estimated(env: "gymnasium.Env", name: str, steps: int, discount: float) -> FiniteMDP:
    """The model with the relative frequencies of `steps` steps under uniformly random actions, from a fixed seed.

    Pairs that were never tried are not admissible, states that were never left are terminal. Rewards are means over
    the steps with one successor. Its notes say that it is an estimate, and how often its pairs were tried.
    Raises SettingError for a number of steps that cannot be, and for observations that are not finitely many.
    """
    from gymnasium.spaces import Discrete

    space, actions = env.observation_space, env.action_space
    check_int("env.estimate", steps, 1, _MOST, of="steps")
    if (shape := sizes(space)) is None or not isinstance(actions, Discrete):
        kinds = f"{type(space).__name__} observations and {type(actions).__name__} actions"
        raise SettingError("env.estimate", steps, f"needs Discrete observations and actions; {name} has {kinds}")
    n_states, n_actions, first_action = math.prod(shape), int(actions.n), int(actions.start)
    fits_memory("observations", n_states, lambda n: 100 * n * n_actions, f"an estimated model of {name}")
    seen: dict[tuple[int, int, int, bool], list[float]] = {}
    starts = np.zeros(n_states)
    with user_code("env.id", name):
        generator = np.random.default_rng(0)
        x, over = number(env.reset(seed=0)[0], space), False
        starts[x] += 1
        for u in (int(word) for _ in range(0, steps, 4096) for word in generator.integers(n_actions, size=4096)):
            if over:
                x = number(env.reset()[0], space)
                starts[x] += 1
            observation, reward, terminated, truncated, _ = env.step(first_action + u)
            y = number(observation, space)
            entry = seen.setdefault((x, u, y, bool(terminated)), [0.0, 0.0])
            entry[0] += 1
            entry[1] += float(reward)
            x, over, steps = y, bool(terminated or truncated), steps - 1
            if not steps:
                break
    return _of_counts(seen, starts, n_states, n_actions, discount, name)


def _of_counts(
    seen: dict[tuple[int, int, int, bool], list[float]],
    starts: np.ndarray,
    n_states: int,
    n_actions: int,
    discount: float,
    name: str,
) -> FiniteMDP:
    tried = np.zeros((n_states, n_actions), int)
    outcomes = np.zeros((n_states, n_actions), int)
    for (x, u, _, _), (count, _) in seen.items():
        tried[x, u] += int(count)
        outcomes[x, u] += 1
    p, y, r, done = np.zeros((4, n_states, n_actions, outcomes.max()))
    place = np.zeros((n_states, n_actions), int)
    for (x, u, successor, ended), (count, total) in sorted(seen.items()):
        at = (x, u, place[x, u])
        p[at], y[at], r[at], done[at] = count / tried[x, u], successor, total / count, ended
        place[x, u] += 1
    listed = tried > 0
    y, ended = y.astype(int), done > 0
    left = np.asarray(listed.any(1))
    table = Table(p, y, r, ended | ~left[y], listed, marked=False)
    start = np.where(left, starts, 0.0) / starts[left].sum()
    n, known = int(tried.sum()), left.copy()
    known[y[p > 0]] = True
    notes = (
        f"the model is an estimate from {n} steps under uniformly random actions: errors are distances to the optimum "
        f"of the estimate; {np.count_nonzero(listed & (tried < _SELDOM))} of its {np.count_nonzero(listed)} pairs were "
        f"tried fewer than {_SELDOM} times, {np.count_nonzero(~known)} of {n_states} states were never seen",
    )
    mdp = close(table, start, discount, f"{name} estimated from {n} steps", notes)
    reached = np.zeros(mdp.n_states, bool)
    reached[mdp.successors[:n_states][(p > 0) & ended]] = True
    return replace(mdp, goal=mdp.goal & reached)
