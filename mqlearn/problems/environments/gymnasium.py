"""Any Gymnasium environment that has a model `P`, behind any number of wrappers, as a FiniteMDP.

P[state][action] is a list of (probability, next state, reward, terminated), as in Gymnasium's toy text.
"""

import contextlib
import copy
import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.checks import are_distributions
from mqlearn.errors import SettingError
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.problems.mdp import FiniteMDP, check_discount

if TYPE_CHECKING:
    import gymnasium

_STEPS = 300  # for comparing the environment with its model
_STEPPED = "must have a Box observation and Discrete actions"  # to be learned from without a model
_RESETS = 100  # for finding the first states


def from_gymnasium(id: "gymnasium.Env | str", *, discount: float = 0.9, **make_kwargs: Any) -> FiniteMDP:
    """The model of an environment, or of gymnasium.make(id, **make_kwargs).

    States and actions are numbered from 0, whatever number the spaces start at.
    Start distribution: the environment's `initial_state_distrib`; without one, uniform over the states that
    100 seeded resets show (dataclasses.replace(mdp, start=...) sets another).
    Terminal: a state that a transition enters as `terminated`. If an episode can also go on from that state,
    the terminated transitions lead to one absorbing state, added at the end, instead.
    Goal: all terminations, on FrozenLake the goal tiles.
    The environment is reset and stepped to see that it agrees with its model, and left in an arbitrary state.
    Raises SettingError: no model, spaces that are not Discrete, unknown and old ids, the old four-value step.
    """
    env, name = _environment(id, make_kwargs)
    return _read(env, name, discount)


def simulator(id: "gymnasium.Env | str", *, discount: float = 0.9, **make_kwargs: Any) -> Simulator:
    """An environment without a model and with a Box observation, to be stepped by Gymnasium itself.

    Raises SettingError for other spaces, unknown and old ids, the old four-value step.
    """
    from gymnasium.spaces import Box, Discrete

    env, name = _environment(id, make_kwargs)
    _check_interface(env.unwrapped, name, None)
    for what, space, kind in (("observation", env.observation_space, Box), ("action", env.action_space, Discrete)):
        if not isinstance(space, kind):
            why = f"its {what} space is a {type(space).__name__}"
            why += "; for its model P use from_gymnasium" if env.has_wrapper_attr("P") else "; it has no exact model"
            raise SettingError("env.id", name, f"{_STEPPED} ({why})")
    return Simulator(name, partial(copy.deepcopy, env), check_discount(discount))


def by_id(id: str, kwargs: Mapping[str, Any] | None = None, *, discount: float = 0.9) -> FiniteMDP | Simulator:
    """`simulator` for a Box observation, else `from_gymnasium`, as a configuration file names them."""
    from gymnasium.spaces import Box

    env, _ = _environment(id, dict(kwargs or {}))
    make = simulator if isinstance(env.observation_space, Box) else from_gymnasium
    return make(id, discount=discount, **dict(kwargs or {}))


def _environment(id: "gymnasium.Env | str", make_kwargs: dict[str, Any]) -> "tuple[gymnasium.Env, str]":
    """The environment and its name. Raises SettingError."""
    import gymnasium

    if isinstance(id, str):
        settings = (f"{key}={value}" for key, value in make_kwargs.items() if len(str(value)) < 20)
        return _make(id, make_kwargs), " ".join([id, *settings])
    if not isinstance(id, gymnasium.Env) or make_kwargs:
        expected = "must be the id of a Gymnasium environment, or a gymnasium.Env without further settings"
        raise SettingError("env.id", id, expected)
    return id, id.spec.id if id.spec else type(id.unwrapped).__name__


def cliff_walking(*, discount: float = 0.9, slippery: bool = False) -> FiniteMDP:
    """CliffWalking-v1 (Sutton and Barto, example 6.6): 48 tiles, of which 37 and the goal can be reached."""
    mdp = from_gymnasium("CliffWalking-v1", discount=discount, is_slippery=slippery)
    return replace(mdp, layout=(*["F" * 12] * 3, "S" + "C" * 10 + "G"))


def taxi(*, discount: float = 0.9, rainy: bool = False) -> FiniteMDP:
    """Taxi-v4 (Dietterich 2000): 500 states, of which 404 can be reached."""
    return from_gymnasium("Taxi-v4", discount=discount, is_rainy=rainy)


def _make(env_id: str, make_kwargs: dict[str, Any]) -> "gymnasium.Env":
    import gymnasium

    # Gymnasium answers for namespace/id and for module:id, which is registered only when it is made.
    if not {":", "/"} & set(env_id) and env_id not in gymnasium.registry:
        raise SettingError("env.id", env_id, _unknown(env_id, list(gymnasium.registry)))
    try:
        return gymnasium.make(env_id, **make_kwargs)
    except (gymnasium.error.Error, ImportError) as error:
        raise SettingError("env.id", env_id, f"cannot be made: {error}") from None
    except TypeError as error:
        key = re.search(r"unexpected keyword argument '(\w+)'", str(error))
        if key is None or key[1] not in make_kwargs:
            raise
        raise SettingError(f"env.kwargs.{key[1]}", make_kwargs[key[1]], f"is no setting of {env_id}") from None


def _unknown(env_id: str, registered: list[str]) -> str:
    def stem(name: str) -> str:
        return re.sub(r"-v\d+$", "", name)

    current = [name for name in registered if stem(name).lower() == stem(env_id).lower()]
    if current:
        newest = max(current, key=lambda name: int(name[len(stem(name)) + 2 :] or 0))
        return f"is not the name of an environment in this Gymnasium; use '{newest}'"
    close = difflib.get_close_matches(env_id, registered, n=1, cutoff=0.8)
    own = "; if a module of yours registers it, name that: plugins=[my_module]"
    return "is not the name of a Gymnasium environment" + (f" (did you mean '{close[0]}'?)" if close else own)


@dataclass(frozen=True)
class _Table:
    """P as arrays (S, A, B), numbered from 0; listed (S, A): the pairs that it holds."""

    p: np.ndarray
    y: np.ndarray
    r: np.ndarray
    done: np.ndarray
    listed: np.ndarray


def _read(env: "gymnasium.Env", name: str, discount: float) -> FiniteMDP:
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    base: Any = env.unwrapped
    lack = _lack(env)
    table = None if lack else _read_table(env.get_wrapper_attr("P"), base, name)
    runs = _check_interface(base, name, table)
    if table is None:
        absent = f"no exact model: errors against the optimum are not available ({lack}); to learn without, it"
        raise SettingError("env.id", name, f"{absent} {_STEPPED}")
    start = _start(base, name, runs, table)
    if runs:
        followed = env.observation_space == base.observation_space and env.action_space == base.action_space
        _compare(env if followed else base, name, table, start)
    mdp = _close(table, start, discount, name)
    if isinstance(base, FrozenLakeEnv) and mdp.n_states == base.desc.size:
        rows = tuple(b"".join(row).decode() for row in base.desc)
        mdp = replace(mdp, goal=(base.desc == b"G").ravel(), layout=rows)
    return mdp


def _lack(env: "gymnasium.Env") -> str:
    """Why the environment has no exact model, or an empty string."""
    from gymnasium.spaces import Discrete

    for kind in ("observation", "action"):
        space = getattr(env.unwrapped, f"{kind}_space", None)
        if not isinstance(space, Discrete):
            return f"its {kind} space is a {type(space).__name__}, not Discrete"
    if not env.has_wrapper_attr("P"):
        return "it has no attribute P"
    return "its P leaves out the fickle passenger" if getattr(env.unwrapped, "fickle_passenger", False) else ""


def _check_interface(base: Any, name: str, table: _Table | None) -> bool:
    """Whether the environment can be reset and stepped at all; SettingError if it does so in the old form."""
    try:
        first = base.reset(seed=0)
    except TypeError as error:
        if "unexpected keyword argument" not in str(error):
            raise
        wrong = "its reset must accept seed= (Gymnasium's interface)"
        with contextlib.suppress(NotImplementedError):
            base.reset()
            wrong += ", and " * bool(step := _step_values(base.step(base.action_space.sample()))) + step
        raise SettingError("env.id", name, wrong) from None
    if first is None:  # gymnasium.Env's own: a bare model
        return False
    if not isinstance(first, tuple) or len(first) != 2:
        raise SettingError("env.id", name, "its reset must return two values: observation, info")
    if table is None:
        action = base.action_space.sample()
    else:  # one that the state has
        action = int(table.listed[_state(first[0], base, name)].argmax()) + int(base.action_space.start)
    try:
        result = base.step(action)
    except NotImplementedError:
        return False
    if wrong := _step_values(result):
        raise SettingError("env.id", name, wrong)
    return True


def _step_values(result: Any) -> str:
    """What is wrong with what a step returned, or an empty string."""
    values = len(result) if isinstance(result, tuple) else 1
    if values == 5:
        return ""
    count = "four values (the old interface)" if values == 4 else f"{values} value(s)"
    return f"its step returns {count}, five are needed: observation, reward, terminated, truncated, info"


def _read_table(model: Any, base: Any, name: str) -> _Table:
    n_states, n_actions = int(base.observation_space.n), int(base.action_space.n)
    states, first = _numbered(model, n_states, int(base.observation_space.start), "P")
    entries: list[tuple[float, ...]] = []
    for x, actions in states.items():
        pairs, _ = _numbered(actions, n_actions, int(base.action_space.start), f"P[{x + first}]")
        for u, outcomes in pairs.items():
            for b, outcome in enumerate(outcomes):
                try:
                    p, y, r, done = outcome
                    entries.append((x, u, b, float(p), int(y) - first, float(r), bool(done)))
                except (TypeError, ValueError):
                    expected = "must be (probability, state, reward, terminated)"
                    raise SettingError(f"P[{x + first}]", outcome, expected) from None
    if not entries:
        raise SettingError("env.id", name, "its P is empty")
    columns = np.array(entries, float).T
    x, u, b = columns[:3].astype(int)
    count = np.zeros((n_states, n_actions), int)
    np.add.at(count, (x, u), 1)
    p, y, r, done = np.zeros((4, n_states, n_actions, count.max()))
    for array, column in zip((p, y, r, done), columns[3:], strict=True):
        array[x, u, b] = column
    if y.min() < 0 or y.max() >= n_states:
        raise SettingError("env.id", name, f"its P leads to a state outside its {n_states} states")
    padding = np.arange(count.max()) >= count[:, :, None]  # repeats the first outcome with probability 0
    y, r = np.where(padding, y[:, :, :1], y), np.where(padding, r[:, :, :1], r)
    # Equally likely outcomes are made exactly so: Gymnasium's (1 - 1/3) / 2 is one bit above 1/3.
    share = 1 / np.maximum(count, 1)[:, :, None]
    equal = (padding | (np.abs(p - share) < 1e-12)).all(2, keepdims=True)
    p = np.where(equal & ~padding, share, p)
    return _Table(p, y.astype(int), r, done > 0, count > 0)


def _numbered(table: Any, n: int, first: int, what: str) -> tuple[dict[int, Any], int]:
    """The items of a dict or list by number from 0, and what was subtracted: the space's start, or 0."""
    items = dict(table.items() if isinstance(table, Mapping) else enumerate(table))
    for offset in (first, 0):
        if all(offset <= key < offset + n for key in items):
            return {int(key) - offset: value for key, value in items.items()}, offset
    raise SettingError(what, sorted(items), f"must be numbered from {first} to {first + n - 1}")


def _start(base: Any, name: str, runs: bool, table: _Table) -> np.ndarray:
    n = len(table.p)
    given = getattr(base, "initial_state_distrib", None)
    if given is not None:
        start = np.asarray(given, float)
        if start.shape != (n,) or not are_distributions(start):
            expected = f"its initial_state_distrib must be {n} probabilities that sum to 1"
            raise SettingError("env.id", name, expected)
        return start / start.sum()
    possible = np.array(table.listed.any(1))
    if runs:
        possible[:] = False
        possible[[_state(base.reset(seed=seed)[0], base, name) for seed in range(_RESETS)]] = True
    else:
        possible[table.y[table.done]] = False
    return np.divide(possible, max(1, np.count_nonzero(possible)))


def _state(observation: Any, env: Any, name: str) -> int:
    space = env.unwrapped.observation_space
    state = int(observation) - int(space.start) if np.ndim(observation) == 0 else -1
    if not 0 <= state < space.n:
        raise SettingError("env.id", name, f"its observation {observation} is not one of its states")
    return state


def _compare(env: Any, name: str, table: _Table, start: np.ndarray) -> None:
    """SettingError if an episode does what the model does not have, as under a wrapper of the rewards."""
    generator = np.random.default_rng(0)
    x, first_action = _state(env.reset(seed=0)[0], env, name), int(env.action_space.start)
    fresh = True
    for _ in range(_STEPS):
        if not table.listed[x].any() or (fresh and not start[x] > 0):
            raise SettingError("env.id", name, f"an episode is in state {x} (from 0), which its model excludes")
        u = int(generator.choice(np.flatnonzero(table.listed[x])))
        observation, reward, terminated, truncated, _ = env.step(u + first_action)
        y = _state(observation, env, name)
        same = (table.y[x, u] == y) & (table.done[x, u] == terminated) & np.isclose(table.r[x, u], reward)
        if not (same & (table.p[x, u] > 0)).any():
            step = f"state {x}, action {u}, next state {y} (from 0), reward {reward}, terminated {terminated}"
            question = "does a wrapper change rewards, states or actions?"
            raise SettingError("env.id", name, f"its model does not have the step that it made: {step}; {question}")
        fresh = bool(terminated or truncated)
        x = _state(env.reset()[0], env, name) if fresh else y


def _close(table: _Table, start: np.ndarray, discount: float, name: str) -> FiniteMDP:
    """The MDP in which `terminated` is a property of states instead of transitions."""
    p, y, r, listed = table.p, table.y, table.r, table.listed
    ends, goes_on = (p > 0) & table.done, (p > 0) & ~table.done
    live = start > 0  # the states in which an episode can be without having ended
    while not live[entered := y[live][goes_on[live]]].all():
        live[entered] = True
    goal = np.zeros(len(start), bool)
    goal[y[ends]] = True
    goal &= ~live
    terminal = goal | ~(live | listed.any(1))
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
    )
