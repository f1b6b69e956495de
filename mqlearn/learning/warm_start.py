"""Where learning starts, as it may be given: a table, a result that is gone on from, a function of pairs."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from mqlearn.checks import finite_number
from mqlearn.errors import SettingError, user_code
from mqlearn.finding import Finding
from mqlearn.learners.initial import Initial, checked_initial
from mqlearn.learning.record import Result
from mqlearn.problems.mdp import FiniteMDP

# Q_0: a number, a range, a table (S, A), one for each seed (n_seeds, S, A), a result, a function of (state, action).
Start = float | tuple[float, float] | list[Any] | np.ndarray | Result | Callable[[int, int], float]


def of_tables(given: Any, mdp: Any, n_seeds: int) -> Initial:
    """Q_0 as it was given: a number, a range, or an array over the learned pairs (n,), or (n_seeds, n).

    Seed i goes on from the last finite table of seed i of a result. Raises SettingError.
    """
    if isinstance(given, Result):
        given = _last("q0", given, "q", n_seeds)
    if not isinstance(mdp, FiniteMDP):
        return checked_initial("q0", given)
    if callable(given):
        try:
            inspect.signature(given).bind(0, 0)
        except (TypeError, ValueError):
            raise SettingError("q0", given, "must take (state, action), if it is a function") from None
        with user_code("q0", getattr(given, "__name__", given)):
            values = [given(int(x), int(u)) for x, u in mdp.pairs]
        numbers = [number for value in values if (number := finite_number(value)) is not None]
        if len(numbers) != len(values):
            wrong = next(i for i, value in enumerate(values) if finite_number(value) is None)
            x, u = mdp.pairs[wrong]
            raise SettingError(f"q0({x}, {u})", values[wrong], "must be a finite number")
        return np.array(numbers)
    table = _array(given)
    if table is None:
        return checked_initial("q0", given)
    shape = (mdp.n_states, mdp.n_actions)
    if table.shape not in (shape, (n_seeds, *shape)):
        expected = f"must have the shape {shape} of a table, or {(n_seeds, *shape)}, one for each seed"
        turned = "; this one is turned over: q0.T" if table.shape == shape[::-1] else ""
        raise SettingError("q0", f"array of shape {table.shape}", expected + turned)
    flat = table.reshape(*table.shape[:-2], -1)[..., mdp.places]
    return _finite("q0", flat)


def of_parameters(given: Any, features: Any, n_seeds: int) -> Initial:
    """theta_0 as it was given: a number, a range, an array (d,) or (n_seeds, d), or a result. Raises SettingError.

    Two numbers in a list or a tuple are a range, as for q0, also where d = 2; a NumPy array of shape (2,) is theta.
    """
    if isinstance(given, Result):
        given = _last("theta0", given, "theta", n_seeds)
    table = _array(given, least=1)
    d = getattr(features, "n_features", 0)
    if table is None or (table.shape in ((1,), (2,)) and table.shape != (d,)) or features is None:
        return checked_initial("theta0", given)
    if table.shape not in ((d,), (n_seeds, d)):
        expected = f"must have the shape {(d,)}, or {(n_seeds, d)}, one row for each seed"
        raise SettingError("theta0", f"array of shape {table.shape}", expected)
    if isinstance(given, list | tuple) and table.shape == (2,):
        return checked_initial("theta0", given)  # a range, as ever
    return _finite("theta0", table)


def told_of(name: str, given: Any, mdp: Any, n_seeds: int, seed: int, sampling: Any) -> tuple[Finding, ...]:
    """What must be said of a start `name` that a result gives: samples seen again, seeds that have diverged."""
    if not isinstance(given, Result):
        return ()
    found, gone = [], [lane for lane in given.diverged if lane < n_seeds]
    if gone:
        table = given.q if name == "q0" else given.theta
        largest = float(np.abs(np.asarray(table)[gone]).max())
        text = (
            f"{name} goes on from a result of which {len(gone)} of {n_seeds} seeds diverged: they start at what was "
            f"finite last, up to {largest:.3g}"
        )
        found.append(Finding("diverged_start", text, {"seeds": len(gone), "n_seeds": n_seeds, "largest": largest}))
    if _same_samples(given, mdp, seed, sampling):
        again = int(given.iteration[-1])
        text = (
            f"{name} goes on from a result of seed={seed} too, and k begins at 0 again: the first {again} iterations "
            "draw by the random numbers that the result has learned from already, so they are no new samples; another "
            "seed= draws new ones"
        )
        found.append(Finding("samples_again", text, {"seed": seed, "iterations": again}))
    return tuple(found)


def _same_samples(result: Result, mdp: Any, seed: int, sampling: Any) -> bool:
    """Whether a run draws what a result was drawn by; not where nothing is drawn, or where data are gone through."""
    origin = result.origin
    if origin is None or sampling.one_seed or type(origin.mdp) is not type(mdp):
        return False
    if isinstance(mdp, FiniteMDP):
        same = all(
            np.array_equal(getattr(origin.mdp, one), getattr(mdp, one)) for one in ("successors", "probabilities")
        )
        drawn = not sampling.all_pairs or bool((mdp.probabilities[mdp.learned].max(axis=-1) < 1).any())
        if not (same and drawn):
            return False
    if origin.setup is not None:
        return origin.setup.seed == seed and type(origin.setup.sampling) is type(sampling)
    settings = origin.record["settings"] if origin.record is not None else {"seed": None, "sampling": {"_target_": ""}}
    kind = type(sampling).__name__
    return settings["seed"] == seed and settings["sampling"]["_target_"].rpartition(".")[2] == kind


def _last(name: str, result: Result, what: str, n_seeds: int) -> np.ndarray:
    """What each seed of a result ended with."""
    found = getattr(result, what)
    if found is None:
        kind = "tables: it learned features, which theta0= takes" if what == "q" else "features: q0= takes its tables"
        raise SettingError(name, result, f"has no {kind}")
    if len(found) < n_seeds:
        expected = f"has {len(found)} seeds, and this run {n_seeds}: each goes on from its own (n_seeds={len(found)})"
        raise SettingError(name, result, expected)
    return found[:n_seeds]


def _array(given: Any, least: int = 2) -> np.ndarray | None:
    """What was given as an array of as many axes at least; None for what is none."""
    if isinstance(given, tuple) or not isinstance(given, np.ndarray | list):
        return None
    try:
        array = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        return None
    return array if array.ndim >= least else None


def _finite(name: str, values: np.ndarray) -> np.ndarray:
    """The values, read-only. Raises SettingError if one is not finite."""
    if not np.isfinite(values).all():
        raise SettingError(name, f"array with {np.count_nonzero(~np.isfinite(values))} such entries", "must be finite")
    values = np.array(values, np.float64, order="C")
    values.flags.writeable = False
    return values
