"""Features: what each builder writes into Phi, against plain formulas, and what it refuses."""

import functools
import inspect
import itertools
import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from random_mdps import mdps
from scipy import sparse

from mqlearn.errors import SettingError
from mqlearn.experiments.settings import instantiate
from mqlearn.paths import CONF
from mqlearn.problems.encodings import BoxMap, fourier, rbf, tile_coding
from mqlearn.problems.environments import cliff_walking, frozen_lake, frozen_lake_blocks, taxi
from mqlearn.problems.feature_rows import Features, null_space
from mqlearn.problems.features import aggregation, from_function, from_matrix, one_hot, tabular

FOLDER = CONF / "features"
slow_machine = settings(deadline=None)


def lengths(features: Features) -> np.ndarray:
    return np.sqrt((features.values**2).sum(1))


def dense(features: Features) -> np.ndarray:
    return features.matrix().toarray()


def for_map(built: object) -> Features:
    assert isinstance(built, Features)
    return built


def for_box(built: object) -> BoxMap:
    assert isinstance(built, BoxMap)
    return built


@functools.cache
def all_features() -> list[Features]:
    lake = frozen_lake()
    return [one_hot(lake), aggregation(lake, tile=2), *(for_map(build(lake)) for build in (tile_coding, rbf, fourier))]


@slow_machine
@given(mdps(), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_table_is_the_product_with_phi(mdp, d, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(mdp.n_states, mdp.n_actions, d)) * (rng.random(d) < 0.5)
    theta = rng.normal(size=(3, 2, d))
    features = from_matrix(mdp, matrix, norm="none")
    expected = np.where(mdp.learned, np.einsum("xud,abd->abxu", matrix, theta), 0.0)
    assert np.allclose(features.table(mdp, theta), expected, rtol=0, atol=1e-12)
    x, u = mdp.pairs.T
    assert np.array_equal(dense(features), matrix[x, u])
    assert features.n_features == d


@slow_machine
@given(mdps(), st.integers(1, 4), st.sampled_from(["unit", "max", "none"]), st.integers(0, 2**32 - 1))
def test_a_function_and_a_matrix_give_the_same_features(mdp, d, norm, seed):
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(mdp.n_states, mdp.n_actions, d)) * (rng.random((mdp.n_states, 1, d)) < 0.6)
    by_matrix = from_matrix(mdp, matrix, norm=norm)
    by_function = from_function(mdp, lambda x, u: matrix[x, u], norm=norm)
    assert by_matrix.digest() == by_function.digest()
    for active, entries in zip(by_matrix.active, matrix[tuple(mdp.pairs.T)], strict=True):
        assert not entries.any() or set(active) == set(np.flatnonzero(entries))  # no columns that a row lacks
    row = np.linalg.norm(dense(by_matrix), axis=1)
    raw = np.linalg.norm(matrix[tuple(mdp.pairs.T)], axis=1)
    assert np.allclose(row[raw == 0], 0)
    if norm == "unit":
        assert np.allclose(row[raw > 0], 1)
    elif norm == "max" and raw.any():
        assert np.allclose(row, raw / raw.max())
    elif norm == "none":
        assert np.allclose(row, raw)


def test_rows_have_norm_one_and_columns_of_their_own_action():
    lake = frozen_lake()
    for features in all_features():
        name = features.name
        assert features.active.shape == features.values.shape == (len(lake.pairs), features.active.shape[1]), name
        assert np.allclose(lengths(features), 1, rtol=0, atol=1e-15), name
        assert np.all(features.active % 4 == lake.pairs[:, 1:]), name  # here every state has all its actions
        assert features.active.max() < features.n_features, name
        x, u = lake.pairs.T
        by_pair = np.zeros((16, 4, features.n_features // 4))
        by_pair[x, u] = dense(features).reshape(len(x), -1, 4)[np.arange(len(x)), :, u]
        assert np.array_equal(by_pair, by_pair[:, :1].repeat(4, axis=1)), name  # the same for each action


def test_terminal_states_have_value_zero():
    lake = frozen_lake()
    for features in all_features():
        table = features.table(lake, np.full(features.n_features, 3.0))
        assert np.array_equal(table[lake.terminal], np.zeros((5, 4))), features.name
        assert np.all(table[~lake.terminal] != 0), features.name


def test_one_hot_is_the_table():
    mdp = taxi()
    features = one_hot(mdp)
    theta = np.arange(len(mdp.pairs), dtype=float)
    assert np.array_equal(features.table(mdp, theta)[tuple(mdp.pairs.T)], theta)
    assert features.rank() == features.n_features == len(mdp.pairs)


@pytest.mark.parametrize("tile", [1, 2, 4])
@pytest.mark.parametrize("mdp", [frozen_lake("8x8"), cliff_walking()], ids=lambda mdp: mdp.name)
def test_aggregation_joins_exactly_the_pairs_of_a_block_and_an_action(mdp, tile):
    features = aggregation(mdp, tile=tile)
    n_rows, n_columns = len(mdp.layout), len(mdp.layout[0])
    block = [(x // n_columns // tile, x % n_columns // tile, u) for x, u in mdp.pairs.tolist()]
    column = features.active[:, 0].tolist()
    assert len(set(zip(block, column, strict=True))) == len(set(block)) == len(set(column))
    assert features.n_features == n_rows * n_columns * 4 // tile**2


def test_the_aggregation_of_the_second_figure_has_4096_columns():
    lake = frozen_lake_blocks(repeat=16, success_rate=0.8)
    features = aggregation(lake, tile=4)
    live = sum(tile not in "HG" for row in lake.layout or () for tile in row) // 16
    assert features.n_features == 4096
    assert features.rank() == len(np.unique(features.active)) == 4 * live == 3392
    assert features.warnings() == ()


def slow_tiles(point: tuple[float, ...], tilings: int, tiles: int) -> set[tuple[int, ...]]:
    """(tiling, tile, tile, ...) of a point, one number at a time."""
    found = set()
    for t in range(tilings):
        shift = [t * (2 * j + 1) % tilings / tilings for j in range(len(point))]
        found.add((t, *(math.floor(z * tiles + s) for z, s in zip(point, shift, strict=True))))
    return found


@pytest.mark.parametrize(("tilings", "tiles"), [(1, 3), (4, 2), (8, 5)])
def test_tile_coding_shares_the_tiles_that_the_definition_shares(tilings, tiles):
    lake = frozen_lake("8x8")
    features = for_map(tile_coding(lake, tilings=tilings, tiles=tiles, norm="none"))
    rows = {x: set(row) for (x, u), row in zip(lake.pairs.tolist(), features.active.tolist(), strict=True) if not u}
    slow = {x: slow_tiles(((x // 8 + 0.5) / 8, (x % 8 + 0.5) / 8), tilings, tiles) for x in rows}
    assert all(len(row) == tilings for row in rows.values())
    for x, y in itertools.combinations(rows, 2):
        assert len(rows[x] & rows[y]) == len(slow[x] & slow[y])
    assert np.all(features.values == 1)


def test_radial_and_fourier_features_are_their_formulas():
    lake = frozen_lake()
    x, u = lake.pairs.T
    z = np.stack([x // 4, x % 4], axis=1) / 4 + 1 / 8
    phi = dense(for_map(rbf(lake, centres=3, width=0.5, norm="none")))
    psi = dense(for_map(fourier(lake, order=2, norm="none")))
    for i, j in itertools.product(range(3), repeat=2):
        near = np.exp(-((z - [i / 2, j / 2]) ** 2).sum(1) / (2 * 0.25**2))
        assert np.allclose(phi[np.arange(len(x)), (3 * i + j) * 4 + u], near, rtol=1e-13)
        wave = np.cos(math.pi * (z @ [i, j]))
        assert np.allclose(psi[np.arange(len(x)), (3 * i + j) * 4 + u], wave, rtol=0, atol=1e-14)


@pytest.mark.parametrize("build", [tile_coding, rbf, fourier])
def test_the_largest_norm_keeps_the_ratios_of_the_rows(build):
    lake = frozen_lake()
    raw, scaled = build(lake, norm="none"), build(lake, norm="max")
    assert lengths(scaled).max() == pytest.approx(1, abs=1e-15)
    assert np.allclose(raw.values / lengths(raw).max(), scaled.values, rtol=1e-14)
    assert raw.digest() != scaled.digest()
    assert raw.digest() == build(lake, norm="none").digest()


@slow_machine
@given(st.integers(1, 12), st.integers(1, 10), st.integers(0, 10), st.floats(0.1, 1), st.integers(0, 2**32 - 1))
def test_the_null_space_is_that_of_a_singular_value_decomposition(n, d, rank, density, seed):
    rng = np.random.default_rng(seed)
    whole = rng.integers(-3, 4, (n, rank)) @ rng.integers(-3, 4, (rank, d)) * (rng.random(d) < density)
    null = null_space(sparse.csr_array(whole.astype(float))).toarray()
    assert null.shape == (d, d - np.linalg.matrix_rank(whole))
    assert np.allclose(null.T @ null, np.eye(null.shape[1]), atol=1e-12)
    assert np.allclose(whole @ null, 0, atol=1e-6)


def test_columns_that_depend_on_each_other_are_reported():
    lake = frozen_lake("8x8")
    coded = for_map(tile_coding(lake, tilings=2, tiles=2))
    assert coded.rank() == np.linalg.matrix_rank(dense(coded)) < len(np.unique(coded.active))
    (text,) = coded.warnings()
    assert f"rank {coded.rank()} in {len(np.unique(coded.active))} used columns" in text
    assert one_hot(lake).warnings() == aggregation(lake, tile=2).warnings() == ()


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1"])
@pytest.mark.parametrize("build", [tile_coding, rbf, fourier])
def test_box_observations_give_entries_inside_theta_of_norm_one(name, build):
    env = gymnasium.make(name)
    box_map = for_box(build(env, **({"tiles": 3} if build is tile_coding else {})))
    rng = np.random.default_rng(0)
    for observation in rng.normal(scale=3, size=(50, len(box_map.low))):
        indices, values = box_map(observation)
        assert indices.shape == values.shape
        assert indices.min() >= 0
        assert indices.max() * box_map.n_actions + box_map.n_actions <= box_map.n_features
        assert values @ values == pytest.approx(1, abs=1e-14)
    env.close()


def test_a_box_observation_is_encoded_like_the_place_on_a_map():
    env = gymnasium.make("MountainCar-v0")
    for build in (tile_coding, rbf, fourier):
        box_map = for_box(build(env, low=[0, 0], high=[1, 1]))
        features = for_map(build(frozen_lake("8x8")))
        for row in (0, 57, 131):
            x, u = frozen_lake("8x8").pairs[row].tolist()
            indices, values = box_map(np.array([x // 8 + 0.5, x % 8 + 0.5]) / 8)
            assert np.array_equal(indices * 4 + u, features.active[row])
            assert np.allclose(values, features.values[row], rtol=1e-14)
    env.close()


def test_observations_outside_the_box_are_moved_to_its_edge():
    env = gymnasium.make("CartPole-v1")
    box_map = for_box(fourier(env, norm="none"))
    assert np.array_equal(box_map.high, [2.4, 3, 0.21, 3.5])
    assert np.array_equal(box_map.low, -box_map.high)
    outside, edge = box_map(np.full(4, 100.0))[1], box_map(box_map.high)[1]
    assert np.array_equal(outside, edge)
    assert np.array_equal(box_map(np.full(4, -np.inf))[1], np.ones(256))
    env.close()


class Unbounded(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))
    action_space = gymnasium.spaces.Discrete(2)


def lake_features(build: Callable, **values: Any) -> Callable:
    return lambda: build(frozen_lake("8x8"), **values)


def box_features(build: Callable, env: Any = "MountainCar-v0", **values: Any) -> Callable:
    return lambda: build(gymnasium.make(env) if isinstance(env, str) else env, **values)


@pytest.mark.parametrize(
    ("build", "setting", "words"),
    [
        (lake_features(aggregation, tile=3), "features.tile", "8x8 map: one of 1, 2, 4, 8"),
        (lake_features(aggregation, tile=0), "features.tile", "whole number, at least 1"),
        (lake_features(aggregation, tile=2.5), "features.tile", "whole number"),
        (lambda: aggregation(taxi()), "features", "needs a grid map, and Taxi-v4"),
        (lambda: fourier(taxi()), "features", "use tabular, one_hot"),
        (lake_features(tile_coding, tiles=0), "features.tiles", "at least 1"),
        (lake_features(tile_coding, tilings=True), "features.tilings", "at least 1"),
        (lake_features(tile_coding, tiles=1000), "features.tiles", "would give 8016008 features"),
        (lake_features(fourier, order=10**6), "features.order", "at most 1048576"),
        (lake_features(fourier, order=700), "features", "entries for the 212 pairs"),
        (lake_features(rbf, centres=1), "features.centres", "at least 2"),
        (lake_features(rbf, width=0), "features.width", "from 0.1 to 100"),
        (lake_features(rbf, width=math.nan), "features.width", "from 0.1 to 100"),
        (lake_features(rbf, norm="units"), "features.norm", "did you mean 'unit'?"),
        (lake_features(fourier, low=[0, 0]), "features.low", "Box observation"),
        (box_features(one_hot), "features", "exact model"),
        (box_features(tabular), "features", "exact model"),
        (box_features(aggregation), "features", "exact model"),
        (box_features(fourier, "FrozenLake-v1"), "features", "FrozenLake-v1 has neither"),
        (box_features(fourier, "Pendulum-v1"), "features", "Pendulum-v1 has neither"),
        (box_features(fourier, None), "features", "needs a FiniteMDP"),
        (box_features(fourier, norm="max"), "features.norm", "unit or none"),
        (box_features(fourier, low=[0, 0, 0]), "features.low", "2 finite numbers"),
        (box_features(fourier, low=[0, math.inf]), "features.low", "2 finite numbers"),
        (box_features(fourier, high="1,1"), "features.high", "2 finite numbers"),
        (box_features(fourier, low=[1, 0]), "features.low", "below features.high"),
        (box_features(rbf, Unbounded()), "features.low", "its own bounds are infinite"),
        (box_features(tile_coding, "Acrobot-v1"), "features.tiles", "features of a state"),
        (lake_features(from_matrix, matrix=np.ones((64, 3, 2))), "features.matrix", "(64, 4, d)"),
        (lake_features(from_matrix, matrix=np.ones((64, 4, 0))), "features.matrix", "d at least 1"),
        (lake_features(from_matrix, matrix=np.full((64, 4, 1), np.inf)), "features.matrix", "finite"),
        (lake_features(from_matrix, matrix=np.full((64, 4, 1), 1j)), "features.matrix", "finite numbers"),
        (lake_features(from_function, function=lambda x, u: np.ones(1 + x)), "features.function(1, 0)", "1 for"),
        (lake_features(from_function, function=lambda x, u: 1.0), "features.function(0, 0)", "d numbers"),
        (lake_features(from_function, function=lambda x, u: ["a"]), "features.function(0, 0)", "finite"),
    ],
)
def test_what_cannot_be_described_is_refused(build, setting, words):
    with pytest.raises(SettingError) as caught:
        build()
    assert caught.value.setting == setting
    assert words in str(caught.value)


def test_every_default_is_written_in_its_file():
    for path in sorted(FOLDER.glob("*.yaml")):
        node = yaml.safe_load(path.read_text())
        target = node.pop("_target_")
        name = node.pop("name")
        assert name == path.stem == target.rpartition(".")[2]
        build = instantiate.locate("features", target, {})
        defaults = {p.name: p.default for p in inspect.signature(build).parameters.values() if p.name != "mdp"}
        assert node == defaults
        features = build(frozen_lake("8x8"), **node)
        assert features is None if name == "tabular" else features.name == name
