"""The search that tunes rules: what it finds, what it tries of each rule, and that a copy of a rule ties with it."""

import math
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import build
from mqlearn.paths import committed
from mqlearn.suites import axes, definition, results, rules, trials
from mqlearn.suites.axes import Axis, Form
from mqlearn.suites.leaderboard import limits
from mqlearn.suites.own import results_with
from mqlearn.suites.search import SETTINGS, Search

PAPER = Path(__file__).parents[2] / "outputs" / "paper"
SUITES = ("classic", "discount", "linear", "markovian", "paper")
TINY = {
    "base": ["sampling=synchronous", "reward=sampled"], "budget": 120, "metric": "q_error",
    "problems": {"two": ["env=two_state", "discount=0.95"]},
    "seeds": {"tuning": 2, "tuning_seed": 1000, "reporting": 3, "reporting_seed": 0},
}  # fmt: skip
COPIES = """
from dataclasses import dataclass

import mqlearn as mq


@dataclass(frozen=True)
class MyNeSA(mq.NeSA):
    pass


class MySpeedyQ(mq.SpeedyQ):
    pass
"""


@pytest.fixture(scope="module")
def problem():
    (one,) = definition.made("s", TINY).problems
    return one


def searched(area, *some: Axis, start=None) -> Search:
    """A search to its end, on the areas of a function of the point."""
    search = Search(some, start or (1.0,) * len(some))
    while points := search.ask():
        search.tell(points, [area(*point) for point in points])
    return search


# --- the search ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("best", [1.0, 3.0, 0.02, 700.0])
def test_the_best_of_one_number_is_found(best):
    search = searched(lambda x: abs(math.log(x / best)), Axis("algorithm.x"))
    assert len(search.tried) == SETTINGS == 15 and not search.ends()
    assert abs(math.log(search.best[0] / best)) < math.log(1.3)


def test_the_best_of_two_numbers_is_found():
    def area(x, y):
        return abs(math.log(x / 6)) + abs(y - 0.6)

    search = searched(area, Axis("algorithm.x"), axes.STEP_SIZE["step_size.exponent"])
    assert len(search.tried) == SETTINGS and not search.ends() and area(*search.best) < 0.4 < area(1, 1)


def test_a_plateau_around_the_default_is_left():
    def area(x):
        return abs(math.log(x / 1e5)) - 5 if 1e3 < x < 1e7 else 0.0

    assert area(searched(area, Axis("algorithm.x")).best[0]) < -4


def test_equal_areas_keep_the_default():
    assert searched(lambda x: 0.0, Axis("algorithm.x")).best == (1.0,)


def test_a_choice_at_an_end_is_told_and_one_at_a_limit_is_none():
    assert searched(lambda x: -x, Axis("algorithm.x")).ends() == ["algorithm.x"]
    limited = searched(lambda x: -x, Axis("algorithm.x", most=10.0))
    assert limited.best == (10.0,) and limited.ends() == [] and len(limited.tried) == SETTINGS


def test_whole_numbers_are_tried_until_there_are_fifteen():
    search = searched(lambda n: n, Axis("algorithm.n", least=1, whole=True), start=(10.0,))
    assert search.best == (1.0,) and len(search.tried) == SETTINGS and set(range(1, 8)) <= {n for (n,) in search.tried}


def test_what_cannot_be_run_is_never_chosen():
    assert searched(lambda x: math.inf if x > 1 else -x, Axis("algorithm.x")).best == (1.0,)
    assert searched(lambda x: math.inf if x >= 1 else x, Axis("algorithm.x"), start=(1.0,)).best[0] < 1


@pytest.mark.parametrize(
    "step_size",
    [mq.Harmonic(), mq.Harmonic(4.0), mq.RescaledLinear(0.9), mq.Polynomial(0.7, 3.0, 2.0), mq.InverseSqrt(0.1, 50.0),
     mq.Constant(0.25)],
)  # fmt: skip
def test_a_step_size_is_its_form_and_keeps_its_first_step_as_the_other_numbers_move(step_size):
    k, form = np.arange(200.0), Form.of(step_size)
    assert form is not None and form.first * (form.horizon / (k + form.horizon)) ** form.exponent == pytest.approx(
        step_size(k), rel=1e-9
    )
    moved = form.with_numbers({"step_size.horizon": 3 * form.horizon, "step_size.exponent": 0.5})
    written = dict(text.removeprefix("step_size.").split("=") for text in moved.overrides()[1:])
    assert moved.overrides()[0] == "step_size=polynomial"
    polynomial = mq.Polynomial(**{name: float(text) for name, text in written.items()})
    assert polynomial(k) == pytest.approx(form.first * (moved.horizon / (k + moved.horizon)) ** 0.5, rel=1e-5)


def test_a_cap_stays_as_the_other_numbers_of_a_step_size_move():
    form = Form.of(mq.Polynomial(1.0, 100.0, cap=0.25))
    assert form is not None
    for numbers, scale in (({"step_size.horizon": 4.0}, 400), ({"step_size.offset": 4.0}, 100)):
        written = form.with_numbers(numbers).overrides()
        assert {"step_size.cap=0.25", "step_size.offset=3", f"step_size.scale={scale}"} <= {*written}
    assert not any("cap" in one for one in Form.of(mq.Polynomial(1.0, 100.0)).overrides())  # type: ignore[union-attr]


def test_a_later_start_keeps_the_scale():
    form = Form.of(mq.Harmonic())
    assert form is not None and form.with_numbers({"step_size.offset": 31.0}).overrides() == (
        "step_size=polynomial", "step_size.exponent=1", "step_size.scale=1", "step_size.offset=30"
    )  # fmt: skip


# --- the rules ----------------------------------------------------------------------------------------------------


def test_every_rule_has_fifteen_settings_which_are_runs_as_they_are_printed(problem):
    contests = trials._composed(problem, rules.entrants(rules.names()), (), {})
    trials._tune(problem, contests)
    assert {one.rule.name for one in contests} == set(rules.names()) and "speedy_q_printed" not in rules.names()
    for one in contests:
        name, points = one.rule.name, list(one.areas)
        settings = [one.overrides(point) for point in points]
        assert len(settings) == len(set(settings)) == SETTINGS and settings[0] == (), name
        asked = [problem.overrides + tuple(one.rule.overrides) + settings[i] for i in (1, -1)]
        for point, composed in zip((points[1], points[-1]), compose.compose_all(asked), strict=True):
            arguments, tried = build(composed).run_arguments, one.made(problem, point)
            assert isinstance(tried, str) or (tried, tried.step_size) == (arguments["rule"], arguments["step_size"]), (
                name
            )


def run(rule, **settings) -> np.ndarray:
    table = mq.run(mq.two_state(discount=0.9), rule, iterations=300, n_seeds=3, **settings).q
    assert table is not None
    return table


@pytest.mark.parametrize(
    ("name", "number", "value", "rule", "step_size", "other"),
    [
        ("root_sa", "eta", 1, mq.RootSA(1.0), None, mq.SpeedyQPrinted()),
        ("residual", "w", 0, mq.Residual(0.0), None, mq.QLearning()),
        ("pid", "eta", 0, mq.PID(eta=0.0), None, mq.QLearning()),
        ("periodic", "period", 1, mq.Periodic(1), mq.Constant(0.25), mq.QLearning()),
    ],
)
def test_a_value_at_which_a_rule_is_another_one_is_not_tried(name, number, value, rule, step_size, other):
    step = step_size or mq.RescaledLinear(0.9)
    np.testing.assert_allclose(run(rule, step_size=step), run(other, step_size=step), rtol=1e-9)
    (entrant,) = rules.entrants([name])
    (axis,) = (one for one in entrant.tuning or () if one.setting == f"algorithm.{number}")
    assert all(axis.rounded(tried) != value for tried in (value, value - 1, value + 1, value + 1e-9, value - 1e-9))


def test_copies_of_rules_tie_with_them_bit_for_bit(work):
    (work / "my_rules.py").write_text(COPIES)
    (work / "algorithm").mkdir()
    tuning = "tuning: {algorithm.zeta: {}}"
    (work / "algorithm" / "my_nesa.yaml").write_text(f"_target_: my_rules.MyNeSA\nzeta: 0.1\n{tuning}\n")
    (problem,) = definition.made("s", TINY, str(work)).problems
    own = rules.entrants(["my_nesa", "my_speedy_q"], ["my_rules"], str(work))
    found = trials.entries(problem, own, ["my_rules"]) | trials.entries(problem, rules.entrants(["nesa", "speedy_q"]))
    for mine, shipped in (("my_nesa", "nesa"), ("my_speedy_q", "speedy_q")):
        a, b = found[mine], found[shipped]
        assert (a.settings, a.chosen, a.tuned) == (b.settings, b.chosen, b.tuned) and len(a.settings) == SETTINGS
        assert np.array_equal(a.tuning, b.tuning) and np.array_equal(a.scores, b.scores)


def test_an_object_is_tuned_as_the_rule_that_it_copies(work):
    suite = work / "suite"
    suite.mkdir()
    text = "base: [reward=sampled]\nbudget: 120\nmetric: q_error\nproblems: {two: [env=two_state]}\n"
    seeds = "seeds: {tuning: 2, tuning_seed: 1000, reporting: 3, reporting_seed: 0}\n"
    (suite / "tiny.yaml").write_text(text + seeds)
    _, (found,), _ = results_with(mq.SpeedyQ(), "tiny", "mine", str(work))
    (problem,) = definition.load("tiny", str(work)).problems
    shipped = trials.entries(problem, rules.entrants(["speedy_q"]))["speedy_q"]
    assert np.array_equal(found.entries["mine"].scores, shipped.scores)
    assert found.entries["mine"].tuned == ("step_size.horizon", "step_size.exponent")


def test_seeds_may_tune_on_a_smaller_budget(problem):
    (shorter,) = definition.made("s", TINY | {"tuning_budget": 60}).problems
    assert shorter.digest != problem.digest and shorter.for_tuning().budget == 60 and problem.for_tuning().budget == 120
    rule = rules.entrants(["nesa"])
    tuned = trials.entries(shorter, rule)["nesa"].tuning
    (half,) = definition.made("s", TINY | {"budget": 60}).problems
    assert np.array_equal(tuned, trials.entries(half, rule)["nesa"].tuning)


# --- the stored boards --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suite", SUITES)
def test_no_two_tuned_rows_of_a_stored_board_hold_the_same_run(suite):
    """Without noise two rules may come to one score: there the last errors tell them apart."""
    path = committed(f"bench_{suite}.npz")
    assert path is not None
    for one in results.read(Path(path)):
        rows = {name: entry.scores[1] for name, entry in one.entries.items() if entry.reasons[1] is None}
        assert not [(a, b) for a, b in combinations(rows, 2) if np.array_equal(rows[a], rows[b])], one.name
        if "noisy" in one.facts["kinds"]:
            areas = {name: scores[0] for name, scores in rows.items()}  # log10 of the error
            same = [(a, b) for a, b in combinations(areas, 2) if np.allclose(areas[a], areas[b], rtol=0, atol=1e-6)]
            assert not same, one.name


@pytest.mark.parametrize("suite", SUITES)
def test_stored_boards_have_one_clock_and_as_many_settings_of_each_rule(suite):
    path = committed(f"bench_{suite}.npz")
    assert path is not None
    every = results.read(Path(path))
    assert {one.facts["clock"] for one in every} - {None} <= {"global"}
    for one in every:
        numbers = {name: len(set(entry.settings)) for name, entry in one.entries.items() if entry.ran}
        assert set(numbers.values()) == {SETTINGS}, numbers


def test_at_most_a_fifth_of_the_stored_choices_lie_at_an_end_that_no_limit_sets():
    paths = [path for suite in SUITES if (path := committed(f"bench_{suite}.npz")) is not None]
    chosen = [entry for path in paths for one in results.read(path) for entry in one.entries.values() if entry.ran]
    assert len(paths) == len(SUITES) and sum(bool(entry.ends) for entry in chosen) <= len(chosen) / 5


def test_what_lies_at_an_end_and_at_limits_is_counted_as_the_readme_says():
    """By hand: the texts of settings at limits that are not of theory."""
    own = {"residual": "algorithm.w=0.01", "pid": "algorithm.eta=1e-06", "averaging_q": "algorithm.d=0.01",
           "nesa": "algorithm.zeta=0.001", "polsa": "algorithm.zeta=0.001", "halpern_direct": "step_size.offset=9999",
           "momentum_q_linear": "step_size.offset=99999"}  # fmt: skip
    steps = {"step_size.offset=1e+09", "step_size.exponent=0.01"}
    by_hand, told, ends = [], [], []
    for suite in SUITES:
        every = results.read(committed(f"bench_{suite}.npz") or Path())
        told.append(limits.counts(every, sorted(every[0].entries)))
        for one in every:
            for name, entry in one.entries.items():
                if entry.reasons[1] is None:
                    texts = (
                        {own.get(name), *steps}
                        if name != "root_sa"
                        else {"algorithm.eta=0.98", "algorithm.eta=0.001", *steps}
                    )
                    by_hand.append((name, bool(texts & {*entry.settings[entry.chosen]})))
                    ends.append(bool(entry.ends))
    ours = sum(one for _, one in by_hand)
    either = sum(one or end for (_, one), end in zip(by_hand, ends, strict=True))
    assert (ours, either) == (sum(one["ours"] for one in told), sum(one["either"] for one in told))
    assert sum(one["rules"].get("pid", 0) for one in told) == sum(one for name, one in by_hand if name == "pid") > 0
    assert either <= len(ends) / 5
    text = " ".join((PAPER / "README.md").read_text(encoding="utf-8").split())
    assert (
        f"{sum(ends)} of the {len(ends)} choices on all boards lie at an end of what was tried where no limit is"
        in text
    )
    assert f"{ours} have a number at a limit that we set and theory does not" in text
    assert f"Together these are {either} choices" in text
    assert f"Another {sum(one['theory'] for one in told)} that the search moved from the default" in text
