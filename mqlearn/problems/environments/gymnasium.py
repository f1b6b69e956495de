"""Any Gymnasium environment that has a model `P`, behind any number of wrappers, as a FiniteMDP.

P[state][action] is a list of (probability, next state, reward, terminated), as in Gymnasium's toy text.
"""

import copy
import difflib
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from mqlearn.errors import SettingError, user_code
from mqlearn.problems.environments.agreement import check_interface, check_model, first_states
from mqlearn.problems.environments.numbered import as_box, estimated, sizes
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.problems.environments.transition_table import close, read_table
from mqlearn.problems.mdp import FiniteMDP, check_discount

if TYPE_CHECKING:
    import gymnasium

_STEPPED = "must have a Box or finitely many observations, and Discrete actions"  # to be learned from without a model


def from_gymnasium(
    id: "gymnasium.Env | str",
    *,
    discount: float = 0.9,
    start_distribution: Any = None,
    estimate: int | None = None,
    **make_kwargs: Any,
) -> FiniteMDP:
    """The model of an environment, or of gymnasium.make(id, **make_kwargs).

    States and actions are numbered from 0, whatever number the spaces start at. Probabilities of a pair that sum to
    1 within 1e-6 are divided by their sum.
    start_distribution: probabilities (S,) of the first state, or a mapping from states to theirs. By default the
    environment's `initial_state_distrib` or `isd`; without one, uniform over the states that 100 seeded resets show.
    Terminal: a state that a transition enters as `terminated`. If an episode can also go on from that state,
    the terminated transitions lead to one absorbing state, added at the end, instead. A state of which every
    transition stays, ends the episode and pays nothing is terminal in any case.
    Goal: all terminations, on FrozenLake the goal tiles.
    estimate: a number of steps, of which the relative frequencies stand for a table P that there is not.
    Every pair that an episode can meet is stepped from, to see that the model is true, and the environment is left in
    an arbitrary state; one whose state cannot be set is stepped through episodes. What was guessed, changed or not
    checked stands in the model's `notes`.
    discount: in (0, 1]. Raises SettingError: no model, a wrong or untrue one, spaces that are not Discrete, unknown and
    old ids, the old four-value step.

    >>> mq.from_gymnasium("CliffWalking-v1").n_states
    48
    """
    env, name = _environment(id, make_kwargs)
    if estimate is None:
        return _read(env, name, discount, start_distribution)
    if start_distribution is not None:
        raise SettingError("env.start_distribution", start_distribution, "is of a table P; an estimate counts resets")
    check_interface(env.unwrapped, name, None)
    return estimated(env, name, estimate, discount)


def simulator(id: "gymnasium.Env | str", *, discount: float = 0.9, **make_kwargs: Any) -> Simulator:
    """An environment without a model, to be stepped by Gymnasium itself, with a Box or finitely many observations.

    The latter (Discrete, MultiDiscrete, a Tuple of Discrete) are numbered; learn from them with features=one_hot.
    id: of Gymnasium, with `make_kwargs` for gymnasium.make, or an environment.   discount: in (0, 1). Raises
    SettingError for other spaces, unknown and old ids, the old four-value step.

    >>> mq.simulator("CartPole-v1", discount=0.99).n_actions
    2
    """
    from gymnasium.spaces import Box, Discrete

    env, name = _environment(id, make_kwargs)
    check_interface(env.unwrapped, name, None)
    finite = sizes(env.observation_space) is not None
    for what, space, fits in (
        ("observation", env.observation_space, finite or isinstance(env.observation_space, Box)),
        ("action", env.action_space, isinstance(env.action_space, Discrete)),
    ):
        if not fits:
            why = f"its {what} space is a {type(space).__name__}"
            why += "; for its model P use from_gymnasium" if env.has_wrapper_attr("P") else "; it has no exact model"
            raise SettingError("env.id", name, f"{_STEPPED} ({why})")
    return Simulator(name, partial(copy.deepcopy, as_box(env) if finite else env), check_discount(discount))


def by_id(
    id: str,
    kwargs: Mapping[str, Any] | None = None,
    start_distribution: Any = None,
    estimate: int | None = None,
    *,
    discount: float = 0.9,
) -> FiniteMDP | Simulator:
    """`from_gymnasium` with a table P or `estimate`, else `simulator`, as a configuration file names them.

    id: of the environment.   kwargs: of `gymnasium.make`.   start_distribution, estimate, discount: as there.

    Raises SettingError for a start_distribution without a model.
    """
    more = dict(kwargs or {})
    if estimate is not None and start_distribution is None:
        return _estimate_once(id, json.dumps(more, sort_keys=True), estimate).with_discount(discount)
    env, _ = _environment(id, more)
    if estimate is not None or env.has_wrapper_attr("P"):
        return from_gymnasium(id, discount=discount, start_distribution=start_distribution, estimate=estimate, **more)
    if start_distribution is not None:
        raise SettingError("env.start_distribution", start_distribution, "is for environments with a model P")
    return simulator(id, discount=discount, **more)


@functools.lru_cache(maxsize=8)
def _estimate_once(id: str, more: str, estimate: int) -> FiniteMDP:
    """The cells of a sweep share it: stepping takes seconds."""
    return from_gymnasium(id, estimate=estimate, **json.loads(more))


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
    """CliffWalking-v1 (Sutton and Barto, example 6.6): 48 tiles, of which 37 and the goal can be reached.

    discount: in (0, 1].   slippery: every move goes to either side with probability 1/3 each. Raises SettingError.
    """
    mdp = from_gymnasium("CliffWalking-v1", discount=discount, is_slippery=slippery)
    return replace(mdp, layout=(*["F" * 12] * 3, "S" + "C" * 10 + "G"))


def taxi(*, discount: float = 0.9, rainy: bool = False) -> FiniteMDP:
    """Taxi-v4 (Dietterich 2000): 500 states, of which 404 can be reached.

    discount: in (0, 1].   rainy: a move can go to either side. Raises SettingError.
    """
    return from_gymnasium("Taxi-v4", discount=discount, is_rainy=rainy)


def _make(env_id: str, make_kwargs: dict[str, Any]) -> "gymnasium.Env":
    import gymnasium

    # Gymnasium answers for namespace/id and for module:id, which is registered only when it is made.
    if not {":", "/"} & set(env_id) and env_id not in gymnasium.registry:
        raise SettingError("env.id", env_id, _unknown(env_id, list(gymnasium.registry)))
    try:
        with user_code("env.id", env_id):
            return gymnasium.make(env_id, **make_kwargs)
    except SettingError:
        raise
    except (gymnasium.error.Error, ImportError) as error:
        own = (
            "; a module of yours that registers it is named by plugins=[my_module]" if "Namespace" in str(error) else ""
        )
        raise SettingError("env.id", env_id, f"cannot be made: {error}{own}") from None
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


def _read(env: "gymnasium.Env", name: str, discount: float, start_distribution: Any) -> FiniteMDP:
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv

    base: Any = env.unwrapped
    lack = _lack(env)
    table = None
    if not lack:
        with user_code("env.id", name):
            table = read_table(env.get_wrapper_attr("P"), base.observation_space, base.action_space, name)
    runs = check_interface(base, name, table)
    if table is None:
        absent = f"no exact model: errors against the optimum are not available ({lack})"
        ways = "mq.simulator learns without one"
        if sizes(env.observation_space) is not None:
            ways += " (features=one_hot), env.estimate=STEPS makes one from steps"
        raise SettingError("env.id", name, f"{absent}; {ways}")
    start, notes = first_states(base, name, runs, table, start_distribution)
    if runs:
        notes += check_model(env, name, table, start)
    mdp = close(table, start, discount, name, notes)
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
