"""Gymnasium's table of transitions, P[state][action] = [(probability, next state, reward, terminated), ...].

Read into arrays, with every entry checked, and closed to a FiniteMDP, in which the end of an episode is a property of
states instead of transitions.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP, normalised

_OUTCOME = "must be (probability, state, reward, terminated)"


@dataclass(frozen=True)
class Table:
    """P as arrays (S, A, B), numbered from 0; listed (S, A): the pairs that it holds.

    Outcomes that a pair lacks repeat its first one with probability 0.   notes: what was changed in reading.
    marked: whether a state is known to be terminal by its transitions; frequencies of few steps only look like it.
    """

    p: np.ndarray
    y: np.ndarray
    r: np.ndarray
    done: np.ndarray
    listed: np.ndarray
    notes: tuple[str, ...] = ()
    marked: bool = True

    @property
    def over(self) -> np.ndarray:
        """(S,) bool: the states of which every transition ends there, without reward: the mark of a terminal state."""
        stays = self.done & (self.y == np.arange(len(self.p))[:, None, None]) & (self.r == 0)
        return self.marked & self.listed.any(1) & (stays | (self.p == 0)).all((1, 2))

    def entered_from(self, start: np.ndarray) -> np.ndarray:
        """(S,) bool: the states in which an episode can be without having ended, from the distribution start (S,)."""
        goes_on = (self.p > 0) & ~self.done
        live = start > 0
        while not live[entered := self.y[live][goes_on[live]]].all():
            live[entered] = True
        return live


def read_table(model: Any, observations: Any, actions: Any, name: str) -> Table:
    """P as a `Table`; the spaces are Discrete. Raises SettingError, which names P[state][action][outcome]."""
    n_states, n_actions = int(observations.n), int(actions.n)
    states, first = _numbered(model, n_states, int(observations.start), "P")
    rows: list[tuple[float, ...]] = []
    for x, listed in states.items():
        pairs, first_action = _numbered(listed, n_actions, int(actions.start), f"P[{x + first}]")
        for u, outcomes in pairs.items():
            where = f"P[{x + first}][{u + first_action}]"
            if not isinstance(outcomes, Iterable) or isinstance(outcomes, str | Mapping):
                raise SettingError(where, outcomes, f"must be a list of outcomes, each {_OUTCOME[8:]}")
            for b, outcome in enumerate(outcomes):
                rows.append((x, u, b, *_outcome(f"{where}[{b}]", outcome, n_states, first)))
    if not rows:
        raise SettingError("env.id", name, "its P is empty")
    columns = np.array(rows, float).T
    x, u, b = columns[:3].astype(int)
    count = np.zeros((n_states, n_actions), int)
    np.add.at(count, (x, u), 1)
    p, y, r, done = np.zeros((4, n_states, n_actions, count.max()))
    for array, column in zip((p, y, r, done), columns[3:], strict=True):
        array[x, u, b] = column

    def place(x: int, u: int) -> tuple[str, str]:
        return f"P[{x + first}][{u}]", f"of {name} in state {x + first}, action {u}"

    p, notes = normalised(p, count > 0, place)
    padding = np.arange(count.max()) >= count[:, :, None]
    y, r = np.where(padding, y[:, :, :1], y), np.where(padding, r[:, :, :1], r)
    # Equally likely outcomes are made exactly so: Gymnasium's (1 - 1/3) / 2 is one bit above 1/3.
    share = 1 / np.maximum(count, 1)[:, :, None]
    equal = (padding | (np.abs(p - share) < 1e-12)).all(2, keepdims=True)
    p = np.where(equal & ~padding, share, p)
    return Table(p, y.astype(int), r, done > 0, count > 0, notes)


def close(table: Table, start: np.ndarray, discount: float, name: str, notes: tuple[str, ...] = ()) -> FiniteMDP:
    """The MDP in which `terminated` is a property of states. start (S,): 0 where every episode is over."""
    p, y, r, listed = table.p, table.y, table.r, table.listed
    ends = (p > 0) & table.done
    live = table.entered_from(start) & ~table.over
    goal = np.zeros(len(start), bool)
    goal[y[ends]] = True
    goal &= ~live
    terminal = goal | table.over | ~(live | listed.any(1))
    both = ends & live[y]
    if both.any():
        y = np.where(both, len(start), y)
        p, y, r, listed = (np.concatenate([array, array[:1]]) for array in (p, y, r, listed))
        terminal, goal, start = np.append(terminal, True), np.append(goal, True), np.append(start, 0.0)
    closed = (terminal[:, None] | ~listed)[:, :, None]
    return FiniteMDP(
        successors=np.where(closed, np.arange(len(start))[:, None, None], y),
        probabilities=np.where(closed, np.eye(p.shape[2])[0], p),
        rewards=np.where(closed, 0.0, r),
        terminal=terminal,
        admissible=listed | terminal[:, None],
        start=start,
        discount=discount,
        goal=goal,
        name=name,
        notes=table.notes + notes,
    )


def _outcome(where: str, outcome: Any, n_states: int, first: int) -> tuple[float, ...]:
    """An entry as numbers, its state numbered from 0."""
    if isinstance(outcome, str) or not isinstance(outcome, Iterable) or len(given := list(outcome)) != 4:
        raise SettingError(where, outcome, _OUTCOME)
    p, y, r, done = map(_number, given)
    last = first + n_states - 1
    for fits, part, value, expected in (
        (0 <= p <= 1 + 1e-6, "probability", given[0], "a number from 0 to 1"),
        (y.is_integer() and first <= y <= last, "state", given[1], f"one of its states, {first} to {last}"),
        (math.isfinite(r), "reward", given[2], "a finite number"),
        (done in (0, 1), "terminated", given[3], "true or false"),
    ):
        if not fits:
            raise SettingError(where, outcome, f"{_OUTCOME}; its {part}, {value!r}, must be {expected}")
    return p, y - first, r, done


def _number(value: Any) -> float:
    """The value as a float, nan for what is no number."""
    try:
        return math.nan if isinstance(value, str | bytes) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _numbered(table: Any, n: int, first: int, what: str) -> tuple[dict[int, Any], int]:
    """The items of a dict or list by number from 0, and what was subtracted: the space's start, or 0."""
    if isinstance(table, str) or not isinstance(table, Iterable):
        raise SettingError(what, table, "must be a dict or a list: P[state][action] is a list of outcomes")
    items = dict(table.items() if isinstance(table, Mapping) else enumerate(table))
    odd = [key for key in items if not _number(key).is_integer()]
    for offset in (first, 0):
        if not odd and all(offset <= key < offset + n for key in items):
            return {int(key) - offset: value for key, value in items.items()}, offset
    expected = f"must be numbered from {first} to {first + n - 1}"
    if odd and isinstance(odd[0], tuple) and not isinstance(items[odd[0]], Mapping) and what == "P":
        expected = "must be nested, P[state][action], not keyed by (state, action)"
    elif odd:
        kind = "states" if what == "P" else "actions"
        expected += f", as its {kind} are when it is stepped: {{i: {what}[key] for i, key in enumerate({what})}}"
    shown = odd[0] if odd else sorted(items)
    raise SettingError(f"{what}, key" if odd else what, shown, expected)
