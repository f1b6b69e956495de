"""Linear features Phi(x, u) in R^d, stored by their active entries, and the builders of conf/features.

Terminal states have value 0 and no features: columns that only they would use stay unused. Features of
the place on a map, or of a Box observation, are in `mqlearn.problems.encodings`.
"""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from mqlearn.checks import choice, whole
from mqlearn.errors import SettingError, user_code
from mqlearn.problems.mdp import FiniteMDP, table_of_pairs

if TYPE_CHECKING:
    import gymnasium

    from mqlearn.problems.encodings import BoxMap
    from mqlearn.problems.environments.simulator import Simulator

NORMS = ("unit", "max", "none")
_FEW = 2**12  # pairs, whose estimates are made for all seeds at once
_LARGEST_ENTRY = 1e150  # its square is finite


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """The rows of Phi for the learned pairs of an MDP, in the order of `mdp.pairs`.

    active (n, F) uint32, values (n, F): column and value of the entries of each row; a shorter row repeats
        one of its columns with value 0.
    n_features: d, unused columns included.
    norm: the reading of Assumption 1, ||Phi(x, u)||_2 <= 1: "unit" scales each row to Euclidean norm 1, "max"
        scales all rows by one factor so that the largest has norm 1, "none" leaves them as they are. A zero
        row stays zero.
    """

    name: str
    active: np.ndarray
    values: np.ndarray
    n_features: int
    norm: str

    def __post_init__(self) -> None:
        check_norm(self.norm)
        values = np.array(self.values, np.float64, order="C")
        length = np.sqrt((values * values).sum(1, keepdims=True))
        if self.norm == "unit":
            values /= np.where(length > 0, length, 1.0)
        elif self.norm == "max":
            values /= length.max() or 1.0
        active = np.array(self.active, np.uint32, order="C")
        for field, array in (("active", active), ("values", values)):
            array.flags.writeable = False
            object.__setattr__(self, field, array)

    def __repr__(self) -> str:
        rows, width = self.active.shape
        return f"Features({self.name!r}, d = {self.n_features}, {rows} pairs, {width} active, norm {self.norm})"

    def table(self, mdp: FiniteMDP, theta: np.ndarray) -> np.ndarray:
        """Phi(x, u)' theta, 0 at pairs that are not learned. theta (..., d) -> (..., S, A)."""
        if theta.ndim > 1 and len(self.active) > _FEW:  # what belongs to one seed stays in the cache
            return np.stack([self.table(mdp, one) for one in theta])
        estimates = np.zeros((*theta.shape[:-1], len(self.active)))
        for column, value in zip(self.active.T, self.values.T, strict=True):  # no (..., n, F) array
            estimates += value * theta[..., column]
        return table_of_pairs(mdp, estimates)

    def matrix(self) -> Any:
        """Phi as a sparse array (n, d), without stored zeros."""
        from scipy import sparse

        n, width = self.active.shape
        entries = self.values.flatten(), self.active.astype(np.int32).ravel(), np.arange(n + 1) * width
        phi = sparse.csr_array(entries, shape=(n, self.n_features))
        phi.sum_duplicates()
        phi.eliminate_zeros()
        return phi

    def rank(self) -> int:
        """Number of linearly independent columns, of which Assumption 1 asks as many as there are columns."""
        return self.n_features - null_space(self.matrix()).shape[1]

    def warnings(self) -> tuple[str, ...]:
        """What a user should know: used columns that depend on each other. Unused ones do no harm."""
        used = len(np.unique(self.active[self.values != 0]))
        rank = self.rank()
        if rank == used:
            return ()
        return (
            f"{self.name} features have rank {rank} in {used} used columns, while Assumption 1 asks linearly "
            "independent ones: many theta stand for one table, and the start decides between them",
        )

    def digest(self) -> str:
        """Hexadecimal SHA-256 of the arrays and d."""
        code = hashlib.sha256(f"{self.n_features} {self.active.shape}".encode())
        code.update(self.active.tobytes())
        code.update(self.values.tobytes())
        return code.hexdigest()


def tabular(mdp: "FiniteMDP | gymnasium.Env") -> None:
    """No features: the table itself, of which a step moves the visited pair only.

    Raises SettingError for an environment without a model.
    """
    model_of(mdp, "tabular")


@overload
def one_hot(mdp: FiniteMDP) -> Features: ...
@overload
def one_hot(mdp: "Simulator") -> "BoxMap": ...
def one_hot(mdp: "FiniteMDP | Simulator") -> "Features | BoxMap":
    """A column for each learned pair, d = n: the table as theta, of which momentum moves all entries.

    On a simulator with finitely many observations, a column for each observation and action.
    """
    if (n_observations := getattr(mdp, "n_observations", None)) is not None:
        from mqlearn.problems.encodings import tile_coding

        return dataclasses.replace(tile_coding(mdp, tilings=1, tiles=n_observations), name="one_hot")
    n = len(model_of(mdp, "one_hot").pairs)
    return Features("one_hot", np.arange(n)[:, None], np.ones((n, 1)), n, "unit")


def aggregation(mdp: FiniteMDP, *, tile: int = 4) -> Features:
    """A column for each block of `tile` x `tile` tiles of the map and each action; rows have norm 1.

    Raises SettingError when the blocks do not divide the map, or there is no map.
    """
    n_rows, n_columns = grid_sides(mdp, "aggregation")
    tile = whole("features.tile", tile, 1)
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
    """Your own features (S, A, d), read at the learned pairs. Raises SettingError."""
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
    """Your own features: a function of state and action that returns (d,), called once for each learned pair.

    Raises SettingError.
    """
    rows, d = [], None
    for x, u in model_of(mdp, name).pairs.tolist():
        with user_code(f"features.function({x}, {u})", name):
            row = np.asarray(function(x, u))
        row = _checked(f"features.function({x}, {u})", row)
        d = row.size if d is None else d
        if row.shape != (d,) or not d:
            expected = f"must return d numbers, {d or 'at least 1'} for every pair"
            raise SettingError(f"features.function({x}, {u})", f"array of shape {row.shape}", expected)
        rows.append((np.flatnonzero(row), row[row != 0]))
    return _from_rows(name, rows, d or 1, norm)


def null_space(phi: Any) -> Any:
    """Orthonormal basis (d, d - rank) of the theta with Phi theta = 0, sparse. phi (n, d) sparse.

    Found in the Gram matrix, one connected group of columns at a time, so that blocks of actions and unused
    columns cost nothing. Null is what lies below about 1e-8 of the largest singular value of its group.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    gram = sparse.csr_array(phi.T @ phi)
    _, group = connected_components(gram, directed=False)
    order, sizes = np.argsort(group, kind="stable"), np.bincount(group)
    ends = np.cumsum(sizes)
    alone = order[ends[sizes == 1] - 1]
    unused = alone[gram.diagonal()[alone] == 0]
    indices, entries, lengths = [unused], [np.ones(len(unused))], [np.ones(len(unused), int)]
    for end, size in zip(ends[sizes > 1], sizes[sizes > 1], strict=True):
        members = order[end - size : end]
        eigenvalues, basis = np.linalg.eigh(gram[members][:, members].toarray())
        null = basis[:, eigenvalues <= size * np.finfo(float).eps * eigenvalues[-1]]
        indices.append(np.tile(members, null.shape[1]))
        entries.append(null.T.ravel())
        lengths.append(np.full(null.shape[1], size))
    starts = np.cumsum(np.concatenate([[0], *lengths]))
    columns = np.concatenate(entries), np.concatenate(indices), starts
    return sparse.csc_array(columns, shape=(phi.shape[1], len(starts) - 1))


def check_norm(norm: str) -> str:
    """The norm, if it is one. Raises SettingError."""
    return choice("features.norm", norm, NORMS)


def model_of(mdp: Any, name: str) -> FiniteMDP:
    """The MDP, if it is one: the features called `name` read an exact model. Raises SettingError."""
    if not isinstance(mdp, FiniteMDP):
        ways = "for a Box observation use tile_coding, rbf or fourier"
        if getattr(mdp, "n_observations", None) is not None:
            ways = "use one_hot (with sampling=markovian), or env.estimate=STEPS to make a model from steps"
        raise SettingError("features", name, f"needs an exact model; {ways}")
    return mdp


def grid_sides(mdp: Any, name: str) -> tuple[int, int]:
    """Rows and columns of the map of the MDP. Raises SettingError when it has none."""
    layout = model_of(mdp, name).layout
    if layout is None:
        expected = f"needs a grid map, and {mdp.name} has none; use tabular, one_hot or features of your own"
        raise SettingError("features", name, expected)
    return len(layout), len(layout[0])


def _from_rows(name: str, rows: Sequence[tuple[np.ndarray, np.ndarray]], d: int, norm: str) -> Features:
    width = max([1, *(len(index) for index, _ in rows)])
    active, values = np.zeros((len(rows), width), np.uint32), np.zeros((len(rows), width))
    for i, (index, value) in enumerate(rows):
        active[i] = index[0] if len(index) else 0
        active[i, : len(index)], values[i, : len(index)] = index, value
    return Features(name, active, values, d, norm)


def _checked(setting: str, array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "biuf" or not (np.abs(array.astype(float)) < _LARGEST_ENTRY).all():
        expected = f"must hold finite numbers below {_LARGEST_ENTRY:g}"
        raise SettingError(setting, f"array of {array.dtype}", expected)
    return array.astype(float)
