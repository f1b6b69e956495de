"""Step sizes against their formulas, at k = 0 and far out, and what they refuse."""

import math
import pickle

import numpy as np
import pytest

from mqlearn.algorithms.step_sizes import (
    Constant,
    Harmonic,
    InverseSqrt,
    Matched,
    Polynomial,
    RescaledLinear,
    Switched,
    ToZero,
    total,
)
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import targets

K = np.array([0.0, 1.0, 2.0, 9.0, 1e3, 1e7])
SOME = [
    Harmonic(),
    Harmonic(2.5),
    Polynomial(0.7, 2.0, 3.0),
    Polynomial(1.0, 50.0, cap=0.25),
    RescaledLinear(0.9),
    Constant(0.3),
    InverseSqrt(0.12, 50.0),
    Matched(Harmonic(), 0.8, 0.99),
]


FORMULAS = [
    (Harmonic(), lambda k: 1 / (k + 1)),
    (Harmonic(2.5), lambda k: 1 / (k + 3.5)),
    (Polynomial(0.7, 2.0, 3.0), lambda k: 2 / math.pow(k + 4, 0.7)),
    (Polynomial(1.0), lambda k: 1 / (k + 1)),
    (Polynomial(1.0, 500.0, cap=0.25), lambda k: min(0.25, 500 / (k + 1))),
    (Polynomial(0.6, 2.0, 1.0, cap=0.3), lambda k: min(0.3, 2 / math.pow(k + 2, 0.6))),
    *((Polynomial(1.0, c, c - 1), lambda k, c=c: c / (k + c)) for c in (10.0, 100.0, 1000.0)),
    (RescaledLinear(0.9), lambda k: 1 / (1 + 0.1 * (k + 1))),
    (Constant(0.3), lambda _: 0.3),
    (InverseSqrt(0.5), lambda k: 0.5 / math.sqrt(k + 1)),
    (InverseSqrt(0.12, 50.0), lambda k: 0.12 * math.sqrt(50 / (k + 50))),
    (Matched(Constant(0.1), 0.8, 0.99), lambda k: 0.1 / (1 - 0.8 * math.pow(0.99, k))),
    (ToZero(1000), lambda k: max(0, (1000 - k) / 1000)),
    (ToZero(50_000_000, 0.3, 0.5), lambda k: 0.3 * math.sqrt((50_000_000 - k) / 50_000_000)),
    (ToZero(9, 0.3, 2), lambda k: 0.3 * ((9 - k) / 9) ** 2 if k < 9 else 0),
    (Switched(0.9), lambda k: 1 / (1 + 0.1 * (k + 1)) if k < 1000 else 0.001),
    (Switched(0.5, 2, 0.3), lambda k: 1 / (1 + 0.5 * (k + 1)) if k < 2 else 0.3),
    (ToZero(9, 0.3, 0), lambda k: 0.3 if k < 9 else 0),
]


@pytest.mark.parametrize(("step_size", "formula"), FORMULAS)
def test_formula(step_size, formula):
    assert step_size(K) == pytest.approx([formula(k) for k in K], rel=1e-14)


def test_every_step_size_has_its_formula():
    assert {*targets.shipped("step_size")} <= {type(step_size).__name__ for step_size, _ in FORMULAS}


@pytest.mark.parametrize("step_size", SOME, ids=repr)
def test_positive_finite_and_of_the_shape_of_k(step_size):
    alpha = step_size(K.reshape(2, 3))
    assert alpha.shape == (2, 3)
    assert alpha.dtype == np.float64
    assert (alpha > 0).all() and np.isfinite(alpha).all()


@pytest.mark.parametrize("step_size", SOME, ids=repr)
def test_pickles_and_compares_by_value(step_size):
    assert pickle.loads(pickle.dumps(step_size)) == step_size


@pytest.mark.parametrize("step_size", [s for s in SOME if not isinstance(s, Constant)], ids=repr)
def test_never_increases_with_k(step_size):
    alpha = step_size(np.arange(5000.0))
    assert (np.diff(alpha) <= 0).all() and alpha[-1] < alpha[0]


@pytest.mark.parametrize(
    ("settings", "named"), [((0,), "iterations"), ((2.5,), "iterations"), ((9, 0), "initial"), ((9, 1, -1), "power")]
)
def test_a_step_to_zero_refuses_what_is_no_schedule(settings, named):
    with pytest.raises(SettingError, match=rf"step_size\.{named}"):
        ToZero(*settings)


def test_a_cap_is_without_effect_where_no_step_is_above_it():
    assert Polynomial(1.0, 10.0, cap=10.0).without_effect() == {"cap": "no step is above it"}
    assert Polynomial(1.0, 10.0, cap=9.9).without_effect() == Polynomial(1.0, 10.0).without_effect() == {}


def test_inverse_sqrt_does_not_start_at_infinity():
    assert InverseSqrt(0.1, 1.0)(np.zeros(1))[0] == 0.1  # the printed alpha / sqrt(k) divides by 0


def test_matched_is_the_sum_of_the_momentum_of_one_gradient():
    """A constant beta moves a gradient's step on by beta, beta^2, ...: in all 1/(1 - beta) times its first move."""
    beta = 0.75
    assert Matched(Constant(0.1), beta, 1 - 1e-15)(np.zeros(1))[0] == pytest.approx(
        0.1 * sum(beta**i for i in range(300))
    )


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda v: Harmonic(v), "step_size.offset"),
        (lambda v: Polynomial(exponent=v), "step_size.exponent"),
        (lambda v: Polynomial(offset=v), "step_size.offset"),
    ],
)
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_refuses_what_is_not_a_number_from_zero_on(make, setting, value):
    with pytest.raises(SettingError, match=setting.replace(".", r"\.")):
        make(value)


@pytest.mark.parametrize(
    ("make", "setting"),
    [
        (lambda v: Polynomial(scale=v), "step_size.scale"),
        (lambda v: Polynomial(cap=v), "step_size.cap"),
        (lambda v: Constant(v), "step_size.alpha"),
        (lambda v: InverseSqrt(v), "step_size.alpha"),
        (lambda v: InverseSqrt(0.1, v), "step_size.h"),
    ],
)
@pytest.mark.parametrize("value", [0.0, -0.1, math.nan, math.inf])
def test_refuses_what_is_not_a_positive_number(make, setting, value):
    with pytest.raises(SettingError, match=setting.replace(".", r"\.")):
        make(value)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.5, math.nan])
def test_rescaled_linear_refuses_a_discount_outside_the_open_interval(value):
    with pytest.raises(SettingError, match=r"step_size\.discount"):
        RescaledLinear(value)


@pytest.mark.parametrize("value", [1.0, -0.1, math.nan])
@pytest.mark.parametrize("name", ["beta", "lam"])
def test_matched_refuses_beta_and_lam_outside_the_half_open_interval(name, value):
    with pytest.raises(SettingError, match=rf"step_size\.{name}"):
        Matched(Constant(), **{name: value})


@pytest.mark.parametrize(
    "step_size", [Harmonic(), Polynomial(), Polynomial(1, 5e5, cap=1), InverseSqrt(0.1, 2e6), Constant(0.3)], ids=str
)
def test_total_is_the_sum_of_all_terms(step_size):
    for iterations in (0, 1, 1000, 1_500_000):
        terms = step_size(np.arange(iterations, dtype=float))
        assert total(step_size, iterations) == pytest.approx(terms.sum(), rel=1e-7)


@pytest.mark.parametrize("value", ["0.1", None, [1.0], math.nan])
def test_refuses_what_is_no_number(value):
    for make, setting in ((Constant, "alpha"), (Harmonic, "offset"), (Polynomial, "exponent"), (Matched, "base")):
        with pytest.raises(SettingError, match=f"step_size.{setting}="):
            make(value)
