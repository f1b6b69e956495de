"""Findings: each code is reached, each finding is shown once in each place; Python and command line refuse alike."""

import ast
import functools
import html
import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.experiments.presentation.mlflow_view import shows
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.settings.compose import compose
from mqlearn.finding import Finding, of_record
from mqlearn.learning import diagnostics, run_warnings
from mqlearn.learning.setup import validated
from mqlearn.paths import PACKAGE
from mqlearn.storage import runs

TWO, LAKE = mq.two_state(), mq.frozen_lake("4x4")
RECORDED = Path(__file__).parent / "data" / "recorded" / "runs"


# --- every code is reached --------------------------------------------------------------------------------------------


@functools.cache
def codes() -> set[str]:
    """The codes of all findings that the package makes."""
    texts = [file.read_text(encoding="utf-8") for file in PACKAGE.rglob("*.py")]
    calls = [
        node
        for text in texts
        if "Finding" in text or "worded" in text  # the others are not taken apart: that would take seconds
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Finding", "worded")
    ]
    named = [call.args[0] for call in calls if call.args and not isinstance(call.args[0], ast.Name | ast.Starred)]
    assert all(isinstance(code, ast.Constant) for code in named), "a code is written where its finding is made"
    return {str(code.value) for code in named if isinstance(code, ast.Constant)}


def before(rule: Any = None, mdp: Any = TWO, **settings: Any) -> list[Finding]:
    setup = validated(mdp, iterations=50, **settings)
    return run_warnings.before_run(setup, setup.prepared(rule or mq.QLearning()))


def unseen() -> list[Finding]:
    return list(mq.run(LAKE, mq.QLearning(), iterations=5, n_seeds=1, sampling=mq.Markovian()).findings)


def gone_on(rule: Any, **settings: Any) -> list[Finding]:
    first = mq.run(LAKE, rule, iterations=200, n_seeds=2, **settings)
    return before(mdp=LAKE, q0=first, n_seeds=2)


def theta_star(mdp: Any, features: Any, sampling: Any) -> list[Finding]:
    return diagnostics.fixed_point(mdp, features, sampling, 0.0)[1][1]


def without_root() -> list[Finding]:
    """The mean gradient is 1 at every theta: the next feature is twice as large, and the discount is 1/2."""
    p = np.zeros((3, 2, 3))
    p[0, :, 1] = p[1, :, 2] = p[2, :, 2] = 1
    mdp = mq.from_arrays(
        p, np.array([[1.0, 1.0], [0, 0], [0, 0]]), discount=0.5, start=0, terminal=[False, False, True]
    )
    phi = mq.from_matrix(mdp, np.array([[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]])[:, :, None], norm="none")
    return theta_star(mdp, phi, mq.Markovian(time_limit=1))


def edited() -> list[Finding]:
    file = Path("edited_by_user.py")
    file.write_text("import mqlearn as mq\nclass Mine(mq.QLearning): pass\n")
    sys.path.insert(0, str(Path.cwd()))
    try:
        rule = importlib.import_module(file.stem).Mine()
        file.write_text("import mqlearn as mq\nclass Mine(mq.SpeedyQ): pass\n")
        return before(rule)
    finally:
        sys.path.remove(str(Path.cwd()))
        sys.modules.pop(file.stem, None)


def barely_reached() -> list[Finding]:
    best = {"start_value": 1e-9, "certified_error": 1e-12, "success_probability": 1e-5}
    return run_warnings.of_problem(LAKE, best)


EXAMPLES = {
    "rule": lambda: before(mq.MomentumQ(m=1)),
    "operator": lambda: before(operator=mq.Relaxed(1.9)),
    "problem": lambda: before(mdp=mq.deep_sea(3, map_seed=4)),
    "source": edited,
    "tied_start": lambda: before(mq.Zap()),
    "samples_again": lambda: gone_on(mq.QLearning()),
    "diverged_start": lambda: gone_on(mq.QLearning(), step_size=mq.Constant(50.0)),
    "clip": lambda: before(mq.clipped(mq.QLearning(), -1, 1)),
    "unstable_step": lambda: before(step_size=mq.Constant(1.5)),
    "short_episodes": lambda: before(mdp=LAKE, evaluation=mq.Evaluation(time_limit=2)),
    "dependent_features": lambda: before(features=mq.from_matrix(TWO, np.ones((2, 2, 2))), sampling=mq.Markovian()),
    "no_effect": lambda: before(theta0=1.0),
    "negligible_value": barely_reached,
    "negligible_success": barely_reached,
    "no_stationary_chain": lambda: theta_star(TWO, mq.one_hot(TWO), mq.Markovian(behaviour="epsilon_greedy")),
    "no_theta_star": without_root,
    "zero_theta_star": lambda: theta_star(LAKE, mq.one_hot(LAKE), mq.Markovian(time_limit=3)),
    "no_reward_seen": unseen,
    "step_size_plateau": lambda: diagnostics.horizon(
        mq.QLearning(), TWO.with_discount(0.99), mq.Synchronous(), 3000
    )[1],
    "error_grew": lambda: diagnostics.grown(np.array([[1.0, 30.0]])),
    "endless_policy": lambda: diagnostics.endless(np.array([[0.0, -np.inf], [0.0, 1.0]])),
    "recorded": lambda: list(of_record({"warnings": ["as an earlier version said it"]})),
}  # fmt: skip


@pytest.mark.parametrize("code", sorted(codes()))
def test_each_code_is_reached_and_its_numbers_stand_in_the_sentence(code, work):
    found = [one for one in EXAMPLES[code]() if one.code == code]
    assert found
    for one in found:
        shown = [
            f"{value:.3g}" in one.text or f"{value:g}" in one.text or f"{value:.1%}" in one.text
            for name, value in one.numbers.items()
            if name != "certified_error"
        ]  # said where it is not small
        assert one.text and all(shown), one  # fmt: skip


def test_the_examples_have_no_code_that_nothing_makes():
    assert EXAMPLES.keys() == codes()


# --- each finding once in each place ----------------------------------------------------------------------------------

SEVERAL = (
    "env=frozen_lake_4x4", "env.slippery=false", "env.success_rate=0.8", "algorithm=momentum_q", "algorithm.m=1",
    "step_size=constant", "step_size.alpha=1.5", "theta0=1", "iterations=30", "n_seeds=2", "tracking.per_seed=true",
)  # fmt: skip


def test_terminal_record_note_and_report_show_each_finding_once(mqlearn, outputs, work):
    done = mqlearn("run", *SEVERAL, "tracking=none", "experiment.name=several")
    assert done.code == 0
    (folder,) = (outputs / "runs" / "several").iterdir()
    run = runs.load(folder)
    expected = {"rule", "unstable_step", "no_effect", "problem", "error_grew"}
    assert {found.code for found in run.findings} == expected
    texts = [found.text for found in run.findings]
    assert len({*texts}) == len(texts) > len(expected)
    assert done.err.splitlines() == [f"warning: {text}" for text in texts]
    assert run.summary["warnings"] == texts
    assert run.summary["findings"] == [found.record() for found in run.findings]
    note = shows({})(run, {}).note.replace("\\", "")
    assert [note.count(text) for text in texts] == [1] * len(texts)
    asked = mqlearn("report", "experiment.name=several", "tracking=none", "--output", "a.html")
    assert asked.code == 0
    page = html.unescape((work / "a.html").read_text(encoding="utf-8"))
    assert [page.count(text) for text in texts] == [1] * len(texts)


def test_a_record_of_an_earlier_version_shows_its_sentences():
    (folder,) = (RECORDED / "recorded").glob("afade6def2f451c4")
    old = runs.load(folder)
    assert "findings" not in old.summary and old.findings == ()
    told = runs.Run(old.folder, old.summary | {"warnings": ["first", "second"]})
    assert [str(found) for found in told.findings] == ["first", "second"]


@pytest.mark.parametrize("wrong", [{}, [{}], [{"code": "a", "text": 1, "numbers": {}}], ["text"]])
def test_findings_of_another_shape_are_damage(wrong, work):
    from mqlearn.storage.record_schema import check_summary

    summary = {"digest": "a", "name": "b", "status": "finished", "diverged": {}}
    check_summary(summary | {"findings": [{"code": "a", "text": "b", "numbers": {"n": 1}}]})
    with pytest.raises(ValueError, match="findings must be"):
        check_summary(summary | {"findings": wrong})


# --- what does not go together is refused alike -----------------------------------------------------------------------

ONE_HOT = mq.one_hot(LAKE)
TOGETHER: list[tuple[Any, dict[str, Any], tuple[str, ...]]] = [
    (mq.QLearning(), {"features": ONE_HOT}, ("features=one_hot",)),
    (mq.QLearning(), {"features": ONE_HOT, "sampling": mq.IID(), "operator": mq.Robust(radius=0.1)},
     ("features=one_hot", "sampling=iid", "operator=robust", "operator.radius=0.1")),
    (mq.Phased(), {"sampling": mq.Markovian()}, ("algorithm=phased", "sampling=markovian")),
    (mq.MoVI(), {"sampling": mq.Markovian(clock="local")},
     ("algorithm=movi", "sampling=markovian", "sampling.clock=local")),
    (mq.MoVI(), {"sampling": mq.Markovian(update="rounds")},
     ("algorithm=movi", "sampling=markovian", "sampling.update=rounds")),
    (mq.MoVI(), {"sampling": mq.Markovian(), "features": ONE_HOT, "linear": mq.Linear("same_sample")},
     ("algorithm=movi", "sampling=markovian", "features=one_hot", "linear.previous_gradient=same_sample")),
    (mq.PolSA(), {"sampling": mq.Markovian(behaviour="epsilon_greedy")},
     ("algorithm=polsa", "sampling=markovian", "sampling.behaviour=epsilon_greedy")),
    (mq.minibatch(mq.SpeedyQ(), 2),
     {"sampling": mq.Markovian(), "features": ONE_HOT, "linear": mq.Linear(projection=1.0)},
     ("algorithm=speedy_q", "algorithm.batch=2", "sampling=markovian", "features=one_hot", "linear.projection=1.0")),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "settings", "overrides"), TOGETHER, ids=lambda value: "")
def test_python_and_the_command_line_refuse_in_the_same_words(rule, settings, overrides, work):
    with pytest.raises(mq.SettingError) as in_python:
        mq.run(LAKE, rule, iterations=5, n_seeds=1, **settings)
    with pytest.raises(mq.SettingError) as composed:
        build(compose(["env=frozen_lake_4x4", *overrides, "iterations=5", "tracking=none"]))
    python, command_line = in_python.value, composed.value
    assert (python.setting, python.admissible) == (command_line.setting, command_line.admissible)


def test_on_a_simulator_too_before_anything_runs(mqlearn, outputs):
    line = ("env=gymnasium", "env.id=CartPole-v1", "features=tile_coding", "sampling=markovian", "iterations=5")
    done = mqlearn("run", *line, "evaluation.start=uniform", "tracking=none")
    cart = mq.simulator("CartPole-v1", discount=0.9)
    with pytest.raises(mq.SettingError) as refused:
        mq.run(cart, mq.QLearning(), features=mq.tile_coding(cart), sampling=mq.Markovian(), iterations=5,
               evaluation=mq.Evaluation(start="uniform"))  # fmt: skip
    assert done.code == 2 and str(refused.value) in done.err and not (outputs / "runs").exists()
