"""Numbers of any kind are taken where a number is due, and are the number that they are; all else is one message."""

import inspect
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.checks import PlainNumbers, check_int, finite_number, plain_number
from mqlearn.errors import SettingError

LAKE = mq.frozen_lake("4x4", discount=0.9)
# What must be given, by the name of a parameter.
NEEDED = {
    "mdp": LAKE, "rule": mq.QLearning(), "base": mq.Harmonic(), "discount": 0.9, "beta": 0.5, "lam": 0.9, "alpha": 0.1,
    "n": 2, "h": 2.0, "offset": 1.0, "horizon": 9.0, "iterations": 100,
}  # fmt: skip
# Not settings by themselves: of files, of Gymnasium, of runs, or without a number.
LEFT_OUT = {
    "Features", "FiniteMDP", "Numbers", "Recorded", "Result", "Rule", "SettingError", "Stateful", "bench", "compare",
    "decide", "load",
    "from_arrays", "from_file", "from_function", "from_gymnasium", "from_matrix", "optimal", "run", "run_together",
    "simulator", "solve", "times", "taxi", "cliff_walking", "averaged",
}  # fmt: skip
KINDS: dict[str, Callable[[Any], Any]] = {
    "float64": np.float64, "float32": np.float32, "int64": np.int64, "uint8": np.uint8, "array": np.array,
    "fraction": Fraction, "decimal": Decimal, "float": float,
}  # fmt: skip


def parameters() -> list[tuple[str, str, Any]]:
    """(public name, parameter, a value that it takes), of all numbers that public constructors take."""
    found = []
    for name in sorted(set(mq.__all__) - LEFT_OUT):
        for key, one in inspect.signature(getattr(mq, name)).parameters.items():
            value = NEEDED.get(key, one.default) if one.default is one.empty else one.default
            if plain_number(value) is not None:
                found.append((name, key, value))
    return found


PARAMETERS = parameters()


def made(name: str, **given: Any) -> Any:
    """The object, or what tells it from another: a model by its digest."""
    build = getattr(mq, name)
    signature = inspect.signature(build).parameters
    needed = {key: NEEDED[key] for key, one in signature.items() if one.default is one.empty and key not in given}
    found = build(**needed, **given)
    if isinstance(found, mq.FiniteMDP):
        return found.digest()
    if isinstance(found, mq.Features):
        return found.matrix().toarray().tobytes()
    return type(found), {**vars(found)}


def test_there_are_many():
    assert len(PARAMETERS) > 80 and {"Markovian", "garnet", "MomentumQLinear", "Relaxed"} <= {
        one[0] for one in PARAMETERS
    }


@pytest.mark.parametrize(("name", "key", "value"), PARAMETERS, ids=lambda one: str(one))
def test_a_number_of_any_kind_is_that_number(name, key, value):
    wanted = made(name, **{key: value})
    for kind, convert in KINDS.items():
        if kind in ("int64", "uint8") and (value != int(value) or not 0 <= value < 256):
            continue
        number = convert(value)
        if kind == "float32" and float(number) != value:
            continue
        assert made(name, **{key: number}) == wanted, kind


@pytest.mark.parametrize(("name", "key", "value"), PARAMETERS, ids=lambda one: str(one))
def test_what_is_no_number_is_one_message(name, key, value):
    if key == "shift" and name == "MomentumQ":
        return
    for wrong in (True, "2", 1j, np.array([1.0, 2.0]), float("nan"), Decimal("nan"), len):
        try:
            made(name, **{key: wrong})
        except SettingError as refused:
            assert key in str(refused), wrong
        else:
            pytest.fail(f"{name} takes {key}={wrong!r}")


@pytest.mark.parametrize("kind", KINDS)
def test_settings_of_a_run_too(kind):
    number = KINDS[kind]
    result = mq.run(
        mq.two_state(), mq.QLearning(), iterations=number(20), n_seeds=number(2), seed=number(3),
        n_checkpoints=number(4), n_workers=number(1), q0=number(1), theta0=(number(0), number(0)),
    )  # fmt: skip
    plain = mq.run(mq.two_state(), mq.QLearning(), iterations=20, n_seeds=2, seed=3, n_checkpoints=4, q0=1)
    np.testing.assert_array_equal(result.q, plain.q)
    np.testing.assert_array_equal(result.iteration, plain.iteration)


@pytest.mark.parametrize("key", ["iterations", "n_seeds", "seed", "n_checkpoints", "n_workers", "q0", "theta0"])
def test_settings_of_a_run_refuse_the_rest(key):
    several: list[Any] = [True, "9", 1.5, len, np.zeros((2, 2)), [1, 2, 3], float("inf")]
    for wrong in several:
        if key in ("q0", "theta0") and isinstance(wrong, float) and wrong == 1.5:
            continue
        try:
            mq.run(LAKE, mq.QLearning(), **{"iterations": 3, "n_seeds": 2, key: wrong})
        except SettingError as refused:
            assert str(refused).startswith(f"{key}="), wrong
        else:
            pytest.fail(f"a run takes {key}={wrong!r}")


def test_rates_of_exploration():
    def exploration(epsilon: Any) -> tuple:
        return mq.Markovian(behaviour="epsilon_greedy", epsilon=epsilon).exploration

    assert exploration(np.float32(0.5)) == exploration(Fraction(1, 2)) == exploration(0.5)
    assert exploration(np.array([1.0, 0.25, 50])) == exploration([1, Fraction(1, 4), 50]) == (1.0, 0.25, 50.0)
    for wrong in (len, "0.1", True, (1.0, 0.1), (1.0, None, 5), np.zeros((3, 2)), {1: 2, 3: 4, 5: 6}, 1.5):
        with pytest.raises(SettingError, match=r"^sampling.epsilon="):
            exploration(wrong)


def test_a_rule_of_ones_own_keeps_plain_numbers():
    import dataclasses

    @dataclasses.dataclass(frozen=True)
    class Own(mq.Rule):
        m: float = 2.0
        period: int = 3
        words: str = "x"

        def update(self, k, q, q_prev, target, target_prev):
            return q + self.step_size(k) * (target - q)

    own = Own(np.float32(0.5), 4.0)  # type: ignore[arg-type]  # kinds that it makes its own
    assert (type(own.m), own.m, type(own.period), own.period, own.words) == (float, 0.5, int, 4, "x")
    unwhole: Any = 2.5  # which the class may refuse
    assert Own(period=unwhole).period == 2.5 and issubclass(Own, PlainNumbers)


def test_which_values_are_numbers():
    for value in (3, 3.0, np.float16(3), np.array(3), Fraction(3), Decimal(3)):
        assert plain_number(value) == 3 and type(plain_number(value)) in (int, float)
        assert type(check_int("n", value, 0)) is int
    assert finite_number(10**400) is None and plain_number(Decimal("nan")) is None
    for value in (True, np.True_, "3", None, 1j, [3], np.array([3]), len):
        assert plain_number(value) is None
