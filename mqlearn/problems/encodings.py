"""Features of a point in [0, 1]^k: the centre of a tile of a map, or a Box observation scaled to its bounds.

Each action has a copy of the features of the state: feature i and action u are column i A + u of Phi.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.checks import check_int, finite_number
from mqlearn.errors import SettingError
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.problems.feature_rows import Features, check_norm, grid_sides
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.rounding import POWERS

if TYPE_CHECKING:
    import gymnasium

_MOST_FEATURES = 2**20  # of a state
_MOST_ENTRIES = 2**26  # active entries of all pairs: 0.8 GB
_BELOW_ONE = math.nextafter(1.0, 0.0)
# CartPole's velocities have no bounds, and its other two bounds are twice those at which an episode ends.
_BOUNDS = {name: [2.4, 3.0, 0.21, 3.5] for name in ("CartPole-v0", "CartPole-v1")}

# Points (N, k) in [0, 1)^k -> columns (N, F) and values (N, F).
Encoder = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False, repr=False)
class BoxMap:
    """Features of a Box observation, for environments without a model.

    low, high (k,): the box that is scaled to [0, 1]^k; an observation outside is moved to its edge.
    n_features: d. With `i, values = box_map(observation)` the estimates of the A actions are
        `values @ theta.reshape(-1, A)[i]`.
    norm: "unit" or "none", as in `Features`.
    encode: points (n, k) in [0, 1)^k -> columns (n, F) and values (n, F).   tiling: tiles a side and displacements
        (tilings, k) of tile coding, which kernels compute by themselves; None for other encodings.
    """

    name: str
    low: np.ndarray
    high: np.ndarray
    n_actions: int
    n_features: int
    norm: str
    encode: Encoder
    tiling: tuple[int, np.ndarray] | None = None

    def __repr__(self) -> str:
        axes = len(self.low)
        return f"BoxMap({self.name!r}, d = {self.n_features}, {axes} axes, {self.n_actions} actions, norm {self.norm})"

    def __call__(self, observation: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Active features of the state (F,) and their values (F,). observation (k,)."""
        indices, values = self.many(observation[None])
        return indices[0], values[0]

    def many(self, observations: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of observations (n, k): (n, F) and (n, F)."""
        points = (observations - self.low) / (self.high - self.low)
        indices, values = self.encode(np.minimum(np.maximum(points, 0.0), _BELOW_ONE))
        return indices, values / np.sqrt((values * values).sum(1, keepdims=True)) if self.norm == "unit" else values

    @property
    def grid(self) -> np.ndarray:
        """(2 + tilings, k) of tile coding, as `tile_columns` reads it; without rows for other encodings."""
        if self.tiling is None:
            return np.zeros((0, len(self.low)))
        return np.concatenate([[self.low, self.high - self.low], self.tiling[1]])


def tile_coding(
    mdp: "FiniteMDP | Simulator | gymnasium.Env",
    *,
    tilings: int = 8,
    tiles: int = 8,
    norm: str = "unit",
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
) -> "Features | BoxMap":
    """Tile coding: `tilings` grids of `tiles` tiles a side, one active tile in each.

    Grid t is displaced by t (1, 3, 5, ...) mod `tilings` parts of a tile, and has one tile more a side for it
    (Sutton and Barto 2018, section 9.5.4). low, high: of a Box observation, see `BoxMap`; by default the
    bounds of the space, for CartPole -/+ (2.4, 3, 0.21, 3.5).
    mdp: a model with a map, or an environment with a Box observation.   norm: unit, max or none, see `Features`. Raises
    SettingError.

    >>> mq.tile_coding(mq.frozen_lake("4x4"), tilings=2, tiles=2)
    Features('tile_coding', d = 72, 44 pairs, 2 active, norm unit)
    """
    tilings, tiles = check_int("features.tilings", tilings, 1), check_int("features.tiles", tiles, 1)

    def prepare(k: int) -> tuple[int, Encoder]:
        size = _limited("features.tiles", tiles, tilings * (tiles + 1) ** k)
        grid = np.concatenate([np.zeros((1, k)), np.ones((1, k)), shift(k)])

        def encode(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            from mqlearn.problems.tiles import tile_columns

            active = np.empty((len(points), tilings), np.int64)
            tile_columns(points, grid, tiles, active)
            return active, np.ones(active.shape)

        return size, encode

    def shift(k: int) -> np.ndarray:
        return np.arange(tilings)[:, None] * (2 * np.arange(k) + 1) % tilings / tilings

    made = _of_points(mdp, "tile_coding", prepare, norm, low, high)
    return replace(made, tiling=(tiles, shift(len(made.low)))) if isinstance(made, BoxMap) else made


def rbf(
    mdp: "FiniteMDP | Simulator | gymnasium.Env",
    *,
    centres: int = 5,
    width: float = 1.0,
    norm: str = "unit",
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
) -> "Features | BoxMap":
    """Gaussians exp(-|z - c|^2 / (2 s^2)) around `centres` points a side, from edge to edge.

    s is `width` times the distance of neighbouring centres. low, high: as in `tile_coding`.
    mdp: a model with a map, or an environment with a Box observation.   norm: unit, max or none, see `Features`. Raises
    SettingError.

    >>> mq.rbf(mq.frozen_lake("4x4"), centres=3).n_features
    36
    """
    centres = check_int("features.centres", centres, 2)
    number = finite_number(width)
    if number is None or not 0.1 <= number <= 100:
        expected = "must be a number from 0.1 to 100, in distances of the centres"
        raise SettingError("features.width", width, expected)
    deviation = number / (centres - 1)

    def prepare(k: int) -> tuple[int, Encoder]:
        size, centre = _limited("features.centres", centres, centres**k), np.linspace(0, 1, centres)

        def encode(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            factors = np.exp(-(((points[:, :, None] - centre) / deviation) ** 2) / 2)
            values = factors[:, 0]
            for j in range(1, k):
                values = (values[:, :, None] * factors[:, j, None, :]).reshape(len(points), -1)
            return np.broadcast_to(np.arange(size), values.shape), values

        return size, encode

    return _of_points(mdp, "rbf", prepare, norm, low, high, POWERS)


def fourier(
    mdp: "FiniteMDP | Simulator | gymnasium.Env",
    *,
    order: int = 3,
    norm: str = "unit",
    low: Sequence[float] | None = None,
    high: Sequence[float] | None = None,
) -> "Features | BoxMap":
    """Fourier basis cos(pi c'z), c in {0..order}^k (Konidaris, Osentoski and Thomas 2011).

    low, high: as in `tile_coding`.
    mdp: a model with a map, or an environment with a Box observation.   norm: unit, max or none, see `Features`. Raises
    SettingError.

    >>> mq.fourier(mq.frozen_lake("4x4"), order=2).n_features
    36
    """
    order = check_int("features.order", order, 0)

    def prepare(k: int) -> tuple[int, Encoder]:
        size = _limited("features.order", order, (order + 1) ** k)
        waves = math.pi * np.indices((order + 1,) * k).reshape(k, size)

        def encode(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            values = np.cos(points @ waves)
            return np.broadcast_to(np.arange(size), values.shape), values

        return size, encode

    return _of_points(mdp, "fourier", prepare, norm, low, high, POWERS)


def _of_points(
    mdp: Any,
    name: str,
    prepare: Callable[[int], tuple[int, Encoder]],
    norm: str,
    low: Any,
    high: Any,
    through: str = "",
) -> "Features | BoxMap":
    """Encode the tiles of a map, or make the map of a Box observation. through: as in `Features`."""
    if not isinstance(mdp, FiniteMDP):
        return _of_box(mdp, name, prepare, norm, low, high)
    for setting, bound in (("features.low", low), ("features.high", high)):
        if bound is not None:
            raise SettingError(setting, bound, "is for environments with a Box observation; a map needs none")
    sides = np.array(grid_sides(mdp, name))
    x, u = mdp.pairs.T
    points = (np.stack(np.divmod(np.arange(mdp.n_states), sides[1]), axis=1) + 0.5) / sides
    size, encode = prepare(2)
    entries = encode(points[:1])[0].size * len(x)
    if entries > _MOST_ENTRIES:
        expected = f"would store {entries} entries for the {len(x)} pairs; at most {_MOST_ENTRIES}"
        raise SettingError("features", name, expected)
    active, values = encode(points)
    return Features(name, active[x] * mdp.n_actions + u[:, None], values[x], size * mdp.n_actions, norm, through)


def _of_box(
    env: Any, name: str, prepare: Callable[[int], tuple[int, Encoder]], norm: str, low: Any, high: Any
) -> BoxMap:
    import gymnasium
    from gymnasium.spaces import Box, Discrete

    env = env.env if isinstance(env, Simulator) else env
    if not isinstance(env, gymnasium.Env):
        raise SettingError("features", name, "needs a FiniteMDP, a Simulator or a gymnasium.Env")
    space, actions = env.observation_space, env.action_space
    label = env.spec.id if env.spec else type(env.unwrapped).__name__
    if not isinstance(space, Box) or len(space.shape) != 1 or not isinstance(actions, Discrete):
        expected = f"needs a map, or a Box observation of one axis and Discrete actions; {label} has neither"
        raise SettingError("features", name, expected)
    if check_norm(norm) == "max":
        expected = "must be unit or none for a Box observation, which has no list of rows to take it from"
        raise SettingError("features.norm", norm, expected)
    own = np.array(_BOUNDS[label]) if label in _BOUNDS else None
    k = space.shape[0]
    low = _bound("features.low", low, space.low.astype(float) if own is None else -own, label)
    high = _bound("features.high", high, space.high.astype(float) if own is None else own, label)
    if not (low < high).all():
        raise SettingError("features.low", low.tolist(), f"must be below features.high={high.tolist()}")
    size, encode = prepare(k)
    return BoxMap(name, low, high, int(actions.n), size * int(actions.n), norm, encode)


def _bound(setting: str, given: Any, default: np.ndarray, label: str) -> np.ndarray:
    if given is None and np.isfinite(default).all():
        return default
    numbers = list(given) if isinstance(given, Sequence | np.ndarray) and not isinstance(given, str) else []
    bounds = [finite_number(number) for number in numbers]
    if len(bounds) != len(default) or None in bounds:
        unbounded = " (its own bounds are infinite)" if given is None else ""
        expected = f"must be {len(default)} finite numbers, one for each entry of the observation of {label}"
        raise SettingError(setting, given, expected + unbounded)
    return np.array(bounds, float)


def _limited(setting: str, value: int, size: int) -> int:
    if size > _MOST_FEATURES:
        raise SettingError(setting, value, f"would give {size} features of a state; at most {_MOST_FEATURES}")
    return size
