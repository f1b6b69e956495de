"""Finite Markov decision processes: the exact model behind every error that mqlearn reports.

States x = 0..S-1, actions u = 0..A-1, at most B successors of a pair. A terminal state is absorbing with
value 0 and is never bootstrapped from; a time limit is not a terminal state.
"""

import dataclasses
import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mqlearn.checks import finite_number
from mqlearn.errors import SettingError
from mqlearn.problems.endings import check_endings

_SUM_TOLERANCE = 1e-10  # of probabilities; the certificate of the solver takes the sums as they are
_SUM_NORMALISED = 1e-6  # what `normalised` puts right: single precision, or nine decimals


@dataclass(frozen=True, eq=False, repr=False)
class FiniteMDP:
    """An MDP as arrays, validated on construction and read-only afterwards.

    successors (S, A, B) int32, probabilities (S, A, B), rewards (S, A, B): outcomes of action u in state x. A
        pair with fewer repeats one of them with probability 0. Equal successors stay separate outcomes.
    terminal (S,) bool: absorbing states with reward 0.
    admissible (S, A) bool: the actions that a state has.
    start (S,): distribution of the first state.
    discount: in (0, 1), or 1 where all episodes end, or cost something as long as they go on (`endings.py`).
    goal (S,) bool: the states that count as success.
    name: for people.
    layout: rows of a grid map, or None.
    notes: what a run on the model warns of, such as probabilities that were normalised.

    Raises SettingError, which names the array and the first entry at fault.

    >>> mdp = mq.two_state()
    >>> mdp.n_states, mdp.n_actions, mdp.pairs.tolist()
    (2, 2, [[0, 0], [0, 1], [1, 0]])
    """

    successors: np.ndarray
    probabilities: np.ndarray
    rewards: np.ndarray
    terminal: np.ndarray
    admissible: np.ndarray
    start: np.ndarray
    discount: float
    goal: np.ndarray
    name: str
    layout: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = _as_array("successors", self.successors).shape
        if len(shape) != 3 or 0 in shape:
            raise SettingError("successors", f"array of shape {shape}", "must have the shape (S, A, B), none of them 0")
        self._store("successors", shape, np.int32)
        self._store("probabilities", shape, np.float64)
        self._store("rewards", shape, np.float64)
        self._store("terminal", shape[:1], np.bool_)
        self._store("admissible", shape[:2], np.bool_)
        self._store("start", shape[:1], np.float64)
        self._store("goal", shape[:1], np.bool_)
        object.__setattr__(self, "discount", check_discount(self.discount))
        object.__setattr__(self, "layout", None if self.layout is None else tuple(self.layout))
        object.__setattr__(self, "notes", tuple(self.notes))
        self._check_model()

    def __repr__(self) -> str:
        counts = f"{self.n_states} states, {self.n_actions} actions, {len(self.pairs)} pairs"
        return f"FiniteMDP({self.name!r}, {counts}, discount {self.discount:g})"

    def _store(self, field: str, shape: tuple[int, ...], dtype: type) -> None:
        given = _as_array(field, getattr(self, field))
        if given.shape != shape:
            raise SettingError(field, f"array of shape {given.shape}", f"must have the shape {shape}")
        if given.dtype.kind not in {np.int32: "iu", np.float64: "iuf", np.bool_: "b"}[dtype]:
            raise SettingError(field, f"array of {given.dtype}", f"must be an array of {np.dtype(dtype)}")
        if dtype is np.int32:  # before the cast, which would wrap around
            _refuse(field, given, (given < 0) | (given >= shape[0]), f"must be a state from 0 to {shape[0] - 1}")
        if dtype is np.float64:
            _refuse(field, given, ~np.isfinite(given), "must be finite")
        array = np.array(given, dtype=dtype, order="C")
        if dtype is np.float64:
            array += 0.0  # -0.0 becomes 0.0, so that equal models have equal digests
        array.flags.writeable = False
        object.__setattr__(self, field, array)

    def _check_model(self) -> None:
        p, y = self.probabilities, self.successors
        _refuse("probabilities", p, p < 0, "must not be negative")
        idle = ~self.terminal & ~self.admissible.any(1)
        _refuse("admissible", idle, idle, "marks a state that is not terminal but has no admissible action")
        total = p.sum(2)
        wrong = (np.abs(total - 1) > _SUM_TOLERANCE) & (self.admissible | self.terminal[:, None])
        _refuse("probabilities", total, wrong, "must sum to 1 over the successors of each pair")
        stay = np.arange(self.n_states)[:, None, None]
        leaves = self.terminal[:, None, None] & (p > 0) & (y != stay)
        _refuse("successors", y, leaves, "a terminal state must be absorbing: its successor is itself")
        paid = self.terminal[:, None, None] & (p > 0) & (self.rewards != 0)
        _refuse("rewards", self.rewards, paid, "a terminal state must have reward 0")
        if not np.abs(self.rewards).max() / (1 - self.discount or 1.0) < 1e150:
            raise SettingError("rewards", np.abs(self.rewards).max(), "max |r| / (1 - discount) must be below 1e150")
        if self.discount == 1:
            check_endings(y, p, self.mean_rewards, self.learned, self.name)
        _refuse("start", self.start, self.start < 0, "must not be negative")
        _refuse("start", self.start, self.terminal & (self.start > 0), "must be 0 at terminal states")
        if abs(self.start.sum() - 1) > _SUM_TOLERANCE:
            raise SettingError("start", float(self.start.sum()), "must sum to 1")
        if self.layout is not None and (
            len({len(row) for row in self.layout}) != 1 or sum(map(len, self.layout)) != self.n_states
        ):
            raise SettingError("layout", "/".join(self.layout), f"must have {self.n_states} tiles in equal rows")

    @property
    def n_states(self) -> int:
        return self.successors.shape[0]

    @property
    def n_actions(self) -> int:
        return self.successors.shape[1]

    @property
    def n_successors(self) -> int:
        return self.successors.shape[2]

    @cached_property
    def learned(self) -> np.ndarray:
        """(S, A) bool: the pairs that a table holds, admissible pairs of non-terminal states."""
        return _read_only(~self.terminal[:, None] & self.admissible)

    @cached_property
    def counted(self) -> np.ndarray:
        """(S, A) bool: the learned pairs of states that can be reached, over which errors are measured."""
        return _read_only(self.reachable[:, None] & self.learned)

    @cached_property
    def pairs(self) -> np.ndarray:
        """(n, 2) int32: state and action of the learned pairs, in row-major order."""
        return _read_only(np.argwhere(self.learned).astype(np.int32))

    @cached_property
    def places(self) -> np.ndarray:
        """(n,): where the learned pairs lie in a table that is read as one row of S A entries."""
        return _read_only(np.flatnonzero(self.learned))

    @cached_property
    def pair_offsets(self) -> np.ndarray:
        """(S + 1,) int32: the pairs of state x are the rows offsets[x] to offsets[x + 1] of `pairs`."""
        return _read_only(np.concatenate([[0], np.cumsum(self.learned.sum(1))]).astype(np.int32))

    @cached_property
    def mean_rewards(self) -> np.ndarray:
        """(S, A): R(x, u) = sum_b p_b r_b, and 0 at pairs that are not learned."""
        return _read_only(np.where(self.learned, (self.probabilities * self.rewards).sum(2), 0.0))

    @cached_property
    def distances(self) -> np.ndarray:
        """(S,) int32: fewest moves from a possible first state, by any actions; -1 where there is no way."""
        possible = (self.probabilities > 0) & self.learned[:, :, None]
        distance = np.full(self.n_states, -1, np.int32)
        frontier = np.flatnonzero(self.start > 0)
        moves = 0
        while frontier.size:
            distance[frontier] = moves
            entered = self.successors[frontier][possible[frontier]]
            frontier = np.unique(entered[distance[entered] < 0])
            moves += 1
        return _read_only(distance)

    @cached_property
    def reachable(self) -> np.ndarray:
        """(S,) bool: the states that some actions reach from the start distribution."""
        return _read_only(self.distances >= 0)

    @cached_property
    def max_reward(self) -> float:
        """Largest |r| of a transition that can happen at a counted pair."""
        possible = (self.probabilities > 0) & self.counted[:, :, None]
        return float(np.abs(self.rewards[possible]).max(initial=0.0))

    def digest(self) -> str:
        """Hexadecimal SHA-256 of the arrays and the discount; name, layout and notes do not enter."""
        code = hashlib.sha256(self.discount.hex().encode())
        for field in ("successors", "probabilities", "rewards", "terminal", "admissible", "start", "goal"):
            array = getattr(self, field)
            code.update(f"{field}{array.shape}{array.dtype.str}".encode())
            code.update(array.tobytes())
        return code.hexdigest()

    def with_discount(self, discount: float) -> "FiniteMDP":
        """The same model under another discount."""
        return dataclasses.replace(self, discount=discount)


def normalised(
    p: np.ndarray, listed: np.ndarray, place: Callable[[int, int], tuple[str, str]]
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Probabilities p (S, A, B) of which the rows of listed pairs (S, A) sum to 1, and a note if that changed any.

    Rows are divided by their sum where that is off 1 by at most 1e-6, as in single precision; up to 1e-10 it is
    rounding, and left as it is.   place: of a pair, the name of its entry and words for it. Raises SettingError for the
    row that is farthest off beyond that.
    """
    total = np.where(listed, p.sum(2), 1.0)
    off = np.abs(total - 1)
    if off.max() > _SUM_NORMALISED:
        x, u = map(int, np.unravel_index(int(off.argmax()), off.shape))
        setting, words = place(x, u)
        remedy = "divide them by their sum, or add the outcome that is missing"
        problem = f"the probabilities {words} sum to {total[x, u]:.9g} and must sum to 1 within 1e-6; {remedy}"
        raise SettingError(setting, float(total[x, u]), problem)
    rounded = off > _SUM_TOLERANCE
    if not rounded.any():
        return p, ()
    worst, _ = place(*map(int, np.unravel_index(int(off.argmax()), off.shape)))
    many = f"probabilities of {np.count_nonzero(rounded)} pairs were divided by their sums"
    return np.where(rounded[:, :, None], p / total[:, :, None], p), (f"{many}, off 1 by {off.max():.2g} at {worst}",)


def table_of_pairs(mdp: FiniteMDP, values: np.ndarray) -> np.ndarray:
    """Values of the learned pairs (..., n) as tables (..., S, A), 0 elsewhere."""
    table = np.zeros((*values.shape[:-1], mdp.n_states * mdp.n_actions))
    table[..., mdp.places] = values
    return table.reshape(*values.shape[:-1], mdp.n_states, mdp.n_actions)


def check_discount(discount: object) -> float:
    """The discount as a float; SettingError unless it is a number strictly between 0 and 1, or 1."""
    number = finite_number(discount)
    if number is None or not 0 < number <= 1:
        expected = "must be a number strictly between 0 and 1, or 1 where episodes end"
        raise SettingError("discount", discount, expected)
    return number


def state_values(mdp: FiniteMDP, q: np.ndarray) -> np.ndarray:
    """max_u q(x, u) over admissible actions, 0 at terminal states. q (..., S, A) -> (..., S)."""
    best = (q if mdp.admissible.all() else np.where(mdp.admissible, q, -math.inf)).max(-1)
    return np.where(mdp.terminal, 0.0, best)


def greedy(mdp: FiniteMDP, q: np.ndarray) -> np.ndarray:
    """The first admissible action of largest value. q (..., S, A) -> (..., S) int."""
    return (q if mdp.admissible.all() else np.where(mdp.admissible, q, -math.inf)).argmax(-1)


def backup(mdp: FiniteMDP, v: np.ndarray) -> np.ndarray:
    """R(x, u) + discount * sum_b p_b v(y_b), 0 at pairs not learned. v (..., S) -> (..., S, A).

    v is 0 at terminal states.
    """
    return np.where(mdp.learned, mdp.mean_rewards + mdp.discount * expected(mdp, v), 0.0)


def expected(mdp: FiniteMDP, v: np.ndarray) -> np.ndarray:
    """sum_b p_b v(y_b), the mean of v after each pair. v (..., S) -> (..., S, A)."""
    ahead = np.zeros((*np.shape(v)[:-1], mdp.n_states, mdp.n_actions))
    for b in range(mdp.n_successors):  # one outcome at a time: no (..., S, A, B) array
        ahead += mdp.probabilities[:, :, b] * v[..., mdp.successors[:, :, b]]
    return ahead


def bellman(mdp: FiniteMDP, q: np.ndarray) -> np.ndarray:
    """T q(x, u) = R(x, u) + discount * sum_b p_b max_v q(y_b, v), 0 at pairs not learned. q (..., S, A)."""
    return backup(mdp, state_values(mdp, q))


def _refuse(field: str, array: np.ndarray, wrong: np.ndarray, admissible: str) -> None:
    """SettingError for the first entry at which `wrong` holds."""
    if wrong.any():
        index = np.unravel_index(int(wrong.argmax()), wrong.shape)
        value = array[index].item()
        raise SettingError(f"{field}[{', '.join(map(str, index))}]", value, admissible)


def _as_array(field: str, value: object) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:
        raise SettingError(field, "ragged nested list", "must be an array") from None


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
