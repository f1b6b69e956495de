"""The section of a report on theory: what it predicts, beside what runs measured."""

import html
from pathlib import Path

import numpy as np
import pytest
from compared import of, performed

from mqlearn.analysis.cases import case_of
from mqlearn.analysis.comparison import labels, selection
from mqlearn.analysis.report import subjects, theory
from mqlearn.analysis.report.markup import number
from mqlearn.experiments.settings import cell
from mqlearn.problems.solvers import optimal
from mqlearn.theory.linear_features import LinearFeatures

SHORT = ["iterations=100", "n_checkpoints=12", "tracking=none"]
TWO = ["n_seeds=8", "experiment.name=two"]
CHAIN = ["sampling=markovian", "n_seeds=4", "experiment.name=rates"]
LINEAR = [*CHAIN, "features=one_hot", "sampling.start=uniform", "discount=0.4"]
JOBS = [
    *(
        [f"algorithm={rule}", f"env=frozen_lake_{size}", *TWO]
        for rule in ("q_learning", "momentum_q")
        for size in ("4x4", "8x8")
    ),
    *(
        [f"algorithm={rule}", "step_size=constant", "step_size.alpha=0.01", *LINEAR]
        for rule in ("q_learning", "speedy_q")
    ),
    ["algorithm=momentum_q_linear", "step_size=inverse_sqrt", "step_size.alpha=0.1", *LINEAR],
    ["algorithm=q_learning", "step_size=polynomial", "step_size.exponent=0.8", "sampling.clock=local", *CHAIN],
]


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    return performed(tmp_path_factory.mktemp("theory"), [[*one, *SHORT] for one in JOBS])


def section(finished: Path, experiment: str) -> str:
    found = selection.find(finished, [experiment]).runs
    return html.unescape(theory.of(subjects.subjects(labels.entries(found))))


def test_theory_stands_beside_what_runs_measured(finished):
    """On the small lake the prediction is approximate; slow steps have none; the theorem is named where it holds."""
    told = section(finished, "two")
    run = of(finished, "two", algorithm="momentum_q", env="frozen_lake_4x4")
    error = run.curves["q_error_l2"][:, -1]
    mdp = cell.rebuild(run.settings).mdp
    measured = np.sqrt((error**2).mean() / mdp.counted.sum() * 100)
    assert number(float(measured)) in told
    assert "≈ " in told and "optimal actions tie in 1 state and" in told
    assert "critical constant" in told and "Theorem 3" in told
    assert "No run here has asymptotic constants" in section(finished, "rates")


def test_bounds_of_theta_and_slopes_stand_beside_what_runs_measured(finished):
    """The root of the bound over the length of theta*; of a run that no theorem covers the reason, and no number."""
    told = section(finished, "rates")
    run = of(finished, "rates", algorithm="q_learning", step_size="constant")
    assert number(float(np.sqrt((run.curves["theta_error"][:, -1] ** 2).mean()))) in told
    one = cell.rebuild(run.settings)
    linear = LinearFeatures(case_of(one))
    (bound,) = linear.bounds(run.curves["iteration"][-1:])
    star = np.linalg.norm(optimal(one.mdp).q[one.mdp.learned])  # of one-hot features theta* is Q*
    assert f"vanilla, same proof {number(float(np.sqrt(bound.values[-1]) / star))} (vacuous)" in told
    assert "No bound, no theorem of the paper covers SpeedyQ with linear features: " in told
    (row,) = [text for text in told.split("<tr>") if "Theorem 2 " in text]
    assert "theta_error_average" in row and "−0.25 (Theorem 2" in row and "vanilla" not in row
    assert "−0.4 (Even-Dar and Mansour 2003, steps k^-0.8)" in told


def test_the_tables_of_theory_say_of_how_many_runs_they_are(finished, monkeypatch):
    assert "are told" not in section(finished, "two") + section(finished, "rates")
    monkeypatch.setattr(theory, "_MOST", 1)
    assert section(finished, "two").count("The first 1 of 2 runs are told.") == 2  # two rules on each of two maps
    assert "The first 1 are told; not looked at: " in section(finished, "rates")
