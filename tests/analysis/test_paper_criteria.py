"""The tests that claims of papers are decided by, on curves made for them, and the gain that a paper speaks of."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

import mqlearn as mq
from mqlearn.analysis.claims import claim, pairs, reported, single_runs
from mqlearn.analysis.claims.checks import FAILS, HOLDS, OPEN, Seen
from mqlearn.errors import SettingError
from mqlearn.sampling.modes import stationary
from mqlearn.storage.runs import Run
from mqlearn.theory.asymptotic import critical_gain

ROOT = Path(__file__).resolve().parents[2]


# --- what needs no run --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("discount", [0.8, 0.99])
def test_the_critical_gain_is_half_over_the_slowest_mode(discount):
    """Synchronous: P* is a stochastic matrix, whose eigenvalue 1 is the slowest mode, so 1/(2(1 - g)). One sample an
    iteration: by the matrix written out from the equations of the graph, each pair with 1/18 of the samples."""
    mdp = mq.six_state(discount=discount)
    assert critical_gain(mdp) == pytest.approx(1 / (2 * (1 - discount)), rel=1e-9)
    visits = stationary(mq.Markovian(), mdp)
    assert visits is not None
    np.testing.assert_allclose(visits[mdp.counted], 1 / 18, rtol=1e-12)
    q = np.zeros((6, mdp.n_actions))
    p, y = mdp.probabilities, mdp.successors
    for _ in range(20_000):
        v = np.where(mdp.counted, q, -np.inf).max(1)
        new = np.where(mdp.counted, (p * (mdp.rewards + discount * v[y])).sum(-1), 0.0)
        if np.abs(new - q).max() < 1e-12:
            break
        q = new
    best = np.where(mdp.counted, q, -np.inf).argmax(1)
    pairs = [(x, u) for x in range(6) for u in range(mdp.n_actions) if mdp.counted[x, u]]
    matrix = np.eye(18)
    for row, (x, u) in enumerate(pairs):
        for b in range(p.shape[-1]):
            successor = int(y[x, u, b])
            matrix[row, pairs.index((successor, int(best[successor])))] -= discount * p[x, u, b]
    slowest = np.linalg.eigvals(matrix / 18).real.min()
    assert critical_gain(mdp, visits) == pytest.approx(1 / (2 * slowest), rel=1e-9)


# --- the tests that papers need -----------------------------------------------------------------------------------


def looked(values: dict[str, np.ndarray], **settings: Any) -> Any:
    """A look at curves (n, C) of q_error by level of the condition `problem`."""

    def look(place: Any, label: str) -> Seen:
        curve = values[place["problem"]]
        run = Run(Path(), {"diverged": {}, "digest": f"{label}{place['problem']}"})
        curves = {"iteration": np.arange(curve.shape[1]), "q_error": curve}
        run.__dict__.update(curves=curves, settings={"n_seeds": len(curve), **settings})
        return Seen(run, SimpleNamespace(settings={"iterations": curve.shape[1] - 1}), label)

    return look


@pytest.mark.parametrize(("shift", "outcome"), [(0.0, HOLDS), (0.06, OPEN), (0.2, FAILS)])
def test_a_reported_mean_is_held_against_the_whole_interval(shift, outcome):
    draws = np.random.default_rng(3).normal(2.0 * (1 + shift), 0.4, size=(400, 1))
    spec = {"test": "reported", "of": ["rule"], "equals": {"problem": {"one": 2.0}}, "tolerance": 0.05}
    check = claim.filled(spec)
    (found,) = reported.means(check, [{"problem": "one"}], looked({"one": np.hstack([draws, draws])}))
    assert found.outcome == outcome
    mean, error = draws.mean() / 2, draws.std() / 2 / np.sqrt(400)
    assert found.evidence["measured_over_reported"] == pytest.approx(mean)
    assert found.evidence["low"] == pytest.approx(mean - 1.96 * error, abs=0.3 * error)
    assert found.evidence["high"] == pytest.approx(mean + 1.96 * error, abs=0.3 * error)


@pytest.mark.parametrize(
    ("last", "sides", "outcome"),
    [
        ([0.5, 0.9], {"below": 1}, HOLDS),
        ([0.5, 1.1], {"below": 1}, OPEN),
        ([1.5, 1.1], {"below": 1}, FAILS),
        ([2e3, np.nan], {"above": 1000}, HOLDS),
        ([np.inf, 2.0], {"below": 1}, FAILS),
        ([0.5, 0.9], {"below": 1, "above": 0.4}, HOLDS),
    ],
)
def test_where_runs_end_is_asked_of_every_seed(last, sides, outcome):
    curve = np.column_stack([[4.0, 4.0], 4.0 * np.array(last)])
    spec = claim.filled({"test": "ends", "of": ["rule"], **sides})
    (found,) = single_runs.ends(spec, [{"problem": "one"}], looked({"one": curve}))
    assert found.outcome == outcome


def test_an_exact_value_is_that_of_the_model():
    cell: Any = SimpleNamespace(mdp=mq.two_state(discount=0.9))
    optimum = mq.optimal(cell.mdp).q[cell.mdp.counted]
    for equals, outcome in ((float(optimum.max()) + 0.009, HOLDS), (float(optimum.max()) + 0.011, FAILS)):
        spec = {"test": "exact", "of": ["rule"], "value": "largest_optimal_value", "equals": equals, "tolerance": 0.01}
        look: Any = lambda place, label: Seen(None, cell, label)  # type: ignore[arg-type] # noqa: E731 - needs no run
        (found,) = reported.values(claim.filled(spec), [{}], look)
        assert found.outcome == outcome and found.evidence["digests"] == []
    with pytest.raises(SettingError, match="did you mean 'largest_optimal_value'"):
        reported.values(claim.filled(spec | {"value": "largest_optimal_valu"}), [{}], look)


def test_problems_of_a_set_are_the_units_of_a_test():
    """Two rules that differ by 1 on each of 12 problems, whose sizes differ by far more, and by noise within each."""
    rng = np.random.default_rng(5)
    sizes = 100 * rng.random(12)
    names = [f"p{i}" for i in range(12)]
    curves = {
        rule: {
            name: size + shift + rng.normal(size=(3, 1)) * np.ones(2) for name, size in zip(names, sizes, strict=True)
        }
        for rule, shift in (("a", 0.0), ("b", 3.0))
    }

    def look(place: Any, label: str) -> Seen:
        settings = {"seed": 0, "discount": 0.9, "sampling": {}, "iterations": 1}
        return looked(curves[label], **settings)(place, label)

    spec = claim.filled({"test": "pairs", "a": ["a"], "b": ["b"], "metric": "q_error", "pooled": "problem"})
    (wanted,) = pairs.wanted_pairs(spec, [{"problem": name} for name in names], look)
    for side, rule in ((wanted.a, "a"), (wanted.b, "b")):
        run = side.run
        np.testing.assert_allclose(run.curves["q_error"][:, 1], [curves[rule][name].mean() for name in names])
        assert run.settings["n_seeds"] == 12
    assert "problem" not in wanted.conditions


def test_a_set_of_one_problem_is_refused(mqlearn, work):
    folder = work / "my_conf" / "claim"
    folder.mkdir(parents=True)
    spec = yaml.safe_load((ROOT / "conf" / "claim" / "sor_2019_error.yaml").read_text())
    for of in ([100], "range(100, 101)", "all"):
        spec["runs"]["conditions"] = {"problem": {"each": "env.map_seed", "of": of}}
        (folder / "mine.yaml").write_text(yaml.safe_dump(spec))
        done = mqlearn("claims", "mine", "--config-dir", "my_conf")
        assert done.code == 2 and "one problem is no set" in done.err and "mine.yaml" in done.err


def test_a_mean_with_diverged_seeds_is_open_and_a_negative_one_has_its_ends_in_order():
    spec = {"test": "reported", "of": ["rule"], "equals": -100.0, "tolerance": 0.2}
    draws = np.random.default_rng(3).normal(-115, 40, size=(40, 1))
    look = looked({"one": np.hstack([draws, draws])})
    (found,) = reported.means(claim.filled(spec), [{"problem": "one"}], look)
    assert found.evidence["low"] < found.evidence["measured_over_reported"] < found.evidence["high"]
    assert found.outcome == OPEN  # the interval reaches beyond 1.2
    draws[3:] = np.inf
    (found,) = reported.means(claim.filled(spec), [{"problem": "one"}], looked({"one": np.hstack([draws, draws])}))
    assert found.outcome == OPEN and found.evidence["reason"] == "37 of 40 seeds are not finite"
    with pytest.raises(SettingError, match="must not be 0"):
        reported.means(claim.filled(spec | {"equals": 0}), [{"problem": "one"}], look)


def test_a_seed_that_diverged_on_one_problem_is_no_problem():
    curves = {name: np.full((3, 2), float(i + 1)) for i, name in enumerate(("p", "q", "r"))}

    def look(place: Any, label: str) -> Seen:
        seen = looked(curves, seed=0, iterations=1)(place, label)
        if place["problem"] == "p":
            seen.run.summary["diverged"] = {"2": 1}
        return seen

    spec = claim.filled({"test": "pairs", "a": ["a"], "b": ["b"], "metric": "q_error", "pooled": "problem"})
    (wanted,) = pairs.wanted_pairs(spec, [{"problem": name} for name in curves], look)
    assert wanted.a.run.diverged == {} and wanted.a.run.curves["q_error"][:, 1].tolist() == [1, 2, 3]
    assert pairs.half(wanted.a.run, second=True).__dict__["pooled_digests"] == ["ap", "aq", "ar"]
