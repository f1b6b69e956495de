"""Whether an environment does what its table P says: its interface, its first states, and every pair stepped.

A model that is untrue, as under a wrapper that changes rewards, would give exact errors against the wrong optimum.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.checks import are_distributions, finite_number
from mqlearn.errors import SettingError, user_code
from mqlearn.problems.environments.transition_table import Table
from mqlearn.problems.environments.walks import Walk, known, state_of

if TYPE_CHECKING:
    import gymnasium

_PROBES = 40  # random pairs that show whether setting the state works
_TRIES = 200  # steps from one pair, for seeing all its rewards
_RESETS = 100  # for finding the first states
_SUM = 1e-6
_QUESTION = "does a wrapper change rewards, states or actions?"
# Wrappers of Gymnasium's that override step and leave rewards, ends and actions as they are.
_NEUTRAL = (
    "Autoreset", "HumanRendering", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics", "RecordVideo",
    "RenderCollection", "TimeAwareObservation", "TimeLimit",
)  # fmt: skip


def check_interface(base: Any, name: str, table: Table | None) -> bool:
    """Whether the environment can be reset and stepped at all; SettingError if it does so in the old form."""
    with user_code("env.id", name):
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
            action = int(table.listed[state_of(first[0], base, name)].argmax()) + int(base.action_space.start)
        try:
            result = base.step(action)
        except NotImplementedError:
            return False
    if wrong := _step_values(result):
        raise SettingError("env.id", name, wrong)
    return True


def first_states(base: Any, name: str, runs: bool, table: Table, given: Any) -> tuple[np.ndarray, tuple[str, ...]]:
    """The start distribution (S,), and notes on what of it is a guess.

    `given` by the setting env.start_distribution; else the environment's own `initial_state_distrib` or `isd`; else
    uniform over the states that resets show. A state in which every episode is over is no first state.
    """
    n = len(table.p)
    if given is not None:
        start = _distribution("env.start_distribution", given, n)
        if start[table.over].any():
            x = int((table.over & (start > 0)).argmax())
            raise SettingError("env.start_distribution", given, f"must be 0 in state {x}, which is terminal")
        return start, ()
    for attribute in ("initial_state_distrib", "isd"):
        if (own := getattr(base, attribute, None)) is not None:
            start = _distribution("env.id", own, n, f"{name}: its {attribute} ")
            return _without_ends(start, table, f"its {attribute}")
    possible = np.array(table.listed.any(1))
    if runs:
        possible[:] = False
        with user_code("env.id", name):
            seen = [state_of(base.reset(seed=seed)[0], base, name) for seed in range(_RESETS)]
        possible[seen] = True
        how = f"{np.count_nonzero(possible)} states in {_RESETS} resets, taken as equally likely"
    else:
        possible[table.y[table.done]] = False
        how = "it has no reset; all states that end no episode are taken as equally likely"
    start, _ = _without_ends(np.divide(possible, max(1, np.count_nonzero(possible))), table, how)
    note = f"the start distribution is a guess ({how}), and with it which states are terminal"
    return start, (f"{note}; env.start_distribution=[...] sets it",)


def _without_ends(start: np.ndarray, table: Table, whose: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """The distribution without the states in which every episode is over."""
    lost = start[table.over].sum()
    if not lost:
        return start, ()
    start = np.where(table.over, 0.0, start)
    if not start.any():
        raise SettingError("env.start_distribution", None, f"must be given: {whose} shows terminal states alone")
    note = f"{whose} starts {lost:.3g} of the episodes in terminal states, which are left out"
    return start / start.sum(), (note,)


def _distribution(setting: str, given: Any, n: int, whose: str = "") -> np.ndarray:
    """A list of n probabilities, or a mapping from states to theirs, as an array that sums to 1."""
    values = given if isinstance(given, Iterable) and not isinstance(given, str | Mapping) else []
    known = True
    if isinstance(given, Mapping):
        states = {str(x): p for x, p in given.items()}  # yaml's whole numbers may arrive as texts
        values = [states.pop(str(x), 0.0) for x in range(n)]
        known = not states
    numbers = [number for value in values if (number := finite_number(value)) is not None]
    if len(numbers) != n or not known or not are_distributions(numbers, rounding=_SUM):
        expected = f"must be {n} probabilities that sum to 1"
        raise SettingError(setting, given, f"{whose}{expected}" + ", or {state: probability, ...}" * (not whose))
    start = np.array(numbers)
    return start / start.sum()


def check_model(env: "gymnasium.Env", name: str, table: Table, start: np.ndarray) -> tuple[str, ...]:
    """SettingError if stepping does what the model does not have; a note where not every pair could be stepped."""
    base: Any = env.unwrapped
    if env.action_space != base.action_space:
        raise SettingError("env.id", name, "a wrapper changes its actions, so that its P is not the model of it")
    pairs = np.argwhere(table.listed & (table.entered_from(start) & ~table.over)[:, None])
    attribute = _state_attribute(base, name, table, pairs)
    suspects = [] if attribute is None else _check_pairs(env, name, table, pairs, attribute)
    if attribute is None or suspects:
        for one in _wrappers(env):
            if _meddles(one):
                unseen = f" ({len(suspects)} pairs never showed all their rewards)" if suspects else ""
                wrapper = f"its wrapper {type(one).__name__} overrides step or reward"
                raise SettingError("env.id", name, f"{wrapper}, so its P may be untrue{unseen}; leave the wrapper out")
    own = [layer for layer in (*_wrappers(env), base) if not _of_gymnasium(layer)]
    walked = Walk(env, name, table, start, attribute, own).check()
    seen = f"{walked.steps} steps of {walked.episodes} episodes, the longest of {walked.longest}"
    if attribute is None:
        return (f"its state cannot be set, so its P was compared with {seen}, not pair by pair",)
    if walked.hidden:
        later = "what it does later in an episode was not looked at"
        return (f"it keeps {walked.hidden} besides its state; it did what its P says in {seen} steps: {later}",)
    return ()


def _of_gymnasium(layer: Any) -> bool:
    """Whether its code is Gymnasium's own, and nothing of the user's is called in a step."""
    module = type(layer).__module__
    return module.startswith("gymnasium.envs.") or (
        module.startswith("gymnasium.") and (type(layer).__name__ in _NEUTRAL or not _meddles(layer))
    )


def _state_attribute(base: Any, name: str, table: Table, pairs: np.ndarray) -> str | None:
    """The attribute by which the state can be set, as `s` of Gymnasium's own; None if there is none.

    It is one that equals the observation, and from which most steps are those of P: some may be what P has wrong.
    """
    with user_code("env.id", name):
        candidates, generator = set(vars(base)), np.random.default_rng(0)
        observation, over = base.reset(seed=0)[0], False
        for _ in range(_PROBES):
            candidates &= {key for key, value in vars(base).items() if _equal(value, observation)}
            x = state_of(observation, base, name)
            if over or not table.listed[x].any():
                observation, over = base.reset()[0], False
                continue
            u = int(generator.choice(np.flatnonzero(table.listed[x])))
            observation, _, terminated, truncated, _ = base.step(u + int(base.action_space.start))
            over = terminated or truncated
        for attribute in sorted(candidates, key=lambda key: (key not in ("s", "state"), key)):
            agreed, before = 0, getattr(base, attribute)
            probes = generator.permutation(pairs)[:_PROBES]
            for x, u in probes.tolist():
                y, reward, terminated = _step_from(base, attribute, x, u)[:3]
                agreed += known(table, x, u, state_of(y, base, name), reward, terminated)[0]
                base.reset()
            if 2 * agreed > len(probes):
                return attribute
            setattr(base, attribute, before)
    return None


def _equal(value: Any, observation: Any) -> bool:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return whole and np.ndim(observation) == 0 and value == observation


def _step_from(env: Any, attribute: str, x: int, u: int) -> tuple:
    base = env.unwrapped
    setattr(base, attribute, x + int(base.observation_space.start))
    return env.step(u + int(base.action_space.start))


def _disagreement(x: int, u: int, y: int, reward: Any, terminated: Any) -> str:
    step = f"state {x}, action {u}, next state {y} (from 0), reward {reward}, terminated {terminated}"
    return f"its model does not have the step that it made: {step}; {_QUESTION}"


def _check_pairs(env: Any, name: str, table: Table, pairs: np.ndarray, attribute: str) -> list[tuple[int, int]]:
    """Step from every pair until all its rewards and ends were seen; the pairs where some never were."""
    base = env.unwrapped
    plain = env.observation_space == base.observation_space
    left = []
    with user_code("env.id", name):
        env.reset(seed=0)
        for x, u in pairs.tolist():
            possible = table.p[x, u] > 0
            wanted = set(zip(table.r[x, u, possible].tolist(), table.done[x, u, possible].tolist(), strict=True))
            for _ in range(_TRIES):
                observation, reward, terminated, truncated, _ = _step_from(env, attribute, x, u)
                y = state_of(observation if plain else getattr(base, attribute), base, name)
                fits, seen = known(table, x, u, y, reward, terminated)
                if not fits:
                    raise SettingError("env.id", name, _disagreement(x, u, y, reward, terminated))
                if terminated or truncated:
                    env.reset()
                wanted.discard(seen)
                if not wanted:
                    break
            else:
                left.append((x, u))
    return left


def _wrappers(env: Any) -> "list[gymnasium.Wrapper]":
    import gymnasium

    found = []
    while isinstance(env, gymnasium.Wrapper):
        found.append(env)
        env = env.env
    return found


def _meddles(wrapper: Any) -> bool:
    """Whether a wrapper may change rewards, ends or moves."""
    import gymnasium

    known = type(wrapper).__module__.startswith("gymnasium.") and type(wrapper).__name__ in _NEUTRAL
    return not known and type(wrapper).step not in (gymnasium.Wrapper.step, gymnasium.ObservationWrapper.step)


def _step_values(result: Any) -> str:
    """What is wrong with what a step returned, or an empty string."""
    values = len(result) if isinstance(result, tuple) else 1
    if values == 5:
        return ""
    count = "four values (the old interface)" if values == 4 else f"{values} value(s)"
    return f"its step returns {count}, five are needed: observation, reward, terminated, truncated, info"
