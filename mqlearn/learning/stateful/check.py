"""What a rule with state of its own must be, found out before a run: three plain iterations on a tiny model."""

import inspect
import keyword
import math
import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from mqlearn.algorithms.four_numbers import FourNumbers
from mqlearn.algorithms.operators import BELLMAN, Operator, is_plain
from mqlearn.algorithms.rule import LARGEST, Rule, check_rule
from mqlearn.algorithms.stateful import MODES, NEEDS, Stateful
from mqlearn.errors import SettingError, nearest
from mqlearn.learning.sampling import Sampling
from mqlearn.learning.stateful.module import compiled_step
from mqlearn.learning.stateful.pairs import Pairs
from mqlearn.learning.stateful.plain import NoSecond, Sweep, Transition, measured
from mqlearn.learning.stateful.values import Layout
from mqlearn.learning.stateful.verbs import no_verb
from mqlearn.linear_solves import solve
from mqlearn.paths import PACKAGE
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.problems.mdp import FiniteMDP

_SEVERAL = "an `if` needs one number, and here are several: np.where(test, a, b) is for arrays"
_OF_PAIRS = (
    "what a verb gives is one number for each pair there, and a rule is tried in all its modes: write np.where(test, "
    "a, b) for `if`, np.maximum for max(); or say modes = ('asynchronous', 'linear'), for a rule of one pair at a time"
)
_OFFSETS = np.array([0, 2, 3, 5, 5])  # of the tiny model: three states with 2, 1 and 2 actions, and a terminal one
_SUCCESSORS = np.array([[1, 2, 3, 0, 3], [2, 0, 1, 1, 2], [0, 3, 2, 2, 0], [3, 3, 1, 0, 1], [1, 0, 0, 2, 3]])
_PHI = np.array([[1.0, 0.0, 0.0], [0.0, 0.6, 0.8], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.3, 0.0, 0.9]])
_STEPS = 3
_SIZES = (5, 8)  # of the tables by which the growth of a state is seen


def check(rule: Rule | Stateful, discount: float = 0.9) -> None:
    """Refuse a rule that cannot be run at a discount. Raises SettingError, with file and line where they are known."""
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
    _check_numbers(rule)
    for mode in modes:
        _Trial(rule, mode).run()


def check_operator(rule: Rule | Stateful, sampling: Sampling, features: Any, operator: Operator) -> None:
    """Refuse a rule with state that has no meaning with an operator, found out as `check` does. Raises SettingError."""
    if isinstance(rule, Stateful) and not is_plain(operator):
        _Trial(rule, mode_of(sampling, features), operator=operator).run()


def mode_of(sampling: Sampling, features: Any) -> str:
    """The mode that a rule with state needs there, one of `MODES`."""
    if sampling.all_pairs:
        return "synchronous"
    return "asynchronous" if features is None else "linear"


def check_on(
    mdp: FiniteMDP | Simulator, rule: Rule | Stateful, sampling: Sampling, features: Any, linear: Any, n_seeds: int
) -> None:
    """Refuse a rule that cannot be run on a problem, in a mode, with so many seeds. Raises SettingError."""
    if isinstance(mdp, Simulator):
        check_simulated(rule)
    check_place(rule, sampling, features, linear)
    if isinstance(mdp, Simulator) and isinstance(rule, Stateful):
        _Trial(rule.at(mdp.discount), "linear", second=False).run()
    n = features.n_features if features is not None else len(mdp.pairs)  # type: ignore  # a simulator has features
    check_memory(rule, n, n_seeds)


def check_place(rule: Rule | Stateful, sampling: Any, features: Any, linear: Any) -> None:
    """Refuse a rule where it has no meaning. Raises SettingError."""
    if sampling.recorded and features is not None and linear.projection is not None:
        raise SettingError("linear.projection", linear.projection, "cannot be had with sampling=recorded")
    if not isinstance(rule, Stateful):
        return
    four = isinstance(rule, FourNumbers)
    name, mode = type(rule.rule if four else rule).__name__, mode_of(sampling, features)
    if mode not in rule.modes:
        where = {"synchronous": "synchronous sampling", "asynchronous": "tables that learn one pair at a time"}
        where["linear"] = "linear features"
        has = " and for ".join(where[one] for one in rule.modes)
        raise SettingError("algorithm", name, f"has no form for {where[mode]}; it has one for {has}")
    if "consecutive" in rule.needs and not sampling.consecutive:
        expected = f"has no consecutive samples, which {name} needs for its traces; use markovian, or recorded ones"
        raise SettingError("sampling", sampling.name, expected)
    if not sampling.all_pairs:
        if sampling.adaptive and not rule.acts:
            expected = f"is not defined for {name}, which must not act by what it learns; use uniform or a fixed policy"
            raise SettingError("sampling.behaviour", sampling.behaviour, expected)
        reason = f"rules with state of their own ({name}) know"
        if four:
            reason = "with algorithm.batch or algorithm.averaged there is"
        if sampling.clock != "global" and features is None:
            own = "" if four else "; a rule of your own may count visits in its state"
            expected = f"{reason} the global clock only: use sampling.clock=global{own}"
            raise SettingError("sampling.clock", sampling.clock, expected)
        if sampling.update != "pair" and features is None:
            raise SettingError("sampling.update", sampling.update, f"{reason} pair only: a step for each visited pair")
    if sampling.recorded and rule.samples_per_iteration * rule.batch > 1:
        expected = "a record has one successor of a pair an iteration, and this rule draws more"
        raise SettingError("sampling", sampling.name, expected)
    if four and linear.projection is not None and features is not None:
        raise SettingError("linear.projection", linear.projection, "cannot be had with algorithm.batch")
    if not four and linear.projection is not None and features is not None:
        small = {key: np.asarray(value) for key, value in rule.init(np.zeros(_SIZES[0])).items()}
        if not (names := measured(rule, small)) or any(small[key].shape != (_SIZES[0],) for key in names):
            expected = f"cannot be had with {name}, whose estimate() is made of more than tables"
            raise SettingError("linear.projection", linear.projection, expected)
    if not four and linear.previous_gradient != "stored":
        expected = f"has no meaning for {name}, which keeps in its state what it needs of the past"
        raise SettingError("linear.previous_gradient", linear.previous_gradient, expected)


def check_memory(rule: Rule | Stateful, n: int, n_seeds: int) -> None:
    """Refuse a state that this machine cannot hold: n entries of a table or a parameter. Raises SettingError.

    How its arrays grow is seen from two small ones; a copy is kept to find the step at which a seed diverges.
    """
    if not isinstance(rule, Stateful):
        return
    small, larger = ({key: np.shape(one) for key, one in rule.init(np.zeros(size)).items()} for size in _SIZES)
    slope = (n - _SIZES[0]) / (_SIZES[1] - _SIZES[0])
    grown = [math.prod(a + (b - a) * slope for a, b in zip(small[key], larger[key], strict=True)) for key in small]
    wanted, has = 16.0 * sum(grown) * n_seeds, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if wanted > has:
        expected = (
            f"keeps a state of {sum(grown):.3g} numbers a seed for {n} entries: {n_seeds} seeds and their copies "
        )
        expected += f"need {wanted / 1e9:.3g} GB, and this machine has {has / 1e9:.3g} GB"
        raise SettingError("algorithm", type(rule).__name__, expected)


def check_simulated(rule: Rule | Stateful) -> None:
    """Refuse on a simulator what needs a model. Raises SettingError."""
    reason = "is not to be had on an environment without a model"
    if rule.batch > 1:
        raise SettingError("algorithm.batch", rule.batch, f"{reason}: further successors cannot be drawn there")
    if rule.averaged:
        raise SettingError("algorithm.averaged", True, f"{reason}: errors cannot be measured there")


def _check_numbers(rule: Stateful) -> None:
    name, k = type(rule).__name__, np.concatenate([np.arange(20.0), [1e3, 1e6]])
    with _told(rule, "numbers() must work on an array of k"):
        numbers = rule.numbers(k)
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
        self.pairs = Pairs(_OFFSETS, rule.discount, _PHI if mode == "linear" else None, operator)
        self.size = _PHI.shape[1] if mode == "linear" else len(_PHI)

    def run(self) -> None:
        z = self._start()
        arrays = dict(vars(z))
        for k, row in enumerate(self.rule.weights(0, _STEPS).tolist()):
            c = SimpleNamespace(**dict(zip(self.rule.number_names, row, strict=True)))
            several = _OF_PAIRS if self.mode == "synchronous" else _SEVERAL
            with _told(self.rule, f"step() cannot do this in {self.mode} mode", several):
                self.rule.step(z, self._sample(k), c)
            self._check_state(z, arrays, k)
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
        return f"there is no {error.name}{nearest(str(error.name), list(vars(error.obj)))}"
    if isinstance(error, TypeError) and "NoneType" in str(error) and "subscriptable" in str(error):
        return "s.uniform is drawn for rules that say draws_own = True only"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
