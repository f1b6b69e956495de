"""What a leaderboard tells beside the score: the distance from certainty equivalence, and errors by CPU time."""

import csv
import io
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from leaderboard_cases import errors, every, found, results_of, suite  # noqa: F401  # fixtures

import mqlearn as mq
from mqlearn.suites import references
from mqlearn.suites.leaderboard import page, tables
from mqlearn.suites.leaderboard.board import board
from mqlearn.suites.results import Entry

N = 8  # seeds
COST = {"q_learning": 1.0, "zap": 6.0}


def straight(pairs: int, budget: int, slope: float, size: float) -> tuple[np.ndarray, np.ndarray]:
    """Errors size_i (s / pairs)^-slope of seed i after s samples, of 1 at the start."""
    samples = np.concatenate([[0], np.geomspace(pairs, budget, 30)])
    sizes = size * np.geomspace(0.5, 2, N)
    later = sizes[:, None] * (samples[1:] / pairs) ** -slope
    return samples, np.concatenate([np.ones((N, 1)), later], axis=1)


@pytest.fixture(scope="module")
def two(suite):  # noqa: F811  # a fixture
    """Q-learning and Zap on two problems, with the facts of certainty equivalence and of the costs."""
    made = []
    for number, problem in enumerate(suite.problems[:2]):
        curves = {
            "q_learning": straight(problem.pairs, 3000, 0.3, 0.4),
            "zap": straight(problem.pairs, 3000, 0.5, 0.2 + 0.1 * number),
        }
        one = results_of(problem, curves)
        last = [0.01 * (1 + seed) for seed in range(N)]
        cost = {"of": COST, "machine": "a processor", "date": "2026-12-01"}
        made.append(replace(one, facts={**one.facts, "certainty": last, "cost": cost}))
    return made


def middle(values: list[float]) -> float:
    """The interquartile mean of 4 n or of 2 numbers."""
    ordered = sorted(values)
    n = len(ordered) // 4
    return sum(ordered[n : len(ordered) - n]) / (len(ordered) - 2 * n)


def test_both_columns_by_hand(two, suite):  # noqa: F811  # a fixture
    rows = {row["rule"]: row for row in board("small", two)["rules"] if row["setting"] == "tuned"}
    for rule, slope, sizes in (("q_learning", 0.3, (0.4, 0.4)), ("zap", 0.5, (0.2, 0.3))):
        far, same, equal = [], [], []
        for size, problem in zip(sizes, suite.problems[:2], strict=True):
            for seed in range(N):
                last = size * 0.5 * 4 ** (seed / (N - 1)) * (3000 / problem.pairs) ** -slope
                far.append(math.log10(last / (0.01 * (1 + seed))))
            base = math.log10(0.4) - 0.3 * math.log10(3000 / problem.pairs)  # sizes have the geometric mean 1
            same.append(math.log10(size) - slope * math.log10(3000 / problem.pairs) - base)
            equal.append(math.log10(size) - slope * math.log10(3000 / COST[rule] / problem.pairs) - base)
        row = rows[rule]
        assert row["over_certainty"]["value"] == pytest.approx(10 ** middle(far), rel=1e-5)
        assert row["over_certainty"]["low"] < row["over_certainty"]["value"] < row["over_certainty"]["high"]
        assert row["by_sample"] == pytest.approx(10 ** (sum(same) / 2), rel=1e-5)
        assert row["by_cpu"] == pytest.approx(10 ** (sum(equal) / 2), rel=1e-3)  # read between points of the axis
        assert row["cost"] == pytest.approx(COST[rule])
    assert rows["q_learning"]["by_cpu"] == pytest.approx(1) and rows["zap"]["by_cpu"] > rows["zap"]["by_sample"]


def test_scores_take_no_account_of_them(two):
    bare = [replace(one, facts={k: v for k, v in one.facts.items() if k not in ("certainty", "cost")}) for one in two]
    told, plain = board("small", two), board("small", bare)
    for with_facts, without in zip(told["rules"], plain["rules"], strict=True):
        assert (with_facts["score"], with_facts["rank"]) == (without["score"], without["rank"])
        assert without["over_certainty"] is without["by_cpu"] is without["cost"] is None
    for text in (tables.terminal(plain), page.build(plain), tables.comma_separated(plain)):
        assert "over CE" not in text and "over_certainty" not in text and "by CPU" not in text
    for text in (tables.terminal(told), page.build(told)):
        assert "over CE" in text and "a processor, 2026-12-01" in " ".join(text.split())
    assert max(map(len, tables.terminal(told).splitlines())) <= 80
    first = next(csv.DictReader(io.StringIO(tables.comma_separated(told))))
    assert float(first["cost"]) in COST.values() and float(first["over_certainty_low"]) > 0


def test_a_seed_that_diverged_counts_as_far_away(two):
    worse = two[0].entries["zap"]
    scores = worse.scores.copy()
    scores[:, 3, :6] = np.nan
    changed = [replace(two[0], entries={**two[0].entries, "zap": replace(worse, scores=scores)}), two[1]]
    before, after = (
        next(row for row in board("small", some)["rules"] if row["rule"] == "zap") for some in (two, changed)
    )
    assert after["over_certainty"]["n_problems"] == 2
    assert after["over_certainty"]["value"] > before["over_certainty"]["value"]


def test_facts_of_a_problem(suite):  # noqa: F811  # a fixture
    problem = suite.problems[1]
    run = mq.run(problem.cell.mdp, mq.CertaintyEquivalence(), iterations=problem.iterations(mq.QLearning()),
                 n_seeds=N, reward="sampled")  # fmt: skip
    assert references.certainty(problem) == run.curves["q_error"][:, -1].tolist()
    rules = {"q_learning": mq.QLearning(), "zap": mq.Zap(), "refused": mq.WeightedQ()}
    rules["refused"] = mq.averaged(mq.CertaintyEquivalence())
    told = references.costs(problem, rules)
    assert told["of"]["q_learning"] == 1 and told["of"]["zap"] > 3 and "refused" not in told["of"]
    more = references.merged({"cost": told}, {**told, "of": {"mine": 2.0}})["cost"]["of"]
    assert more == {**told["of"], "mine": 2.0}


def test_certainty_equivalence_is_no_measure_where_nothing_is_random():
    from mqlearn.suites import definition

    content = {"base": ["reward=sampled"], "budget": 300, "metric": "q_error",
               "problems": {"cliff": ["env=cliff_walking", "discount=0.9"]},
               "seeds": {"tuning": 2, "tuning_seed": 1000, "reporting": 2, "reporting_seed": 0}}  # fmt: skip
    assert references.certainty(definition.made("one", content).problems[0]) is None


def test_what_a_rule_lacks_is_a_dash_on_the_page(two):
    """A rule that ran nowhere, and problems on which nothing is random; one seed, which has no interval."""
    refused = Entry.refused("", "runs on no problem")
    lacking = [replace(one, entries={**one.entries, "mine": refused}) for one in two]
    for kept in (("certainty",), ("cost",), ("certainty", "cost")):
        some = [replace(one, facts={k: v for k, v in one.facts.items() if k in kept or k not in ("certainty", "cost")})
                for one in lacking]  # fmt: skip
        told = board("small", some, ["mine"])
        cells = [
            re.findall("<td>(.*?)</td>", row)
            for row in re.findall(r'<tr><th scope="row">mine.*?</tr>', page.build(told), re.S)
        ]
        assert cells[0] == ["–", "–", "–", "–", "0", "–", "–", "0 of 2"]
        assert cells[1] == ["–"] * 5
        assert tables.terminal(told) and tables.comma_separated(told) and tables.latex(told)
