"""The whole leaderboard: scores, ranks, pairs, and what is written of them."""

import csv
import dataclasses
import io
import json
import re

import numpy as np
import pytest
from leaderboard_cases import PROBLEMS, RULES, errors, every, found, results_of, suite
from scipy import stats

from mqlearn.errors import SettingError
from mqlearn.suites.leaderboard import figure, page, tables
from mqlearn.suites.leaderboard.aggregate import Resampled
from mqlearn.suites.leaderboard.board import board
from mqlearn.suites.results import Entry, Results

__all__ = ["every", "found", "suite"]  # fixtures


def test_results_do_not_depend_on_the_order_of_rules(every, found):
    turned = [Results(one.facts, dict(reversed(one.entries.items()))) for one in every]
    assert board("small", turned, ["root_sa"]) == found


def test_scores_are_relative_to_the_baseline(every, found):
    rows = {row["rule"]: row for row in found["rules"] if row["setting"] == "tuned"}
    assert rows["q_learning"]["score"] == 1 and rows["q_learning"]["low"] == 1
    areas = {name: np.stack([one.entries[name].scores[1, 0] for one in every]) for name in RULES}
    for name, row in rows.items():
        difference = (areas[name].astype(float) - areas["q_learning"]).ravel()
        assert np.log10(row["score"]) == pytest.approx(stats.trim_mean(difference, 0.25), abs=1e-9)
        assert row["low"] <= row["score"] <= row["high"]
        wins = np.mean(areas[name] < areas["q_learning"])
        assert name == "q_learning" or row["improvement"]["p"] == pytest.approx(wins)
    means = np.stack([areas[name].mean(1) for name in RULES])
    expected = stats.rankdata(means, axis=0).mean(1)
    assert [rows[name]["rank"] for name in RULES] == pytest.approx(expected)
    assert [row["rule"] for row in found["rules"][:4]] == sorted(rows, key=lambda name: rows[name]["score"])
    assert [name for name, row in rows.items() if row["own"]] == ["root_sa"]
    for p, problem in enumerate(found["problems"]):
        assert problem["order"] == [list(RULES)[i] for i in np.argsort(means[:, p])]


def test_a_rule_that_did_not_run_somewhere_is_named_and_its_mean_is_over_the_rest(suite, every):
    first = Results(every[0].facts, {**every[0].entries, "speedy_q": Entry.refused("", "has no form for this")})
    found = board("small", [first, *every[1:]])
    row = next(row for row in found["rules"] if row["rule"] == "speedy_q")
    assert row["n_problems"] == 7 and found["not_run"] == {"speedy_q": {"two": "has no form for this"}}
    rank = f"{row['rank']:.1f} [{row['rank_low']:.1f}, {row['rank_high']:.1f}]"
    assert rank in tables.latex(found) and f"<td>{rank}</td>" in page.build(found)
    told = csv.DictReader(io.StringIO(tables.comma_separated(found).partition("\n\n")[0]))
    speedy = next(one for one in told if one["rule"] == "speedy_q")
    assert (speedy["n_problems"], speedy["n_ranked"], speedy["of_problems"]) == ("7", "7", "8")
    others = [one.entries[rule].scores[1, 0].mean() for one in every[1:] for rule in RULES]
    ranks = stats.rankdata(np.reshape(others, (7, len(RULES))), axis=1)[:, list(RULES).index("speedy_q")]
    assert row["rank"] == pytest.approx(ranks.mean())
    others = {one["rule"]: one for one in found["rules"] if one["setting"] == "tuned"}
    assert {one["n_ranked"] for one in others.values()} == {7} and "the 7 problems that all ran on" in " ".join(
        tables.terminal(found).split()
    )  # ranks of all are over the same problems
    assert sum(one["rank"] for one in others.values()) == pytest.approx(sum(range(1, len(RULES) + 1)))
    text = tables.terminal(found)
    assert "7/8" in text and "Not run, so not in the means of speedy_q: two: has no form for this." in " ".join(
        text.split()
    )


def test_a_default_that_is_refused_does_not_cost_the_tuned_rule_its_place(every, found):
    entry = every[0].entries["speedy_q"]
    numbers = [np.stack([np.full_like(part[0], np.nan), part[1]]) for part in (entry.scores, entry.curve)]
    half = dataclasses.replace(entry, scores=numbers[0], curve=numbers[1], reasons=("no such step", None))
    some = board("small", [Results(every[0].facts, {**every[0].entries, "speedy_q": half}), *every[1:]])
    (tuned, default), before = ([r for r in b["rules"] if r["rule"] == "speedy_q"] for b in (some, found))
    assert {**tuned, "own": 0} == {**before[0], "own": 0} and default["n_problems"] == 7
    assert (some["not_run"], some["not_run_by_default"]) == ({}, {"speedy_q": {"two": "no such step"}})
    assert "Not run by default, so not in the means of speedy_q" in " ".join(tables.terminal(some).split())
    assert "not run: no such step" in page.build(some)


def test_a_rule_that_missed_more_than_half_has_no_rank_and_costs_the_others_none(every, found):
    refused = Entry.refused("", "too large")
    some = board("small", [Results(one.facts, {**one.entries, "speedy_q": refused}) for one in every[:5]] + every[5:])
    rows = {row["rule"]: row for row in some["rules"] if row["setting"] == "tuned"}
    assert (rows["speedy_q"]["rank"], rows["speedy_q"]["n_ranked"]) == (None, 0)
    assert {row["n_ranked"] for name, row in rows.items() if name != "speedy_q"} == {8}
    assert page.build(some) and tables.latex(some) and tables.terminal(some) and tables.comma_separated(some)


def test_ranks_have_intervals_over_seeds(every, found):
    areas = np.stack([[one.entries[name].scores[1, 0] for one in every] for name in RULES]).astype(float)
    seeds = Resampled.of(*areas.shape[1:])
    drawn = []
    for counts in seeds.counts:
        repeats = counts.astype(int)
        means = [[np.repeat(row, n).mean() for row, n in zip(rule, repeats, strict=True)] for rule in areas]
        drawn.append(stats.rankdata(np.round(means, 12), axis=0).mean(1))
    low, high = np.quantile(drawn, (0.025, 0.975), axis=0)
    rows = {row["rule"]: row for row in found["rules"] if row["setting"] == "tuned"}
    for i, name in enumerate(RULES):
        told = rows[name]
        assert (told["rank_low"], told["rank_high"]) == pytest.approx((low[i], high[i]), abs=0.02)
        assert told["rank_low"] <= told["rank"] <= told["rank_high"]


def test_pairs_are_compared_on_the_problems_that_both_ran_on(every):
    """A rule that ran only where it is no worse than another stands behind it in the table, and before it on these."""
    areas = {name: np.stack([one.entries[name].scores[1, 0] for one in every]).astype(float) for name in RULES}
    lead = (areas["root_sa"] - areas["speedy_q"]).mean(1)
    hard = [int(p) for p in np.argsort((areas["speedy_q"] - areas["q_learning"]).mean(1))[:3]]
    lines = []
    for p, one in enumerate(every):
        entry = one.entries["root_sa"]
        own = dataclasses.replace(entry, scores=entry.scores.copy())
        own.scores[:, 0] = one.entries["speedy_q"].scores[:, 0] - 0.01
        lines.append(Results(one.facts, {**one.entries, "root_sa": Entry.refused("", "no") if p in hard else own}))
    found = board("small", lines)
    (pair,) = (one for one in found["common"] if {one["a"], one["b"]} == {"root_sa", "speedy_q"})
    assert lead.size == 8 and pair["problems"] == 5
    assert pair["score"] == pytest.approx(10**-0.01, rel=1e-5) and pair["low"] <= pair["score"] <= pair["high"] < 1
    order = [row["rule"] for row in found["rules"] if row["setting"] == "tuned"]
    assert order.index("speedy_q") < order.index("root_sa")
    text = "root_sa before speedy_q on the 5 problems that both ran on."
    assert text in " ".join(tables.terminal(found).split()) and text in page.build(found)


def test_the_score_of_each_seed_is_told(every, found):
    told = {(one["rule"], one["league"], one["problem"], one["seed"]): one["score"] for one in found["scores"]}
    assert len(told) == len(found["scores"]) == len(RULES) * 2 * 8 * 8
    entries = every[3].entries
    own, base = (entries[name].scores[1, 0, 5].astype(float) for name in ("speedy_q", "q_learning"))
    assert told["speedy_q", "tuned", every[3].name, 5] == pytest.approx(10 ** (own - base))
    refused = board("small", [without(every[0], "speedy_q"), *every[1:]])["scores"]
    assert {one["score"] for one in refused if (one["rule"], one["problem"]) == ("speedy_q", every[0].name)} == {None}


def test_choices_at_an_end_are_marked_and_what_an_own_rule_was_tuned_over_is_told(every):
    numbers = ("step_size.horizon", "algorithm.eta")
    lines = [
        Results(one.facts, {**one.entries, "root_sa": dataclasses.replace(
            one.entries["root_sa"], tuned=numbers, ends=numbers[1:] if p < 2 else ())})
        for p, one in enumerate(every)
    ]  # fmt: skip
    found = board("small", lines, ["root_sa"])
    assert found["at_end"] == {"choices": 32, "at_end": 2, "rules": {"root_sa": 2}}
    text = " ".join(tables.terminal(found).split())
    assert "root_sa was tuned over step_size.horizon, algorithm.eta." in text
    assert "2 of 32 choices lie at an end of what was tried that no limit sets: root_sa 2." in text
    assert page.build(found).count("&dagger;</abbr>") + page.build(found).count("†</abbr>") == 2
    cells = list(csv.DictReader(io.StringIO(tables.comma_separated(found).partition("\n\n")[2])))
    assert [one["at_end"] for one in cells].count("algorithm.eta") == 2
    drawn = [text.get_text() for axes in figure.draw(found).axes for text in axes.texts]
    assert sum(text.endswith("†") for text in drawn) == 2


def test_the_clock_is_said(every):
    lines = [Results({**one.facts, "clock": "global", "sampling": "markovian"}, one.entries) for one in every]
    found = board("small", lines)
    assert "markovian sampling (global clock)" in " ".join(tables.terminal(found).split())
    assert "(global clock)" in tables.latex(found) and "(global clock)" in page.build(found)
    assert "Suite small (global clock)" in figure.draw(found).axes[0].get_title(loc="left")


def without(one, rule):
    return Results(one.facts, {**one.entries, rule: Entry.refused("", "has no form for this")})


def test_a_baseline_that_did_not_run_somewhere_is_told_and_one_that_ran_nowhere_is_refused(every, found):
    some = board("small", [without(every[0], "q_learning"), *every[1:]])
    rest = board("small", every[1:])
    for row, expected in zip(some["rules"], rest["rules"], strict=True):
        assert [row[key] for key in ("rule", "score", "n_problems")] == [
            expected[key] for key in ("rule", "score", "n_problems")
        ]
        assert row["profile"] == expected["profile"]
        assert row["n_ranked"] == 7  # what all ran on
    assert "q_learning did not run on two: scores are of the other 7 problems" in some["notes"]
    with pytest.raises(SettingError, match=r"q_learning runs on.*two, forest.*has no form for this"):
        board("small", [without(one, "q_learning") for one in every])
    with pytest.raises(SettingError, match="has no form for this"):
        board("small", [Results(one.facts, {"q_learning": Entry.refused("", "has no form for this")}) for one in every])


def test_one_problem_or_one_seed_says_what_cannot_be_concluded(suite, every):
    assert "one problem" in board("small", every[:1])["notes"][0] and not board("small", every[:1])["tests"]
    alone = [results_of(one, errors(one, RULES, 1)) for one in suite.problems]
    found = board("small", alone)
    assert any("one seed" in note for note in found["notes"]) and found["rules"][0]["low"] is None
    assert "one seed" in tables.terminal(found)


def test_problems_that_share_a_model_are_told_to_be_no_independent_cases(every, found):
    same = [Results({**one.facts, "model": f"{p % 3}"}, one.entries) for p, one in enumerate(every)]
    shared = board("small", same)
    assert shared["notes"] == [
        "the 8 problems are of 3 models only: they are not independent cases, as the tests take them to be"
    ]
    assert found["notes"] == [] and shared["conclusive"] and "Nobody beats: " in tables.terminal(shared)
    assert not board("small", every[:3])["conclusive"] and "Nobody beats" not in tables.terminal(
        board("small", every[:3])
    )


def test_all_that_a_suite_is_run_with_stands_on_the_page(every):
    two = [Results({**one.facts, "sampling": ("iid", "markovian")[p % 2]}, one.entries) for p, one in enumerate(every)]
    some = board("small", [without(two[0], "speedy_q"), *two[1:]])
    for text in (tables.terminal(some), page.build(some)):
        words = " ".join(text.split())
        assert "8 problems, 8 seeds, 3,000 samples, iid and markovian sampling, sampled reward, q_error" in words
        assert "By kind of problem, of the rules that ran on all:" in words


def test_an_order_that_changes_with_the_kind_is_told(suite, every):
    """Halving the errors of one rule on all problems of a kind, and doubling them elsewhere, turns its order."""
    turned = []
    for one in every:
        shift = 0.3 if "ergodic" in one.facts["kinds"] else -0.3
        entry = one.entries["q_learning"]
        moved = entry.scores + np.float32(shift) * (np.arange(4) == 0)[:, None].astype(np.float32)
        turned.append(Results(one.facts, {**one.entries, "turned": dataclasses.replace(entry, scores=moved)}))
    kinds = board("small", turned)["kinds"]
    assert ["q_learning", "turned"] in kinds["ergodic"]["changed"] and kinds["ergodic"]["problems"] == 3
    assert ["turned", "q_learning"] in kinds["absorbing"]["changed"] and kinds["noisy"]["changed"] == []


def test_growth_with_the_horizon_is_the_exponent_of_its_power_law(suite):
    every = []
    for problem, discount in zip(suite.problems, (0.8, 0.9, 0.95, 0.98), strict=False):
        one = results_of(problem, errors(problem, {"q_learning": RULES["q_learning"]}))
        entry = one.entries["q_learning"]
        entry.scores[:, 2] = 5.0 * (1 / (1 - discount)) ** 2.5
        every.append(Results({**one.facts, "env": "same", "model": "same", "discount": discount}, one.entries))
    found = next(one for one in board("small", every)["growth"] if one["level"] == 0.01)
    assert found["discounts"] == 4 and found["exponent"] == pytest.approx(2.5, abs=1e-5)
    assert found["low"] == pytest.approx(found["high"], abs=1e-5)
    every[2].entries["q_learning"].scores[:, 2] = np.inf
    whole = board("small", every)
    assert "[2.50 2.50]*" in tables.terminal(whole) and "<td>2.50 [2.50 2.50]*</td>" in page.build(whole)
    every[2].entries["q_learning"].scores[:, 2] = 5.0 * (1 / (1 - 0.95)) ** 2.5
    assert tables.terminal(board("small", every)).splitlines()[-2:] == [
        f"{'same':>38}",
        f"q_learning{'2.50 [2.50 2.50]':>27}",
    ]

    # a seed that never got there is beyond the median; where half of them never did, so is the median
    for p, exponent in ((1, 2.5), (3, None)):
        every[p].entries["q_learning"].scores[:, 2, :3] = np.inf
        found = next(one for one in board("small", every)["growth"] if one["level"] == 0.01)
        assert found["discounts"] == 4 and found["exponent"] == pytest.approx(2.5, abs=1e-5)
        every[p].entries["q_learning"].scores[:, 2, :4] = np.inf
        found = next(one for one in board("small", every)["growth"] if one["level"] == 0.01)
        assert found["discounts"] == 3 and found["exponent"] == (exponent and pytest.approx(exponent, abs=1e-5))
        told = tables.terminal(board("small", every)).splitlines()[-1].split(maxsplit=1)
        assert told == ["q_learning", "2.50 [2.50 2.50]*" if exponent else "–"]
        every[p].entries["q_learning"].scores[:, 2] = 5.0 * (1 / (1 - every[p].facts["discount"])) ** 2.5

    # two models of one environment are not one line
    other = [Results({**one.facts, "model": f"{p % 2}"}, one.entries) for p, one in enumerate(every)]
    assert board("small", other)["growth"] == []


def test_a_suite_of_several_sampling_modes_names_each(suite):
    every = [results_of(problem, errors(problem, RULES)) for problem in suite.problems]
    modes = ("iid", "markovian", *["iid"] * len(every))
    mixed = [Results({**one.facts, "sampling": mode}, one.entries) for one, mode in zip(every, modes, strict=False)]
    assert "iid and markovian sampling" in " ".join(tables.terminal(board("small", mixed)).split())


def test_what_is_written(found, tmp_path):
    text = tables.terminal(found)
    assert max(map(len, text.splitlines())) <= 80 and "root_sa*" in text
    assert json.loads(json.dumps(found, allow_nan=False))["suite"] == "small"
    head, _, cells = tables.comma_separated(found).partition("\n\n")
    assert len(head.splitlines()) == 1 + 8 and len(cells.splitlines()) == 1 + 8 * 8
    assert tables.latex(found).count(r"\\") == 1 + len(RULES) and r"q\_learning" in tables.latex(found)
    html = page.build(found)
    links, ids = set(re.findall(r'href="#([^"]+)"', html)), set(re.findall(r'id="([^"]+)"', html))
    assert links <= ids and len([one for one in links if "--" in one]) == len(RULES) * len(PROBLEMS)
    assert "mqlearn run reward=sampled env=two_state" in html
    for ending in ("png", "svg"):
        figure.save(found, tmp_path / f"board.{ending}")
        assert (tmp_path / f"board.{ending}").stat().st_size > 10_000
    with pytest.raises(SettingError, match=r"must end in .png"):
        figure.save(found, tmp_path / "board.txt")
