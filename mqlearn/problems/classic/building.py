"""A FiniteMDP from a function that lists the outcomes of a state-action pair, as definitions in papers do."""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from mqlearn.checks import OUTCOME_BYTES, fits_memory
from mqlearn.problems.mdp import FiniteMDP

Outcomes = Sequence[tuple[float, int, float]] | np.ndarray  # (probability, successor, reward) each; none: inadmissible


def checked_size(setting: str, value: int, outcomes: Callable[[int], int]) -> int:
    """The size of a problem, if the arrays of as many outcomes fit into memory. Raises SettingError."""
    fits_memory(setting, value, lambda n: OUTCOME_BYTES * outcomes(n), "the model's arrays")
    return value


def finite_mdp(
    name: str,
    n_states: int,
    n_actions: int,
    outcomes: Callable[[int, int], Outcomes],
    *,
    discount: float,
    start: int | np.ndarray = 0,
    terminal: Collection[int] = (),
    goal: Collection[int] = (),
    notes: tuple[str, ...] = (),
) -> FiniteMDP:
    """The model in which action u leads from state x to one of outcomes(x, u).

    Outcomes of probability 0 are dropped; equal successors stay separate, so a reward may be random beside its
    successor. A pair without outcomes is inadmissible. `outcomes` is not asked about terminal states.
    start: a state, or a distribution (S,).   terminal, goal: states.   notes: see `FiniteMDP`.
    """
    closed, success = np.isin(np.arange(n_states), [*terminal]), np.isin(np.arange(n_states), [*goal])
    rows = {}
    for x in np.flatnonzero(~closed).tolist():
        for u in range(n_actions):
            listed = np.asarray(outcomes(x, u), float).reshape(-1, 3)
            rows[x, u] = listed[listed[:, 0] > 0]
    shape = (n_states, n_actions, max(len(row) for row in rows.values()))
    successors = np.broadcast_to(np.arange(n_states)[:, None, None], shape).copy()
    probabilities, rewards = np.zeros(shape), np.zeros(shape)
    probabilities[closed, :, 0] = 1.0
    admissible = np.ones(shape[:2], bool)
    for (x, u), row in rows.items():
        admissible[x, u] = len(row) > 0
        if len(row):
            probabilities[x, u, : len(row)], rewards[x, u, : len(row)] = row[:, 0], row[:, 2]
            successors[x, u] = row[0, 1]
            successors[x, u, : len(row)] = row[:, 1]
    return FiniteMDP(
        successors=successors,
        probabilities=probabilities,
        rewards=rewards,
        terminal=closed,
        admissible=admissible,
        start=uniform_over([start], n_states) if isinstance(start, int) else start,
        discount=discount,
        goal=success,
        name=name,
        notes=notes,
    )


def uniform_over(states: Collection[int], n_states: int) -> np.ndarray:
    """(S,): the distribution that gives each of some states the same probability."""
    return np.isin(np.arange(n_states), [*states]) / len(states)
