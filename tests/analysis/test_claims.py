"""`mqlearn claims`: every claim as written, and all of them in small, end to end."""

import functools
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mqlearn.analysis.claims import checks as claim_checks
from mqlearn.analysis.claims.checks import HOLDS, OPEN, ClaimCheck
from mqlearn.analysis.comparison import selection
from mqlearn.analysis.statistics import significance
from mqlearn.cli import claims
from mqlearn.experiments.plan import GROUPS, composed, plan

NAMES = claims.known()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """All claims in small: the rows of --json, the Markdown table, and the outputs folder."""
    folder = tmp_path_factory.mktemp("claims")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQLEARN_OUTPUTS", str(folder / "outputs"))
        arguments = ["smoke=true", "tracking=none", "--json", folder / "claims.json", "--table", folder / "claims.md"]
        assert claims.claims([str(argument) for argument in arguments]) == 0
    rows = json.loads((folder / "claims.json").read_text())
    return SimpleNamespace(rows=rows, table=(folder / "claims.md").read_text(), outputs=folder / "outputs")


@functools.cache
def runs_of(outputs: Path) -> tuple[Any, ...]:
    """All runs of an outputs folder, read once: that takes a second, and is asked for each piece of evidence."""
    return selection.find(outputs).runs


def curve_of(outputs: Path, digest: str, metric: str, at: int) -> np.ndarray:
    (run,) = (one for one in runs_of(outputs) if one.digest.startswith(digest))
    return run.curves[metric][:, np.flatnonzero(run.curves["iteration"] <= at)[-1]]


# --- as written ---------------------------------------------------------------------------------------------------


def test_the_claims_that_the_paper_makes_are_there():
    about = {
        "momentum_vs_q_learning", "momentum_vs_speedy_q", "momentum_vs_nesa", "speedy_q_overshoots", "any_m_converges",
        "linear_momentum", "linear_momentum_matched", "linear_momentum_tuned", "replay_vs_markovian", "theorem_1",
        "theorem_2", "theorem_3",
    }  # fmt: skip
    assert about <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_claim_is_whole_and_names_a_place_in_the_paper(name):
    claim = claims.load(name)
    assert re.match(r"(Section|Theorem) \d|Not in the paper; a claim of this project$", claim.spec["place"])
    assert claim.spec["statement"].strip().endswith(".") and claim.spec["reading"].strip().endswith(".")
    full, small = claims.needs(claim), claims.needs(claim, smoke=True)
    assert full.lists and small.lists
    # In small: the same labels, other settings.
    assert {label for _, label in full.lists} == {label for _, label in small.lists}
    assert not {tuple(cell) for cell in full.lists.values()} & {tuple(cell) for cell in small.lists.values()}
    factors = {*claim.spec["runs"]["conditions"], "rule", "rival", "k", "quantity", "measured by"}
    assert set(claim.spec["by"]) <= factors


def test_claims_on_figure_1_use_the_very_cells_of_the_figure():
    claim = claims.load("momentum_vs_q_learning")
    need = claims.needs(claim)
    chosen = {"4x4|0.9": ("4x4", "0.9"), "8x8|0.9": ("8x8", "0.9")}
    lists = {(panel, label): need.lists[place, label] for panel, place in chosen.items() for label in ("Q-learning",)}
    figure = {one.cell.digest for one in plan("figure1", []).cells}
    assert {one.cell.digest for one in composed(lists)} <= figure


def test_claims_are_no_group_of_settings(mqlearn):
    assert "claim" not in GROUPS
    groups = mqlearn("run", "--help").out.split("Settings")[0]
    assert not re.search(r"^  claim\b", groups, re.MULTILINE)
    assert mqlearn("run", "claim=theorem_1").code == 2
    assert mqlearn("run", "+claim=theorem_1").code == 2
    assert all(name in mqlearn("claims", "--help").out for name in NAMES)


# --- all of them, in small ----------------------------------------------------------------------------------------


def test_every_claim_gets_a_verdict_that_its_evidence_gives(small):
    assert [row["claim"] for row in small.rows] == NAMES
    for row in small.rows:
        outcomes = [one["outcome"] for one in row["evidence"] if not one.get("aside")]
        assert (row["holding"], row["deciding"]) == (outcomes.count(HOLDS), len(outcomes))
        assert row["verdict"] == claim_checks.verdict([ClaimCheck({}, outcome) for outcome in outcomes])
        assert (row["verdict"] == "reproduced") == all(outcome == HOLDS for outcome in outcomes)
        assert row["conditions"] and row["smoke"] is True and row["place"] and len(row["data_digest"]) == 64
        for one in row["evidence"]:
            if "p_corrected" in one:
                assert (one["verdict"] == one["expected"]) == (one["outcome"] == HOLDS)
                if one["p"] is None:  # a peak at k = 1, where no seed matters, or no overshoot: nothing to test
                    assert one["test"] == "none" and (one["value_a"] == one["value_b"]) == (one["outcome"] == OPEN)
                    continue
                assert (one["p_corrected"] <= 0.05) == (one["outcome"] != OPEN)
                assert one["low"] <= one["effect"] <= one["high"]
        family = [one for one in row["evidence"] if one.get("p") is not None]
        expected = significance.holm([one["p"] for one in family])
        assert [one["p_corrected"] for one in family] == pytest.approx(expected)


def test_the_evidence_is_what_the_runs_say(small):
    (row,) = (one for one in small.rows if one["claim"] == "momentum_vs_q_learning")
    assert len({one["p"] for one in row["evidence"]}) > 5
    for one in row["evidence"]:
        a, b = (curve_of(small.outputs, digest, "q_error", one["at"]) for digest in one["digests"])
        assert one["effect"] == pytest.approx(a.mean() - b.mean())
        assert one["ratio"] == pytest.approx(a.mean() / b.mean())
        assert one["n_finite"] == len(a) == 12 and one["paired"]
        if one["outcome"] == HOLDS:
            assert a.mean() < b.mean()
    at_end = [
        one for one in row["evidence"] if one["conditions"]["rule"] == "MomentumQ m=2" and one["b"] == "Q-learning"
    ]
    assert {one["conditions"]["discount"] for one in at_end if one["outcome"] == HOLDS} == {"0.9", "0.99"}


def test_sampling_is_compared_across_blocks_and_the_tuned_rival_on_other_seeds(small):
    by_name = {row["claim"]: row for row in small.rows}
    for one in by_name["replay_vs_markovian"]["evidence"]:
        assert one["paired"] and one["a"] == one["b"] and "sampling" not in one["conditions"]
        first, second = (
            run.settings["sampling"]["name"]
            for digest in one["digests"]
            for run in runs_of(small.outputs)
            if run.digest.startswith(digest)
        )
        assert (first, second) == ("replay", "markovian")
    for one in by_name["linear_momentum_tuned"]["evidence"]:
        assert one["n_finite"] == 10 and "chosen on the other half" in one["b"]


def test_a_small_effect_and_equality_within_the_margin_both_stand(small):
    (row,) = (one for one in small.rows if one["claim"] == "linear_momentum_matched")
    asked = {quantity: [one for one in row["evidence"] if one["conditions"]["quantity"] == quantity] for quantity in
             ("faster at all", "faster by 5 %", "no slower by 5 %")}  # fmt: skip
    assert {len(members) for members in asked.values()} == {24} and len(row["evidence"]) == 72
    assert [quantity for quantity, members in asked.items() if all(one.get("aside") for one in members)] == [
        "no slower by 5 %"
    ]
    assert row["deciding"] == 48
    for small_, none in zip(asked["faster at all"], asked["no slower by 5 %"], strict=True):
        assert small_["ratio"] == pytest.approx(none["ratio"])


def test_questions_of_our_own_are_marked_and_shares_stand_beside_conditional(small):
    ours = {"efficiency", "linear_momentum_matched", "linear_momentum_tuned", "predicted_error", "root_sa"}
    assert {row["claim"] for row in small.rows if row["ours"]} == ours
    for line, row in zip((x for x in small.table.splitlines() if x.startswith("| `")), small.rows, strict=True):
        assert ("| ours, on " in line) == row["ours"]
        share = f"**conditional ({row['holding']} of {row['deciding']} checks)**"
        assert (share in line) == (row["verdict"] == "conditional")


def test_a_bound_that_is_never_below_the_initial_error_is_called_vacuous(small):
    (row,) = (one for one in small.rows if one["claim"] == "theorem_3")
    bound = [one for one in row["evidence"] if "bound_at_T" in one]
    assert bound and all(one["vacuous"] == (one["smallest_bound_over_initial_error"] >= 1) for one in bound)
    assert any("vacuous in" in text for text in row["summary"])


def test_k_is_the_checkpoint_that_was_looked_at(small):
    for row in small.rows:
        for one in row["evidence"]:
            assert "at" not in one or one["conditions"]["k"] == str(one["at"])


def test_the_table_has_one_line_a_claim(small):
    lines = [line for line in small.table.splitlines() if line.startswith("| `")]
    assert len(lines) == len(NAMES)
    for line, row in zip(lines, small.rows, strict=True):
        assert len(re.split(r"(?<!\\)\|", line)) == 8
        assert row["claim"] in line and row["data_digest"][:12] in line and row["place"] in line
    assert "say nothing of the paper" in small.table


def test_again_nothing_is_run_and_the_answer_is_the_same(small, mqlearn, monkeypatch, tmp_path):
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(small.outputs))
    done = mqlearn(
        "claims", "theorem_1", "momentum_vs_nesa", "smoke=true", "tracking=none", "--json", tmp_path / "a.json"
    )
    assert (done.code, done.err) == (0, "")
    assert "say nothing of the paper" in done.out
    again = {row["claim"]: row for row in json.loads((tmp_path / "a.json").read_text())}
    for row in small.rows:
        if row["claim"] in again:
            assert again[row["claim"]] | {"command": ""} == row | {"command": ""}
