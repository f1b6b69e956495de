"""At how many reporting seeds the order of a leaderboard is decided: scores by seed against `mq.decide`'s tests."""

import csv
import io
from itertools import combinations

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.analysis.decisions import design
from mqlearn.suites.leaderboard import sequential

NAMES = ("first", "second", "third", "last")
N = 20


def board(areas: np.ndarray, own=(), missing=()):
    """What is read of a leaderboard, for areas (R, P, S); missing: (rule, problem) that did not run."""
    names = NAMES[: len(areas)]
    scores = [
        {"rule": name, "league": "tuned", "problem": f"p{p}", "seed": s,
         "score": None if (name, p) in missing else float(10.0**value)}
        for r, name in enumerate(names) for (p, s), value in np.ndenumerate(areas[r])
    ]  # fmt: skip
    rules = [{"rule": name, "setting": "tuned", "score": 1.0, "own": name in own} for name in names]
    facts = {"suite": "made", "seeds": {}, "n_seeds": areas.shape[2], "rules": rules, "scores": scores}
    return facts | {"problems": [{"problem": f"p{p}"} for p in range(areas.shape[1])]}


@pytest.fixture(scope="module")
def areas():
    random = np.random.default_rng(4)
    shifts = np.array([0.0, 0.015, 0.7, 0.75])[:, None, None]
    return shifts + 0.2 * random.standard_normal((4, 3, N)) + random.standard_normal((1, 3, N))


def in_turn(areas, margin, looks):
    """Verdict and seeds of each pair, by the loop of `mq.decide`: a decided pair gets no further seeds."""
    pairs = list(combinations(range(len(areas)), 2))
    tests, done = design.Family(len(pairs), 0.05, margins=margin is not None), {}
    d = [(areas[i] - areas[j]).mean(0) for i, j in pairs]
    shift = np.log10(margin or 1)
    for n in looks:
        open_ = {k: d[k][:n] for k in range(len(pairs)) if k not in done}
        if margin is not None:
            open_ = {k: np.array([x, x - shift, -x - shift]) for k, x in open_.items()}
        shown, equal = tests.look(n, open_)
        for k in open_:
            if shown[k] or equal[k]:
                done[k] = ("equal" if not shown[k] else "a_better" if d[k][:n].mean() < 0 else "b_better", n)
    return [done.get(k, ("undecided", looks[-1])) for k in range(len(pairs))]


@pytest.mark.parametrize("margin", [None, 1.5])
def test_pairs_are_decided_where_a_decision_in_turn_decides_them(areas, margin):
    found = sequential.decide(board(areas), margin=margin)
    assert found["looks"] == [10, 15, 20]
    assert [(one["verdict"], one["seeds"]) for one in found["pairs"]] == in_turn(areas, margin, found["looks"])
    assert {one["verdict"] for one in found["pairs"]} > {"a_better"}
    first = found["pairs"][1]  # first and third
    factor = 10 ** (areas[0] - areas[2])[:, : first["seeds"]].mean()
    assert first["factor"] == pytest.approx(factor) and first["p"] == pytest.approx(2 ** (1 - first["seeds"]), rel=0.1)


def test_words_say_sequential_looks_and_spending_and_what_is_open(areas):
    found = sequential.decide(board(areas, own=["second"]))
    assert [(one["a"], one["b"]) for one in found["pairs"]] == [
        ("first", "second"), ("second", "third"), ("second", "last"),
    ]  # fmt: skip
    text = sequential.terminal(found)
    flat = " ".join(text.split())
    assert "Sequential:" in flat and "looks at 10 (40 %), 15 (50 %), 20 (57 %)" in flat and "spent by then" in flat
    assert "Undecided at 20 seeds, between: first and second." in flat and max(map(len, text.splitlines())) <= 80
    assert [row["verdict"] for row in csv.DictReader(io.StringIO(sequential.comma_separated(found)))] == [
        one["verdict"] for one in found["pairs"]
    ]


def test_only_problems_that_both_ran_on_count_and_equal_rules_are_the_same(areas):
    equal = np.concatenate([areas[:1], areas[:1], areas[2:3]])
    missing = {("third", 0), ("third", 1), ("third", 2)}
    pairs = sequential.decide(board(equal, missing=missing))["pairs"]
    assert [(one["verdict"], one["problems"]) for one in pairs] == [("same", 3), ("undecided", 0), ("undecided", 0)]
    part = sequential.decide(board(areas[:3], missing={("third", 0)}), against="third")["pairs"][0]
    assert part["problems"] == 2
    assert part["factor"] == pytest.approx(10 ** (areas[0] - areas[2])[1:, : part["seeds"]].mean())


def test_of_many_pairs_no_level_is_laxer_than_its_own():
    sizes = sequential._sizes(210)
    used = sizes[np.searchsorted(sizes, np.arange(1, 211))]
    assert (used >= np.arange(1, 211)).all() and used[-1] == 210 and len(sizes) < 30
    assert (sequential._sizes(12) == np.arange(1, 13)).all()


@pytest.mark.parametrize(
    ("settings", "n", "setting", "words"),
    [
        ({"against": "frist"}, N, "against", "did you mean 'first'"),
        ({"margin": 1.0}, N, "margin", "above 1"),
        ({"looks": [10, 25]}, N, "looks", "must end at 20"),
        ({"looks": [5, 10]}, N, "looks", "begin at 10"),
        ({}, 6, "decide", "needs 10 reporting seeds for 6 pairs, and suite made has 6"),
    ],
)
def test_what_cannot_be_decided_is_refused_by_name(areas, settings, n, setting, words):
    with pytest.raises(mq.SettingError, match=words) as refused:
        sequential.decide(board(areas[..., :n]), **settings)
    assert refused.value.setting == setting
