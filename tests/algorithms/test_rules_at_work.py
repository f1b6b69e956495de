"""What makes each rule with state of its own worth having, measured on runs; and what it must not be trusted with."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.algorithms.rule import replaced
from mqlearn.problems.mdp import bellman

pytestmark = pytest.mark.integration  # a rule takes seconds to compile

run: Any = partial(mq.run, n_checkpoints=2, n_workers=1)
LAKE = mq.frozen_lake("4x4", discount=0.9)


def sup_errors(rule, mdp=LAKE, **settings) -> np.ndarray:
    """(n_seeds,) sup errors at the end of a run."""
    return run(mdp, rule, **settings).curves["q_error"][:, -1]


def surplus(mdp, state: int, rule, **settings) -> np.ndarray:
    """(n_seeds,) by how much a state is valued too high."""
    return run(mdp, rule, **settings).q[:, state].max(axis=1) - np.nanmax(mq.optimal(mdp).q[state])


@pytest.mark.parametrize("iterations", [100, 1000])
@pytest.mark.parametrize("mdp, state", [(mq.lower_bound(), 1), (mq.noisy_grid(), 6)], ids=["lower_bound", "noisy_grid"])
def test_double_q_overestimates_less(mdp, state, iterations):
    settings = {"iterations": iterations, "n_seeds": 100, "reward": "sampled"}
    single = surplus(mdp, state, mq.QLearning().with_step_size(mq.RescaledLinear(mdp.discount)), **settings)
    double = surplus(mdp, state, mq.DoubleQ(), **settings)
    assert single.mean() > 10 * single.std() / 10  # ten standard errors
    assert np.abs(double).mean() < single.mean()
    assert double.mean() < 0.25 * single.mean()


def test_zap_solves_the_six_states_on_which_harmonic_q_learning_does_not_move():
    """Maximal Bellman error at discount .99 after 1e5 samples, the example of its authors."""
    mdp = mq.six_state(discount=0.99)

    def bellman_errors(rule) -> np.ndarray:
        result = run(mdp, rule, iterations=100_000, n_seeds=5, sampling=mq.Markovian())
        return np.array([np.nanmax(np.abs(bellman(mdp, q) - q)) for q in result.q])

    assert bellman_errors(mq.Zap()).max() < 0.1 * bellman_errors(mq.QLearning()).min()


def test_the_inverse_that_zap_keeps_is_its_linear_solve_compiled_or_not():
    mdp, settings = mq.six_state(discount=0.9), {"n_seeds": 2, "sampling": mq.Markovian(), "q0": (-1, 1)}
    kept, plain = (replaced(mq.Zap(refactor=90), compiled=compiled) for compiled in (True, False))
    np.testing.assert_array_equal(
        run(mdp, kept, iterations=300, **settings).q, run(mdp, plain, iterations=300, **settings).q
    )
    tables = [run(mdp, mq.Zap(refactor=refactor), iterations=20_000, **settings).q for refactor in (0, 256)]
    np.testing.assert_allclose(*tables, rtol=0, atol=1e-9)


# --- the covariance in the limit ----------------------------------------------------------------------------------

GARNET = mq.garnet_fixed(8, 2, 3, discount=0.9)
X, U = GARNET.pairs.T
Q_STAR = mq.optimal(GARNET).q
FLOOR = 0.5583  # sqrt of the mean of diag(M D M'), M = (I - g P*)^-1, D the variances of r + g V*(y)


def floor(mdp: mq.FiniteMDP) -> float:
    """The root mean square over pairs of sqrt(k) times the least error in the limit."""
    q, n = mq.optimal(mdp).q, len(mdp.pairs)
    greedy = {x: u for x, u in mdp.pairs if q[x, u] == np.nanmax(q[x])}
    index = {tuple(pair): i for i, pair in enumerate(mdp.pairs.tolist())}
    chain, variances = np.zeros((n, n)), np.zeros(n)
    for i, (x, u) in enumerate(mdp.pairs):
        p, y = mdp.probabilities[x, u], mdp.successors[x, u]
        for probability, state in zip(p, y, strict=True):
            chain[i, index[state, greedy[state]]] += probability
        ahead = mdp.discount * np.nanmax(q, axis=1)[y]
        variances[i] = p @ ahead**2 - (p @ ahead) ** 2
    m = np.linalg.inv(np.eye(n) - mdp.discount * chain)
    return float(np.sqrt(np.mean(np.diag(m @ np.diag(variances) @ m.T))))


def at_optimum(rule):
    """The same rule, started at Q*."""
    kind = type(rule)

    class Started(kind):
        def init(self, q0):
            return kind.init(self, Q_STAR[X, U] if len(q0) == len(X) else q0)  # a rule is first tried on a tiny model

    return Started(**{name: getattr(rule, name) for name in kind.__dataclass_fields__})


def scaled_rms(rule, iterations: int, n_seeds: int = 300) -> float:
    """sqrt(samples a pair) times the root mean square error over seeds and pairs."""
    errors = (run(GARNET, rule, iterations=iterations, n_seeds=n_seeds).q - Q_STAR)[:, X, U]
    return float(np.sqrt(iterations * rule.samples_per_iteration * np.mean(errors**2)))


def test_the_floor_is_that_of_the_model():
    assert floor(GARNET) == pytest.approx(FLOOR, abs=5e-5)


@pytest.mark.parametrize("rule", [mq.Zap(), mq.PolSA(), mq.PolSA(zeta=1)], ids=repr)
def test_matrix_gains_reach_the_least_covariance(rule):
    """Within 10 per cent; the standard error of 400 seeds is some 3 per cent."""
    assert scaled_rms(at_optimum(rule), 5000, 400) == pytest.approx(FLOOR, rel=0.1)


@dataclass(frozen=True)
class QLearning(mq.Stateful):
    """Q-learning with a state, so that it can start at Q*."""

    def init(self, q0):
        return {"q": q0}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha)


def scaled_rms_of_the_average(rule, iterations: int, n_seeds: int) -> float:
    """`scaled_rms` of the mean of the iterates."""
    curves = run(GARNET, mq.averaged(rule), iterations=iterations, n_seeds=n_seeds).curves
    return float(np.sqrt(iterations * np.mean(curves["q_error_l2_average"][:, -1] ** 2) / len(X)))


def test_averaging_reaches_the_least_covariance():
    """Of steps k^-.6, with which the last iterate is far above it."""
    rule = at_optimum(QLearning()).with_step_size(mq.Polynomial(0.6))
    assert scaled_rms(rule, 20_000, 150) > 2 * FLOOR
    assert scaled_rms_of_the_average(rule, 20_000, 150) == pytest.approx(FLOOR, rel=0.1)


def test_averaging_a_rule_of_1_over_k_doubles_its_variance():
    """The mean of errors like W(k)/k has the variance 2/k times that of W(1)."""
    rule = at_optimum(mq.MoVI())
    alone, mean = scaled_rms(rule, 5000), scaled_rms_of_the_average(rule, 5000, 300)
    assert mean == pytest.approx(np.sqrt(2) * alone, rel=0.1)


def test_variance_reduction_is_near_the_least_covariance_from_anywhere():
    """At the end of the fourth epoch, all samples counted: the last batch has three quarters of them."""
    last = int(mq.VarianceReduced().epochs(10_000, 0.9)[1][3])
    assert 0.95 * FLOOR < scaled_rms(mq.VarianceReduced(), last) < 1.5 * FLOOR


@pytest.mark.parametrize(
    "rule, constant",
    [
        (mq.DoubleQ(), 0.7540),  # Q-learning's, since each table moves every second time with twice the step
        (mq.AveragingQ(), 0.768),
        (mq.AveragingQ(measured="a"), 0.918),
        (mq.MoVI(), 0.9657),  # SpeedyQ's
    ],
    ids=repr,
)
def test_constants_in_the_limit(rule, constant):
    assert scaled_rms(at_optimum(rule), 5000, 400) == pytest.approx(constant, rel=0.1)


# --- the 4x4 lake, discount .9, mean reward, 20,000 draws a pair --------------------------------------------------

RESCALED = mq.RescaledLinear(0.9)
EXPECTED = {  # mean sup error of the oracles of this folder, 80 seeds
    "Q-learning": (mq.QLearning(), 0.0433),
    "Q-learning, rescaled": (mq.QLearning().with_step_size(RESCALED), 0.0081),
    "SpeedyQ": (mq.SpeedyQ(), 0.0060),
    "NeSA": (mq.NeSA(), 0.0046),
    "Zap": (mq.Zap(start=1, shift=1), 0.0042),
    "Zap, from 10 I": (mq.Zap(), 0.0042),
    "PolSA": (mq.PolSA(), 0.0044),
    "double": (mq.DoubleQ(), 0.0082),
    "residual": (mq.Residual(), 0.050),
    "phased 100": (mq.Phased(draws=100), 0.0449),
    "phased 400": (mq.Phased(draws=400), 0.0244),
    "phased 1000": (mq.Phased(draws=1000), 0.0174),
    "phased, growing": (mq.Phased(), 0.0076),
    "variance reduced": (mq.VarianceReduced(), 0.0054),
    "MoVI": (mq.MoVI(), 0.0062),
    "Nesterov": (mq.Nesterov(), 0.0081),
    "Adam": (mq.Adam(), 0.0206),
    "AMSGrad": (mq.AMSGrad(), 0.0065),
    "averaging a": (mq.AveragingQ(measured="a"), 0.0106),
    "averaging b": (mq.AveragingQ(), 0.0083),
    "PID, D": (mq.PID(eta=0, kd=0.25), 0.0087),
    "PID, adaptive": (mq.PID(), 0.0098),
    "Halpern, direct": (mq.HalpernDirect(), 1.79),
    "Halpern, differences": (mq.Halpern(), 0.0060),
    "root-SA": (mq.RootSA(), 0.0043),
}


@pytest.mark.parametrize("rule, expected", EXPECTED.values(), ids=EXPECTED)
def test_errors_are_those_of_the_oracles(rule, expected):
    n_seeds = 80
    iterations = 20_000 // getattr(rule, "samples_per_iteration", 1)
    errors = sup_errors(rule, iterations=iterations, n_seeds=n_seeds, seed=7)
    assert abs(errors.mean() - expected) < 3 * errors.std(ddof=1) * np.sqrt(2 / n_seeds)  # of the difference


# --- what does not converge ---------------------------------------------------------------------------------------


def test_movi_with_step_1_is_right_in_h_alone():
    h = [sup_errors(mq.MoVI(), iterations=k, n_seeds=20).mean() for k in (100, 5000)]
    q = [sup_errors(mq.MoVI(measured="q"), iterations=k, n_seeds=20).mean() for k in (100, 5000)]
    assert h[1] < h[0] / 4
    assert q[1] > 0.3 and q[1] > q[0] / 2
    assert not mq.MoVI().at(0.9).warnings(0.9)
    assert "never converges" in mq.MoVI(measured="q").at(0.9).warnings(0.9)[0]


def test_halpern_converges_in_the_form_of_differences_alone():
    direct, difference = (
        [sup_errors(rule, iterations=k, n_seeds=20).mean() for k in (100, 5000)]
        for rule in (mq.HalpernDirect(), mq.Halpern())
    )
    assert difference[1] < difference[0] / 4
    assert direct[1] > 0.5 * direct[0]
    assert "never converges" in run(LAKE, mq.HalpernDirect(), iterations=1, n_seeds=1).warnings[0]


def test_phases_of_fixed_length_stall_and_those_that_grow_do_not():
    fixed, growing = (
        [sup_errors(rule, iterations=k, n_seeds=20).mean() for k in (2500, 20_000)]
        for rule in (mq.Phased(draws=100), mq.Phased())
    )
    assert fixed[1] > 0.7 * fixed[0]
    assert growing[1] < 0.5 * growing[0]
    assert "never converge" in mq.Phased(draws=100).warnings(0.9)[0] and not mq.Phased().warnings(0.9)


def test_pid_gains_grow_for_ever_when_both_errors_share_their_noise():
    early, late = (sup_errors(mq.PID(eta=1e-3), iterations=k, n_seeds=20).mean() for k in (2000, 20_000))
    apart = sup_errors(mq.PID(eta=1e-3, previous_draw=True), iterations=20_000, n_seeds=20).mean()
    assert late > 2 * apart and late > 0.5 * early
    assert "lam=0 never converges" in mq.PID().warnings(0.9)[0]
    assert not mq.PID(previous_draw=True).warnings(0.9)


def test_residual_gradients_are_stable_where_q_learning_diverges():
    """Baird's star: seven states that all lead to the last, updated equally often."""
    phi = np.zeros((7, 1, 8))
    phi[np.arange(6), 0, np.arange(6)], phi[:6, 0, 7] = 2, 1
    phi[6, 0, 6], phi[6, 0, 7] = 1, 2
    to_last = np.zeros((7, 1, 7))
    to_last[:, 0, 6] = 1
    mdp = mq.from_arrays(P=to_last, R=np.zeros((7, 1)), start=np.full(7, 1 / 7), discount=0.9)
    settings = {
        "iterations": 20_000, "n_seeds": 3, "step_size": mq.Constant(0.1), "theta0": 1.0,
        "sampling": mq.Markovian(start="uniform", time_limit=1), "features": mq.from_matrix(mdp, phi, norm="none"),
        "evaluation": mq.Evaluation(episodes=2),
    }  # fmt: skip
    assert np.abs(run(mdp, mq.Residual(w=0), **settings).theta).max() > 1e6
    result = run(mdp, mq.Residual(), **settings)
    assert not result.diverged
    assert result.curves["q_error"][:, -1].max() < 0.1 * result.curves["q_error"][:, 0].min()


def test_adam_does_not_depend_on_the_scale_of_rewards():
    """Values and steps ten times as large give a table ten times as large; a plain gradient would leave it."""
    generator = np.random.default_rng(0)
    P, R = generator.dirichlet(np.ones(4), (4, 2)), generator.normal(size=(4, 2))
    one, ten = (
        run(mq.from_arrays(P=P, R=scale * R, discount=0.9), mq.Adam(eps=1e-200), iterations=300, n_seeds=3,
            step_size=mq.InverseSqrt(0.1 * scale)).q
        for scale in (1, 10)
    )  # fmt: skip
    np.testing.assert_allclose(ten, 10 * one, rtol=1e-9)


def test_root_sa_needs_fewer_samples_than_the_other_rules_of_four_numbers():
    """4x4 at discount .99, common samples: less error on nearly every seed."""
    lake = mq.frozen_lake("4x4", discount=0.99)
    settings = {"iterations": 10_000, "n_seeds": 20}
    root = sup_errors(mq.RootSA(eta=0.5), lake, **settings)
    for rule in (mq.MomentumQ(), mq.SpeedyQ(), mq.NeSA()):
        others = sup_errors(rule, lake, **settings)
        assert root.mean() < 0.6 * others.mean()
        assert (root < others).sum() >= 16
