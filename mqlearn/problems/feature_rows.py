"""Phi(x, u) in R^d: the rows of linear features, stored by their active entries, and what all features ask of a model.

Terminal states have value 0 and no features: columns that only they would use stay unused.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mqlearn.checks import choice, fits_memory
from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP, table_of_pairs

NORMS = ("unit", "max", "none")
_FEW = 2**12  # pairs, whose estimates are made for all seeds at once


@dataclass(frozen=True, eq=False, repr=False)
class Features:
    """The rows of Phi for the learned pairs of an MDP, in the order of `mdp.pairs`.

    name: for people.
    active (n, F) uint32, values (n, F): column and value of the entries of each row; a shorter row repeats
        one of its columns with value 0.
    n_features: d, unused columns included.
    norm: the reading of Assumption 1, ||Phi(x, u)||_2 <= 1: "unit" scales each row to Euclidean norm 1, "max"
        scales all rows by one factor so that the largest has norm 1, "none" leaves them as they are. A zero
        row stays zero.
    through: what the values came through that rounds by the machine, of `mqlearn.rounding`; empty for nothing.

    Raises SettingError for another norm.
    """

    name: str
    active: np.ndarray
    values: np.ndarray
    n_features: int
    norm: str
    through: str = ""

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
        if self._ones:
            return self._looked_up(mdp, theta)
        if theta.ndim > 1 and len(self.active) > _FEW:  # what belongs to one seed stays in the cache
            return np.stack([self.table(mdp, one) for one in theta])
        estimates = np.zeros((*theta.shape[:-1], len(self.active)))
        for column, value in zip(self.active.T, self.values.T, strict=True):  # no (..., n, F) array
            estimates += value * theta[..., column]
        return table_of_pairs(mdp, estimates)

    @cached_property
    def _ones(self) -> bool:
        """Whether each row has one entry, and that is 1."""
        return self.active.shape[1] == 1 and bool((self.values == 1.0).all())

    def _looked_up(self, mdp: FiniteMDP, theta: np.ndarray) -> np.ndarray:
        """`table` where it is made of the parameters themselves."""
        columns = np.full(mdp.n_states * mdp.n_actions, self.n_features)
        columns[mdp.places] = self.active[:, 0]
        flat = theta.reshape(-1, self.n_features)
        table = np.empty((len(flat), columns.size))
        for own, parameters in zip(table, flat, strict=True):
            np.append(parameters, 0.0).take(columns, out=own, mode="clip")
        table += 0.0  # of a parameter -0, as a sum has it
        return table.reshape(*theta.shape[:-1], mdp.n_states, mdp.n_actions)

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


def null_space(phi: Any) -> Any:
    """Orthonormal basis (d, d - rank) of the theta with Phi theta = 0, sparse. phi (n, d) sparse.

    Found in the Gram matrix, one connected group of columns at a time, so that blocks of actions and unused
    columns cost nothing. Null is what lies below about 1e-8 of the largest singular value of its group.
    """
    from scipy import sparse
    from scipy.sparse.csgraph import connected_components

    width = int(np.diff(phi.indptr).max(initial=0))
    fits_memory(
        "features", width, lambda f: 12 * phi.shape[0] * f * f, "the products of all pairs of a row's active entries"
    )
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
