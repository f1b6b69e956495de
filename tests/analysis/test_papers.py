"""Papers of the field: what their yamls say, what is stored of them, and how a verdict follows from the two."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from mqlearn.analysis.claims import claim, tables
from mqlearn.analysis.claims.checks import FAILS, HOLDS, OPEN, ClaimCheck, verdict
from mqlearn.analysis.papers import pages, paper, results
from mqlearn.analysis.papers.paper import MARKS, Paper
from mqlearn.cli.new.command import TEMPLATES

ROOT = Path(__file__).resolve().parents[2]
FIELD = ROOT / "outputs" / "paper" / "field"
KEYS = paper.known()


@pytest.fixture(autouse=True)
def stored_ones(monkeypatch):
    """What is committed, not what an outputs folder of this machine may have beside it."""
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(ROOT / "outputs"))


# --- what ships ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", KEYS)
def test_a_paper_is_whole(key):
    one = paper.load(key)
    assert one.spec["read"] and one.spec["settings"] and one.spec["reported"]
    assert one.spec["claims"] or one.spec["not_testable"]
    for name in one.spec["claims"]:
        assert name.startswith(f"{key}_")  # which tells it from the claims of the paper that mqlearn implements
        assert name in one.ours or one.reports(name), f"{name}: neither ours, nor of anything that is reported"
    assert not {entry["claim"] for entry in one.spec["reported"] if "claim" in entry} & one.ours


@pytest.mark.parametrize("key", [key for key in KEYS if paper.load(key).spec["claims"]])
def test_what_is_stored_of_a_paper_is_decided_by_the_criteria_of_today(key):
    one = paper.load(key)
    found = results.measured(one)
    assert found is not None and [each.answer.claim.name for each in found.claims] == one.spec["claims"]
    assert not any(each.smoke for each in found.claims)
    level = 0.05 / len(one.spec["claims"])
    for each in found.claims:
        assert all(check["level"] == pytest.approx(level) for check in each.answer.claim.spec["checks"])
    for file in one.pictures.values():
        assert (FIELD / file).stat().st_size > 10_000


def test_the_page_of_the_field_is_made_of_what_is_stored():
    every = [paper.load(key) for key in KEYS]
    text = pages.markdown([(one, results.measured(one)) for one in every])
    assert text == (FIELD / "README.md").read_text(encoding="utf-8")


def test_intervals_on_the_page_show_why_a_check_came_out_so():
    """As they are printed, the ends of an interval lie on the side of the limits that the outcome says."""
    told = 0
    for key in KEYS:
        found = results.measured(paper.load(key))
        for check in [check for each in (found.claims if found else ()) for check in each.answer.checks]:
            if "measured_exponent" not in check.evidence:
                continue
            told += 1
            (line,) = tables.brief([check])
            ends = re.findall(r"intervals within ([-\d.e]+)(?: to ([-\d.e]+))?\)", line)[0]
            low, high = (float(end) for end in (ends[0], ends[1] or ends[0]))
            least, most = check.evidence["between"]
            least, most = -np.inf if least is None else least, np.inf if most is None else most
            if check.outcome == HOLDS:
                assert least <= low <= high <= most, line
            elif check.outcome == FAILS:
                assert high <= least or most <= low, line
            else:
                assert low < least < high or low < most < high, line
    assert told > 50


def test_what_is_below_zero_is_told_by_means_and_no_ratio():
    found = results.measured(paper.load("sarsa_2018"))
    assert found is not None
    for each in found.claims:
        checks = each.answer.checks
        ratios = [text for text in tables.brief(checks) if "a/b" in text]
        assert not ratios and min(check.evidence["value_b"] for check in checks) < 0


def test_claims_of_papers_are_none_of_the_paper_that_is_implemented():
    own = claim.known()
    listed = {name for key in KEYS for name in paper.load(key).spec["claims"]}
    assert listed and not listed & set(own) and {*own, *listed} == set(claim.every())


# --- verdicts -----------------------------------------------------------------------------------------------------


def a_paper(*, mark: str = "T", essential: bool | None = None, not_testable: str | None = None) -> Paper:
    settings = [] if essential is None else [{"setting": "seeds", "choice": 3, "why": "none", "essential": essential}]
    reported = [{"quantity": "x", "value": 1, "place": "p", "mark": mark, "claim": "its"}]
    spec: dict[str, Any] = {
        "citation": {"authors": "A", "title": "T", "year": 2000}, "read": [], "settings": settings,
        "reported": reported, "experiments": [], "claims": ["its", "ours"], "not_testable": not_testable,
    }  # fmt: skip
    return Paper("a_paper", spec, frozenset({"ours"}))


def with_outcomes(**outcomes: list[str]) -> Any:
    """Claims with checks of these outcomes."""

    def one(name: str, some: list[str]) -> Any:
        checks = tuple(ClaimCheck({}, outcome, {"seeds_needed": 40 + i}) for i, outcome in enumerate(some))
        answer = SimpleNamespace(claim=SimpleNamespace(name=name), checks=checks, verdict=verdict(checks))
        return SimpleNamespace(answer=answer)

    return results.Measured(tuple(one(name, some) for name, some in outcomes.items()), 1.0)


@pytest.mark.parametrize(
    ("its", "ours", "expected"),
    [
        ([HOLDS, HOLDS], [FAILS], "reproduced"),  # a question of ours decides nothing
        ([HOLDS, OPEN], [HOLDS], "conditional"),
        ([HOLDS, FAILS], [HOLDS], "conditional"),
        ([OPEN, FAILS], [HOLDS], "not reproduced"),
        ([OPEN, OPEN], [HOLDS], "undecided"),
    ],
)
def test_a_verdict_follows_from_the_claims_of_the_paper(its, ours, expected):
    said, why = results.verdict(a_paper(), with_outcomes(its=its, ours=ours))
    assert said == expected and f"{its.count(HOLDS)} of 2 checks hold" in why
    assert ("a power of 0.8 takes 40 to 41 seeds" in why) is (expected == "undecided")


def test_a_paper_of_which_a_part_was_run_has_no_verdict():
    whole = with_outcomes(its=[HOLDS], ours=[HOLDS])
    assert results.verdict(a_paper(), whole)[0] == "reproduced"
    assert results.verdict(a_paper(), with_outcomes(ours=[HOLDS]))[0] == "not run"


def test_what_is_unknown_or_remembered_never_reproduces():
    found = with_outcomes(its=[HOLDS], ours=[HOLDS])
    assert results.verdict(a_paper(essential=True), found)[0] == "under our settings"
    assert results.verdict(a_paper(essential=False), found)[0] == "reproduced"
    assert results.verdict(a_paper(mark="M"), found)[0] == "under our settings"
    assert results.verdict(a_paper(mark="C"), found)[0] == "under our settings"  # ours, too: nobody reports it
    assert results.verdict(a_paper(not_testable="it names no problem"), found) == (
        "not testable",
        "it names no problem",
    )
    assert results.verdict(a_paper(), None)[0] == "not run"


def test_a_difference_is_an_outcome_or_a_number_beyond_rounding():
    def rows(**more: Any) -> list[dict[str, Any]]:
        return [
            {"claim": "its", "evidence": [{"conditions": {}, "outcome": HOLDS, "ratio": 0.5, "digests": [], **more}]}
        ]

    assert results.difference(rows(), rows(ratio=0.5 * (1 + 1e-9), digests=["other"])) is None
    assert "ratio 0.5 was stored" in str(results.difference(rows(), rows(ratio=0.5001)))
    assert "outcome" in str(results.difference(rows(), rows(outcome=FAILS)))


# --- the verb, and a paper of one's own ---------------------------------------------------------------------------


@pytest.fixture
def own(work) -> Path:
    """The folder of configurations that `mqlearn new paper` writes."""
    shutil.copytree(TEMPLATES / "paper" / "my_conf", work / "my_conf")
    return work / "my_conf"


def test_papers_are_listed_and_printed(mqlearn):
    listed = mqlearn("papers")
    assert listed.code == 0 and all(re.search(rf"^{key} ", listed.out, re.MULTILINE) for key in KEYS)
    done = mqlearn("papers", "--json", "-")
    rows = json.loads(done.out)
    assert [row["key"] for row in rows] == KEYS
    wanted = {"key", "citation", "year", "experiments", "claims", "verdict", "unknown", "seconds"}
    assert all(row.keys() == wanted for row in rows)
    assert {key for row in rows for one in row["claims"] for key in one} == {"name", "ours", "verdict"}
    assert {row["verdict"] for row in rows} <= {*results.VERDICTS} - {"not run"}
    page = mqlearn("papers", KEYS[-1]).out
    assert "Verdict:" in page and "REPORTED" in page and MARKS["T"] in page and f"claims --paper {KEYS[-1]}" in page


def test_a_paper_of_ones_own_is_run_stored_and_checked(mqlearn, own, outputs, monkeypatch):
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(outputs))
    arguments = ("papers", "my_paper", "--config-dir", "my_conf")
    assert "not run" in mqlearn(*arguments).out
    done = mqlearn(*arguments, "--store", "tracking=none")
    assert done.code == 0 and "Verdict: reproduced (1 of 1 checks hold)" in done.out, done.out + done.err
    folder = outputs / "paper" / "field"
    assert {path.name for path in folder.iterdir()} == {"README.md", "my_paper.json", "my_paper.png"}
    assert "my_paper" in (folder / "README.md").read_text()
    runs = sorted(outputs.rglob("summary.json"))
    again = mqlearn(*arguments, "--check", "tracking=none")
    assert again.code == 0 and "my_paper: as stored" in again.out and sorted(outputs.rglob("summary.json")) == runs
    content = json.loads((folder / "my_paper.json").read_text())
    assert content["seconds"] > 0
    content["claims"][0]["evidence"][0]["value_a"] *= 1.001
    (folder / "my_paper.json").write_text(json.dumps(content))
    differs = mqlearn(*arguments, "--check", "tracking=none")
    assert differs.code == 1 and "value_a" in differs.out and "was stored" in differs.out
    content["claims"][0]["evidence"][0]["outcome"] = FAILS
    (folder / "my_paper.json").write_text(json.dumps(content))
    stale = mqlearn(*arguments)
    assert stale.code == 2 and stale.err.startswith("mqlearn: paper='my_paper': ") and stale.err.count("\n") == 1
    assert "was decided by other criteria" in stale.err and "papers my_paper --store" in stale.err


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda spec: spec.pop("citation"), "citation=None: must be given as a mapping with authors, title, year, in"),
        (lambda spec: spec["citation"].pop("year"), "citation.year"),
        (lambda spec: spec["citation"].update(year="later"), "must be a whole number"),
        (lambda spec: spec["claims"].append("qqqq"), "claims='qqqq': is no claim that there is, in"),
        (lambda spec: spec["experiments"].append("qqqq"), "; there are asymptotic_rate_1997, averaged_2023, "),
        (lambda spec: spec["settings"][1].update(essential="no"), "settings[2].essential='no': must be true or false"),
        (lambda spec: spec["claims"].append("my_paper_speedi_q"), "did you mean 'my_paper_speedy_q'?"),
        (lambda spec: spec["experiments"].append("my_papr"), "did you mean 'my_paper'?"),
        (lambda spec: spec["reported"][0].pop("place"), "reported[1].place"),
        (lambda spec: spec["reported"][0].pop("mark"), "reported[1].mark=None: must be one of T (read in the"),
        (lambda spec: spec["reported"][0].update(mark="X"), "T (read in the paper's text)"),
        (lambda spec: spec["reported"][0].update(claim="theorem_1"), "reported[1].claim"),
        (lambda spec: spec["settings"][1].pop("why"), "settings[2].why"),
        (lambda spec: spec.update(claim=[]), "did you mean 'claims'?"),
        (lambda spec: spec.update(read="the text"), "must be a list"),
    ],
)
def test_a_paper_with_a_slip_is_one_message(mqlearn, own, change, said):
    path = own / "paper" / "my_paper.yaml"
    spec = yaml.safe_load(path.read_text())
    change(spec)
    path.write_text(yaml.safe_dump(spec))
    done = mqlearn("papers", "my_paper", "--config-dir", "my_conf")
    assert done.code == 2 and done.out == "" and done.err.count("\n") == 1, done.err
    assert said in done.err and "my_paper.yaml" in done.err


def test_unknown_papers_and_settings_are_one_message(mqlearn):
    for arguments, said in (
        (("papers", "zap_2016"), "did you mean 'zap_2017'?"),
        (("claims", "--paper", "zap_2016"), "did you mean 'zap_2017'?"),
        (("papers", "zap_2017", "n_workers=2"), "has no effect"),
        (("papers", "zap_2017", "--check", "discount=0.5"), "has no effect"),
        (("papers", "zap_2017", "--check", "--store"), "give one of them"),
    ):
        done = mqlearn(*arguments)
        assert done.code == 2 and said in done.err and done.err.count("\n") == 1, done.err
