"""The builders of conf/features that read an exact model: one-hot, aggregated tiles, and features of your own.

Features of the place on a map, or of a Box observation, are in `mqlearn.problems.encodings`.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, overload

import numpy as np

from mqlearn.checks import check_int, differ
from mqlearn.errors import SettingError, user_code
from mqlearn.problems.encodings import BoxMap, tile_coding
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.problems.feature_rows import Features, grid_sides, model_of
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.rounding import OWN_CODE

if TYPE_CHECKING:
    import gymnasium

_LARGEST_ENTRY = 1e150  # its square is finite


def tabular(mdp: "FiniteMDP | gymnasium.Env") -> None:
    """No features: the table itself of the model `mdp`, of which a step moves the visited pair only.

    Raises SettingError for an environment without a model.
    """
    model_of(mdp, "tabular")


@overload
def one_hot(mdp: FiniteMDP) -> Features: ...
@overload
def one_hot(mdp: Simulator) -> BoxMap: ...
def one_hot(mdp: FiniteMDP | Simulator) -> Features | BoxMap:
    """A column for each learned pair, d = n: the table as theta, of which momentum moves all entries.

    On a simulator with finitely many observations, a column for each observation and action.
    mdp: a FiniteMDP or a Simulator. Raises SettingError for an environment that is neither.

    >>> mq.one_hot(mq.two_state())
    Features('one_hot', d = 3, 3 pairs, 1 active, norm unit)
    """
    if (n_observations := getattr(mdp, "n_observations", None)) is not None:
        return replace(tile_coding(mdp, tilings=1, tiles=n_observations), name="one_hot")
    n = len(model_of(mdp, "one_hot").pairs)
    return Features("one_hot", np.arange(n)[:, None], np.ones((n, 1)), n, "unit")


def mean_reward(mdp: FiniteMDP) -> Features:
    """One column, the mean reward R(x, u): the feature of `truncation_example` (Chen, Clarke, Maguluri 2023).

    mdp: a model. Raises SettingError for an environment without one, and for rewards that are all 0.

    >>> mq.mean_reward(mq.truncation_example()).matrix().toarray().ravel().tolist()
    [1.0, 2.0, 2.0, 4.0]
    """
    x, u = model_of(mdp, "mean_reward").pairs.T
    values = mdp.mean_rewards[x, u][:, None]
    if not values.any():
        raise SettingError("features", "mean_reward", f"needs a reward, and all of {mdp.name} are 0")
    return Features("mean_reward", np.zeros((len(x), 1), np.int64), values, 1, "none")


def aggregation(mdp: FiniteMDP, *, tile: int = 4) -> Features:
    """A column for each block of `tile` x `tile` tiles of the map and each action; rows have norm 1.

    mdp: with a grid map. Raises SettingError when the blocks do not divide the map, or there is no map.

    >>> mq.aggregation(mq.frozen_lake("4x4"), tile=2).n_features
    16
    """
    n_rows, n_columns = grid_sides(mdp, "aggregation")
    tile = check_int("features.tile", tile, 1)
    if n_rows % tile or n_columns % tile:
        sizes = ", ".join(str(t) for t in range(1, n_rows + 1) if n_rows % t == n_columns % t == 0)
        expected = f"must divide both sides of the {n_rows}x{n_columns} map: one of {sizes}"
        raise SettingError("features.tile", tile, expected)
    x, u = mdp.pairs.T
    block = x // n_columns // tile * (n_columns // tile) + x % n_columns // tile
    n_blocks = n_rows * n_columns // tile**2
    active = (block * mdp.n_actions + u)[:, None]
    return Features("aggregation", active, np.ones(active.shape), n_blocks * mdp.n_actions, "unit")


def from_matrix(mdp: FiniteMDP, matrix: np.ndarray, *, norm: str = "unit", name: str = "matrix") -> Features:
    """Your own features, a matrix (S, A, d) read at the learned pairs of the mdp.

    norm: unit, max or none, see `Features`.   name: for people. Raises SettingError for other shapes, and for entries
    that are not finite.

    >>> mq.from_matrix(mq.two_state(), np.ones((2, 2, 4)), norm="none").matrix().toarray().tolist()[0]
    [1.0, 1.0, 1.0, 1.0]
    """
    matrix = np.asarray(matrix)
    x, u = model_of(mdp, name).pairs.T
    if matrix.ndim != 3 or matrix.shape[:2] != (mdp.n_states, mdp.n_actions) or not matrix.shape[2]:
        expected = f"must have the shape (S, A, d), here ({mdp.n_states}, {mdp.n_actions}, d), d at least 1"
        raise SettingError("features.matrix", f"array of shape {matrix.shape}", expected)
    rows = [(np.flatnonzero(row), row[row != 0]) for row in _checked("features.matrix", matrix[x, u])]
    return _from_rows(name, rows, matrix.shape[2], norm)


def from_function(
    mdp: FiniteMDP, function: Callable[[int, int], np.ndarray], *, norm: str = "unit", name: str = "function"
) -> Features:
    """Your own features: a function of state and action that returns (d,), called once a learned pair of the mdp.

    norm: unit, max or none, see `Features`.   name: for people. Raises SettingError.

    >>> mq.from_function(mq.two_state(), lambda x, u: [1.0, float(x)], norm="none").n_features
    2
    """
    rows, d = [], None
    if not callable(function):
        raise SettingError("features.function", function, "must be a function of state and action that returns (d,)")
    for x, u in model_of(mdp, name).pairs.tolist():
        with user_code(f"features.function({x}, {u})", name):
            row, again = np.asarray(function(x, u)), function(x, u)
        if differ(row, again):
            expected = "gives other numbers when it is called again: features must follow from state and action"
            raise SettingError(f"features.function({x}, {u})", name, expected)
        row = _checked(f"features.function({x}, {u})", row)
        d = row.size if d is None else d
        if row.shape != (d,) or not d:
            expected = f"must return d numbers, {d or 'at least 1'} for every pair"
            raise SettingError(f"features.function({x}, {u})", f"array of shape {row.shape}", expected)
        rows.append((np.flatnonzero(row), row[row != 0]))
    return _from_rows(name, rows, d or 1, norm)


def _from_rows(name: str, rows: Sequence[tuple[np.ndarray, np.ndarray]], d: int, norm: str) -> Features:
    width = max([1, *(len(index) for index, _ in rows)])
    active, values = np.zeros((len(rows), width), np.uint32), np.zeros((len(rows), width))
    for i, (index, value) in enumerate(rows):
        active[i] = index[0] if len(index) else 0
        active[i, : len(index)], values[i, : len(index)] = index, value
    return Features(name, active, values, d, norm, OWN_CODE)


def _checked(setting: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biuf" or not (np.abs(array.astype(float)) < _LARGEST_ENTRY).all():
        expected = f"must hold finite numbers below {_LARGEST_ENTRY:g}"
        raise SettingError(setting, f"array of {array.dtype}", expected)
    return array.astype(float)
