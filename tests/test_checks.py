"""What a value must be: what is taken, what is refused, and in which words."""

import numpy as np
import pytest

from mqlearn.checks import are_distributions, check_bool, check_int, choice, finite_number
from mqlearn.errors import SettingError


@pytest.mark.parametrize("value", [True, np.nan, np.inf, "1", None, 1j])
def test_no_finite_number(value):
    assert finite_number(value) is None


@pytest.mark.parametrize(("value", "number"), [(3, 3), (np.int32(3), 3), (0, 0), (2.0, 2), (np.float32(2), 2)])
def test_a_whole_number(value, number):
    found = check_int("n", value, 0, 3)
    assert found == number and type(found) is int


@pytest.mark.parametrize("value", [-1, 4, 2.5, True, "2", None, np.nan])
def test_no_whole_number(value):
    with pytest.raises(SettingError, match=r"^n=.*: must be a whole number of moves, from 0 to 3$"):
        check_int("n", value, 0, 3, of="moves")


@pytest.mark.parametrize(
    ("value", "number"), [(1e3, 1000), ("1e3", 1000), ("12", 12), (12, 12), ("9" * 20, 10**20 - 1)]
)
def test_a_whole_number_as_people_write_it(value, number):
    assert check_int("n", value, 1, written=True) == number


@pytest.mark.parametrize("value", ["1.5", 1.5, "nan", "inf", "", "one", "true", True, -np.inf])
def test_no_whole_number_as_people_write_it(value):
    with pytest.raises(SettingError, match="must be a whole number, at least 1, or null for none"):
        check_int("n", value, 1, null="none", written=True)


def test_null_is_taken_where_it_stands_for_something():
    assert check_int("n", None, 1, null="none") is None


def test_a_choice():
    assert choice("x", "log", ("log", "linear")) == "log"
    with pytest.raises(SettingError, match=r"^x='lin': must be log or linear \(did you mean 'linear'\?\)$"):
        choice("x", "lin", ("log", "linear"))
    with pytest.raises(SettingError, match="must be a, b or c, as told"):
        choice("x", ["a"], ("a", "b", "c"), ", as told")


@pytest.mark.parametrize(("value", "on"), [(True, True), (np.bool_(False), False), ("Yes", True), ("off", False)])
def test_a_switch(value, on):
    assert check_bool("x", value) is on


@pytest.mark.parametrize("value", [1, 0, None, "maybe", ""])
def test_no_switch(value):
    with pytest.raises(SettingError, match="must be true or false"):
        check_bool("x", value)


def test_distributions():
    rows = np.array([[0.5, 0.5], [1, 0], [1.5, -0.5], [0.5, 0.4], [np.nan, 1], [1 / 3, 2 / 3 + 1e-12]])
    assert are_distributions(rows).tolist() == [True, True, False, False, False, True]
    assert are_distributions(rows[:2], np.array([True, False])).tolist() == [False, True]
    assert are_distributions([0.25] * 4)
