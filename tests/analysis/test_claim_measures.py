"""What the checks of claims compute: measures of curves, rates, bounds, floors, transients."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.analysis.claims import criteria, single_runs
from mqlearn.analysis.claims import pairs as claim_pairs
from mqlearn.analysis.claims.checks import FAILS, HOLDS, OPEN, ClaimCheck, Seen
from mqlearn.analysis.claims.claim import filled
from mqlearn.analysis.claims.pairs import measured
from mqlearn.analysis.statistics import significance
from mqlearn.cli import claims
from mqlearn.errors import SettingError
from mqlearn.experiments.plan import composed
from mqlearn.experiments.settings.cell import build
from mqlearn.problems.fixed_points import mean_gradient, theta_star
from mqlearn.sampling.modes import stationary
from mqlearn.storage.runs import Run
from mqlearn.theory import asymptotic, bounds


@pytest.mark.parametrize(("scale", "expected"), [(1.0, HOLDS), (1.1, OPEN), (1.3, FAILS)])
def test_a_floor_is_held_against_errors_of_a_known_covariance(scale, expected):
    """Errors drawn from the floor itself, 2000 seeds, times `scale`."""
    mdp, end = mq.garnet_fixed(5, 2, 3, discount=0.9), 10_000
    least = asymptotic.floor(mdp)
    errors = np.random.default_rng(1).multivariate_normal(np.zeros(len(least.sigma)), least.sigma / end, size=2000)
    norms = scale * np.linalg.norm(errors, axis=1, keepdims=True)
    run: Any = SimpleNamespace(curves={"q_error_l2": norms}, digest="d")
    cell: Any = SimpleNamespace(mdp=mdp, settings={"reward": "mean", "iterations": end})
    spec = filled({"test": "floor", "of": ["rule"], "within": 1.1})
    (check,) = single_runs.floors(spec, [{}], lambda place, label: Seen(run, cell, label))
    assert check.outcome == expected
    assert check.evidence["ratio_to_floor"] == pytest.approx(scale, rel=0.05)
    assert check.evidence["low"] < check.evidence["ratio_to_floor"] < check.evidence["high"]


def synthetic(curve: np.ndarray) -> Run:
    run = Run(Path(), {"diverged": {}})
    run.__dict__.update(
        curves={"iteration": np.arange(curve.shape[1]), "q_error": curve}, settings={"n_seeds": len(curve)}
    )
    return run


def test_measures():
    run = synthetic(np.array([[2.0, 1.0, 3.0, 1.0], [2.0, 1.5, 0.5, 0.2], [2.0, 1.0, np.nan, np.nan]]))

    def of(measure, margin=1.0):
        return measured(run, "q_error", measure, margin).curves["q_error"]

    np.testing.assert_allclose(of("peak")[0], [1, 0.5, 1.5, 1.5])
    np.testing.assert_allclose(of("overshoot")[:2], [[0, 0, 0.5, 0.5], [0, 0, 0, 0]])
    np.testing.assert_allclose(of("spread", 2)[:, 2], [2 * 1.25, 2 * 1.25, np.nan])
    np.testing.assert_allclose(claim_pairs.frozen(run, "q_error", 1).curves["q_error"][1], 1.5)
    assert claim_pairs.half(run, second=True).curves["q_error"].shape == (2, 4)
    with pytest.raises(SettingError, match="overshoot"):
        of("overshot")


def test_the_test_of_spreads_errs_rarely_and_finds_a_threefold_spread():
    rng, wrong, right = np.random.default_rng(1), 0, 0
    for _ in range(200):
        common = rng.normal(size=12)
        a, b = (common + rng.normal(size=12) for _ in "ab")
        deviations = [measured(synthetic(x[:, None]), "q_error", "spread").curves["q_error"][:, 0] for x in (a, b)]
        wrong += significance.sign_flip(deviations[0] - deviations[1]).p <= 0.05
        right += significance.sign_flip(deviations[0] - 4 * deviations[1]).p <= 0.05
    assert wrong <= 20  # 0.05 of 200, and three standard deviations
    assert right >= 160


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-0.52, -0.48, HOLDS),
        (-0.9, -0.8, HOLDS),
        (-0.45, -0.4, FAILS),
        (-0.8, -0.2, OPEN),
        (-1.9, -0.6, HOLDS),
        (np.nan, np.nan, OPEN),
    ],
)
def test_a_rate_holds_if_it_is_that_of_the_theorem_or_faster(low, high, expected):
    assert criteria.rate_outcome(low, high, -0.5, 0.5) == expected


def test_the_bound_of_theorem_3_in_a_case_worked_by_hand():
    # m = 2, g = 1/2, V = R = 1: D_0 = 3/2, D_1 = 1 + (1 + 1 (1 + 3/2))/2 = 11/4 (k = 1 is not below m/2), D_2 = 3/2.
    constants = {"m": 2, "discount": 0.5, "v_max": 1.0, "r_max": 1.0, "n_pairs": 5, "delta": 0.1}
    bound = bounds.theorem_3(np.array([1, 2, 3]), **constants)
    assert np.isnan(bound[:2]).all()
    h = 2 * 0.5 * (2 + 2 + 2) + 2
    assert bound[2] == pytest.approx((h + 11 / 4 * np.sqrt(8 * 0 * np.log(100))) / 1.5)
    corrected = bounds.theorem_3(np.array([3]), **constants, corrected=True)
    assert corrected[0] == pytest.approx((h + 11 / 4 * np.sqrt(8 * 3 * np.log(100))) / 1.5)


def test_assumption_2_holds_with_the_delta_that_theorem_1_is_tested_with():
    claim = claims.load("theorem_1")
    place = ("4x4",)
    label = "MomentumQ, alpha=0.1"
    (one,) = composed({("", label): claims.needs(claim).lists[place, label]})
    cell, delta = one.cell, single_runs.contraction_of(one.cell)
    assert delta > 0
    features, mdp = cell.run_arguments["features"], cell.mdp
    mu = stationary(cell.run_arguments["sampling"], mdp)
    assert mu is not None
    root = theta_star(mdp, features, mu)
    rng = np.random.default_rng(0)
    for scale in (0.01, 0.1, 1, 10):
        for _ in range(50):
            away = np.where(root.used, scale * rng.normal(size=len(root.theta)), 0)
            inner = away @ mean_gradient(mdp, features, mu, root.theta + away)
            assert inner >= delta * (away @ away)
    far = build(cell.settings | {"discount": 0.6})
    with pytest.raises(SettingError, match="Assumption 2 is not known to hold"):
        single_runs.contraction_of(far)


def curves_of_theorem_1(law, n_seeds=20):
    """A transient by some law of k that ends in noise about a neighbourhood, (n_seeds, C), and its iterations."""
    iteration = np.unique(np.geomspace(1, 100_000, 150).astype(int))
    iteration = np.insert(iteration, 0, 0)
    rng = np.random.default_rng(0)
    spread = rng.normal(1, 0.05, (n_seeds, 1))
    return iteration, law(iteration) * spread + 1e-3 * rng.chisquare(3, (n_seeds, len(iteration))) / 3


def shape_check(law) -> ClaimCheck:
    iteration, curves = curves_of_theorem_1(law)
    run = synthetic(np.sqrt(curves))
    run.curves["iteration"] = iteration
    run.summary["digest"] = "0" * 64
    seen = Seen(run, SimpleNamespace(settings={"iterations": int(iteration[-1])}), "rule")
    spec = filled({"test": "shape", "of": ["rule"], "power": 2, "window": "transient", "metric": "q_error"})
    (check,) = single_runs.shapes(spec, [{}], lambda *_: seen)
    return check


def test_a_fall_by_a_power_of_k_fails_the_check_of_an_exponential():
    assert shape_check(lambda k: np.exp(-k / 2000)).outcome == HOLDS
    assert shape_check(lambda k: 1 / (1 + k / 10)).outcome == FAILS
    assert shape_check(lambda k: np.full(len(k), 1.0)).outcome == OPEN  # no transient at all


def test_the_window_of_a_transient_ends_before_the_noise_floor():
    iteration, curves = curves_of_theorem_1(lambda k: np.exp(-k / 2000))
    first, last = single_runs.transient(iteration, curves.mean(axis=0))
    assert 0.3 < np.exp(-first / 2000) <= 0.51
    # Ten times the neighbourhood is 1e-2, reached at 2000 log(100), less the noise that adds to the fall.
    assert 0.9 * 2000 * np.log(100) < last < 1.05 * 2000 * np.log(100)
