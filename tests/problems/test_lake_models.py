"""FrozenLake against Gymnasium's own models and maps, and which maps it refuses."""

import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv, generate_random_map
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mqlearn.errors import SettingError
from mqlearn.problems.environments import (
    from_gymnasium,
    frozen_lake,
    frozen_lake_blocks,
    frozen_lake_random,
)
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal

slow_machine = settings(deadline=None, max_examples=40)


def assert_same_model(mdp: FiniteMDP, env: FrozenLakeEnv) -> None:
    """Outcome for outcome, in order; a terminal state is one outcome, which is certain."""
    assert len(env.P) == mdp.n_states
    for x, actions in env.P.items():
        for u, outcomes in actions.items():
            p, y, r, done = map(np.array, zip(*outcomes, strict=True))
            n = len(outcomes)
            assert n == (1 if mdp.terminal[x] else mdp.n_successors)
            assert np.abs(mdp.probabilities[x, u, :n] - p).max() <= 2e-16
            assert not mdp.probabilities[x, u, n:].any()
            assert np.array_equal(mdp.successors[x, u, :n], y)
            assert np.array_equal(mdp.rewards[x, u, :n], r)
            assert np.array_equal(mdp.terminal[y], done)
    assert np.array_equal(mdp.start, env.initial_state_distrib)
    assert np.array_equal(mdp.goal, (env.desc == b"G").ravel())


@st.composite
def maps(draw: st.DrawFn) -> list[str]:
    rows, columns = draw(st.integers(1, 5)), draw(st.integers(2, 5))  # Gymnasium cannot read a single column
    tiles = draw(st.lists(st.sampled_from("FFFH"), min_size=rows * columns, max_size=rows * columns))
    start, goal = draw(st.lists(st.integers(0, rows * columns - 1), min_size=2, max_size=2, unique=True))
    more = draw(st.integers(0, rows * columns - 1))
    tiles[more], tiles[start], tiles[goal] = "S", "S", "G"
    return ["".join(tiles[i * columns : (i + 1) * columns]) for i in range(rows)]


@slow_machine
@given(
    maps(),
    st.booleans(),
    st.sampled_from([0.0, 1 / 3, 0.8, 1.0]),
    st.tuples(*[st.sampled_from([-1, 0, 2])] * 3),
)
def test_any_map_is_gymnasiums_model(rows, slippery, success_rate, rewards):
    try:
        mdp = frozen_lake(rows, slippery=slippery, success_rate=success_rate, rewards=rewards)
    except SettingError as refused:
        assert "can be reached" in str(refused)
        assume(False)
        raise
    env = FrozenLakeEnv(desc=rows, is_slippery=slippery, success_rate=success_rate, reward_schedule=rewards)
    assert_same_model(mdp, env)
    assert mdp.layout == tuple(rows)


@pytest.mark.parametrize("name", ["4x4", "8x8"])
def test_the_named_maps_are_gymnasiums(name):
    mdp = frozen_lake(name)
    assert_same_model(mdp, FrozenLakeEnv(map_name=name))
    assert mdp.name == f"FrozenLake {name}"
    assert mdp.counted.sum() == {"4x4": 44, "8x8": 212}[name]


def test_the_outcomes_of_slippery_ice_are_exactly_equally_likely():
    mdp = frozen_lake("8x8")
    assert mdp.n_successors == 3
    assert (mdp.probabilities[~mdp.terminal] == 1 / 3).all()
    assert (from_gymnasium("FrozenLake8x8-v1").probabilities[~mdp.terminal] == 1 / 3).all()


def test_the_map_of_blocks_is_gymnasiums_model_of_the_repeated_map():
    mdp = frozen_lake_blocks()
    rows = ["".join(tile * 16 for tile in row) for row in frozen_lake("8x8").layout or () for _ in range(16)]
    assert mdp.n_states == 128 * 128
    assert mdp.discount == 0.99
    assert_same_model(mdp, FrozenLakeEnv(desc=rows, success_rate=0.8))
    assert np.count_nonzero(mdp.start) == 256
    assert np.count_nonzero(mdp.goal) == 256


def test_small_blocks():
    assert frozen_lake_blocks(1, success_rate=1 / 3, discount=0.9).digest() == frozen_lake("8x8").digest()
    assert frozen_lake_blocks(2, ["SG", "FH"]).layout == ("SSGG", "SSGG", "FFHH", "FFHH")


@pytest.mark.parametrize(("size", "frozen", "seed"), [(8, 0.8, 0), (2, 0.1, 4), (12, 0.6, 7), (64, 0.8, 1), (5, 1, 3)])
def test_random_maps_are_gymnasiums(size, frozen, seed):
    mdp, rows = frozen_lake_random(size, frozen, seed), generate_random_map(size, frozen, seed)
    assert mdp.layout == tuple(rows)
    assert mdp.digest() == frozen_lake(rows).digest()


def test_rewards_for_entering_holes_and_ice():
    mdp = frozen_lake(rewards=(1, -1, -0.01), discount=0.99)
    assert optimal(mdp).start_value == pytest.approx(0.084052, abs=5e-7)
    assert frozen_lake(rewards=(1, -5, -0.01)).max_reward == 5
    assert frozen_lake().max_reward == 1


def test_a_map_that_is_no_square():
    mdp = frozen_lake(["SFFFF", "FHFFG"], discount=0.99)
    assert mdp.n_states == 10
    assert optimal(mdp).start_value == pytest.approx(0.85722889, abs=5e-9)


def test_a_column_is_a_row_turned():
    assert optimal(frozen_lake(["S", "F", "F", "G"])).start_value == optimal(frozen_lake(["SFFG"])).start_value


def test_a_map_from_a_file(tmp_path):
    file = tmp_path / "map.txt"
    file.write_text("\ufeffSFFF\r\nFHFH\r\nFFFH\r\nHFFG\r\n\r\n", encoding="utf-8")
    assert frozen_lake(str(file)).digest() == frozen_lake(file).digest() == frozen_lake("4x4").digest()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["FFF", "FHF", "FFG"], "env.map='FFF / FHF / FFG': the map has no start tile S"),
        (["SFF", "FHF", "FFF"], "env.map='SFF / FHF / FFF': the map has no goal tile G"),
        (["SFFF", "FH", "FFFG"], "row 2 (FH) has 2 tiles but row 1 (SFFF) has 4"),
        (["SFF", "HHH", "FFG"], "no goal tile G can be reached"),
        (["SFF", "FXF", "FFG"], "row 2, tile 2 is 'X'"),
        (["sff", "ffg"], "row 1, tile 1 is 's'"),
        ([], "at least one row"),
        ([""], "at least one row"),
        ([1, 2], "text of tiles"),
        (3, "a list of rows"),
        (None, "a list of rows"),
        ("SFFFFHFHFFFHHFFG", "a list of rows"),
        ("4x5", "did you mean '4x4'?"),
        ("no_such_file.txt", "cannot be read as a map file (No such file or directory)"),
    ],
)
def test_a_wrong_map_is_refused(rows, message):
    with pytest.raises(SettingError) as refused:
        frozen_lake(rows)
    assert message in str(refused.value)
