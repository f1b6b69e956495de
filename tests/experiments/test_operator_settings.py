"""Operators as settings: what a cell of one is called, what it is compared with, and what its verbs say."""

import json
import re

import pytest

import mqlearn as mq
from mqlearn.analysis.comparison.labels import entries
from mqlearn.experiments.settings import compose, identity
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.settings.override_commands import overrides_of
from mqlearn.learning.metric_kinds import kind_of
from mqlearn.paths import CONF
from mqlearn.storage import runs

SMALL = ("experiment.name=operators", "tracking=none", "iterations=200", "n_checkpoints=6", "n_seeds=3")
NAMES = sorted(path.stem for path in (CONF / "operator").glob("*.yaml"))


def cell_of(*overrides: str):
    return build(compose.compose([*SMALL, *overrides]))


def test_bellman_is_what_was_there_before():
    plain, said = cell_of(), cell_of("operator=bellman")
    assert plain.digest == said.digest and plain.name == said.name and "bellman" not in plain.name
    assert "operator" not in identity.resolved(plain.settings)
    older = {key: value for key, value in plain.settings.items() if key != "operator"}
    assert build(older).digest == plain.digest
    assert identity.problem_key(older) == identity.problem_key(plain.settings)
    assert overrides_of(older) == overrides_of(plain.settings)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "bellman"])
def test_another_operator_is_another_cell_on_another_problem(name):
    env = ("env=garnet_fixed",)
    plain, other = cell_of(*env), cell_of(*env, f"operator={name}")
    assert other.digest != plain.digest and name in other.name.split(", ")[1]
    assert identity.problem_key(other.settings) != identity.problem_key(plain.settings)
    assert identity.streams_key(other.settings, 1) == identity.streams_key(plain.settings, 1)
    assert build(compose.compose(overrides_of(other.settings))).digest == other.digest
    assert type(other.run_arguments["operator"]).__name__.lower() == name


def test_runs_with_operators_are_blocks_of_their_own(mqlearn, outputs):
    for operator in ("bellman", "relaxed"):
        for rule in ("q_learning", "speedy_q"):
            assert mqlearn("run", *SMALL, f"algorithm={rule}", f"operator={operator}").code == 0
    found = [runs.load(folder) for folder in (outputs / "runs" / "operators").iterdir()]
    blocks = {entry.block for entry in entries(found)}
    assert len(found) == 4 and len(blocks) == 2
    assert any("operator relaxed w=0.9 (errors from its fixed point)" in block for block in blocks)
    told = mqlearn("compare", "experiment.name=operators", "operator=relaxed").out
    assert told.count("operator relaxed w=0.9") and "q_learning" in told
    done = mqlearn("compare", "experiment.name=operators", "operator=bellman", "--json", "-")
    assert done.code == 0 and json.loads(done.out)
    (relaxed, *_) = [run for run in found if "relaxed" in run.name]
    point = relaxed.summary["operator"]
    assert point["fixed_point"] == "w Q* + (1 - w) V*" and point["residual"] < 1e-12


def test_a_run_says_what_its_errors_are_from_and_what_speaks_against_it(mqlearn):
    done = mqlearn("run", *SMALL, "operator=advantage")
    assert "errors are from the fixed point of advantage, V* - (V* - Q*) / (1 - a)" in done.out
    assert done.err.count("no contraction is proven") == 1
    assert "fixed point" not in mqlearn("run", *SMALL).out


def stays(name: str) -> float:
    """min P(x | x, u) over the pairs of a lake that are not terminal, by a loop over outcomes."""
    mdp = mq.frozen_lake(name, discount=0.9)
    return min(
        sum(p for p, y in zip(mdp.probabilities[x, u], mdp.successors[x, u], strict=True) if y == x)
        for x, u in mdp.pairs
    )


def test_a_run_without_a_model_has_no_fixed_point_and_says_so(mqlearn):
    problem = ("env=gymnasium", "env.id=Blackjack-v1", "features=one_hot", "sampling=markovian", "iterations=50")
    done = mqlearn("run", *problem, "operator=mellowmax", "n_seeds=2", "evaluation.episodes=2", "tracking=none")
    assert done.code == 0 and "no fixed point of mellowmax to measure errors from" in done.out


def test_truth_shows_the_fixed_point_its_residual_and_the_map_to_the_optimum(mqlearn):
    facts = json.loads(mqlearn("truth", "--json", "operator=relaxed", "operator.w=0.8").out)
    assert facts["operator"] == "relaxed w=0.8" and facts["operator_fixed_point"] == "w Q* + (1 - w) V*"
    assert facts["operator_residual"] < 1e-12 and facts["operator_map_to_q_star"] < 1e-12
    assert facts["operator_start_value"] == pytest.approx(facts["start_value"], abs=1e-12)
    lake = mq.optimal(mq.frozen_lake("4x4", discount=0.9))
    gap = (lake.v[:, None] - lake.q)[mq.frozen_lake("4x4", discount=0.9).counted].max()
    assert facts["operator_distance_to_q_star"] == pytest.approx(0.2 * gap)
    assert facts["operator_largest_w"] == pytest.approx(1 / (1 - 0.9 * stays("4x4")), abs=1e-12)
    assert "error of Q* recovered from the fixed point" in mqlearn("truth", "operator=relaxed").out
    robust = mqlearn("truth", "operator=robust")
    assert "none: Q* does not follow from it" in robust.out and "discount 0.81" in robust.err
    assert "operator" not in mqlearn("truth", "--json").out


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["operator=relative"], "terminal"),
        (["operator=robust", "operator.radius=1"], r"operator\.radius=1.*\[0, 1\)"),
        (["operator=relaxd"], "operator"),
        (["operator=advantage", "features=one_hot", "sampling=markovian"], "no certified fixed point with features"),
    ],
)
def test_what_cannot_be_is_one_message_and_nothing_is_written(mqlearn, outputs, overrides, words):
    done = mqlearn("run", *SMALL, *overrides)
    assert done.code == 2 and re.search(words, done.err) and "Traceback" not in done.err
    assert not outputs.exists()


def test_theory_is_of_bellmans_operator_alone(mqlearn):
    done = mqlearn("theory", "operator=mellowmax")
    assert done.code == 2 and "operator='mellowmax'" in done.err and "operator=bellman" in done.err


def test_an_axis_names_the_fixed_point():
    assert "Q^*" in kind_of("q_error").label and kind_of("q_error", [""]) == kind_of("q_error")
    assert r"Q_{\mathrm{relaxed}}" in kind_of("q_error", ["relaxed"]).label
    assert r"Q_{\mathrm{T}}" in kind_of("q_error_l2", ["", "relaxed"]).label
    assert kind_of("value_gap", ["relaxed"]) == kind_of("value_gap")


def test_an_operator_of_the_users_own_is_used_like_ours(mqlearn, work):
    (work / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        "from mqlearn.algorithms.operators import Numbers, Operator\n\n\n"
        "@dataclass(frozen=True)\nclass Half(Operator):\n"
        "    share: float = 0.5\n\n"
        "    def numbers(self, discount):\n"
        "        return Numbers(ahead=self.share * discount)\n\n"
        "    def contraction(self, facts):\n"
        "        return self.share * facts.discount\n\n"
        "    def to_optimum(self, q, v, mean, discount):\n"
        "        return None\n",
        encoding="utf-8",
    )
    own = ("plugins=[mine]", "operator._target_=mine.Half", "+operator.share=0.5", "operator.name=half")
    facts = json.loads(mqlearn("truth", "--json", *own).out)
    shorter = json.loads(mqlearn("truth", "--json", "discount=0.45").out)
    assert facts["operator_start_value"] == pytest.approx(shorter["start_value"], abs=1e-12)
    assert mqlearn("run", *SMALL, *own).code == 0
