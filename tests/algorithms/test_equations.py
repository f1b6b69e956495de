"""The rules against the equations of the papers: in fractions, so that they hold exactly, and line for line."""

from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import twins
from hypothesis import given, settings
from hypothesis import strategies as st
from random_mdps import random_mdp
from twins import run

from mqlearn.algorithms import MomentumQ, MomentumQLinear, NeSA, QLearning, Rule, SpeedyQ
from mqlearn.algorithms.step_sizes import Harmonic
from mqlearn.problems.environments import frozen_lake
from mqlearn.sampling.modes import Synchronous

# --- the template of the paper (3.1), in fractions --------------------------------------------------------------------


def harmonic(offset: int = 0):
    return lambda k: Fraction(1, 1) / (k + 1 + offset)


def scheduled(a: Fraction):
    return lambda _: a


def template(a, b, c, q, q_prev, target, target_prev):
    """S_k, P_k and Q_{k+1}, line for line."""
    s = (1 - a) * q_prev + a * target_prev
    p = (1 - a) * q + a * target
    return p + b * (p - s) + c * (q - q_prev)


def exact(kind: type[Rule], **settings: Fraction) -> Rule:
    """A rule with fractions, which its constructor would round."""
    rule = kind(beta=0.5) if kind is MomentumQLinear else kind()
    for name, value in settings.items():
        object.__setattr__(rule, name, value)
    return rule


def member(rule: Rule, k: int, al: Fraction) -> tuple:
    """a_k, b_k, c_k of a rule, al its step size (the table of the rules' members of the template)."""
    if isinstance(rule, QLearning):
        return al, 0, 0
    if isinstance(rule, SpeedyQ):
        b = 1 / al - (2 if rule.form == "azar" else 1)
        return al, b, -b * (1 - al)
    if isinstance(rule, NeSA):
        return rule.zeta * al, 1 / al, 1 - 1 / al
    if isinstance(rule, MomentumQLinear):
        momentum = rule.beta * rule.lam**k
        return al, rule.phi * momentum, (1 - rule.phi) * momentum
    assert isinstance(rule, MomentumQ)
    b = 1 / al - rule.order - 2
    return al, b, al - b * (1 - al)


fractions = st.fractions(min_value=-3, max_value=3, max_denominator=50)
step_fractions = st.fractions(min_value=Fraction(1, 1000), max_value=1, max_denominator=1000)
rules = st.one_of(
    st.just(QLearning()),
    st.sampled_from([SpeedyQ("azar"), SpeedyQ("printed")]),
    st.builds(partial(exact, NeSA), zeta=st.fractions(min_value=Fraction(1, 99), max_value=2, max_denominator=99)),
    st.builds(
        partial(exact, MomentumQ),
        m=st.fractions(min_value=-5, max_value=120, max_denominator=6),
        shift=st.just("off"),
    ),
    st.builds(
        partial(exact, MomentumQLinear),
        beta=st.fractions(min_value=0, max_value=Fraction(98, 99), max_denominator=99),
        lam=st.fractions(min_value=0, max_value=Fraction(98, 99), max_denominator=99),
        phi=st.fractions(min_value=0, max_value=1, max_denominator=99),
    ),
)


@settings(deadline=None, max_examples=150)
@given(rules, st.integers(0, 40), step_fractions, st.tuples(*[fractions] * 4))
def test_rules_are_members_of_the_template(rule, k, al, values):
    exact = vars(rule)  # fractions, which a rule that is made anew would round
    rule = rule.with_step_size(scheduled(al))
    for name, value in exact.items():
        if isinstance(value, Fraction):
            object.__setattr__(rule, name, value)
    assert rule.update(k, *values) == template(*member(rule, k, al), *values)


@settings(deadline=None, max_examples=100)
@given(st.integers(-3, 60), st.integers(0, 5000), st.tuples(*[fractions] * 4))
def test_momentum_q_is_algorithm_1_as_printed(m, k, values):
    a, b, c = Fraction(1, k + 1), k - m - 1, Fraction(-(k**2) + (m + 1) * k + 1, k + 1)
    rule = MomentumQ(m=m, shift="off").with_step_size(harmonic())
    assert rule.update(k, *values) == template(a, b, c, *values)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 100), st.integers(0, 5000), st.tuples(*[fractions] * 4))
def test_the_shift_replaces_k_by_k_plus_m_everywhere(m, k, values):
    j = k + m
    a, b, c = Fraction(1, j + 1), j - m - 1, Fraction(-(j**2) + (m + 1) * j + 1, j + 1)
    rule = MomentumQ(m=m, shift="on").with_step_size(harmonic())
    assert rule.update(k, *values) == template(a, b, c, *values)
    assert b == k - 1
    offset = MomentumQ(m=m, shift="off").with_step_size(harmonic(m))
    assert rule.update(k, *values) == offset.update(k, *values)


@pytest.mark.parametrize(
    ("m", "shifted"), [(None, False), (2, False), (10, False), (10.5, True), (11, True), (100, True)]
)
def test_auto_shifts_above_ten(m, shifted):
    assert MomentumQ(m=m).shifted is shifted
    expected = MomentumQ(m=m, shift="on" if shifted else "off")
    np.testing.assert_array_equal(MomentumQ(m=m).weights(0, 20), expected.weights(0, 20))


def test_an_offset_adds_to_the_shift():
    shifted = MomentumQ(m=20).with_step_size(Harmonic(5))
    np.testing.assert_array_equal(
        shifted.weights(0, 20), MomentumQ(m=20, shift="off").with_step_size(Harmonic(25)).weights(0, 20)
    )


def test_momentum_q_without_momentum_is_q_learning():
    np.testing.assert_array_equal(MomentumQLinear(beta=0.0).weights(0, 50), QLearning().weights(0, 50))


# --- Algorithm 1, line for line, with the same draws ------------------------------------------------------------------


@pytest.mark.parametrize(("m", "shift", "n"), [(2, "off", 20_000), (5, "off", 2000), (20, "on", 2000)])
@pytest.mark.parametrize("mean_reward", [True, False])
def test_algorithm_1_in_three_lines(m, shift, n, mean_reward):
    mdp, lanes, seed = random_mdp(3, 5, 2, 3, 0.9, "mixed"), np.array([0, 2], np.uint32), 1
    learner = twins.learner(mdp, Synchronous(), lanes, seed=seed, initial=0.25, mean_reward=mean_reward)
    twins.advance(learner, MomentumQ(m=m, shift=shift), n // 3, n - n // 3)
    q = q_prev = np.full((len(mdp.pairs), len(lanes)), 0.25)
    for i, outcomes in enumerate(twins.synchronous_outcomes(mdp, seed, lanes, n)):
        k = i + m if shift == "on" else i
        a, b, c = 1 / (k + 1), k - m - 1, (-(k**2) + (m + 1) * k + 1) / (k + 1)
        s = (1 - a) * q_prev + a * twins.sampled_operator(mdp, q_prev, outcomes, mean_reward)
        p = (1 - a) * q + a * twins.sampled_operator(mdp, q, outcomes, mean_reward)
        q, q_prev = p + b * (p - s) + c * (q - q_prev), q
    x, u = mdp.pairs.T
    table = learner.tables()[:, x, u].T
    assert np.abs(table - q).max() <= 1e-6 * np.abs(q).max()
    assert np.abs(table - 0.25).max() > 0.1


# --- telescoped identities, the noise from the model ------------------------------------------------------------------


@pytest.mark.parametrize("name", ["azar", "printed", "m=2", "m=7", "shifted m=20"])
def test_telescoped_identity(name):
    mdp, lanes = frozen_lake("4x4"), np.array([0, 1], np.uint32)
    m = int(name.split("=")[1]) if "=" in name else 0
    rule = MomentumQ(m=m) if "=" in name else SpeedyQ("azar" if name == "azar" else "printed")
    b_of = {"azar": lambda j: j - 1, "printed": lambda j: j}.get(name, lambda j: j - 1 if m > 10 else j - m - 1)
    learner = twins.learner(mdp, Synchronous(), lanes, initial=(-1.0, 1.0))
    x, u = mdp.pairs.T
    q0 = q = q_prev = learner.tables()[:, x, u].T
    noise = np.zeros_like(q)
    t_q0 = twins.exact_operator(mdp, q0)
    for k, outcomes in enumerate(twins.synchronous_outcomes(mdp, 0, lanes, 200)):
        b = b_of(k)
        drawn, drawn_prev = (twins.sampled_operator(mdp, table, outcomes, mean_reward=False) for table in (q, q_prev))
        exact, exact_prev = (twins.exact_operator(mdp, table) for table in (q, q_prev))
        noise += (1 + b) * exact - b * exact_prev - ((1 + b) * drawn - b * drawn_prev)
        learner.advance(k, 1, rule.weights(k, k + 1))
        q, q_prev = learner.tables()[:, x, u].T, q
        j, t_prev = k + 1, exact  # now q is Q_j and q_prev Q_{j-1}
        left, right = {
            "azar": (j * q, t_q0 + (j - 1) * t_prev - noise),
            "printed": (j * q, j * t_prev - noise),
            "shifted m=20": ((j + m) * q, q_prev + (j - 1) * t_prev + (m - 1) * q0 + t_q0 - noise),
        }.get(name, (j * q, q_prev - q0 + (j - m - 1) * t_prev + (m + 1) * t_q0 - noise))
        np.testing.assert_allclose(left, right, rtol=0, atol=1e-11 * (j + m) * max(1, np.abs(q).max()))
    assert np.abs(noise).max() > 1


# --- exact values -----------------------------------------------------------------------------------------------------


def errors(rule: Rule, iterations: int) -> float:
    """Sup error after some iterations on deterministic ice, discount 0.9, zero start."""
    mdp = frozen_lake("4x4", slippery=False, discount=0.9)
    result = run(mdp, rule, iterations=iterations, n_seeds=2, n_checkpoints=5)
    first, second = result.curves["q_error"][:, -1]
    assert first == second
    return float(first)


@pytest.mark.parametrize(
    ("rule", "error"),
    [
        (QLearning(), 0.40843),
        (SpeedyQ(), 0.0318865),
        (MomentumQ(m=2), 0.0577535),
        (MomentumQ(m=10), 0.252944),
    ],
    ids=repr,
)
def test_deterministic_ice_after_100_iterations(rule, error):
    assert errors(rule, 100) == pytest.approx(error, rel=1e-5)


def test_the_two_forms_of_speedy_q():
    """With exact targets the printed form is value iteration, which ends in 6 moves; the original is not."""
    assert errors(SpeedyQ("printed"), 10) < 1e-13
    assert errors(SpeedyQ("azar"), 10) == pytest.approx(0.318865, rel=2e-6)
    assert errors(SpeedyQ("azar"), 100) == pytest.approx(0.0318865, rel=2e-6)


@pytest.mark.parametrize(("m", "outside"), [(1, True), (0, True), (-3, True), (1.5, False), (2, False), (10, False)])
def test_m_below_the_theorem_runs_with_a_warning(m, outside):
    result = run(frozen_lake("4x4", discount=0.9), MomentumQ(m=m), iterations=50, n_seeds=2)
    assert result.status == "finished"
    assert np.isfinite(result.curves["q_error"]).all()
    assert any("outside the theorem" in text for text in result.warnings) is outside
