"""Many runs at once: the numbers of a literal implementation, one pair at a time, and what many are asked."""

import itertools
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

from mqlearn.analysis.comparison import comparison, pairing
from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.seed_values import SUMMARIES, TREATMENTS, Question
from mqlearn.analysis.statistics.intervals import difference_intervals, generator
from mqlearn.analysis.statistics.power import seeds_needed
from mqlearn.analysis.statistics.significance import permutations, sign_flips, smallest_p
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import compose
from mqlearn.storage.runs import Run, plain


def rows(n: int, seed: int) -> np.ndarray:
    """(5, n): differences of all kinds: usual, none, with ties, without spread, tiny."""
    d = np.random.default_rng(seed).normal(0.4, 1, (5, n))
    d[1], d[2], d[3] = 0, np.round(d[2], 1), 0.7
    d[4] *= 1e-200
    return d


# --- the literal implementation: one pair, every pattern written out ------------------------------------------------


def literal_sign_flip(d: np.ndarray, resamples: int) -> float:
    n = len(d)
    signs = np.array([*itertools.product([1.0, -1.0], repeat=n)]) if n <= 12 else None
    if signs is None:
        signs = generator("signs", n, resamples).choice([-1.0, 1.0], size=(resamples, n))
        signs = np.concatenate([signs, np.ones((1, n))])
    d = d / (np.abs(d).max() or 1)
    return float(np.mean(np.abs(signs @ d) >= abs(d.sum()) - 1e-12 * np.abs(d).sum()))


def literal_permutation(a: np.ndarray, b: np.ndarray, resamples: int) -> float:
    n, m = len(a), len(b)
    pooled = np.concatenate([a, b])
    pooled = pooled / (np.abs(pooled).max() or 1)
    if n + m <= 12:
        sums = np.array([pooled[[*places]].sum() for places in itertools.combinations(range(n + m), n)])
    else:
        places = np.tile(np.arange(n + m, dtype=np.int16), (resamples, 1))
        chosen = generator("splits", n, m, resamples).permuted(places, axis=1)[:, :n]
        sums = np.append(pooled[chosen].sum(axis=1), pooled[:n].sum())
    slack = 1e-12 * np.abs(pooled).sum()
    sides = np.mean(sums >= pooled[:n].sum() - slack), np.mean(sums <= pooled[:n].sum() + slack)
    return float(min(1, 2 * min(sides)))


def literal_needed(a: np.ndarray, b: np.ndarray, *, paired: bool, level: float) -> int | None:
    samples = [a - b] if paired else [a, -b]
    largest = max(np.abs(x).max() for x in samples)
    if largest == 0 or sum(x.mean() for x in samples) == 0:
        return None
    n = np.arange(1, 1001)
    critical = special.stdtrit(np.maximum(n - 1, 1).astype(float), 1 - level / 2)
    drawing = [generator("power", number, len(x)) for number, x in enumerate(samples)]
    found = np.zeros(1000)
    for _ in range(50):
        shift = variance = 0.0
        for random, x in zip(drawing, samples, strict=True):
            drawn = (x / largest)[random.integers(0, len(x), (20, 1000))]
            mean = np.cumsum(drawn, axis=1) / n
            shift = shift + mean
            spread = np.maximum(np.cumsum(drawn**2, axis=1) / n - mean**2, 0)
            variance = variance + spread / np.maximum(n - 1, 1)
        found += (np.abs(shift) > critical * np.sqrt(variance)).sum(axis=0)
    enough = [int(k) for k in n[1:] if found[k - 1] >= 800 and smallest_p(int(k), paired=paired) <= level]
    return enough[0] if enough else None


@pytest.mark.parametrize("n", [2, 3, 7, 12, 25])
def test_sign_flips_are_those_of_every_pattern_written_out(n):
    d = rows(n, n)
    found = sign_flips(d, resamples=999)
    assert found.p == pytest.approx([literal_sign_flip(one, 999) for one in d], rel=1e-12)


@pytest.mark.parametrize(("n", "m"), [(2, 2), (3, 5), (6, 6), (15, 20)])
def test_permutations_are_those_of_every_split_written_out(n, m):
    a, b = rows(n, n), rows(m, 100 + m) + 0.2
    found = permutations(a, b, resamples=999, exact=1000)
    assert found.p == pytest.approx([literal_permutation(x, y, 999) for x, y in zip(a, b, strict=True)], rel=1e-12)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_intervals_of_many_pairs_are_scipys_of_each(method):
    a, b = rows(16, 1), rows(16, 2)[::-1]
    keep = [0, 2]  # with spread, and one with ties
    found = difference_intervals(a, b, paired=True, method=method)
    kind = "BCa" if method == "bca" else "percentile"
    for i in keep:
        d = a[i] - b[i]
        once = {"n_resamples": 9999, "method": kind, "rng": generator("bootstrap"), "batch": 500}
        wanted = stats.bootstrap((d,), np.mean, axis=0, vectorized=True, **once).confidence_interval
        assert (found.low[i], found.high[i]) == pytest.approx((wanted.low, wanted.high), rel=1e-12)


@pytest.mark.parametrize(("shift", "level"), [(0.1, 0.05), (0.6, 0.01), (3.0, 0.001)])
def test_seeds_needed_are_those_of_the_whole_simulation(shift, level):
    random = np.random.default_rng(int(10 * shift))
    for paired in (True, False):
        a, b = random.normal(shift, 1, 9), random.normal(0, 0.3, 9)
        wanted = literal_needed(a, b, paired=paired, level=level)
        assert seeds_needed(a, b, paired=paired, level=level) == wanted


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def settings():
    return compose.compose(["env=two_state", "iterations=200", "n_seeds=6", "experiment.name=many"])


def run_of(settings, number: int, curve: np.ndarray, diverged: dict[str, int] | None = None) -> Run:
    """A run in memory with this curve."""
    summary = {"digest": f"{number:08x}" + "0" * 56, "name": f"run {number}", "diverged": diverged or {}}
    run = Run(Path(), summary | {"numerics_version": 1, "made_of": {"model": "m", "sources": {}}})
    own = {**settings, "n_seeds": len(curve)}
    iteration = np.linspace(0, 200, curve.shape[1], dtype=np.int64)
    run.__dict__.update(settings=own, curves={"iteration": iteration, "q_error": curve, "return_start": -curve})
    return run


def entries_of(settings, n: int, n_seeds: int = 6) -> list[Entry]:
    random = np.random.default_rng(n)
    curves = random.lognormal(-np.linspace(0, 2, 5), 0.3, (n, n_seeds, 5))
    return [Entry(run_of(settings, i, curve), f"rule {i}", "block") for i, curve in enumerate(curves)]


@pytest.mark.parametrize("summary", SUMMARIES)
@pytest.mark.parametrize("diverged", TREATMENTS)
def test_pairs_asked_together_are_answered_as_each_alone(settings, summary, diverged):
    """With seeds that have diverged, fewer seeds, and two rules that are one."""
    made = entries_of(settings, 5)
    curve = np.array(made[0].run.curves["q_error"])
    curve[1, 3:] = np.nan
    made.append(Entry(run_of(settings, 90, curve, {"1": 120}), "wild", "block"))
    made.append(Entry(run_of(settings, 91, np.array(made[1].run.curves["q_error"][:4])), "few", "block"))
    made.append(Entry(run_of(settings, 92, np.array(made[1].run.curves["q_error"])), "twin", "block"))
    question = Question(summary, epsilon=0.3 if summary == "time" else None, diverged=diverged)
    wanted = pairing.pairs(made)
    together = comparison.decide(comparison.ask_all(wanted, question))
    alone = comparison.decide([comparison.ask(a, b, question) for a, b in wanted])
    told = [[plain(comparison.row(one), finite=True) for one in verdicts] for verdicts in (together, alone)]
    assert told[0] == told[1]
    assert {one["n_used"] for one in told[0]} >= {4, 6}


def test_more_than_200_runs_of_a_block_are_asked_against_what(settings):
    made = entries_of(settings, 201, 2)
    question = Question()
    with pytest.raises(SettingError, match=r"201 runs of \[block\] make 20,100 pairs: against=LABEL.*against=best"):
        pairing.asked(made, question)
    assert len(pairing.asked(made, question, "all")[0]) == 20_100
    wanted, told = pairing.asked(made, question, "rule 7")
    assert len(wanted) == 200 and "the other 19,900 are in no family" in told
    assert pairing.asked(made, question, made[7].run.digest[:8])[0] == wanted
    assert pairing.asked(made[:200], question)[1] == ""
    named = [*made[:3], Entry(made[3].run, "Best", "block")]
    assert {b.label for _, b in pairing.asked(named, question, "best")[0]} == {"Best"}


def test_the_best_is_picked_on_seeds_that_no_test_sees(settings):
    curves = np.full((3, 8, 5), 1.0) + np.random.default_rng(0).normal(0, 0.01, (3, 8, 5))
    curves[1, :4] -= 0.5  # the best of the first half, the worst of the second
    curves[1, 4:] += 0.5
    curves[2, 4:] -= 0.9
    made = [Entry(run_of(settings, i, curve), f"rule {i}", "block") for i, curve in enumerate(curves)]
    wanted, told = pairing.asked(made, Question(), "best")
    verdicts = [comparison.row(one) for one in pairing.answers(wanted, Question())]
    assert [(one["a"], one["b"]) for one in verdicts] == [("rule 0", "rule 1"), ("rule 2", "rule 1")]
    assert [one["n_used"] for one in verdicts] == [4, 4]
    assert [one["effect"] for one in verdicts] == pytest.approx((curves[[0, 2], 4:, -1] - curves[1, 4:, -1]).mean(1))
    assert all("picked as the best of 3 runs on the first 4 seeds" in one["notes"][0] for one in verdicts)
    assert {one["correction"] for one in verdicts} == {"Holm over 2 comparisons"}
    assert "the other 1 are in no family" in told
    with pytest.raises(SettingError, match="needs 2 seeds of each run"):
        pairing.asked(entries_of(settings, 3, 1), Question(), "best")


def test_the_command_asks_with_exit_code_2_and_answers_against_the_best(compare, monkeypatch):
    monkeypatch.setattr(pairing, "MANY", 2)
    done = compare("experiment.name=small")
    assert (done.code, done.rows, done.out) == (2, None, "") and "against=best" in done.err
    done = compare("experiment.name=small", "against=best")
    assert done.code == 0, done.err
    assert len(done.rows) == 4 and {row["n_used"] for row in done.rows} == {6}
    assert "picked as the best of 3 runs on the first 6 seeds" in done.out.splitlines()[0]
    assert compare("experiment.name=small", "against=best", "allow_mixed=true").code == 2
    monkeypatch.setattr(pairing, "MANY", 3)  # as many as a block of it has
    assert compare("experiment.name=small").code == 0
    assert "6 runs make 15 pairs" in compare("experiment.name=small", "allow_mixed=true").err
