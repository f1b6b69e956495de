"""Seeds that diverge: counted in every line, and treated as the question says."""

import math

import numpy as np
import pytest
from compared import answered, of, rewritten

from mqlearn.analysis.comparison import comparison
from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.seed_values import Question


def diverging(made, folder):
    """Two entries of 20 seeds of one block: `lost` starts at 2 in seeds 3, 7 and 8, then is at 1.5, and lost at 50."""
    run = of(made, "small", env="frozen_lake_4x4", algorithm="nesa")
    k = run.curves["iteration"]
    kept = np.linspace(0.5, 0.6, 20)[:, None] * np.where(k == 0, 2.0, 1.0)  # starts at 1 to 1.2
    lost = kept - 0.1
    lost[[3, 7, 8]] = np.where(k == 0, 2.0, np.where(k < 50, 1.5, np.nan))
    a = rewritten(run, folder / "lost", curve=lost, diverged={3: 50, 7: 50, 8: 50}, n_seeds=20)
    b = rewritten(run, folder / "kept", curve=kept, n_seeds=20)
    return Entry(a, "lost", "block"), Entry(b, "kept", "block")


def test_diverged_seeds_are_counted_in_every_line_and_treated_as_asked(made, tmp_path):
    a, b = diverging(made, tmp_path)
    kept = np.linspace(0.5, 0.6, 20)
    finite = np.delete(np.arange(20), [3, 7, 8])
    worst = 2.0  # the initial error of a diverged seed
    wanted = {"worst": worst, "censored": 1.5, "excluded": None}
    for treatment, value in wanted.items():
        (row,) = answered([comparison.ask(a, b, Question(diverged=treatment))])
        stand_in = [] if value is None else [value] * 3
        used = finite if value is None else np.arange(20)
        assert row.value_a == pytest.approx(np.mean([*(kept[finite] - 0.1), *stand_in]))
        assert row.effect == pytest.approx(row.value_a - kept[used].mean())
        assert (row.n_finite, row.n_finite_a, row.n_seeds_a, row.n_finite_b, row.n_used) == (17, 17, 20, 20, len(used))
        assert any("17 of 20 seeds finite" in note for note in row.notes)
        assert row.verdict == ("a_better" if treatment == "excluded" else "no_difference")
    (row,) = answered([comparison.ask(a, b, Question(at=20))])
    assert row.n_finite == 20  # none has diverged by then


def test_a_diverged_seed_never_arrives(made, tmp_path):
    a, b = diverging(made, tmp_path)
    question = Question("time", epsilon=0.55)
    (row,) = answered([comparison.ask(a, b, question)])
    first = a.run.curves["iteration"][1]
    assert row.value_a == first  # 17 of 20 arrive at once
    assert row.n_used == 20 and row.n_finite_a == 17
    logs = np.full(20, math.log(max(first, 1)))
    logs[[3, 7, 8]] = math.log(300)
    rivals = np.where(b.run.curves["q_error"][:, -1] <= 0.55, math.log(max(first, 1)), math.log(300))
    assert row.effect == pytest.approx(math.exp((logs - rivals).mean()))
    excluded = comparison.ask(a, b, Question("time", epsilon=0.55, diverged="excluded"))
    assert excluded.n_used == 17


def test_when_every_seed_has_diverged_there_is_no_verdict(made, tmp_path):
    run = of(made, "three", algorithm="q_learning")
    lost = np.where(run.curves["iteration"] < 50, 1.0, np.nan) * np.ones((3, 1))
    gone = [rewritten(run, tmp_path / name, curve=lost, diverged={0: 50, 1: 50, 2: 50}) for name in ("a", "b")]
    a, b = (Entry(one, one.digest, "") for one in gone)
    (row,) = answered([comparison.ask(a, b, Question())])
    assert row.verdict == "impossible" and row.n_finite == 0 and row.at == 100
    assert math.isnan(row.effect)
    (row,) = answered([comparison.ask(a, b, Question("area"))])
    assert row.verdict == "impossible" and row.n_finite == 0  # though they have an area up to where they end
