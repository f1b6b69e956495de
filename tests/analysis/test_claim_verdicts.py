"""What changes the verdict of a claim, and under which conditions it is said to hold."""

import itertools
from types import SimpleNamespace

import numpy as np
import pytest

from mqlearn.analysis.claims import checks as claim_checks
from mqlearn.analysis.claims import pairs as claim_pairs
from mqlearn.analysis.claims import tables as claim_tables
from mqlearn.analysis.claims.checks import FAILS, HOLDS, OPEN, ClaimCheck, Seen
from mqlearn.analysis.claims.claim import filled
from mqlearn.analysis.comparison import selection
from mqlearn.errors import SettingError


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([HOLDS, HOLDS], "reproduced"),
        ([OPEN, FAILS], "not_reproduced"),
        ([OPEN, OPEN], "not_reproduced"),
        ([HOLDS, OPEN], "conditional"),
        ([HOLDS, FAILS], "conditional"),
    ],
)
def test_verdict_of_checks(outcomes, expected):
    assert claim_checks.verdict([ClaimCheck({}, outcome) for outcome in outcomes]) == expected


def test_no_checks_no_verdict():
    with pytest.raises(SettingError, match="nothing was tested"):
        claim_checks.verdict([])


@pytest.fixture
def pair(made):
    """(curves of a rule by map, ...) -> checks of "fast is faster than slow" on them; seeds and samples are real."""
    real = next(one for one in selection.find(made).runs if one.settings["n_seeds"] == 12)
    iteration = real.curves["iteration"]
    rng = np.random.default_rng(0)
    noise = {label: rng.uniform(0.9, 1.1, (12, len(iteration))) for label in ("fast", "slow")}

    def call(fast: dict[str, float], slow: dict[str, float], **spec):
        levels = {"fast": fast, "slow": slow}

        def look(place, label):
            curve = levels[label][place["map"]] * noise[label]
            run = claim_pairs._view(real, {"iteration": iteration, "q_error": curve})
            return Seen(run, SimpleNamespace(settings=real.settings), label)

        places = [{"map": name} for name in fast]
        check = filled({"test": "pairs", "a": ["fast"], "b": ["slow"], **spec})
        wanted = claim_pairs.wanted_pairs(check, places, look)
        return claim_pairs.decide(wanted)

    return call


def test_a_counter_example_flips_the_verdict(pair):
    def ask(*at):
        return claim_checks.verdict(pair(dict(zip("AB", at, strict=True)), {"A": 1.0, "B": 1.0}))

    assert ask(0.5, 0.5) == "reproduced"
    assert ask(0.5, 2.0) == "conditional"
    assert ask(2.0, 2.0) == "not_reproduced"
    (holds, fails) = pair({"A": 0.5, "B": 2.0}, {"A": 1.0, "B": 1.0})
    assert (holds.outcome, fails.outcome) == (HOLDS, FAILS)
    assert claim_checks.conditions([holds, fails]) == [
        "holds (1 of 1): A",
        "does not hold (0 of 1, 1 the other way): B",
    ]


def test_no_difference_is_open_and_a_margin_is_part_of_the_question(pair):
    same, margin = {"A": 1.0}, {"margin": 1.25}
    assert pair(same, same)[0].outcome == OPEN
    (within,) = pair(same, same, **margin)
    assert within.outcome == HOLDS and within.evidence["ratio"] == pytest.approx(1, abs=0.05)
    assert pair({"A": 1.5}, same, **margin)[0].outcome == FAILS
    assert pair({"A": 0.97}, same, margin=0.95)[0].outcome != HOLDS


def test_the_expected_side_may_be_the_other_one(pair):
    assert pair({"A": 2.0}, {"A": 1.0}, expect="b_better")[0].outcome == HOLDS


def test_conditions_are_told_by_the_factors_asked_for_and_group_what_agrees():
    grid = list(itertools.product(("easy", "hard"), ("10", "100", "1000")))
    checks = [
        ClaimCheck({"map": kind, "k": k}, HOLDS if kind == "easy" or k == "1000" else FAILS if k == "10" else OPEN)
        for kind, k in grid
    ]
    assert claim_checks.conditions(checks, ["map"]) == [
        "holds (3 of 3): easy",
        "does not hold (0 of 2, 1 the other way): hard, k 10, 100",
        "holds (1 of 1): hard, k 1000",
    ]
    assert claim_checks.conditions(checks, ["k"], depth=1) == [
        "holds in part (1 of 2, 1 the other way): k 10",
        "holds in part (1 of 2): k 100",
        "holds (2 of 2): k 1000",
    ]
    assert claim_checks.conditions(checks[:3]) == ["holds (3 of 3): everywhere"]


def test_heavy_tails_are_told_by_medians_and_counts(pair):
    (check,) = pair({"A": 0.5}, {"A": 1.0})
    assert check.evidence["pairs_with_a_below"] == 12 and claim_tables._heavy_tails([check.evidence]) == ""
    wild = check.evidence | {"ratio": 1e6, "median_a": 4e3, "median_b": 1.0, "pairs_with_a_below": 3}
    assert claim_tables._heavy_tails([wild]) == " (heavy tails in 1: median a/b 4e+03, a below b in 3 pairs)"
