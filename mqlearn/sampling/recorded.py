"""Recorded transitions: samples (x, u, r, y) of a file or of arrays, learned from in their order, or resampled.

Every seed learns from the same transitions, so a run has one seed, unless each draws its own with replacement: the
bootstrap. The reward in the target is the recorded one, also where the model knows another; with reward=mean it is
R(x, u) of the model. At a time limit the target has the value of the next state, as at any transition to a state that
is not terminal.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mqlearn.checks import check_int, choice
from mqlearn.errors import SettingError
from mqlearn.paths import followed
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.protocol import CLOCKS, Sampling, Walk
from mqlearn.sampling.sample_numbers import pack, unpack
from mqlearn.sampling.transitions import read

if TYPE_CHECKING:
    from mqlearn import kernels

_WORD = 2**32
_BLOCK = 2**16  # iterations whose samples are counted at a time


@dataclass(frozen=True, eq=False)
class Recorded(Sampling):
    """Recorded transitions of the model, replayed in their order: iteration k learns from transition k.

    >>> import numpy as np
    >>> seen = {"x": np.array([0, 0, 1]), "u": np.array([0, 1, 0]), "r": np.array([5.0, 10.0, -1.0]),
    ...         "y": np.array([0, 1, 1])}
    >>> mq.run(mq.two_state(), mq.QLearning(), iterations=3, n_seeds=1, sampling=mq.Recorded(seen)).status
    'finished'

    path: a .npz or .csv file with x, u (state and action), r (reward) and y (next state), (N,) each, and if wanted
        `terminal` (N,), whether y is terminal, which must be what the model says, and `timeout` (N,), which changes
        nothing; usual names (observations, actions, rewards, next_observations, terminals, timeouts) stand for them.
        Or a mapping of these arrays, or a DataFrame.
    content: SHA-256 of the arrays, as a run records it, so that a rerun refuses transitions that have changed.
    passes: how often the N transitions are learned from: `iterations` is at most passes * N.
    resample: "none", or "bootstrap": each seed learns from N transitions of its own, drawn with replacement.
    clock: the k of a table's step size, "global" iterations, "local" visits of the pair or "state" visits of its
        state; "auto" is local for rules of four numbers, else global.

    Raises SettingError for a file that cannot be read and for arrays of other shapes or kinds.
    """

    name: ClassVar[str] = "recorded"
    all_pairs: ClassVar[bool] = False
    independent: ClassVar[bool] = False
    adaptive: ClassVar[bool] = False
    consecutive: ClassVar[bool] = True  # as far as the record is
    recorded: ClassVar[bool] = True
    needs_model: ClassVar[bool] = True
    capacity: ClassVar[int] = 0
    path: Any
    content: str | None = None
    clock: str = "auto"
    passes: int = 1
    resample: str = "none"

    def __post_init__(self) -> None:
        choice("sampling.clock", self.clock, CLOCKS)
        choice("sampling.resample", self.resample, ("none", "bootstrap"))
        check_int("sampling.passes", self.passes, 1)
        if self.content is not None and self.content != self.digest():
            changed = f"has changed: the SHA-256 of its arrays is {self.digest()[:16]}, of the recorded run's"
            remedy = "put the old file back, or start a new run with sampling.content=null"
            raise SettingError("sampling.path", self._shown, f"{changed} {str(self.content)[:16]}; {remedy}")

    @property
    def one_seed(self) -> bool:
        """Whether every seed would learn from the same transitions."""
        return self.resample == "none"

    def __len__(self) -> int:
        return len(self.transitions["x"])

    @property
    def _shown(self) -> str:
        return str(self.path) if isinstance(self.path, str | PathLike) else "arrays"

    @cached_property
    def transitions(self) -> dict[str, np.ndarray]:
        """x, u, y (N,) int64, r (N,) and, where they are given, terminal and timeout (N,) bool."""
        return read(self.path, self._shown)

    def digest(self) -> str:
        """Hexadecimal SHA-256 of the arrays, whatever file they lie in."""
        code = hashlib.sha256()
        for name in ("x", "u", "r", "y", "terminal"):  # a timeout changes no number
            if name in self.transitions:
                array = self.transitions[name]
                code.update(f"{name}{array.shape}{array.dtype.str}".encode() + array.tobytes())
        return code.hexdigest()

    def check(self, mdp: FiniteMDP, iterations: int, n_seeds: int) -> None:
        """Refuse transitions that the model cannot make, and a run that they do not suffice for. Raises SettingError.

        Named is the first transition at fault.
        """
        seen = self.transitions
        x, u, y = seen["x"], seen["u"], seen["y"]
        for name, array, size in (("x", x, mdp.n_states), ("u", u, mdp.n_actions), ("y", y, mdp.n_states)):
            self._refuse((array < 0) | (array >= size), f"{name} must be from 0 to {size - 1} on {mdp.name}")
        self._refuse(~mdp.learned[x, u], f"action u is not admissible in state x of {mdp.name}, or x is terminal")
        possible = np.zeros(len(x), bool)
        for b in range(mdp.n_successors):
            possible |= (mdp.successors[x, u, b] == y) & (mdp.probabilities[x, u, b] > 0)
        self._refuse(~possible, f"a transition of probability 0 on {mdp.name}")
        if "terminal" in seen:
            self._refuse(
                seen["terminal"] != mdp.terminal[y],
                f"terminal is not what {mdp.name} says of y; an end of time alone is a timeout",
            )
        if iterations > self.passes * len(self):
            times = "once" if self.passes == 1 else f"{self.passes} times"
            expected = f"is more than the {len(self)} transitions of {self._shown}; each is learned from {times}"
            raise SettingError("iterations", iterations, f"{expected} (sampling.passes)")
        if n_seeds != 1 and self.one_seed:
            expected = "must be 1 with recorded transitions: every seed would learn from the same ones"
            raise SettingError("n_seeds", n_seeds, f"{expected}; sampling.resample=bootstrap draws for each its own")

    def _refuse(self, wrong: np.ndarray, problem: str) -> None:
        if wrong.any():
            i = int(wrong.argmax())
            x, u, y = (int(self.transitions[name][i]) for name in ("x", "u", "y"))
            raise SettingError("sampling.path", self._shown, f"transition {i} (x={x}, u={u}, y={y}): {problem}")

    def walk(self, mdp: FiniteMDP) -> Walk:
        """Raises SettingError: nothing moves."""
        raise SettingError("sampling", self.name, "has no chain: its transitions are given")

    def trajectory(self, mdp: FiniteMDP) -> str:
        """Why its chain is not known."""
        return "nobody knows by which chain recorded transitions were made"

    def distribution(self, mdp: FiniteMDP) -> np.ndarray:
        """(S, A): the share of each pair among all transitions."""
        counts = np.zeros((mdp.n_states, mdp.n_actions))
        np.add.at(counts, (self.transitions["x"], self.transitions["u"]), 1.0)
        return counts / len(self)

    def samples(self, mdp: FiniteMDP, mean_reward: bool) -> "tuple[kernels.Model, np.ndarray]":
        """The transitions as the kernels read samples (N,) uint64, with the model of what each number stands for.

        The model has an outcome for each next state and reward that was recorded of a pair.
        """
        from mqlearn import kernels

        seen = self.transitions
        x, u, y = seen["x"], seen["u"], seen["y"]
        pair = np.searchsorted(mdp.places, x * mdp.n_actions + u)  # of learned pairs: see `check`
        r = mdp.mean_rewards[x, u] if mean_reward else seen["r"]
        kinds, kind = np.unique(np.stack([pair, y, r], axis=1), axis=0, return_inverse=True)
        owner = kinds[:, 0].astype(np.int64)
        outcome = np.arange(len(kinds)) - np.searchsorted(owner, owner)  # its number among those of its pair
        width = int(outcome.max()) + 1
        shift = np.uint64(max(1, width - 1).bit_length())
        if len(mdp.pairs) << int(shift) >= _WORD:
            problem = "has too many pairs and different rewards for one 32-bit number of a transition"
            raise SettingError("sampling.path", self._shown, problem)
        successors = np.zeros((len(mdp.pairs), width), np.uint32)
        rewards = np.zeros(successors.shape)
        successors[owner, outcome], rewards[owner, outcome] = kinds[:, 1].astype(np.uint32), kinds[:, 2]
        numbers = pack(owner, outcome, kinds[:, 1], kinds[:, 2] != 0, shift)
        offsets = mdp.pair_offsets.astype(np.uint64)
        return kernels.Model(offsets, successors, rewards, np.zeros(successors.shape, np.uint32), shift), numbers[kind]


@dataclass(frozen=True, eq=False)
class _Source:
    """What learners ask of a chain: the seeds, and the model that their samples are numbers of."""

    mdp: FiniteMDP
    lanes: np.ndarray
    seed: np.uint32
    model: "kernels.Model"


class RecordedSamples:
    """`chains.Samples` of recorded transitions, for the seeds `lanes` (L,) uint32: the same ones, or resampled.

    With the bootstrap the j-th of the N transitions of a seed is drawn by (seed, stream, j, lane), and each pass goes
    through the same N.
    """

    def __init__(self, mdp: FiniteMDP, sampling: Recorded, lanes: np.ndarray, seed: int, mean_reward: bool) -> None:
        model, self._numbers = sampling.samples(mdp, mean_reward)
        self.chain = _Source(mdp, lanes, np.uint32(seed), model)
        self._drawn = sampling.resample == "bootstrap"
        n_pairs, n_lanes = len(mdp.pairs), len(lanes) if self._drawn else 1
        self._counted, self._ends = 0, np.zeros((n_lanes, 3), np.int64)
        self._visits = np.zeros((n_lanes, n_pairs), np.int64)

    def draw(self, n: int) -> None:
        """The next n iterations: they are there."""

    def forget(self) -> None:
        """They are kept."""

    def block(self, k: int, n: int, rows: np.ndarray) -> np.ndarray:
        """(len(rows), n) samples of iterations k .. k + n - 1."""
        of_rows = self._of_lanes(k, n, self.chain.lanes[rows] if self._drawn else rows[:1])
        return of_rows if self._drawn else np.tile(of_rows, (len(rows), 1))

    def _of_lanes(self, k: int, n: int, lanes: np.ndarray) -> np.ndarray:
        """(len(lanes), n) samples of iterations k .. k + n - 1; the same for all without the bootstrap."""
        size = len(self._numbers)
        if not self._drawn:
            return np.tile(self._numbers[np.arange(k, k + n) % size], (len(lanes), 1))
        from mqlearn import kernels

        out, stream = np.empty((len(lanes), n), np.uint64), np.uint32(kernels.STREAMS["choices"])
        done = 0
        while done < n:
            first = (k + done) % size
            count = min(n - done, size - first)
            for row, lane in enumerate(lanes):
                words = kernels.lane_words(first, count, lane, self.chain.seed, stream)[0]
                drawn = (words.astype(np.uint64) * np.uint64(size)) >> np.uint64(32)
                out[row, done : done + count] = self._numbers[drawn.astype(np.int64)]
            done += count
        return out

    def chain_state(self, k: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`states` and `visits` of `chains.Chain` before iteration k, as far as a record tells them."""
        mdp = self.chain.mdp
        if k < self._counted:  # asked for again from the start
            self._counted, self._ends[:], self._visits[:] = 0, 0, 0
        while self._counted < k:
            n = min(k - self._counted, _BLOCK)
            numbers = self._of_lanes(self._counted, n, self.chain.lanes[: len(self._visits)])
            passed = unpack(numbers, self.chain.model.shift)
            ended = mdp.terminal[passed.y]
            seen = (ended, ended & mdp.goal[passed.y], passed.paid)
            self._ends += np.stack([np.count_nonzero(flags, axis=1) for flags in seen], axis=1)
            for own, pairs in zip(self._visits, passed.pair, strict=True):
                own += np.bincount(pairs, minlength=len(mdp.pairs))
            self._counted += n
        lanes = rows if self._drawn else np.zeros(len(rows), np.int64)
        states = np.zeros((len(rows), 6), np.int64)
        states[:, 2], states[:, 3:] = k, self._ends[lanes]
        return states, self._visits[lanes].astype(np.int32)


def pinned(node: Any) -> Any:
    """The settings of `sampling=recorded` with the absolute path and the content, so that a run can be repeated."""
    if not isinstance(node, dict) or node.get("_target_") != "mqlearn.Recorded" or node.get("content") is not None:
        return node
    try:
        return node | {"path": str(followed(node["path"])), "content": Recorded(node["path"]).digest()}
    except (SettingError, KeyError, TypeError):
        return node  # refused where the sampling is made
