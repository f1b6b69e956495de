"""Recorded transitions: samples (x, u, r, y) of a file or of arrays, learned from once each, in their order.

Every seed learns from the same transitions, so a run has one seed. The reward in the target is the recorded one, also
where the model knows another; with reward=mean it is R(x, u) of the model.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from mqlearn import files
from mqlearn.checks import choice
from mqlearn.errors import SettingError, nearest
from mqlearn.learning.sample_numbers import pack, unpack
from mqlearn.paths import expanded
from mqlearn.problems.mdp import FiniteMDP

if TYPE_CHECKING:
    from mqlearn.learning import kernels

_NEEDED = ("x", "u", "r", "y")
_DTYPES = {"x": np.int64, "u": np.int64, "r": np.float64, "y": np.int64, "terminal": np.bool_}
_KINDS = {"x": "iu", "u": "iu", "r": "iuf", "y": "iu", "terminal": "b"}
_WORD = 2**32


@dataclass(frozen=True, eq=False)
class Recorded:
    """Recorded transitions of the model, replayed in their order: iteration k learns from transition k.

    >>> import numpy as np
    >>> seen = {"x": np.array([0, 0, 1]), "u": np.array([0, 1, 0]), "r": np.array([5.0, 10.0, -1.0]),
    ...         "y": np.array([0, 1, 1])}
    >>> mq.run(mq.two_state(), mq.QLearning(), iterations=3, n_seeds=1, sampling=mq.Recorded(seen)).status
    'finished'

    path: a .npz file with the arrays x, u (state and action), r (reward) and y (next state), (N,) each, and if wanted
        `terminal` (N,) bool, whether y is terminal, which must be what the model says; or a mapping of these arrays.
    content: SHA-256 of the arrays, as a run records it, so that a rerun refuses transitions that have changed.
    clock: the k of a table's step size, "global" iterations or "local" visits of the pair.

    Raises SettingError for a file that cannot be read and for arrays of other shapes or kinds.
    """

    name: ClassVar[str] = "recorded"
    adaptive: ClassVar[bool] = False
    behaviour: ClassVar[str] = "recorded"
    update: ClassVar[str] = "pair"
    path: Any
    content: str | None = None
    clock: str = "global"

    def __post_init__(self) -> None:
        choice("sampling.clock", self.clock, ("global", "local"))
        if self.content is not None and self.content != self.digest():
            changed = f"has changed: the SHA-256 of its arrays is {self.digest()[:16]}, of the recorded run's"
            remedy = "put the old file back, or start a new run with sampling.content=null"
            raise SettingError("sampling.path", self._shown, f"{changed} {str(self.content)[:16]}; {remedy}")

    def __len__(self) -> int:
        return len(self.transitions["x"])

    @property
    def _shown(self) -> str:
        return "arrays" if isinstance(self.path, Mapping) else str(self.path)

    @cached_property
    def transitions(self) -> dict[str, np.ndarray]:
        """x, u, y (N,) int64, r (N,) and terminal (N,) bool where it is given."""
        fields = dict(self.path) if isinstance(self.path, Mapping) else _read(self.path)
        missing = [name for name in _NEEDED if name not in fields]
        unknown = [name for name in fields if name not in _DTYPES]
        if missing or unknown:
            wrong = [f"it has no {name}" for name in missing]
            wrong += [f"{name} is unknown{nearest(str(name), _DTYPES)}" for name in unknown]
            expected = f"must have the arrays x, u, r, y, and may have terminal: {'; '.join(wrong)}"
            raise SettingError("sampling.path", self._shown, expected)
        return {name: self._field(name, fields[name], np.shape(fields["x"])) for name in fields}

    def _field(self, name: str, given: Any, shape: tuple[int, ...]) -> np.ndarray:
        array = np.asarray(given)
        if array.ndim != 1 or array.shape != shape or not array.size:
            expected = f"{name} has the shape {array.shape}; all arrays must have one shape (N,), N >= 1"
            raise SettingError("sampling.path", self._shown, expected)
        if array.dtype.kind not in _KINDS[name]:
            kind = {"iu": "whole numbers", "iuf": "numbers", "b": "truth values"}[_KINDS[name]]
            raise SettingError("sampling.path", self._shown, f"{name} must be an array of {kind}, not {array.dtype}")
        if not np.isfinite(array).all():
            first = int((~np.isfinite(array)).argmax())
            raise SettingError("sampling.path", self._shown, f"{name}[{first}]={array[first]} must be finite")
        return array.astype(_DTYPES[name])

    def digest(self) -> str:
        """Hexadecimal SHA-256 of the arrays, whatever file they lie in."""
        code = hashlib.sha256()
        for name in _DTYPES:
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
            self._refuse(seen["terminal"] != mdp.terminal[y], f"terminal is not what {mdp.name} says of y")
        if iterations > len(self):
            expected = f"is more than the {len(self)} transitions of {self._shown}; each is learned from once"
            raise SettingError("iterations", iterations, expected)
        if n_seeds != 1:
            expected = "must be 1 with recorded transitions: every seed would learn from the same ones"
            raise SettingError("n_seeds", n_seeds, expected)

    def _refuse(self, wrong: np.ndarray, problem: str) -> None:
        if wrong.any():
            i = int(wrong.argmax())
            x, u, y = (int(self.transitions[name][i]) for name in ("x", "u", "y"))
            raise SettingError("sampling.path", self._shown, f"transition {i} (x={x}, u={u}, y={y}): {problem}")

    def distribution(self, mdp: FiniteMDP) -> np.ndarray:
        """(S, A): the share of each pair among all transitions."""
        counts = np.zeros((mdp.n_states, mdp.n_actions))
        np.add.at(counts, (self.transitions["x"], self.transitions["u"]), 1.0)
        return counts / len(self)

    def samples(self, mdp: FiniteMDP, mean_reward: bool) -> "tuple[kernels.Model, np.ndarray]":
        """The transitions as the kernels read samples (N,) uint64, with the model of what each number stands for.

        The model has an outcome for each next state and reward that was recorded of a pair.
        """
        from mqlearn.learning import kernels

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
    """`chains.Samples` of recorded transitions: the same ones for every seed of `lanes` (L,) uint32."""

    def __init__(self, mdp: FiniteMDP, sampling: Recorded, lanes: np.ndarray, seed: int, mean_reward: bool) -> None:
        model, self._numbers = sampling.samples(mdp, mean_reward)
        self.chain = _Source(mdp, lanes, np.uint32(seed), model)

    def draw(self, n: int) -> None:
        """The next n iterations: they are there."""

    def forget(self) -> None:
        """They are kept."""

    def block(self, k: int, n: int, rows: np.ndarray) -> np.ndarray:
        """(len(rows), n) samples of iterations k .. k + n - 1."""
        return np.tile(self._numbers[k : k + n], (len(rows), 1))

    def chain_state(self, k: int, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """`states` and `visits` of `chains.Chain` before iteration k, as far as a record tells them."""
        mdp, passed = self.chain.mdp, unpack(self._numbers[:k], self.chain.model.shift)
        ended, goal = mdp.terminal[passed.y], mdp.goal[passed.y]
        state = [0, 0, k, *(np.count_nonzero(seen) for seen in (ended, ended & goal, passed.paid))]
        visits = np.bincount(passed.pair, minlength=len(mdp.pairs)).astype(np.int32)
        return np.tile(np.array(state, np.int64), (len(rows), 1)), np.tile(visits, (len(rows), 1))


def _read(path: Any) -> dict[str, np.ndarray]:
    if Path(str(path)).suffix != ".npz":
        raise SettingError("sampling.path", path, "must end in .npz")
    try:
        return files.arrays(expanded(str(path)))
    except (OSError, ValueError) as error:  # objects in arrays are a ValueError
        raise SettingError("sampling.path", path, f"cannot be read ({getattr(error, 'strerror', error)})") from None


def pinned(node: Any) -> Any:
    """The settings of `sampling=recorded` with the absolute path and the content, so that a run can be repeated."""
    if not isinstance(node, dict) or node.get("_target_") != "mqlearn.Recorded" or node.get("content") is not None:
        return node
    try:
        return node | {"path": str(expanded(node["path"]).resolve()), "content": Recorded(node["path"]).digest()}
    except (SettingError, KeyError, TypeError):
        return node  # refused where the sampling is made
