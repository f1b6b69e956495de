"""The test problems: known values, ties, structure, dialects, and that rules learn on them under both samplings."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.problems import classic
from mqlearn.problems.known import PROBLEMS, SOURCES, VALUES, known, problems_table
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import policy_value
from mqlearn.problems.structure import absorbing, deterministic, ergodic, kind, reward_depends_on, tied_states

CONF = Path(__file__).parents[2] / "conf" / "env"
NAMES = sorted(classic.__all__)
NEEDS_SETTINGS = {"file", "frozen_lake", "gymnasium"}
VARIANTS = {
    "forest": {"n": 10, "discount": 0.96},
    "river_swim": {"dialect": "strehl"},
    "deep_sea": {"n": 4, "randomise_actions": True, "map_seed": 3},
    "garnet": {"dialect": "stick"},
    "strens_chain": {"slip": 0.0},
    "gambler": {"n": 7, "p": 1.0},
}


def make(name: str, **settings: object) -> FiniteMDP:
    return getattr(mq, name)(**settings)


# --- values -------------------------------------------------------------------------------------------------------


# State and V* in turn, with the digits that are to be met; none of them was computed with this package.
DIGITS = {
    "two_state": ({}, "0 -8.5714285714 1 -20.0000000000"),
    "forest": ({}, "0 26.244000000 1 29.484000000 2 33.484000000"),
    "forest 10": ({"n": 10, "discount": 0.96}, "0 26.8301859311 9 48.3507194808"),
    "river_swim": (
        {},
        "0 4.6693001607 1 5.0788878941 2 5.9011429679 3 6.9059978984 4 8.0880445273 5 9.4731556288",
    ),
    "river_swim strehl": ({"dialect": "strehl"}, "0 20459.7715473982"),
    "chain_walk": ({}, "0 .701874794 10 -.3411939452 49 .8478009927"),
    "chain_walk_walls": ({}, "0 8.1000000000 1 9.1000000000 2 9.1000000000 3 8.1000000000"),
    "recurring_cliff": ({}, "30 31.7389194279 0 12.4995510732 5 200.0000000000"),
    "lower_bound": ({}, "0 0.0000000000 1 7.5000000000 2 7.5000000000 3 10.0000000000"),
    "strens_chain": ({}, "0 61.379481600 1 64.891289600 2 69.512089600 3 75.592089600 4 83.592089600"),
    "inventory": ({}, "0 17.5318096136 1 21.7212535344 2 25.4441564562 3 27.5318096136"),
    "queue": ({}, "0 -23.9341103758"),
    "machine": ({}, "0 -26.6619130807"),
    "noisy_grid": (
        {},
        "0 2.562500000 1 3.750000000 2 5.000000000 3 1.434375000 4 2.562500000 5 3.750000000 "
        "6 .362656250 7 1.434375000 8 2.562500000 9 0.000000000",
    ),
    "azar_linear": ({}, "1 1.000000000 48 1.000000000 24 -4.375370956 25 -4.375370956"),
    "combination_lock": ({}, "0 .3584633431 48 1.0000000000"),
    "deep_sea": ({}, "0 .9039554549845"),
    "garnet_fixed": ({}, "0 8.4672913367"),
    "gambler": ({}, "25 .160000 50 .400000 75 .640000"),
    "cone": ({}, "0 6.750000000 1 7.500000000 2 7.500000000 3 .000000000 4 .000000000"),
    "truncation_example": ({}, "0 18.000000000 1 20.000000000"),
    "estimation_bias": ({}, "0 110.0000000 1 100.0000000"),
    "bias": ({}, "0 .000000000 1 -.100000000"),
    "bias up": ({"mean": 0.1, "n_actions": 8, "law": "uniform"}, "0 .099900000 1 .100000000"),
    "roulette": ({}, "0 .000000000 1 .000000000"),
    "roulette wheel": ({"bets": "wheel", "discount": 0.95}, "0 .000000000 1 .000000000"),
    "one_state": ({}, "0 .000000000"),
    "double_chain": ({}, "0 60.9254073504 1 67.6948970560 4 100.0000000000 5 55.4466991370"),
    "double_chain stay": ({"stay": 0.2}, "0 59.4394218053 4 100.0000000000 5 54.1419313412"),
    "slip_grid": ({}, "0 .5708811458 1 .6468133217 4 .7395200998 7 .8538566030 8 1.0000000000"),
    "windy_grid": ({}, "30 -14.895453638"),
    "dense_random": ({}, "0 6.945999258317 1 6.561534970644 2 7.164547060606 3 6.934686469918"),
}


@pytest.mark.parametrize("case", DIGITS)
def test_values_to_the_digits_given(case):
    settings, text = DIGITS[case]
    optimum = mq.optimal(make(case.split()[0], **settings))
    words = text.split()
    for x, value in zip(map(int, words[::2]), words[1::2], strict=True):
        unit = 10.0 ** -len(value.partition(".")[2])
        share = 1.0 if case == "gambler" else 0.5  # its discount is not quite 1
        assert abs(optimum.v[x] - float(value)) <= share * unit + optimum.error_bound, (x, value)


def test_closed_forms():
    for g in (0.95, 0.97, 0.99):
        v = mq.optimal(mq.two_state(discount=g)).v
        assert v == pytest.approx([(5 - 5.5 * g) / ((1 - 0.5 * g) * (1 - g)), -1 / (1 - g)], abs=1e-10)
    for g in (0.3, 0.8, 0.99):
        level = 1 / (1 - g)
        v = mq.optimal(mq.lower_bound(discount=g)).v
        assert v == pytest.approx([0, 0.75 * level, 0.75 * level, level], rel=1e-10)
    for n, g in ((3, 0.9), (10, 0.99), (10, 0.999999)):
        v = mq.optimal(mq.deep_sea(n, discount=g)).v
        assert v[0] == pytest.approx(g ** (n - 1) - 0.01 / n * (1 - g**n) / (1 - g), abs=1e-9)
        assert len(v) == n * n + 1 and v[-1] == 0
    assert mq.optimal(mq.deep_sea(discount=0.999999)).v[0] == pytest.approx(0.99, abs=1e-5)


def test_extremes_of_the_six_states():
    optimum = mq.optimal(mq.six_state())
    mdp = mq.six_state()
    assert optimum.q[mdp.learned].max() == pytest.approx(495.9317454937, abs=1e-10)
    assert optimum.q[mdp.learned].min() == pytest.approx(236.8, abs=0.05)
    far = mq.optimal(mq.six_state(discount=0.99)).q[mdp.learned]
    assert [far.max(), far.min()] == pytest.approx([9869.9, 9542.0], abs=0.05)
    assert len(mdp.pairs) == 18


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("chain_walk_walls", [1, 1, 0, 0]),
        ("queue", [0] + [1] * 20),
        ("machine", [0, 0] + [1] * 6),
        ("six_state", [4, 5, 3, 1, 5, 5]),
        ("two_state", [0, 0]),
    ],
)
def test_policies(name, policy):
    mdp = make(name)
    best = np.where(mdp.learned, mq.optimal(mdp).q, -np.inf).argmax(1)
    assert best.tolist() == policy


def test_a_long_lock_is_degenerate():
    """From the goal backwards g^(m-1) - .01 (1 - g^(m-1)) / (1 - g) is positive for m = 1..81 only."""
    v = mq.optimal(mq.combination_lock(150)).v
    assert not v[: 149 - 81].any() and (v[149 - 81 : -1] > 0).all()


def test_values_that_truth_tells_are_those_of_the_models():
    others = {
        "n=10 r1": VARIANTS["forest"], "strehl": {"dialect": "strehl"}, "wheel": {"bets": "wheel", "discount": 0.95},
    }  # fmt: skip
    for (name, discount), values in VALUES.items():
        function = name.split()[0]
        settings = next((given for words, given in others.items() if words in name), {})
        mdp = make(function, **settings)
        mdp = mdp.with_discount(1) if discount == 1 else mdp
        assert (mdp.name, mdp.discount) == (name, discount)
        v = mq.optimal(mdp).v
        assert v[list(values)] == pytest.approx(list(values.values()), abs=1e-6 if function == "gambler" else 1e-9)
        assert "V(" in known(mdp)["known_values"]
    assert known(mq.forest(4))["known_values"] == "not at these settings"
    assert known(mq.frozen_lake()) == {}


# --- structure ----------------------------------------------------------------------------------------------------

TIED = {
    "chain_walk": 1, "recurring_cliff": 13, "lower_bound": 1, "noisy_grid": 5, "gambler": 36, "bias": 1, "cone": 5,
    "slip_grid": 3, "windy_grid": 1,
}  # fmt: skip
ABSORBING = {
    "two_state": 1, "lower_bound": 1, "recurring_cliff": 13, "cone": 2, "estimation_bias": 1, "one_state": 1,
}  # fmt: skip
DETERMINISTIC = {
    "deep_sea", "noisy_grid", "bias", "estimation_bias", "one_state", "roulette", "truncation_example", "windy_grid",
}  # fmt: skip
ERGODIC = {
    "chain_walk", "chain_walk_walls", "forest", "garnet", "garnet_fixed", "inventory", "machine", "queue",
    "river_swim", "six_state", "strens_chain", "dense_random", "double_chain", "one_state", "truncation_example",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_structure(name):
    mdp = make(name)
    assert ergodic(mdp) == (name in ERGODIC)
    assert deterministic(mdp) == (name in DETERMINISTIC)
    assert tied_states(mdp, mq.optimal(mdp)).sum() == TIED.get(name, 0)
    assert absorbing(mdp).sum() == ABSORBING.get(name, 0)
    expected = dict.fromkeys(("noisy_grid", "bias", "estimation_bias", "roulette"), "chance") | dict.fromkeys(
        ("chain_walk", "garnet", "strens_chain", "azar_linear", "gambler", "double_chain"), "successor"
    )
    assert reward_depends_on(mdp) == expected.get(name, "state and action")


def test_a_ring_without_slips_is_periodic():
    def ring(n: int, stay: float = 0.0) -> FiniteMDP:
        P = np.zeros((n, 1, n))
        P[np.arange(n), 0, (np.arange(n) + 1) % n] = 1 - stay
        P[np.arange(n), 0, np.arange(n)] += stay
        return mq.from_arrays(P, np.ones((n, 1)), discount=0.9)

    assert not ergodic(ring(4))
    assert ergodic(ring(4, 0.1))
    assert ergodic(ring(1))
    assert kind(ring(4), mq.optimal(ring(4))) == "continuing, deterministic moves"


def test_start_states():
    starts = {name: np.flatnonzero(make(name).start).tolist() for name in NAMES}
    others = {"chain_walk": [49], "lower_bound": [1], "noisy_grid": [6], "gambler": [50]}
    others |= {"windy_grid": [30], "truncation_example": [0, 1]}
    everywhere = {"six_state": list(range(6)), "azar_linear": list(range(1, 49))}
    assert starts == {name: [0] for name in NAMES} | others | everywhere
    assert mq.river_swim(dialect="strehl").start.tolist() == [0, 0.5, 0.5, 0, 0, 0]


@pytest.mark.parametrize("name", NAMES)
def test_rows_sum_to_one_and_terminal_states_hold_no_pair(name):
    for settings in ({}, VARIANTS.get(name, {})):
        mdp = make(name, **settings)
        assert np.abs(mdp.probabilities.sum(2)[mdp.learned] - 1).max() < 1e-12
        assert not mdp.learned[mdp.terminal].any()
        assert not mq.optimal(mdp).v[mdp.terminal].any()


def test_only_the_triangle_of_the_deep_sea_counts():
    i, j = np.divmod(np.arange(100), 10)
    assert np.array_equal(mq.deep_sea().counted[:100], np.broadcast_to((j <= i)[:, None], (100, 2)))
    plain, shuffled = mq.deep_sea(6), mq.deep_sea(6, randomise_actions=True, map_seed=1)
    assert plain.digest() != shuffled.digest() != mq.deep_sea(6, randomise_actions=True, map_seed=2).digest()
    assert np.array_equal(mq.optimal(plain).v, mq.optimal(shuffled).v)


@pytest.mark.parametrize("dialect", ["uniform", "normalised", "stick"])
def test_garnets(dialect):
    settings = {"n_states": 12, "n_actions": 2, "n_successors": 4, "dialect": dialect}
    mdp = mq.garnet(**settings, map_seed=5)
    assert mdp.digest() == mq.garnet(**settings, map_seed=5).digest() != mq.garnet(**settings, map_seed=6).digest()
    assert (np.diff(np.sort(mdp.successors, axis=2), axis=2) > 0).all()  # all different
    assert (mdp.probabilities > 0).all()
    means = {"uniform": mdp.probabilities == 0.25, "normalised": mdp.rewards != 0, "stick": mdp.rewards != 0}
    assert means[dialect].all()
    if dialect == "uniform":
        arrival = {(y, r) for y, r in zip(mdp.successors.ravel().tolist(), mdp.rewards.ravel().tolist(), strict=True)}
        assert len(arrival) == 12 and sum(r > 0 for _, r in arrival) == 5 and all(0 <= r < 1 for _, r in arrival)


def test_lower_bound_depends_on_the_discount_and_garnet_fixed_on_nothing():
    assert mq.lower_bound(discount=0.5).probabilities[1, 0, 0] == pytest.approx(2 / 3)
    mdp = mq.garnet_fixed(8, 2, 3)
    assert mdp.successors[1, 1].tolist() == [3, 0, 7]  # 7+11+1, +5 and +20 mod 8: 3, 0, 7
    assert mdp.probabilities[1, 1].tolist() == [1 / 8, 4 / 8, 3 / 8]
    assert mdp.rewards[1, 1].tolist() == [0.4] * 3


# --- running ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_rules_run_on_each(name):
    mdp = make(name)
    for sampling in (mq.Synchronous(), mq.Markovian()):
        result = mq.run(mdp, mq.QLearning(), iterations=50, n_seeds=2, sampling=sampling, n_checkpoints=3)
        assert np.isfinite(result.curves["q_error"]).all()
    assert result.curves["q_error"].shape[0] == 2


def test_a_reward_that_is_random_beside_its_successor_is_drawn():
    """With step 1 a table holds r + g max q(y): from q = 0 on the noisy grid that is -12, 10 or 5, never the mean."""
    mdp = mq.noisy_grid()
    assert (mdp.successors[:, :, 0] == mdp.successors[:, :, 1]).all()  # duplicates are not merged

    def tables(n_seeds: int, **settings: Any) -> np.ndarray:
        step = mq.Constant(1.0)
        q = mq.run(mdp, mq.QLearning(), iterations=1, n_seeds=n_seeds, step_size=step, n_checkpoints=1, **settings).q
        assert q is not None
        return q

    goal = mdp.pairs[:, 0] == 2
    drawn = tables(200, reward="sampled")[:, mdp.learned]
    assert {*drawn[:, ~goal].ravel()} == {-12.0, 10.0} and (drawn[:, goal] == 5).all()
    assert abs((drawn[:, ~goal] == 10).mean() - 0.5) < 4 * 0.5 / np.sqrt(drawn[:, ~goal].size)
    assert (tables(2, reward="mean")[:, mdp.learned][:, ~goal] == -1).all()
    walked = tables(400, sampling=mq.Markovian())[:, 6].sum(1)  # one pair of the first state was visited
    assert {*walked} == {-12.0, 10.0}
    assert abs((walked == 10).mean() - 0.5) < 4 * 0.5 / np.sqrt(400)


# --- yaml, table, messages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_yaml_writes_every_default(name):
    node = yaml.safe_load((CONF / f"{name}.yaml").read_text(encoding="utf-8"))
    assert (node.pop("_target_"), node.pop("name")) == (f"mqlearn.{name}", name)
    parameters = inspect.signature(getattr(mq, name)).parameters
    assert node == {key: one.default for key, one in parameters.items() if key != "discount"}
    assert parameters["discount"].kind is inspect.Parameter.KEYWORD_ONLY


def test_the_table_lists_every_problem():
    assert {*PROBLEMS} == {path.stem for path in CONF.glob("*.yaml")} - NEEDS_SETTINGS
    assert {*SOURCES} == {*NAMES}
    small = {name: make for name, make in PROBLEMS.items() if name not in ("taxi", "frozen_lake_128x128")}
    rows = {row["name"]: row for row in problems_table(small)}
    assert rows["noisy_grid"] == {
        "name": "noisy_grid", "states": 10, "pairs": 36, "discount": 0.95,
        "kind": "episodic, deterministic moves, random rewards, 5 states tied",
    }  # fmt: skip
    assert rows["recurring_cliff"]["kind"] == "continuing, 13 absorbing, random moves, 13 states tied"
    assert rows["frozen_lake_4x4"]["pairs"] == 44


def test_truth_and_problems_tell(mqlearn):
    done = mqlearn("truth", "env=river_swim", "discount=0.95")
    assert done.code == 0, done.err
    assert "V(0)=4.6693001607" in done.out and "Strehl, Littman 2008" in done.out and "ergodic" in done.out
    done = mqlearn("problems", "--json")
    assert done.code == 0 and '"six_state"' in done.out
    done = mqlearn("problems", "env=taxi")
    assert done.code == 2 and "takes no settings" in done.err


@pytest.mark.parametrize(
    ("name", "settings", "setting"),
    [
        ("forest", {"n": 1}, "env.n"),
        ("forest", {"p": 1.5}, "env.p"),
        ("forest", {"r1": np.inf}, "env.r1"),
        ("river_swim", {"n": 2}, "env.n"),
        ("river_swim", {"dialect": "strel"}, "env.dialect"),
        ("chain_walk", {"n": 20}, "env.n"),
        ("chain_walk_walls", {"n": 50}, "env.n"),
        ("lower_bound", {"discount": 0.25}, "discount"),
        ("two_state", {"discount": 1}, "discount"),
        ("strens_chain", {"slip": -0.1}, "env.slip"),
        ("azar_linear", {"n": 2}, "env.n"),
        ("combination_lock", {"n": True}, "env.n"),
        ("deep_sea", {"randomise_actions": 1}, "env.randomise_actions"),
        ("garnet", {"n_successors": 21}, "env.n_successors"),
        ("garnet", {"n_rewarding": 21}, "env.n_rewarding"),
        ("garnet", {"map_seed": -1}, "env.map_seed"),
        ("gambler", {"p": "half"}, "env.p"),
        ("queue", {"n": 1}, "env.n"),
        ("machine", {"n": 1.5}, "env.n"),
        ("bias", {"law": "gauss"}, "env.law"),
        ("bias", {"nodes": 10}, "env.nodes"),
        ("bias", {"deviation": 0}, "env.deviation"),
        ("bias", {"n_actions": 1}, "env.n_actions"),
        ("roulette", {"mean": np.nan}, "env.mean"),
        ("roulette", {"bets": "wheels"}, "env.bets"),
        ("cone", {"discount": 0.2}, "discount"),
        ("cone", {"noise": -0.5}, "env.noise"),
        ("double_chain", {"stay": 1}, "env.stay"),
        ("slip_grid", {"n": 1}, "env.n"),
        ("dense_random", {"dialect": "averages"}, "env.dialect"),
        ("dense_random", {"map_seed": -1}, "env.map_seed"),
    ],
)
def test_what_is_not_admissible_is_named(name, settings, setting):
    with pytest.raises(SettingError) as refused:
        make(name, **settings)
    assert refused.value.setting == setting


def test_optimal_policies_are_worth_the_known_values():
    """A solver that took terminal states for ordinary ones would agree with itself, but not with the policy's value."""
    for name in ("noisy_grid", "azar_linear", "deep_sea"):
        mdp = make(name)
        best = np.where(mdp.learned, mq.optimal(mdp).q, -np.inf).argmax(1)
        assert policy_value(mdp, best) == pytest.approx(mq.optimal(mdp).v, abs=1e-9)
