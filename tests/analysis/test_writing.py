"""What is written for a paper: BibTeX of all that ships, and a paragraph on methods that says what the runs were."""

import re
from importlib.metadata import version

import pytest

from mqlearn.analysis.comparison import labels
from mqlearn.analysis.writing import bibtex, methods
from mqlearn.paths import CONF
from mqlearn.storage import lookup


def test_every_choice_has_a_source_or_needs_none():
    shipped = {f"{group}/{path.stem}" for group in bibtex.GROUPS for path in (CONF / group).glob("*.yaml")}
    named = frozenset().union(*(one.of for one in bibtex.references()))
    assert shipped - named - bibtex.WITHOUT == set()
    assert (named | bibtex.WITHOUT) - shipped == set()
    assert not named & bibtex.WITHOUT


def test_entries_are_whole_and_have_keys_of_their_own():
    keys = [one.key for one in bibtex.references()]
    assert len(set(keys)) == len(keys) > 40
    for one in bibtex.references():
        depth = 0
        for character in one.text:
            depth += (character == "{") - (character == "}")
            assert depth >= 0, one.key
        assert depth == 0, one.key
        assert "mqlearn =" not in one.text
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},$", one.text, re.MULTILINE))
        assert {"author", "title", "year"} <= fields.keys(), one.key
        assert re.fullmatch(r"(19|20)\d\d", fields["year"]) and re.fullmatch(
            r"\d{4}\.\d{4,5}", fields.get("eprint", "1111.11111")
        )


def test_what_is_cited_is_what_was_asked_for_once_and_the_users_own_is_said():
    text = bibtex.cited(
        ["algorithm/zap", "env/six_state", "algorithm/heavy_ball", "operator/bellman"], version("mqlearn")
    )
    assert re.findall(r"^@\w+\{(.*),", text, re.MULTILINE) == ["mqlearn", "devraj2017zap"]
    assert text.endswith("% no entry: algorithm/heavy_ball (your own)\n") and version("mqlearn") in text


@pytest.fixture
def page(made, mqlearn, monkeypatch):
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(made))
    file = made / "written.html"
    if not file.exists():
        mqlearn("report", "experiment.name=small", "--output", file, "tracking=none")
    return file


def test_methods_say_problems_rules_seeds_tests_and_software(page, made, mqlearn):
    done = mqlearn("explain", page, "--methods", "tracking=none")
    assert done.code == 0, done.err
    runs = [held.run for held in lookup.everywhere(made, ["small"], None) if held.run is not None]
    for entry in labels.entries(runs):
        assert entry.block in done.out and f"({entry.rule}" in done.out
    first = runs[0].settings
    assert (
        f"{first['iterations']:,} iterations and {first['n_seeds']} independent seeds (seed = {first['seed']})"
        in done.out
    )
    assert "sign-flip" in done.out and "Holm" in done.out and "level 0.05" in done.out
    assert f"mqlearn {version('mqlearn')}" in done.out and "mqlearn report experiment.name=small" in done.out
    assert "No test was made." in methods.paragraph(runs, {"command": "mqlearn figure x", "digests": {}})


def test_bibtex_of_a_report_has_its_rules(page, mqlearn):
    done = mqlearn("explain", page, "--bibtex", "tracking=none")
    assert "@phdthesis{watkins1989learning," in done.out and "% no entry" not in done.out


def test_a_leaderboard_says_where_it_is_from_and_has_no_runs_to_describe(mqlearn):
    picture = CONF.parent / "outputs" / "paper" / "bench_classic.png"
    done = mqlearn("explain", picture, "tracking=none")
    assert done.code == 0 and "suite classic" in done.out and "reproduce bench classic" in done.out
    refused = mqlearn("explain", picture, "--methods", "tracking=none")
    assert refused.code == 2 and "is of a leaderboard" in refused.err
