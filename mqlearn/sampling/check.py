"""What a sampling mode of the user's own must be, found out before a run: it answers, and draws what it says."""

import math
from typing import Any

import numpy as np

from mqlearn.errors import SettingError, check_methods, user_code
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.chains import Chain, Samples
from mqlearn.sampling.protocol import CLOCKS, QUESTIONS, Sampling, of_walk, stationary
from mqlearn.sampling.sample_numbers import unpack

_LANES, _DRAWS = 16, 4096  # of the trial
_EXPECTED = 10.0  # draws of a class at least, for a chi-square to be one
_SMALLEST = 1e-9  # p-value; the draws of the trial are the same at each time
_ROUNDING = 1e-9


def check_sampling(sampling: Sampling, mdp: FiniteMDP) -> None:
    """Refuse a mode of the user's own that lacks an answer, or draws otherwise than it says. Raises SettingError.

    Ours are tested in the package: their answers by `check_answers`, their draws by a twin.
    """
    if type(sampling).__module__.partition(".")[0] == "mqlearn":
        return
    check_methods("sampling", sampling, Sampling)
    said = check_answers(sampling, mdp)
    if said is not None and sampling.independent and not sampling.all_pairs:
        _check_draws(sampling, mdp, said)
        again = stationary(sampling, mdp)
        assert again is not None
        _compare(sampling, said, again, "asked again, it gives other probabilities")


def check_answers(sampling: Sampling, mdp: FiniteMDP) -> np.ndarray | None:
    """The distribution (S, A) that a mode says, None if it says none. Raises SettingError for a wrong or no answer."""
    for question, kind in QUESTIONS.items():
        with user_code("sampling", sampling.name):
            answer = getattr(sampling, question)
        if not (callable(answer) if kind is None else isinstance(answer, kind)):
            expected = "a method" if kind is None else "True or False" if kind is bool else "a whole number"
            raise SettingError("sampling", sampling.name, f"`{question}` must be {expected}, not {answer!r}")
    if sampling.clock not in CLOCKS or sampling.update not in ("pair", "rounds"):
        known = f"`clock` must be {', '.join(CLOCKS)}, and `update` pair or rounds"
        raise SettingError("sampling", sampling.name, f"{known}, not {sampling.clock!r} and {sampling.update!r}")
    if sampling.recorded:
        return None  # its transitions are counted
    said = stationary(sampling, mdp)
    if said is None:
        if sampling.independent or not sampling.adaptive:
            expected = "distribution(mdp) must return probabilities (S, A), as samples do not depend on what is learned"
            raise SettingError("sampling", sampling.name, expected)
    elif sampling.all_pairs:
        _compare(sampling, said, mdp.learned / mdp.learned.sum(), "all pairs are drawn equally often")
    elif not sampling.independent:
        with user_code("sampling", sampling.name):
            walk = sampling.walk(mdp)
        _compare(sampling, said, of_walk(mdp, walk), "its chain has another stationary distribution")
    return said


def _compare(sampling: Sampling, said: np.ndarray, drawn: np.ndarray, problem: str) -> None:
    away = float(np.abs(said - drawn).sum() / 2)
    if not away <= _ROUNDING:
        expected = f"draws otherwise than distribution(mdp) says: {problem} (total variation {away:.3g})"
        raise SettingError("sampling", sampling.name, expected)


def _check_draws(sampling: Sampling, mdp: FiniteMDP, said: np.ndarray) -> None:
    """A chi-square of pairs drawn by the kernel against the distribution; pairs seldom expected are one class."""
    from scipy.special import chdtrc

    samples: Any = Samples(Chain(mdp, sampling, np.arange(_LANES, dtype=np.uint32), 0, mean_reward=True))
    numbers = samples.block(0, _DRAWS, np.arange(_LANES))
    counts = np.bincount(unpack(numbers, samples.chain.model.shift).pair.ravel(), minlength=len(mdp.pairs))
    expected = said[*mdp.pairs.T] * counts.sum()
    often = expected >= _EXPECTED
    seen = np.append(counts[often], counts[~often].sum()).astype(float)
    due = np.append(expected[often], expected[~often].sum())
    impossible = int(counts[expected == 0].sum())
    kept = due >= 1e-6  # the last class may be empty
    statistic, degrees = float(((seen - due)[kept] ** 2 / due[kept]).sum()), int(kept.sum()) - 1
    p = float(chdtrc(degrees, statistic)) if degrees else 1.0
    if impossible or p < _SMALLEST:
        statistic = math.inf if impossible else statistic
        figure = f"chi-square {statistic:.4g} on {degrees} degrees of freedom in {counts.sum()} draws"
        never = f", of which {impossible} are of pairs of probability 0" if impossible else ""
        raise SettingError("sampling", sampling.name, f"draws otherwise than distribution(mdp) says: {figure}{never}")
