"""Lines of theory in a figure: the numbers of the prediction at each checkpoint, ties dashed, bounds said vacuous."""

import re
import textwrap

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.analysis.cases import case_of, largest_error
from mqlearn.analysis.figures import make, theory_lines
from mqlearn.cli.figure import plan
from mqlearn.experiments import run_missing
from mqlearn.experiments.settings.cell import rebuild
from mqlearn.storage import runs
from mqlearn.theory.asymptotic import covariance
from mqlearn.theory.bounds import Bound, speedy_q, theorem_3
from mqlearn.theory.moments import moments
from mqlearn.theory.sup import expected_sup
from mqlearn.theory.tables import table_bounds

YAML = """
# @package _global_
discount: 0.9
iterations: 300
n_checkpoints: 12
n_seeds: 3
tracking: {name: none, uri: null, per_seed: false}
experiment: {name: lines}
figure:
  module: mqlearn.analysis.figures.error_curves
  band: ci95
  metric: q_error
  lines: [floor, predicted, bound]
  grid:
    garnet: [env=garnet_fixed, env.n_states=8, env.n_actions=2]
    lake: [env=frozen_lake_4x4]
  curves:
    SpeedyQ: [algorithm=speedy_q]
    slow: [algorithm=q_learning, step_size=harmonic]
"""


@pytest.fixture
def drawn(work):
    (work / "conf" / "experiment").mkdir(parents=True)
    (work / "conf" / "experiment" / "lines.yaml").write_text(textwrap.dedent(YAML).lstrip(), encoding="utf-8")

    def draw(*overrides):
        planned = plan("lines", ["tracking=none", *overrides], str(work / "conf"))
        drawing, done = make.drawing(planned, "mqlearn figure lines"), run_missing.finished(planned)
        ended = [done[one.digest] for one in planned.cells]
        figure, data = drawing.module.from_runs(planned.cells, ended, planned.spec, "ci95")
        lines = [
            theory_lines.of(one.cell, run, planned.spec, one.label)
            for one, run in zip(planned.cells, ended, strict=True)
        ]
        return figure, data, " ".join(theory_lines.notes([line for some in lines for line in some]))

    return draw


def drawn_with(figure, values):
    """The lines of a figure through these values."""
    lines = [line for axes in figure.axes for line in axes.get_lines()]
    return [line for line in lines if np.array_equal(np.asarray(line.get_ydata(), float), values, equal_nan=True)]


def test_lines_have_the_numbers_of_theory_at_the_checkpoints(drawn):
    figure, data, said = drawn()
    mdp = mq.garnet_fixed(8, 2, 3, discount=0.9)
    found = covariance(mdp, mq.SpeedyQ())
    k = data["garnet | SpeedyQ | iteration"]
    for name, sigma in (("floor", found.floor), ("predicted", found.sigma)):
        line = data[f"garnet | SpeedyQ | line {name}"]
        assert np.isnan(line[0]) and k[0] == 0
        np.testing.assert_allclose(line[1:], expected_sup(sigma).value / np.sqrt(k[1:]), rtol=1e-12)
    r_max = np.abs(mdp.mean_rewards).max()
    bound = speedy_q(k[1:], discount=0.9, r_max=r_max, n_pairs=16, delta=0.1)
    np.testing.assert_allclose(data["garnet | SpeedyQ | line SpeedyQ"][1:], bound, rtol=1e-12)
    assert "lake | SpeedyQ | line predicted, approximate" in data and "lake | SpeedyQ | line predicted" not in data
    assert "garnet | slow | line predicted" not in data and "garnet | slow | line floor" in data
    assert "critical constant" in said and "approximate, as optimal actions tie in 1 of the states" in said
    assert "Vacuous" in said and "slow: nothing is predicted; is at or below the critical constant" in said
    solid, dotted, dashed, dash_dotted = None, [1, 1.4], [5, 2.5], [7, 2, 1, 2]  # what the caption calls so
    for name, pattern in (
        ("garnet | SpeedyQ | line floor", solid),
        ("garnet | SpeedyQ | line predicted", dotted),
        ("lake | SpeedyQ | line predicted, approximate", dashed),
        ("garnet | SpeedyQ | line SpeedyQ", dash_dotted),
    ):
        drawn_as = [vars(line)["_unscaled_dash_pattern"][1] for line in drawn_with(figure, data[name])]
        assert drawn_as and all(one == pattern or list(one) == pattern for one in drawn_as), name


def test_the_euclidean_norm_starts_with_the_exact_moments(drawn):
    """It lies below the root of the exact mean square, between this and the norm of the exact mean."""
    _, data, said = drawn("figure.metric=q_error_l2", "figure.lines=[predicted]")
    mdp = mq.garnet_fixed(8, 2, 3, discount=0.9)
    found = moments(mdp, mq.SpeedyQ(), data["garnet | SpeedyQ | iteration"])
    line = data["garnet | SpeedyQ | line predicted"]
    assert line[0] == pytest.approx(np.sqrt(found.second[0].sum()), rel=1e-12)  # Q_0 is known
    assert (line[1:] > 0.995 * np.sqrt((found.mean[1:] ** 2).sum(1))).all()
    assert (line[1:] < 1.01 * np.sqrt(found.second[1:].sum(1))).all()
    assert "a mean of norms as the curve is" in said and "spread as" in said
    assert not [name for name in data if "floor" in name or name.startswith("garnet | slow | line")]


def test_the_lines_of_the_euclidean_norm_are_of_its_mean_over_seeds(mqlearn, outputs):
    """Two states share one value, so the root of the mean square lies 20 % above the mean of the norm."""
    cell = ("env=two_state", "algorithm=speedy_q", "iterations=2000", "n_seeds=2000", "n_checkpoints=5")
    assert mqlearn("run", *cell, "discount=0.5", "tracking=none").code == 0
    (folder,) = (outputs / "runs" / "default").iterdir()
    run, spec = runs.load(folder), {"metric": "q_error_l2", "lines": ["floor", "predicted"]}
    built = rebuild(run.settings)
    floor, predicted = theory_lines.of(built, run, spec, "SpeedyQ")
    seen = run.curves["q_error_l2"].mean(0)
    assert predicted.values == pytest.approx(seen, rel=0.06)
    exact = covariance(built.mdp, mq.SpeedyQ(), built.settings["reward"])
    assert floor.values[-1] < 0.9 * np.sqrt(np.trace(exact.floor) / 2000)


@pytest.mark.parametrize("operator", ["advantage", "robust"])
def test_another_operator_has_no_lines_and_the_caption_says_why(drawn, operator):
    _, data, said = drawn(f"operator={operator}", "iterations=20", "n_checkpoints=4")
    assert data and not [name for name in data if " | line " in name]
    assert f"SpeedyQ: no lines of theory; operator={operator} is another operator than Bellman's" in said


def test_what_bounds_nothing_is_vacuous():
    bound = Bound("some theorem", np.array([np.nan, 1.0, 2.0, 3.0, np.inf]), 2.0, "")
    assert bound.vacuous.tolist() == [True, False, True, True, True]
    assert Bound("some theorem", np.array([np.nan]), 2.0, "").row()["vacuous"] is True


def test_a_bound_is_of_the_seeds_that_stayed_finite(mqlearn, outputs):
    cell = ("env=two_state", "algorithm=momentum_q", "iterations=50", "n_seeds=3", "n_checkpoints=5")
    assert mqlearn("run", *cell, "discount=0.5", "tracking=none").code == 0
    (folder,) = (outputs / "runs" / "default").iterdir()
    run = runs.load(folder)
    error = run.curves["q_error"].copy()
    error[0, -2:] = np.nan  # as of a seed that diverged
    run.curves["q_error"] = error
    built = rebuild(run.settings)
    mdp, k = built.mdp, run.curves["iteration"]
    (printed, _) = table_bounds(case_of(built), k, largest_error(run))
    v_max = np.abs(mq.optimal(mdp).q).max() + np.nanmax(error)
    given = {"discount": 0.5, "v_max": v_max, "r_max": np.abs(mdp.mean_rewards).max(), "n_pairs": len(mdp.pairs)}
    wanted = theorem_3(k[-1:], m=built.run_arguments["rule"].order, delta=0.1, **given)
    assert printed.values[-1] == pytest.approx(wanted[0], rel=1e-12) and printed.trivial == pytest.approx(2 * v_max)


def test_without_lines_the_data_are_as_before(drawn):
    _, data, _ = drawn("figure.lines=[]")
    assert {name.rpartition(" | ")[2] for name in data} == {"iteration", "band", "n_finite"}


def test_what_is_no_line_is_refused():
    with pytest.raises(mq.SettingError, match=r"figure.lines='floors'.*did you mean 'floor'"):
        theory_lines.wanted({"lines": ["floors"], "metric": "q_error"})
    with pytest.raises(mq.SettingError, match=r"figure\.metric must be one of q_error"):
        theory_lines.wanted({"lines": ["floor"], "metric": "policy_value"})


LINEAR = """
# @package _global_
discount: 0.4
iterations: 3000
n_checkpoints: 12
n_seeds: 3
tracking: {name: none, uri: null, per_seed: false}
experiment: {name: lines}
figure:
  module: mqlearn.analysis.figures.error_curves
  band: ci95
  metric: theta_error
  lines: [floor, predicted, bound]
  grid:
    lake: [features=one_hot, sampling=markovian, sampling.start=uniform, linear.projection=2]
  curves:
    momentum:
      [algorithm=momentum_q_linear, algorithm.beta=0.8, algorithm.lam=0.99, step_size=constant, step_size.alpha=0.01]
    vanilla: [algorithm=q_learning, step_size=constant, step_size.alpha=0.01]
    SpeedyQ: [algorithm=speedy_q]
"""


@pytest.fixture
def linear(drawn, work):
    """Figures of the errors of theta on the lake, one-hot features, a chain that restarts anywhere."""
    (work / "conf" / "experiment" / "lines.yaml").write_text(textwrap.dedent(LINEAR).lstrip(), encoding="utf-8")
    return drawn


def tau_of(mdp, kappa):
    """The paper's mixing time of the uniform behaviour, by steps of total variation until it is below 1e-3."""
    here = np.flatnonzero(mdp.learned.any(1))
    moves = np.zeros((len(here), len(here)))
    for i, x in enumerate(here):
        for u in range(4):
            for y, p in zip(mdp.successors[x, u], mdp.probabilities[x, u], strict=True):
                moves[i] += p / 4 * (np.full(len(here), 1 / len(here)) if mdp.terminal[y] else here == y)
    mu = np.linalg.matrix_power(moves, 4096)[0]
    power, distance = np.eye(len(here)), [1 - mu.min()]
    while distance[-1] > 1e-3:
        power = power @ moves
        distance.append(np.abs(power - mu).sum(1).max() / 2)
    rho = (2 * distance[-1]) ** (1 / (len(distance) - 1))
    sigma = max(d / rho**i for i, d in enumerate(distance[:-1]))
    return next(i for i in range(1, 100_000) if sigma * rho**i <= kappa)


def delta_of(said):
    return float(re.findall(r"delta ([0-9.e-]+),", said)[0])  # four digits


def test_bounds_of_theta_are_those_of_theorem_1(linear):
    """The theorem written out, with D = 2 linear.projection, G = 2 D + R, R = 1."""
    _, data, said = linear()
    k, line = data["lake | momentum | iteration"], data["lake | momentum | line Theorem 1"]
    mdp = mq.frozen_lake("4x4", discount=0.4)
    star = mq.optimal(mdp).q[mdp.learned]  # of one-hot features theta* is Q*
    size, tau, delta = np.sqrt((star**2).sum()), tau_of(mdp, 0.01), delta_of(said)
    a, b, lam, d, g = 0.01, 0.8, 0.99, 4.0, 9.0
    eta_1, eta_2 = 2 * d * (1.4 * d + g), 6 * g * (1.4 * d + g)
    for at, value in zip(k, line, strict=True):
        if at <= tau + 1:
            assert np.isnan(value)
            continue
        product = 1.0
        for i in range(int(at)):
            product *= 1 - 2 * a * delta * (1 + 0.5 * b * lam**i)
        pushed = (5 * d**2 + 2 * a * d * g + 4 * a * eta_1 * tau * lam) / (1 - 2 * a * delta - lam)
        bound = product * size**2 + b * (2 * eta_1 * tau / delta + pushed) * (1 - 2 * a * delta) ** (at - 1 - tau)
        bound += (15 * g**2 * a / 2 + 2 * eta_2 * tau * a + 8 * d * g * 0.01) / delta
        assert value == pytest.approx(np.sqrt(bound) / size, rel=1e-3)
    vanilla = data["lake | vanilla | line vanilla, same proof"]
    assert vanilla[-1] <= line[-1] and "lake | momentum | line vanilla, same proof" not in data
    assert "Vacuous, no less at the end than what is known beforehand: Theorem 1" in said
    assert "momentum: no floor and no prediction" in said
    assert "SpeedyQ: no bound; no theorem of the paper covers SpeedyQ with linear features" in said


def test_the_bound_of_the_mean_of_theta_is_that_of_theorem_2(linear):
    """kappa = a_T, and so another mixing time, at each checkpoint."""
    momentum = "'algorithm=momentum_q_linear','algorithm.lam=0.99','step_size=inverse_sqrt','step_size.alpha=0.1'"
    falling = (f"figure.curves.momentum=[{momentum}]",)
    _, data, said = linear(*falling, "figure.metric=theta_error_average")
    k, line = data["lake | momentum | iteration"][1:], data["lake | momentum | line Theorem 2"][1:]
    mdp = mq.frozen_lake("4x4", discount=0.4)
    size, delta = np.sqrt((mq.optimal(mdp).q[mdp.learned] ** 2).sum()), delta_of(said)
    a, b, lam, d, g = 0.1, 0.8, 0.99, 4.0, 9.0
    eta_1, eta_2 = 2 * d * (1.4 * d + g), 6 * g * (1.4 * d + g)
    for at, value in zip(k, line, strict=True):
        kappa = a / np.sqrt(at + 1)
        tau = tau_of(mdp, kappa)
        bound = (d**2 / a + 30 * a * g**2 + 16 * tau * a * eta_2) / (
            2 * delta * np.sqrt(at)
        ) + 8 * d * g * kappa / delta
        bound += 5 * b * d**2 / (2 * a * delta * (1 - lam) ** 2) / at
        bound += (d * g * b * lam + 4 * tau * eta_1 * b * lam) / (delta * (1 - lam)) / at
        assert value == pytest.approx(np.sqrt(bound) / size, rel=1e-3)


def test_where_assumption_2_fails_there_is_no_bound_of_theta_and_no_slope(linear):
    _, data, said = linear("discount=0.9", "iterations=100")
    assert not [name for name in data if " | line " in name]
    assert "momentum: no bound; Assumption 2 is not known to hold" in said


def test_rates_without_constants_are_slopes_through_the_last_point(drawn):
    """Of a polynomial step under Markovian sampling, and of rescaled linear steps where pairs are sampled together."""
    curve = "figure.curves.slow=['algorithm=q_learning','step_size=polynomial','step_size.exponent=0.8']"
    _, data, said = drawn(curve, "sampling=markovian", "sampling.clock=global", "figure.lines=[bound]")
    assert "garnet | slow | line slope -0.4" not in data  # the theorem's steps count the visits of a pair
    _, data, said = drawn(curve, "sampling=markovian", "sampling.clock=local", "figure.lines=[floor,bound]")
    line = data["garnet | slow | line slope -0.4"]
    k, seen = data["garnet | slow | iteration"], data["garnet | slow | band"][0]
    assert line[-1] == pytest.approx(seen[-1], rel=1e-12)
    assert line[5] == pytest.approx(seen[-1] * (k[5] / k[-1]) ** -0.4, rel=1e-12)
    assert "slope -0.4 through the last point" in said and "Even-Dar and Mansour" in said
    assert "SpeedyQ: no lines of theory; the constants are of tables under synchronous sampling" in said
    curve = "figure.curves.slow=['algorithm=q_learning','step_size=rescaled_linear']"
    _, data, _ = drawn(curve, "figure.lines=[bound]")
    assert "garnet | slow | line slope -0.5" in data and "garnet | SpeedyQ | line slope -0.5" not in data
