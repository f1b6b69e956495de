"""Walks through episodes of an environment with a table P: does it do what P says in the tenth step from a reset too?

A single step from each pair does not show what an environment remembers: a count of its steps that ends an episode, the
action before, a time in its observation.
"""

import contextlib
import inspect
import types
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from mqlearn.errors import SettingError, user_code
from mqlearn.problems.environments.transition_table import Table

_STEPS = 1500  # in episodes of random length, under random actions
_LONGEST = 200  # of these
_FAR = (50, 1000)  # lengths of episodes that keep away from ends
_REPEATS = 40  # of one pair in one episode, between random ones, to see what changes besides the state
_LEAVES = 300  # of what an environment keeps, looked at after a step
_RANDOM = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
_PLAIN = (bool, int, float, str, bytes, complex, np.generic, types.NoneType)


class Walked(NamedTuple):
    """steps, episodes: how many.   longest: steps of one.   hidden: what else than the state has changed, or ''."""

    steps: int
    episodes: int
    longest: int
    hidden: str


def state_of(observation: Any, env: Any, name: str) -> int:
    """The state of an observation, numbered from 0. Raises SettingError."""
    space = env.unwrapped.observation_space
    state = int(observation) - int(space.start) if np.ndim(observation) == 0 else -1
    if not 0 <= state < space.n:
        raise SettingError("env.id", name, f"its observation {observation} is not one of its states")
    return state


def known(table: Table, x: int, u: int, y: int, reward: Any, terminated: Any) -> tuple[bool, tuple[float, bool]]:
    """Whether P has this step, and its reward and end there."""
    for successor, r, done, p in zip(
        table.y[x, u].tolist(), table.r[x, u].tolist(), table.done[x, u].tolist(), table.p[x, u].tolist(), strict=True
    ):
        if p > 0 and successor == y and done == terminated and abs(r - reward) <= 1e-8 + 1e-5 * abs(reward):
            return True, (r, bool(terminated))
    return False, (np.nan, False)


class Walk:
    """Seeded episodes; every step is compared with P, and what is shown must be the same for a state each time.

    attribute: by which the state can be set, or None.   own: the layers of the environment that are the user's code.
    """

    env: Any
    name: str
    table: Table
    start: np.ndarray
    attribute: str | None
    own: list[Any]

    def __init__(
        self, env: Any, name: str, table: Table, start: np.ndarray, attribute: str | None, own: list[Any]
    ) -> None:
        self.env, self.name, self.table, self.start, self.attribute, self.own = env, name, table, start, attribute, own
        self.base: Any = env.unwrapped
        self.plain: Any = env.observation_space == self.base.observation_space
        self.generator = np.random.default_rng(0)
        self.ending = np.where(table.listed, (table.p * table.done).sum(2), np.inf)  # (S, A) probability of an end
        self.over: np.ndarray = table.over
        live = table.entered_from(start) & ~self.over
        self.safe: np.ndarray = np.argwhere((self.ending == 0) & live[:, None])
        self.shown: dict[int, str] = {}
        self.inner: Any = None  # the base's own observation
        self.steps = self.episodes = self.longest = self.walked = 0

    def check(self) -> Walked:
        """Raises SettingError for a step or an observation that the model does not have."""
        with user_code("env.id", self.name), self._watched():
            for length in np.exp(self.generator.uniform(0, np.log(_LONGEST), _STEPS)).astype(int).tolist():
                if self.steps < _STEPS:
                    self._episode(length, far=False)
            for length in _FAR:
                self._episode(length, far=True)
            hidden = self._hidden()
        return Walked(self.steps, self.episodes, self.longest, hidden)

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """The base's own observation stands in `self.inner` where wrappers make another one of it."""
        if self.plain:
            yield
            return

        def watched(call: Any) -> Any:
            def recorded(*given: Any, **settings: Any) -> Any:
                result = call(*given, **settings)
                self.inner = result[0]
                return result

            return recorded

        before = {name: vars(self.base).get(name) for name in ("reset", "step")}
        for name in before:
            setattr(self.base, name, watched(getattr(self.base, name)))
        try:
            yield
        finally:
            for name, own in before.items():
                delattr(self.base, name) if own is None else setattr(self.base, name, own)

    def _reset(self) -> int:
        observation, _ = self.env.reset(seed=0) if self.episodes == 0 else self.env.reset()
        self.episodes += 1
        self.walked = 0
        x = self._state(observation)
        if self.attribute is None and not self.start[x] > 0:
            raise self._excluded(x)
        return x

    def _excluded(self, x: int) -> SettingError:
        return SettingError("env.id", self.name, f"an episode is in state {x} (from 0), which its model excludes")

    def _state(self, observation: Any) -> int:
        """The state; what is shown of it must be the same each time."""
        if self.plain:
            return state_of(observation, self.env, self.name)
        y = state_of(self.inner, self.env, self.name)
        shown = repr(observation)
        if self.shown.setdefault(y, shown) != shown:
            both = " and ".join(" ".join(text.split()) for text in (self.shown[y], shown))
            seen = (
                f"it is not Markov in what it shows, so its P is not the model of it: of state {y} (from 0) it showed"
            )
            raise SettingError("env.id", self.name, f"{seen} {both}; leave the wrapper out that changes observations")
        return y

    def _step(self, x: int, u: int) -> tuple[int, bool]:
        """The next state, and whether the episode is over."""
        observation, reward, terminated, truncated, _ = self.env.step(u + int(self.env.action_space.start))
        y = self._state(observation)
        self.steps += 1
        self.walked += 1
        self.longest = max(self.longest, self.walked)
        if not known(self.table, x, u, y, reward, terminated)[0]:
            step = f"state {x}, action {u}, next state {y} (from 0), reward {reward}, terminated {terminated}"
            seen = f"in step {self.walked} from a reset it did what its P does not have: {step}"
            question = "is it Markov in its state, or does it, or a wrapper, count its steps or keep an action?"
            raise SettingError("env.id", self.name, f"{seen}; {question}")
        return y, bool(terminated or truncated)

    def _set(self, x: int) -> None:
        setattr(self.base, str(self.attribute), x + int(self.base.observation_space.start))

    def _episode(self, length: int, far: bool) -> None:
        """An episode of at most `length` steps; `far`: by the actions that end it least, from states that are set."""
        x = self._reset()
        if self.over[x]:
            return
        for _ in range(length):
            listed = np.flatnonzero(self.table.listed[x])
            if not len(listed):
                raise self._excluded(x)
            if far:
                least = listed[self.ending[x, listed] == self.ending[x, listed].min()]
                u = int(self.generator.choice(least))
                if self.attribute is not None and len(self.safe) and self.ending[x, u] > 0:
                    x, u = self.generator.choice(self.safe).tolist()
                    self._set(x)
            else:
                u = int(self.generator.choice(listed))
            x, over = self._step(x, u)
            if over:
                return

    def _hidden(self) -> str:
        """The attribute of the user's own classes that changes from step to step where the state does not, or ''."""
        if not self.own or self.attribute is None or not len(self.safe):
            return ""
        kept: dict[tuple[int, int], dict[str, Any]] = {}
        x, u = self.generator.choice(self.safe).tolist()
        self._reset()
        for _ in range(_REPEATS):
            before_it = self.generator.choice(self.safe).tolist()
            self._set(before_it[0])
            self._step(*before_it)
            self._set(x)
            y, over = self._step(x, u)
            now = {path: value for layer in self.own for path, value in _leaves(layer)}
            before = kept.setdefault((u, y), now)
            changed = [path for path in now if path in before and before[path] != now[path]]
            if changed:
                return changed[0]
            if over:
                return ""
        return ""


def _is_code(value: Any) -> bool:
    return isinstance(value, types.ModuleType | types.FunctionType | types.BuiltinFunctionType | type)


def _leaves(layer: Any) -> list[tuple[str, Any]]:
    """The plain values that an environment or a wrapper keeps, by their dotted names; random generators left out."""
    found: list[tuple[str, Any]] = []
    seen: set[int] = set()
    waiting: list[tuple[str, Any, int]] = [(type(layer).__name__, layer, 0)]
    while waiting and len(found) < _LEAVES:
        path, value, depth = waiting.pop(0)
        if isinstance(value, _PLAIN):
            found.append((path, value))
            continue
        if isinstance(value, _RANDOM) or id(value) in seen or depth > 3:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            found.append((path, value.tobytes() if value.dtype != object and value.size < 1000 else None))
        elif isinstance(value, types.FunctionType):
            variables = inspect.getclosurevars(value)
            used = {**variables.nonlocals, **variables.globals}
            waiting += [(f"{path}.{key}", entry, depth + 1) for key, entry in used.items() if not _is_code(entry)]
        elif isinstance(value, dict):
            waiting += [(f"{path}[{key!r}]", entry, depth + 1) for key, entry in [*value.items()][:30]]
        elif isinstance(value, list | tuple):
            waiting += [(f"{path}[{i}]", entry, depth + 1) for i, entry in enumerate(value[:30])]
            found.append((f"len({path})", len(value)))
        elif not type(value).__module__.startswith(("gymnasium", "numpy")) or depth == 0:
            own = getattr(value, "__dict__", None)
            if isinstance(own, dict):
                hidden = ("env", "P", "step", "reset")
                waiting += [(f"{path}.{key}", entry, depth + 1) for key, entry in own.items() if key not in hidden]
            else:  # such as itertools.count
                found.append((path, repr(value)))
    return found
