"""Sequential decisions: the tests on arrays against literal loops, then `mq.decide` and the command line end to end."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
from scipy import stats

import mqlearn as mq
from mqlearn.analysis.decisions import design, prediction
from mqlearn.analysis.decisions.paired import Paired
from mqlearn.analysis.decisions.plan import Plan
from mqlearn.analysis.writing import methods
from mqlearn.learning.in_turn import SeedsInTurn

LAKE = mq.frozen_lake("4x4")
FAST = {"m2": mq.MomentumQ(m=2), "speedy": mq.SpeedyQ()}  # which do not differ much
RULES = FAST | {"plain": mq.QLearning()}


def crossing_look(d: np.ndarray, looks: list[int], level: float) -> int | None:
    """By a loop over all sign patterns of d: at which look it is among the paths that may have crossed."""
    paths = [np.abs(np.array([np.dot(signs[:n], d[:n]) for n in looks])).round(9)
             for signs in itertools.product((1, -1), repeat=len(d))]  # fmt: skip
    crossed: set[int] = set()
    for look, n in enumerate(looks):
        may = int(level * n / (n + 15) * len(paths) + 1e-9) - len(crossed)
        left = sorted((i for i in range(len(paths)) if i not in crossed), key=lambda i: -paths[i][look])
        if may > 0:
            bound = paths[left[may]][look] if may < len(left) else -1
            crossed |= {i for i in left if paths[i][look] > bound}
        if 0 in crossed:
            return n
    return None


def family_look(d: np.ndarray, looks: list[int], level: float, bits: int) -> int | None:
    test = design.Crossings(np.array([level]), bits)
    for n in looks:
        if test.look(design.signs(bits, n) @ d[:n], float(np.abs(d[:n]).sum()), n, design.share(n))[0]:
            return n
    return None


def test_a_path_crosses_where_a_loop_over_all_sign_patterns_says_so():
    random, looks, found = np.random.default_rng(0), [5, 8, 10], []
    for number in range(12):
        d = random.standard_normal(10) + 0.15 * number
        d = np.round(2 * d) if number % 3 == 0 else d  # ties
        found.append(crossing_look(d, looks, 0.4))
        assert family_look(d, looks, 0.4, 10) == found[-1]
    assert {*found} >= {None, 5, 8}


def test_no_more_of_all_outcomes_are_rejected_than_the_error():
    """Of |d|, heavy tails and ties among them, all 2^10 sign patterns: under the hypothesis each is as likely."""
    looks, level = [5, 6, 7, 8, 9, 10], 0.5
    for d in (np.random.default_rng(1).standard_t(1, 10), np.array([0, 0, 1, 1, 1, 2, 2, 0, 1, 3.0])):
        test = design.Crossings(np.array([level]), 10)
        for n in looks:
            test.look(design.signs(10, n) @ d[:n], float(np.abs(d[:n]).sum()), n, design.share(n))
            assert test.crossed.sum() <= level * design.share(n) * 1024
        assert test.crossed.sum() > 0.6 * level * design.share(10) * 1024  # what one look leaves, a later one has


def test_level_over_looks_and_pairs(monkeypatch):
    """Three equal rules, all pairs, heavy tails: of 150 trials as many are false as have a chance of 1 % at 5 %."""
    monkeypatch.setattr(design, "_ENUMERATED", 10)  # fewer paths: as exact, and quick
    random, wrong, looks = np.random.default_rng(2), 0, design.usual_looks(0.05, 3, 25)
    for _ in range(150):
        x = random.standard_t(2, (3, 25))
        d = x[[0, 0, 1]] - x[[1, 2, 2]]
        tests = design.Family(3, 0.05, margins=False)
        wrong += any(tests.look(n, {i: d[i, :n] for i in range(3)})[0].any() for n in looks)
    assert wrong <= stats.binom.isf(0.01, 150, 0.05)


def test_closed_tests_are_holms_and_equal_pairs_give_no_level_back():
    """Against the definition: a hypothesis is rejected if every intersection that it is in is."""
    random = np.random.default_rng(3)
    for hypotheses in (1, 2):
        for _ in range(40):
            crossed = random.random((3, hypotheses, 3)) < 0.6
            expected = np.zeros((3, hypotheses), bool)
            for own in itertools.product(range(3), range(hypotheses)):
                sets = []
                for size in (1, 2, 3):
                    for pairs in itertools.combinations(range(3), size):
                        for kinds in itertools.product(range(hypotheses), repeat=size):
                            if own in (members := list(zip(pairs, kinds, strict=True))):
                                sets.append(any(crossed[j, h, size - 1] for j, h in members))
                expected[own] = all(sets)
            assert np.array_equal(design.rejected(crossed), expected)


def test_looks_begin_where_something_can_be_rejected():
    assert design.usual_looks(0.05, 1, 22) == (10, 15, 20, 22)
    assert design.fewest(0.05, 1) == 7  # 2^-6 = 0.0156 <= 0.05 * 7/22 = 0.0159; of six, 0.0313 > 0.0143
    assert design.usual_looks(0.05, 20, 20) == (11, 15, 20)  # 2^-10 <= 0.0025 * 11/26, and 2^-9 > 0.0025 * 10/25


def test_paths_of_many_pairs_stay_small_and_a_copy_stays_as_it_is():
    """66 pairs with a margin, at the least error that there may be: as many bytes as an eighth of the paths."""
    large = design.Family(66, design.least_error(66), margins=True)
    assert sum(test.packed.nbytes for tests in large.tests for test in tests) < 2.5e8
    one = design.Family(1, 0.05, margins=False)
    other, d = one.copy(), np.linspace(1, 2, 20)
    assert one.look(20, {0: d})[0][0] and one.bound(0) < np.inf
    assert not other.tests[0][0].crossed.any() and other.bound(0) == np.inf and np.isnan(other.p).all()


# --- mq.decide --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def decision():
    return mq.decide(LAKE, RULES, iterations=300, most=22, n_checkpoints=20)


def test_a_decision_has_the_seeds_of_fixed_runs_and_goes_on_as_one_with_the_larger_budget(decision):
    assert [(pair.verdict, pair.seeds) for pair in decision.pairs if pair.b == "plain"] == [("a_better", 10)] * 2
    assert [pair.a for pair in decision.undecided] == ["m2"]
    assert "undecided" in repr(decision.pairs[0].sentence) and "no difference" not in str(decision)
    for name, rule in RULES.items():
        fixed = mq.run(LAKE, rule, iterations=300, n_checkpoints=20, n_seeds=10 if name == "plain" else 22)
        assert decision.results[name].curves["q_error"].tobytes() == fixed.curves["q_error"].tobytes()
    more, looks = decision.more(30), [10, 15, 20, 22, 25, 30]
    at_once = mq.decide(LAKE, RULES, iterations=300, most=30, looks=looks, n_checkpoints=20)
    assert more.looks == at_once.looks and more.pairs == at_once.pairs
    assert decision.undecided and len(decision.looks) == 4  # the first one is as it was


def test_a_decision_says_that_it_was_sequential_and_is_a_table(decision):
    assert "looks at 10 (40 %), 15 (50 %)" in decision.method and "error 0.05" in decision.method
    frame = decision.frame()
    assert len(frame) == 3 and {"sentence", "seeds", "look", "p", "bound", "spent", "saved", "reason"} <= {*frame}
    assert len(repr(decision)) < 100
    assert "symmetric" in decision.method
    notes = [note for row in mq.compare(decision.results) for note in row["notes"]]
    assert any("depends on what they showed" in note for note in notes)


def test_skewness_is_told():
    d = np.array([-1.0, -1, -1, -1, 4])
    one = Paired(d, 0 * d, np.full(5, True), np.zeros((2, 5), bool), identical=False, ratio=False)
    assert one.skewness == pytest.approx(stats.skew(d))


def test_equal_within_a_margin():
    found = mq.decide(LAKE, FAST, iterations=300, margin=2.0, n_checkpoints=20)
    assert found.pairs[0].verdict == "equal" and found.pairs[0].seeds < 200


def test_the_same_curves_stop_a_pair_and_decide_nothing():
    same = mq.decide(LAKE, [mq.QLearning(), mq.QLearning()], iterations=50, n_checkpoints=5)
    assert (same.pairs[0].verdict, same.pairs[0].seeds) == ("same", 10)
    assert "0 of 1 pairs decided" in repr(same) and "no test: up to 26 % of seeds may differ" in str(same)


def test_no_difference_in_any_seed_is_no_verdict():
    """A metric of 0 and 1 that is 0 in the first seeds of both rules: nothing but the budget ends that."""
    small = {"iterations": 50, "n_checkpoints": 5, "metrics": {"large": lambda q, mdp: 1.0 * (q.max(axis=(1, 2)) > 9)}}
    found = mq.decide(LAKE, FAST, **small, metric="large", most=15)
    assert (found.pairs[0].verdict, found.pairs[0].seeds) == ("undecided", 15)
    assert "all differences are 0, from which nothing follows" in found.pairs[0].reason


def test_who_does_not_arrive_is_not_equal():
    late = mq.decide(LAKE, FAST, iterations=50, n_checkpoints=5, summary="time", epsilon=1e-6, margin=1.1, most=15)
    assert (late.pairs[0].verdict, late.pairs[0].seeds) == ("undecided", 15)
    assert "neither arrived by k = 50" in str(late) and "50 and 50" in str(late)


def test_times_that_are_not_known_speak_against_equality():
    """Of logs 0 and 0.1 at margin e, by hand; a seed that is left out says nothing."""
    late, used = np.array([[False, True, False], [False, True, True]]), np.array([True, True, True])
    x, y = np.array([0.0, 2.0, 0.5]), np.array([0.1, 2.0, 2.0])
    ways = Paired(x, y, used, late, identical=False, ratio=True).tested(np.e)
    np.testing.assert_allclose(ways, [[-0.1, 0, -1.5], [-1.1, 2.5, -2.5], [-0.9, 1.0, 1.0]])
    nothing = Paired(0 * x, 0 * y, ~used, late, identical=False, ratio=True).tested(np.e)
    assert not nothing.any()


@pytest.mark.parametrize(
    ("settings", "name", "words"),
    [
        ({"error": 1.0}, "error", "between 0 and 1"),
        ({"looks": [10, 10]}, "looks", "increasing"),
        ({"looks": [5, 10]}, "looks", "begin at 7"),
        ({"most": 9}, "most", "at least 10"),
        ({"margin": 1}, "margin", "above 1"),
        ({"n_seeds": 5}, "n_seeds", "most="),
        ({"level": 0.1}, "level", "error="),
        ({"n_checkpoint": 5}, "n_checkpoint", "no setting of mq.decide .did you mean 'n_checkpoints'"),
        ({"q0": np.zeros((199, 16, 4))}, "q0", "(200, 16, 4)"),
        ({"against": "speed"}, "against", "did you mean 'speedy'"),
        ({"sampling": mq.Recorded({"x": [0], "u": [0], "r": [0.0], "y": [0]})}, "n_seeds", "resample"),
    ],
)
def test_what_is_not_admissible_is_refused_before_anything_runs(settings, name, words):
    with pytest.raises(mq.SettingError, match=words) as refused:
        mq.decide(LAKE, FAST, **{"iterations": 1, **settings})
    assert refused.value.setting == name


def test_a_margin_of_returns_that_cannot_be_above_0_is_refused_or_says_nothing():
    paying = mq.two_state()
    costs = dataclasses.replace(paying, rewards=-np.abs(paying.rewards))
    with pytest.raises(mq.SettingError, match="no reward is"):
        mq.decide(costs, FAST, iterations=1, summary="return", margin=1.1)
    settings = {"iterations": 20, "n_checkpoints": 3, "summary": "return", "metric": "policy_value"}
    (pair,) = mq.decide(paying, FAST, **settings, margin=1.1, most=10).pairs
    assert pair.verdict == "undecided" and pair.mean_a < 0 and "not both above 0 a margin" in pair.reason


def test_a_sweep_names_the_keyword_that_there_is_not_and_the_one_that_lacks():
    with pytest.raises(mq.SettingError, match="foo=1: is no setting of a run"):
        mq.sweep({"lake": LAKE}, FAST, iterations=1, foo=1)  # type: ignore[call-arg]  # wrong on purpose
    with pytest.raises(mq.SettingError, match="iterations=None: must be given"):
        mq.sweep({"lake": LAKE}, FAST)  # type: ignore[call-arg]  # wrong on purpose


def test_one_rule_is_refused_and_so_is_going_on_with_less(decision):
    with pytest.raises(mq.SettingError, match="two rules"):
        mq.decide(LAKE, {"one": mq.QLearning()}, iterations=10)
    with pytest.raises(mq.SettingError, match="more than the 22 seeds"):
        decision.more(20)
    with pytest.raises(mq.SettingError, match="begin at 7"):
        Plan.checked(1, 0.05, None, [5, 6], 20)


# --- what theory says before ------------------------------------------------------------------------------------------


def test_the_predicted_errors_are_those_of_runs():
    """At k = 2000, where the normal limit is near: mean and spread over 60 seeds, with their own uncertainty."""
    turn = SeedsInTurn(LAKE, [mq.SpeedyQ(), mq.Zap()], iterations=2000, n_checkpoints=2)
    (expected, unknown) = prediction.errors(turn.setup, turn.rules)
    error = mq.run(LAKE, mq.SpeedyQ(), iterations=2000, n_checkpoints=2, n_seeds=60).curves["q_error"][:, -1]
    assert unknown is None and expected is not None
    assert abs(error.mean() - expected[0]) < 0.1 * expected[0] + 3 * error.std() / np.sqrt(60)
    assert 0.7 < error.std() / expected[1] < 1.4


def test_the_predicted_seeds_are_the_fewest_with_power_0_8():
    def power(n: int) -> float:
        return float(stats.norm.sf(stats.norm.isf(0.01) - 0.3 * np.sqrt(n) / np.hypot(0.4, 0.3)))

    n = prediction.seeds((1.0, 0.4), (0.7, 0.3), 0.02)
    assert n is not None and power(n) >= 0.8 > power(n - 1)
    assert prediction.seeds((1.0, 0.4), (1.0, 0.3), 0.02) is None


# --- the command line -------------------------------------------------------------------------------------------------


def test_compare_decides_writes_ordinary_runs_and_goes_on(mqlearn, outputs):
    cell = (
        "algorithm=momentum_q,speedy_q",
        "env=frozen_lake_4x4",
        "iterations=100",
        "n_checkpoints=5",
        "tracking=none",
    )
    first = mqlearn("compare", "decide=true", *cell, "most=12", "--json", "-")
    (one,) = json.loads(first.out)
    assert one["looks"] == [10, 12] and one["pairs"][0]["verdict"] == "undecided"
    (again,) = json.loads(mqlearn("compare", "decide=true", *cell, "most=15", "--json", "-").out)
    assert again["looks"] == [10, 12, 15]
    found = mqlearn("compare", "n_seeds=15", "tracking=none")
    assert "15 of 15 pairs" in found.out and "depends on what they showed" in found.out
    told = methods.paragraph(mq.load("default"), {"command": "mqlearn report", "digests": {}})
    assert "depends on what they showed. Sequential: q_error at k = 100" in told and "looks at 10 (40 %), 12" in told
    early = mqlearn("compare", "decide=true", *cell, "most=20", "looks=[11,20]")
    assert early.code == 2 and "11 is not beyond the 15 seeds that were looked at" in early.err
    (outputs / "decisions" / "broken.json").write_text("[]")
    second = mqlearn("compare", "decide=true", *cell, "most=12", "summary=area")
    assert "broken.json is no record of a decision" in " ".join(second.out.split())
    assert "A second question on the same seeds" in second.out
    assert "must be common" in mqlearn("compare", "decide=true", *cell[1:], "algorithm=nesa", "seed=0,1").err


def test_each_question_has_its_own_record_however_it_is_written(mqlearn, outputs):
    """Another rival is another question, with a record of its own; metric and place may be said or left open."""
    cells = (
        "algorithm=momentum_q,speedy_q,q_learning",
        "env=frozen_lake_4x4",
        "iterations=20",
        "n_checkpoints=5",
        "tracking=none",
    )

    def ask(*more):
        done = mqlearn("compare", "decide=true", "most=10", *cells, *more)
        assert done.code == 0, done.err
        return done.out, {path.name for path in (outputs / "decisions").glob("*.json")}

    _, first = ask("against=SpeedyQ")
    again, same = ask("against=SpeedyQ", "at=20", "metric=q_error")
    other, both = ask("against=QLearning")
    assert same == first and len(first) == 1 and "A second question" not in again
    assert len(both) == 2 and "A second question on the same seeds" in other


def test_an_interrupted_decision_keeps_its_looks_and_its_runs(mqlearn, work, outputs):
    """Interrupted among the seeds of the second look, by a metric of the user's; it goes on as if it had not been."""
    (work / "stops.py").write_text(
        "from pathlib import Path\n\n\ndef large(q, mdp):\n"
        "    if len(q) == 2 and Path('stop').exists():\n        raise KeyboardInterrupt\n"
        "    return q.max(axis=(1, 2))\n"
    )
    (work / "stop").touch()
    asked = (
        "decide=true", "algorithm=momentum_q,speedy_q", "env=frozen_lake_4x4", "iterations=20", "n_checkpoints=5",
        "plugins=[stops]", "metrics={large: stops.large}", "most=12", "tracking=none",
    )  # fmt: skip
    assert mqlearn("compare", *asked).code == 130
    (record,) = (outputs / "decisions").glob("*.json")
    stopped = json.loads(record.read_text())
    assert stopped["looks"] == [10] and len([*(outputs / "runs").glob("*/*")]) == len(stopped["runs"]) == 2
    (work / "stop").unlink()
    (whole,) = json.loads(mqlearn("compare", *asked, "--json", "-").out)
    assert whole["looks"] == [10, 12] and [*(outputs / "decisions").glob("*.json")] == [record]
