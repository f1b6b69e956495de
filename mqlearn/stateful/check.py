"""What a rule with state of its own must be, found out before a run: three plain iterations on a tiny model."""

import inspect
import keyword
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from mqlearn.algorithms.operators import BELLMAN, Operator
from mqlearn.algorithms.rule import LARGEST, Rule, check_rule
from mqlearn.algorithms.stateful import MODES, NEEDS, Stateful
from mqlearn.checks import differ
from mqlearn.errors import SettingError, check_methods, nearest
from mqlearn.linear_solves import solve
from mqlearn.paths import PACKAGE
from mqlearn.stateful.chance import chance
from mqlearn.stateful.module import compiled_step
from mqlearn.stateful.pairs import ModelPairs
from mqlearn.stateful.reference import NoSecond, Sweep, Transition
from mqlearn.stateful.source import no_name
from mqlearn.stateful.values import Layout
from mqlearn.stateful.verbs import no_verb

_SEVERAL = "an `if` needs one number, and here are several: np.where(test, a, b) is for arrays"
_OF_PAIRS = (
    "what a verb gives is one number for each pair there, and a rule is tried in all its modes: write np.where(test, "
    "a, b) for `if`, np.maximum for max(); or say modes = ('asynchronous', 'linear'), for a rule of one pair at a time"
)
_OFFSETS = np.array([0, 2, 3, 5, 5])  # of the tiny model: three states with 2, 1 and 2 actions, and a terminal one
_SUCCESSORS = np.array([[1, 2, 3, 0, 3], [2, 0, 1, 1, 2], [0, 3, 2, 2, 0], [3, 3, 1, 0, 1], [1, 0, 0, 2, 3]])
_PHI = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.3, 0.0, 0.9]])
_STEPS = 3
_ITS_CHANCE = "chance comes from the samples and, with draws_own = True, from s.uniform: so a seed has one run"


def check(rule: Rule | Stateful, discount: float = 0.9) -> None:
    """Refuse a rule that cannot be run at a discount. Raises SettingError, with file and line where they are known."""
    if _of_user(rule):
        check_methods("algorithm", rule, Rule if isinstance(rule, Rule) else Stateful)
    if isinstance(rule, Rule):
        check_rule(rule)
        return
    name = type(rule).__name__
    modes = tuple(rule.modes)
    if not modes or set(modes) - set(MODES):
        raise SettingError("algorithm", name, f"modes={modes} must be some of {', '.join(MODES)}")
    if unknown := [need for need in rule.needs if need not in NEEDS]:
        expected = f"needs={rule.needs!r} must be a tuple of some of {', '.join(NEEDS)}"
        raise SettingError("algorithm", name, expected + nearest(str(unknown[0]), NEEDS))
    rule = rule.at(discount)
    if rule.plans:  # it has no step
        return
    _check_chance(rule)
    _check_numbers(rule)
    for mode in modes:
        _Trial(rule, mode).run()


def try_out(rule: Stateful, mode: str, *, second: bool = True, operator: Operator = BELLMAN) -> None:
    """Refuse a rule that cannot be run in a mode, found out as `check` does. Raises SettingError.

    second: whether second successors can be drawn.   operator: with which verbs may have no meaning.
    """
    _Trial(rule, mode, second, operator).run()


def _check_chance(rule: Stateful) -> None:
    """Refuse what a run would not show: chance or a clock, which its methods read by name."""
    for method in (rule.step, rule.estimate, rule.acting):
        if (found := chance(method, rule)) is not None:
            expected = f"{method.__name__}() reads {found.name}, and {_ITS_CHANCE} ({found.file}, line {found.line})"
            raise SettingError("algorithm", type(rule).__name__, expected)


def _check_again(rule: Stateful, first: Any, second: Any, method: Any) -> None:
    """Refuse a method of the user's that answers otherwise when it is called again."""
    if differ(first, second):
        expected = f"{method.__name__}() gives other numbers when it is called again, and {_ITS_CHANCE}{_at(method)}"
        raise SettingError("algorithm", type(rule).__name__, expected)


def _of_user(rule: Rule | Stateful) -> bool:
    return type(rule).__module__.partition(".")[0] != "mqlearn"


def _check_numbers(rule: Stateful) -> None:
    name, k = type(rule).__name__, np.concatenate([np.arange(20.0), [1e3, 1e6]])
    with _told(rule, "numbers() must work on an array of k"):
        numbers = rule.numbers(k)
        again = rule.numbers(k) if _of_user(rule) else numbers
    _check_again(rule, numbers, again, rule.numbers)
    if not isinstance(numbers, Mapping):
        raise SettingError(
            "algorithm", name, f"numbers() must return a mapping from names to arrays{_at(rule.numbers)}"
        )
    for key, values in numbers.items():
        _check_name(rule, "number", key, rule.numbers)
        try:
            values = np.broadcast_to(np.asarray(values, np.float64), k.shape)
        except (TypeError, ValueError) as error:
            expected = f"numbers()['{key}'] must be an array like k ({error}){_at(rule.numbers)}"
            raise SettingError("algorithm", name, expected) from None
        if not np.isfinite(values).all():
            expected = f"numbers()['{key}'] is not finite at k = {k[~np.isfinite(values)][0]:g}{_at(rule.numbers)}"
            raise SettingError("algorithm", name, expected)
        if (np.abs(values) > LARGEST).any():
            where = f"numbers()['{key}'] is beyond {LARGEST:g} at k = {k[np.abs(values) > LARGEST][0]:g}"
            step = f" (step size {float(np.ravel(rule.alpha(np.zeros(1)))[0]):g} at k = 0)"
            raise SettingError("algorithm", name, f"{where}{step}{_at(rule.numbers)}")


class _Trial:
    """Three iterations of one mode on the tiny model. second: whether second successors can be drawn."""

    def __init__(self, rule: Stateful, mode: str, second: bool = True, operator: Operator = BELLMAN) -> None:
        self.rule, self.mode, self.name, self.second = rule, mode, type(rule).__name__, second
        self.operator = operator
        self.pairs = ModelPairs(_OFFSETS, rule.discount, _PHI if mode == "linear" else None, operator)
        self.size = _PHI.shape[1] if mode == "linear" else len(_PHI)

    def run(self) -> None:
        z = self._moved()
        arrays = dict(vars(z))
        if _of_user(self.rule):
            _check_again(self.rule, arrays, vars(self._moved()), self.rule.step)
        if self.rule.compiled:  # what Python does, and a compiled step cannot
            shapes = {key: value.shape for key, value in arrays.items()}
            source = "sweeps" if self.mode == "synchronous" else "chain"
            compiled_step(self.rule, self.mode, Layout(shapes, self.size), source, self.operator)
        for function in (self.rule.estimate, self.rule.acting):
            with _told(self.rule, f"{function.__name__}() fails"):
                table = np.asarray(function(z), np.float64)
            if table.shape != (self.size,):
                expected = f"{function.__name__}() must return a table of shape ({self.size},), not {table.shape}"
                raise SettingError("algorithm", self.name, expected + _at(function))

        if self.rule.averaged:
            self._check_average(arrays)

    def _moved(self) -> SimpleNamespace:
        """The state after the iterations."""
        z = self._start()
        arrays = dict(vars(z))
        for k, row in enumerate(self.rule.weights(0, _STEPS).tolist()):
            c = SimpleNamespace(**dict(zip(self.rule.number_names, row, strict=True)))
            several = _OF_PAIRS if self.mode == "synchronous" else _SEVERAL
            with _told(self.rule, f"step() cannot do this in {self.mode} mode", several):
                self.rule.step(z, self._sample(k), c)
            self._check_state(z, arrays, k)
        return z

    def _check_average(self, arrays: dict[str, np.ndarray]) -> None:
        """The mean of what is measured is had from the means of the tables: both have to be linear in them."""
        rng = np.random.default_rng(1)
        a, b = ({key: rng.normal(size=(self.size,)) for key in arrays if arrays[key].ndim == 1} for _ in range(2))
        a, b = ({key: table for key, table in one.items() if arrays[key].shape == (self.size,)} for one in (a, b))
        both = {key: 2 * a[key] - b[key] for key in a}
        with _told(self.rule, "with algorithm.averaged, estimate() must be made of tables"):
            x, y, z = (self.rule.estimate(SimpleNamespace(**one)) for one in (a, b, both))
        if not np.allclose(z, 2 * x - y, atol=1e-9):
            expected = f"needs an estimate() that is linear in the state, and {self.name} has another"
            raise SettingError("algorithm.averaged", True, expected + _at(self.rule.estimate))

    def _start(self) -> SimpleNamespace:
        rule = self.rule
        with _told(rule, "init() fails"):
            state = rule.init(np.zeros(self.size))
            again = rule.init(np.zeros(self.size)) if _of_user(rule) else state
        if not isinstance(state, Mapping) or not state:
            expected = f"init() must return a mapping from names to arrays{_at(rule.init)}"
            raise SettingError("algorithm", self.name, expected)
        made = {}
        for key, value in state.items():
            _check_name(rule, "state", key, rule.init)
            array = np.array(value) if isinstance(value, np.ndarray | int | float | list | tuple) else np.array(None)
            if array.dtype.kind not in "iufb" or array.ndim == 0:
                kind = type(value).__name__ if array.ndim == 0 else f"array of {array.dtype}"
                expected = f"init()['{key}'] must be an array of numbers, not {kind}{_at(rule.init)}"
                raise SettingError("algorithm", self.name, expected)
            if not np.isfinite(array).all():
                raise SettingError("algorithm", self.name, f"init()['{key}'] is not finite{_at(rule.init)}")
            made[key] = array.astype(np.float64)
        _check_again(rule, state, again, rule.init)
        return SimpleNamespace(**made)

    def _sample(self, k: int) -> Any:
        uniform = np.array([0.3, 0.7, 0.1, 0.9]) if k % 2 else np.array([0.8, 0.2, 0.6, 0.4])
        uniform = uniform if self.rule.draws_own else None
        y, again, rewards = _SUCCESSORS[k], _SUCCESSORS[k + 1], np.linspace(0.0, 1.0, len(_PHI))
        if self.mode == "synchronous":
            return Sweep(self.pairs, rewards, y, uniform, Sweep(self.pairs, rewards, again))
        pair = (3 * k + 1) % len(_PHI)
        second: Any = Transition(self.pairs, pair, rewards[pair], again[pair])
        second = second if self.second else NoSecond(self.name)
        return Transition(self.pairs, pair, rewards[pair], y[pair], uniform, second)

    def _check_state(self, z: SimpleNamespace, arrays: dict[str, np.ndarray], k: int) -> None:
        for key, value in vars(z).items():
            if key not in arrays:
                expected = f"step() makes z.{key}, which init() does not know{nearest(key, list(arrays))}"
            elif value is not arrays[key]:
                expected = f"step() replaces z.{key}; change it in place: z.{key}[:] = ..."
            elif not np.isfinite(value).all():
                expected = f"step() leaves z.{key} not finite in iteration {k} of a trial on a tiny model"
            else:
                continue
            raise SettingError("algorithm", self.name, expected + _at(self.rule.step))


def _check_name(rule: Stateful, what: str, key: Any, function: Any) -> None:
    if not isinstance(key, str) or not key.isidentifier() or keyword.iskeyword(key) or key.startswith("_"):
        expected = f"{key!r} is no name for a {what}: letters and digits, as in z.name{_at(function)}"
        raise SettingError("algorithm", type(rule).__name__, expected)


def _at(function: Any) -> str:
    """`` (FILE, line N)`` of a function."""
    try:
        code = inspect.unwrap(function).__code__
    except AttributeError:
        return ""
    if Path(code.co_filename).is_relative_to(PACKAGE):  # a rule of ours: its values are wrong, not its text
        return ""
    return f" ({code.co_filename}, line {code.co_firstlineno})"


_OURS = {code.co_filename for code in (check.__code__, Sweep.add.__code__, solve.__code__)}


@contextmanager
def _told(rule: Stateful, reason: str, several: str = _SEVERAL) -> Iterator[None]:
    """Whatever a rule's own function raises, as one line with the user's file and line.

    several: what is said of an `if` that has several numbers.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except SettingError:
        raise
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename not in _OURS]
        where = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
        raise SettingError("algorithm", type(rule).__name__, f"{reason}: {_said(error, several)}{where}") from None


def _said(error: Exception, several: str) -> str:
    if isinstance(error, AttributeError) and isinstance(error.obj, Transition | Sweep):
        return no_verb(str(error.name))
    if isinstance(error, ValueError) and "truth value of an array" in str(error):
        return several
    if isinstance(error, AttributeError) and isinstance(error.obj, SimpleNamespace):
        return no_name(str(error.name), vars(error.obj))
    if isinstance(error, TypeError) and "NoneType" in str(error) and "subscriptable" in str(error):
        return "s.uniform is drawn for rules that say draws_own = True only"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
