"""FrozenLake on any rectangle: Gymnasium's model, outcome for outcome, built with arrays.

Tiles: S start, F ice, H hole, G goal, W wall; holes and goals are terminal. Actions: 0 left, 1 down, 2 right, 3 up.
On slippery ice action u moves in the directions u-1, u, u+1 (mod 4), in this order, with the probabilities
(1-success_rate)/2, success_rate, (1-success_rate)/2. The edge of the map is a wall: a move into a wall stays, and
pays as for entering the tile anew. Source: FrozenLake-v1, which has no walls inside.
"""

import hashlib
import math
import time
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from mqlearn.checks import check_bool, check_int, check_probability, finite_number
from mqlearn.errors import SettingError, nearest
from mqlearn.finding import no_effect
from mqlearn.problems.mdp import FiniteMDP

MAPS: dict[str, tuple[str, ...]] = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
}
Map = str | PathLike[str] | Iterable[Any]
_ROW_STEP, _COLUMN_STEP = np.array([0, 1, 0, -1]), np.array([-1, 0, 1, 0])  # left, down, right, up
_LARGEST = 1024  # tiles a side of a generated map: 4 million pairs
_PATIENCE = 5.0  # seconds of looking for a random map that can be crossed


def frozen_lake(
    map: Map = "4x4",
    *,
    discount: float = 0.9,
    slippery: bool = True,
    success_rate: float = 1 / 3,
    rewards: Sequence[float] = (1, 0, 0),
) -> FiniteMDP:
    """FrozenLake on the map "4x4" or "8x8", on rows as `map_rows` reads them, or on those of a text file (.txt).

    rewards: for entering a goal, a hole, ice (start tiles are ice). The first state is uniform over the
    start tiles.   discount: in (0, 1].   slippery: whether moves can slip at all.   success_rate: probability of the
    intended move; the two beside it share the rest. Raises SettingError, also for a map on which no start tile leads
    to a goal.

    >>> lake = mq.frozen_lake("4x4", discount=0.9)
    >>> lake.n_states, lake.n_actions, round(float(mq.optimal(lake).v[0]), 4)
    (16, 4, 0.0689)
    >>> mq.frozen_lake(["SFFG"], slippery=False).terminal.tolist()
    [False, False, False, True]
    """
    rows = map_rows(map)
    return _lake(rows, map_name(rows), discount, slippery, success_rate, rewards)


def frozen_lake_random(
    size: int = 8,
    frozen: float = 0.8,
    map_seed: int = 0,
    *,
    discount: float = 0.9,
    slippery: bool = True,
    success_rate: float = 1 / 3,
    rewards: Sequence[float] = (1, 0, 0),
    max_tries: int = 10_000,
) -> FiniteMDP:
    """FrozenLake on the map that Gymnasium's generate_random_map(size, frozen, map_seed) returns.

    frozen: share of ice.   discount, slippery, success_rate, rewards: as in `frozen_lake`. Gymnasium draws maps until
    one can be crossed, for ever if need be; here at most `max_tries`, for at most 5 seconds. Raises SettingError when
    none of them can be crossed.
    """
    rows = random_map(size, frozen, map_seed, max_tries=max_tries)
    label = f"random {size}x{size} frozen={float(frozen):g} map_seed={map_seed}"
    return _lake(rows, label, discount, slippery, success_rate, rewards)


def frozen_lake_blocks(
    repeat: int = 16,
    base: Map = "8x8",
    *,
    discount: float = 0.99,
    slippery: bool = True,
    success_rate: float = 0.8,
    rewards: Sequence[float] = (1, 0, 0),
) -> FiniteMDP:
    """FrozenLake on a map of which every tile becomes a block of `repeat` x `repeat` tiles (16: 128x128).

    base: the map before, as `frozen_lake` takes it.   discount, slippery, success_rate, rewards: as there. Raises
    SettingError.

    >>> mq.frozen_lake_blocks(2, "4x4").n_states
    64
    """
    repeat = check_int("env.repeat", repeat, 1, _LARGEST)
    small = map_rows(base, "env.base")
    if repeat * max(len(small), len(small[0])) > _LARGEST:
        raise SettingError("env.repeat", repeat, f"the map would be larger than {_LARGEST} tiles a side")
    rows = tuple("".join(tile * repeat for tile in row) for row in small for _ in range(repeat))
    return _lake(rows, _described(rows, "blocks"), discount, slippery, success_rate, rewards, plain=0.8)


def random_map(size: int, frozen: float, map_seed: int, *, max_tries: int = 10_000) -> tuple[str, ...]:
    """Rows of Gymnasium's generate_random_map(size, frozen, map_seed): the same generator, the same draws."""
    from scipy.ndimage import label

    size = check_int("env.size", size, 2, _LARGEST)
    map_seed = check_int("env.map_seed", map_seed, 0)
    frozen, max_tries = check_probability("env.frozen", frozen), check_int("env.max_tries", max_tries, 1)
    generator = np.random.default_rng(map_seed)
    regions = np.empty((size, size), np.int32)
    began, tries = time.monotonic(), 0
    while tries < max_tries and time.monotonic() < began + _PATIENCE:
        tries += 1
        tiles = generator.choice(["F", "H"], (size, size), p=[frozen, 1 - frozen])
        tiles[0, 0], tiles[-1, -1] = "S", "G"
        label(tiles != "H", output=regions)  # joined by sides, as the moves are
        if regions[0, 0] == regions[-1, -1]:
            return tuple("".join(row) for row in tiles)
    problem = f"none of {tries} maps of size {size} can be crossed ({time.monotonic() - began:.0f} s of looking)"
    raise SettingError("env.frozen", frozen, f"{problem}; use more ice: large maps need a share of about 0.6")


def _lake(
    rows: tuple[str, ...],
    label: str,
    discount: float,
    slippery: bool,
    success_rate: float,
    rewards: Sequence[float],
    plain: float = 1 / 3,
) -> FiniteMDP:
    slippery = check_bool("env.slippery", slippery)
    success_rate = check_probability("env.success_rate", success_rate)
    schedule = _reward_schedule(rewards)
    idle = not slippery and not math.isclose(success_rate, plain)
    tiles = np.array([list(row) for row in rows])
    n_rows, n_columns = tiles.shape
    row, column = np.divmod(np.arange(tiles.size)[:, None], n_columns)
    row, column = np.clip(row + _ROW_STEP, 0, n_rows - 1), np.clip(column + _COLUMN_STEP, 0, n_columns - 1)
    entered = row * n_columns + column  # (S, 4), by direction
    tile = tiles.ravel()
    goal, hole, wall = tile == "G", tile == "H", tile == "W"
    entered = np.where(wall[entered], np.arange(tile.size)[:, None], entered)
    if slippery:
        directions = (np.arange(4)[:, None] + [-1, 0, 1]) % 4
        slip = (1 - success_rate) / 2
        # Gymnasium's (1 - 1/3) / 2 is one bit above 1/3; the samplers want outcomes that are equally likely.
        odds = [1 / 3] * 3 if math.isclose(success_rate, 1 / 3, abs_tol=1e-12) else [slip, success_rate, slip]
        label += "" if odds[1] == 1 / 3 else f" success_rate={success_rate:g}"
    else:
        directions, odds = np.arange(4)[:, None], [1.0]
        label += " not slippery"
    terminal = goal | hole | wall  # no episode is ever in a wall
    closed = terminal[:, None, None]
    successors = np.where(closed, np.arange(tile.size)[:, None, None], entered[:, directions])
    paid = np.select([goal, hole], schedule[:2], schedule[2])[successors]
    mdp = FiniteMDP(
        successors=successors,
        probabilities=np.where(closed, np.eye(len(odds))[0], odds) + np.zeros(successors.shape),
        rewards=np.where(closed, 0.0, paid),
        terminal=terminal,
        admissible=np.ones((tile.size, 4), bool),
        start=(tile == "S") / max(1, np.count_nonzero(tile == "S")),
        discount=discount,
        goal=goal,
        name=f"FrozenLake {label}",
        layout=rows,
        notes=(no_effect("env.success_rate", success_rate, "slippery=false").text,) if idle else (),
    )
    if not (mdp.reachable & goal).any():
        raise SettingError("env.map", " / ".join(rows), "no goal tile G can be reached from a start tile S")
    return mdp


def map_rows(given: Map, setting: str = "env.map") -> tuple[str, ...]:
    """The rows of a map as texts of tiles, checked: a rectangle of known tiles with a start and a goal.

    given: "4x4" or "8x8"; the path of a text file (.txt) with a row a line; a list of rows; letters one by one, as
    lists of lists or as an array of texts or bytes, like Gymnasium's `env.unwrapped.desc`. Blanks and commas between
    tiles are left out; a wall is W or #. Raises SettingError.
    """
    if isinstance(given, str) and given in MAPS:
        return MAPS[given]
    if isinstance(given, PathLike) or (isinstance(given, str) and given.lower().endswith(".txt")):
        try:
            lines = Path(given).read_text(encoding="utf-8-sig").splitlines()
            rows = [row for line in lines if (row := _tiles(line))]
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not a text file"
            raise SettingError(setting, str(given), f"cannot be read as a map file ({reason})") from None
    elif isinstance(given, str | bytes) or not isinstance(given, Iterable):
        hint = nearest(given, MAPS) if isinstance(given, str) else ""
        expected = "must be '4x4', '8x8', a list of rows such as [SFFF,FHFH,FFFH,HFFG], or a path that ends in .txt"
        raise SettingError(setting, given, expected + hint)
    else:
        rows = [_tiles(row) for row in given]
    shown = " / ".join(map(str, rows))
    if not rows or not all(rows):
        raise SettingError(setting, shown, "must have at least one row, and each row must be a text of tiles")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            unequal = f"row {number} ({row}) has {len(row)} tiles but row 1 ({rows[0]}) has {len(rows[0])}"
            raise SettingError(setting, shown, unequal)
        for place, tile in enumerate(row, start=1):
            if tile not in "SFHGW":
                known = "tiles are S start, F ice, H hole, G goal, W or # wall"
                raise SettingError(setting, shown, f"row {number}, tile {place} is {tile!r}; {known}")
    for tile, meaning in (("S", "start"), ("G", "goal")):
        if tile not in shown:
            raise SettingError(setting, shown, f"the map has no {meaning} tile {tile}")
    return tuple(rows)


def _tiles(row: Any) -> str:
    """A row as a text of tiles; an empty one for what is no row."""
    letters = [row] if isinstance(row, str | bytes) else list(row) if isinstance(row, Iterable) else []
    texts = [one.decode("latin-1") if isinstance(one, bytes) else one for one in letters]
    if not all(isinstance(one, str) for one in texts):
        return ""
    return "".join(texts).translate({ord(" "): None, ord(","): None, ord("\t"): None, ord("#"): "W"})


def _reward_schedule(rewards: object) -> list[float]:
    numbers = list(rewards) if isinstance(rewards, Iterable) and not isinstance(rewards, str) else []
    schedule = [number for number in map(finite_number, numbers) if number is not None]
    if not len(schedule) == len(numbers) == 3:
        raise SettingError("env.rewards", rewards, "must be three finite numbers, for entering a goal, a hole, ice")
    if 0 < max(map(abs, schedule)) < 1e-150:
        raise SettingError("env.rewards", rewards, "the largest must be 0 or at least 1e-150: smaller ones vanish")
    return schedule


def map_name(rows: Sequence[str]) -> str:
    """A short name of a map's rows: 4x4 or 8x8 for Gymnasium's own, else its size and a digest of its tiles."""
    return next((name for name, own in MAPS.items() if own == tuple(rows)), _described(rows, "map"))


def _described(rows: Sequence[str], kind: str) -> str:
    return f"{len(rows)}x{len(rows[0])} {kind} {hashlib.sha256(' '.join(rows).encode()).hexdigest()[:6]}"
