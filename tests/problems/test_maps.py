"""Maps of FrozenLake in all the forms in which people keep them, walls, and random maps that are not found."""

import sys
import time

import gymnasium
import numpy as np
import pytest

from mqlearn.errors import SettingError
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.settings.compose import compose
from mqlearn.problems.environments import frozen_lake, frozen_lake_random
from mqlearn.problems.environments.frozen_lake import MAPS, map_rows
from mqlearn.problems.solvers import optimal

LETTERS = [list(row) for row in MAPS["4x4"]]


@pytest.mark.parametrize(
    "given",
    [
        gymnasium.make("FrozenLake-v1").unwrapped.desc,  # pyright: ignore[reportAttributeAccessIssue]  # of FrozenLake
        np.array(LETTERS),
        np.array(LETTERS, "S1"),
        LETTERS,
        [tuple(row) for row in LETTERS],
        [row.encode() for row in MAPS["4x4"]],
        [" ".join(row) for row in LETTERS],
        [",".join(row) for row in LETTERS],
        [", ".join(row) + "," for row in LETTERS],
        ["\t".join(row) for row in LETTERS],
    ],
    ids=["desc", "letters", "bytes", "lists", "tuples", "byte rows", "blanks", "commas", "both", "tabs"],
)
def test_a_map_is_read_in_any_form(given):
    assert map_rows(given) == MAPS["4x4"]
    assert frozen_lake(given).digest() == frozen_lake("4x4").digest()


def test_a_file_with_blanks_or_commas_is_read(tmp_path):
    file = tmp_path / "map.txt"
    file.write_text("S F F F\nF,H,F,H\n\nFFF H\nHFFG\n", encoding="utf-8")
    assert map_rows(str(file)) == MAPS["4x4"]


def test_a_map_of_letters_can_be_set_on_the_command_line():
    cells = [
        build(compose(["env=frozen_lake", f"env.map={text}"])) for text in ("[[S,F],[F,G]]", "[SF,FG]", "['S F',FG]")
    ]
    assert len({cell.digest for cell in cells}) == 1
    assert cells[0].settings["env"]["map"] == ["SF", "FG"]


@pytest.mark.parametrize("wall", ["W", "#"])
def test_a_move_into_a_wall_stays(wall):
    mdp = frozen_lake([f"S{wall}F", "FFG"], slippery=False, rewards=(1, 0, -0.5))
    assert mdp.layout == ("SWF", "FFG")
    assert mdp.successors[0, :, 0].tolist() == [0, 3, 0, 0]  # left, down, right into the wall, up
    assert mdp.rewards[0, :, 0].tolist() == [-0.5] * 4
    assert mdp.successors[2, 0, 0] == 2
    assert mdp.successors[4, 3, 0] == 4
    assert mdp.start.tolist() == [1, 0, 0, 0, 0, 0]
    assert not mdp.counted[1].any() and not mdp.reachable[1]
    assert mdp.goal.tolist() == [False] * 5 + [True]


def test_walls_around_a_map_change_nothing_but_its_size():
    walled = ["######", *(f"#{row}#" for row in MAPS["4x4"]), "######"]
    assert optimal(frozen_lake(walled)).start_value == pytest.approx(optimal(frozen_lake()).start_value, rel=1e-12)


def test_a_random_map_is_not_looked_for_for_ever(monkeypatch):
    module = sys.modules[frozen_lake_random.__module__]
    assert module._PATIENCE <= 5
    monkeypatch.setattr(module, "_PATIENCE", 0.5)
    began = time.monotonic()
    with pytest.raises(SettingError, match=r"env.frozen=0.3: none of \d+ maps of size 1024 can be crossed .* more ice"):
        frozen_lake_random(1024, 0.3)
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("rewards", [[1e-320, 0, 0], [0, -1e-160, 1e-200]])
def test_rewards_too_small_to_calculate_with_are_refused(rewards):
    with pytest.raises(SettingError, match=r"env.rewards=.*: the largest must be 0 or at least 1e-150"):
        frozen_lake(rewards=rewards)
