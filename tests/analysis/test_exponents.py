"""Exponents: power laws whose exponent is known, censored ones, intervals against the delta method, claims, figures."""

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from compared import SMALL

from mqlearn.analysis.claims import criteria, exponents
from mqlearn.analysis.claims.checks import FAILS, HOLDS, OPEN, Seen
from mqlearn.analysis.claims.claim import filled
from mqlearn.analysis.figures import exponents as figures
from mqlearn.analysis.statistics import exponents as statistics
from mqlearn.errors import SettingError
from mqlearn.storage.runs import Run

CONF = Path(__file__).parent / "growth"
DISCOUNTS = ("0.9", "0.95", "0.98", "0.99")
HORIZON = 1 / (1 - np.array(DISCOUNTS, float))
ITERATION = np.insert(np.unique(np.geomspace(1, 1e6, 120).astype(int)), 0, 0)


def run_of(curves: np.ndarray, seed: int = 0, each: int = 3, name: str = "a") -> Run:
    """A run of these curves (n_seeds, C), of so many samples an iteration."""
    run = Run(Path(), {"diverged": {}, "digest": f"{name:0>64}", "name": name})
    axes = {"iteration": ITERATION, "samples": each * ITERATION}
    run.__dict__.update(curves={**axes, "q_error": curves}, settings={"n_seeds": len(curves), "seed": seed})
    return run


def runs_of_law(exponent: float, sizes: Any = 1.0, n: int = 30, **more: Any) -> list[Run]:
    """The error of seed i on a problem of horizon H is s_i H^exponent / sqrt(k), s_i uniform."""
    spread = np.random.default_rng(0).uniform(0.5, 1.5, n)
    k = np.maximum(ITERATION, 0.25)
    return [
        run_of(size * spread[:, None] * h**exponent / np.sqrt(k), **more)
        for h, size in zip(HORIZON, np.broadcast_to(sizes, len(HORIZON)), strict=True)
    ]


def spec_of(**keys: Any) -> dict[str, Any]:
    return filled({"test": "exponent", "of": ["rule"], "over": "discount", "between": [1.4, 1.6], **keys})


def checked(spec: dict[str, Any], runs: list[Run], rivals: list[Run] | None = None) -> Any:
    places = [{"discount": discount} for discount in DISCOUNTS]

    def look(place: Any, label: str) -> Seen:
        return Seen((rivals or [] if label == "rival" else runs)[DISCOUNTS.index(place["discount"])], None, label)

    (check,) = exponents.exponent_checks(spec, places, look)
    return check


# --- slopes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 1.5])
def test_the_exponent_of_an_error_is_that_of_its_law(exponent):
    check = checked(spec_of(at=0.1), runs_of_law(exponent))
    assert check.evidence["measured_exponent"] == pytest.approx(exponent, abs=1e-12)
    # The seeds are common, and so is what they are resampled by: no resample has another slope.
    assert check.evidence["low"] == pytest.approx(exponent, abs=1e-9) == check.evidence["high"]
    assert check.outcome == (HOLDS if exponent == 1.5 else FAILS)


@pytest.mark.parametrize("measure", ["samples", "mean_curve"])
def test_the_exponent_of_the_samples_to_an_error_is_twice_that_of_the_error(measure):
    """s H^a / sqrt(k) = eps at k = (s H^a / eps)^2, with s the median of the seeds, or their mean."""
    check = checked(spec_of(measure=measure, epsilon=0.1, between=[2.9, 3.1]), runs_of_law(1.5))
    assert check.outcome == OPEN and "at discount 0.99" in check.evidence["reason"]  # 10^5 > 10^6 iterations of it
    check = checked(spec_of(measure=measure, epsilon=10, between=[2.9, 3.1]), runs_of_law(1.5))
    assert check.evidence["measured_exponent"] == pytest.approx(3, abs=1e-9) and check.outcome == HOLDS
    spread = np.random.default_rng(0).uniform(0.5, 1.5, 30)
    centre = np.median(spread**2) if measure == "samples" else spread.mean() ** 2
    expected = 3 * centre * HORIZON**3 / 100
    np.testing.assert_allclose(check.evidence["of_levels"], expected, rtol=1e-9)


def test_samples_may_be_counted_from_the_end_of_the_burn_in():
    """s H^a / sqrt(k - n) = eps, n = 500 of 10^6 iterations, at k - n = (s H^a / eps)^2."""
    runs, since = runs_of_law(1.5), np.maximum(ITERATION - 500, 0.25)
    for run in runs:
        run.curves["q_error"] = run.curves["q_error"] * np.sqrt(np.maximum(ITERATION, 0.25) / since)
        run.settings["algorithm"] = {"burn_in": 0.0005}
    check = checked(spec_of(measure="mean_curve", epsilon=3, count="after_burn_in", between=[2.9, 3.1]), runs)
    spread = np.random.default_rng(0).uniform(0.5, 1.5, 30)
    np.testing.assert_allclose(check.evidence["of_levels"], 3 * spread.mean() ** 2 * HORIZON**3 / 9, rtol=1e-9)
    assert check.outcome == HOLDS


def test_an_error_relative_to_its_start_takes_the_factor_out():
    runs = runs_of_law(1.5)
    check = checked(spec_of(measure="mean_curve", epsilon=0.01, relative=True, between=[-0.1, 0.1]), runs)
    assert check.evidence["measured_exponent"] == pytest.approx(0, abs=1e-9)


def test_the_difference_of_two_rules_on_the_same_seeds():
    check = checked(spec_of(minus="rival", between=[0.4, 0.6]), runs_of_law(2.0), runs_of_law(1.5))
    assert check.evidence["measured_exponent"] == pytest.approx(0.5, abs=1e-12)
    assert check.outcome == HOLDS and check.conditions == {"rule": "rule", "rival": "rival"}
    with pytest.raises(SettingError, match="as many seeds"):
        checked(spec_of(minus="rival"), runs_of_law(2.0), runs_of_law(1.5, n=20))


def test_the_line_is_that_of_least_squares():
    sizes = np.array([1.0, 2.0, 0.5, 3.0])
    check = checked(spec_of(), runs_of_law(1.5, sizes))
    expected = np.polyfit(np.log(HORIZON), np.log(sizes * HORIZON**1.5), 1)[0]
    assert check.evidence["measured_exponent"] == pytest.approx(expected, abs=1e-12)


def test_a_power_of_the_level_itself():
    sizes, values = (4, 9, 25), [np.full(10, n**0.75) for n in (4, 9, 25)]
    found = statistics.exponent(np.log(sizes), [*map(statistics.log_mean, values)], [10] * 3, together=True)
    assert found.value == pytest.approx(0.75, abs=1e-12)


@pytest.mark.parametrize("together", [False, True])
def test_the_interval_is_that_of_the_delta_method(together):
    """Of means of n normal values the slope has the variance sum of w^2 s^2/(n m^2), or of the sum where seeds are
    common."""
    rng, n, x = np.random.default_rng(1), 400, np.log(HORIZON)
    common = rng.normal(size=n)
    values = [h * (1 + 0.2 * (common if together else rng.normal(size=n)) * (1 + i)) for i, h in enumerate(HORIZON)]
    found = statistics.exponent(x, [*map(statistics.log_mean, values)], [n] * 4, together=together)
    weights = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
    parts = np.array([w * v / v.mean() for w, v in zip(weights, values, strict=True)])
    variance = parts.sum(0).var(ddof=1) / n if together else (parts.var(axis=1, ddof=1) / n).sum()
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * math.sqrt(variance), rel=0.06)
    assert found.low < found.value < found.high


def test_places_without_an_answer_are_left_out_but_the_last_one_is_needed():
    x = np.array([0.0, 1.0, 2.0, 3.0])
    logs = np.array(
        [[1.0, np.inf, 3.0, 4.0], [1.0, 2.0, 3.0, np.inf], [np.inf, np.inf, 3.0, 4.0], [0.0, 2.0, 4.0, 6.0]]
    )
    assert statistics.slopes(x, logs) == pytest.approx([1.0, np.inf, np.inf, 2.0])
    runs = runs_of_law(1.5)
    runs[1].curves["q_error"][3] = np.nan  # diverged: the mean is no number there
    check = checked(spec_of(), runs)
    assert check.evidence["levels_used"] == 3 and check.evidence["of_levels"][1] is None
    assert check.evidence["measured_exponent"] == pytest.approx(1.5, abs=1e-12)
    runs[3].curves["q_error"][3] = np.nan
    assert checked(spec_of(), runs).outcome == OPEN


def test_arrivals_lie_on_the_line_between_two_checkpoints():
    k = np.array([0, 1, 10, 100])
    curves = np.array([[9.0, 8.0, 4.0, 1.0], [9.0, 0.5, 0.5, 0.5], [9.0, 9.0, 9.0, np.nan], [9.0, 8.0, 2.0, 0.0]])
    found = statistics.arrivals(k, curves, 2.0)
    assert found[0] == pytest.approx(10 * 10 ** (math.log(2) / math.log(4)))
    assert found[1:] == pytest.approx([1.0, np.inf, 10.0])
    assert statistics.arrivals(k, curves[3:], 1.0).tolist() == [100.0]  # to 0 no line leads


def test_fewer_than_three_places_are_refused():
    values = [statistics.log_mean(np.ones(5))] * 3
    with pytest.raises(SettingError, match="at least 3"):
        statistics.exponent(np.array([1.0, 1.0, 2.0]), values, [5] * 3, together=True)


# --- claims -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("between", "low", "high", "expected"),
    [
        ([1, 2], 1.1, 1.9, HOLDS),
        ([1, 2], 0.9, 1.5, OPEN),
        ([1, 2], 2.1, 2.5, FAILS),
        ([1, 2], 0.1, 0.5, FAILS),
        ([None, 1], -9, 1, HOLDS),
        ([None, 1], 0.5, np.inf, OPEN),
        ([1, None], 1.1, np.inf, HOLDS),
        ([1, None], -3, 0.9, FAILS),
    ],
)
def test_what_decides_an_exponent(between, low, high, expected):
    assert criteria.decide(spec_of(between=between), {"low": low, "high": high}) == expected


def test_a_claim_of_exponents_is_answered(mqlearn, outputs, tmp_path):
    file = tmp_path / "answer.json"
    done = mqlearn("claims", "growth", "--config-dir", CONF, "tracking=none", "--json", file)
    assert done.code == 0, done.err
    (row,) = json.loads(file.read_text())
    by = {one["conditions"]["quantity"]: one for one in row["evidence"]}
    assert row["verdict"] == "reproduced", row["summary"]
    assert by["samples to a thousandth of the start"]["outcome"] == "open"
    assert all(one["conditions"]["start"] == "zero" for one in row["evidence"])
    # Of either action in state 1, which share: e = n + a m, m the mean of both, D = Var n = g^2 p (1 - p) V^2, a = g p.
    least = by["of the least variance"]
    horizon = np.array([10.0, 20, 50, 100])
    g = 1 - 1 / horizon
    p, v = (4 * g - 1) / (3 * g), 0.75 * horizon
    a = g * p
    variances = g**2 * p * (1 - p) * v**2 * (1 + a / (1 - a) + a**2 / (2 * (1 - a) ** 2))
    assert least["exact_exponent"] == pytest.approx(np.polyfit(np.log(horizon), np.log(variances), 1)[0], rel=1e-6)
    less = by["of Q-learning less that of certainty equivalence"]
    assert less["conditions"]["rival"] == "certainty equivalence" and 0.1 < less["low"] < less["high"]
    assert "exponent" in done.out and "log 1/(1 - discount)" in " ".join(done.out.split())
    again = mqlearn("claims", "growth", "--config-dir", CONF, "--stored", file)
    assert again.code == 0 and "growth: reproduced" in again.out


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"over": "horizon"}, "must be one of the conditions, discount"),
        ({"between": [2, 1]}, "checks.between"),
        ({"between": [None, None]}, "checks.between"),
        ({"between": [1]}, "checks.between"),
        ({"epsilon": 0.1}, "checks.epsilon"),
        ({"measure": "samples"}, "checks.epsilon"),
        ({"measure": "sample"}, "checks.measure"),
        ({"at": 2}, "checks.at"),
        ({"x": "log"}, "checks.x"),
        ({"minus": "nobody"}, "curve"),
    ],
    ids=str,
)
def test_a_slip_in_a_check_of_exponents_is_refused_before_anything_runs(mqlearn, outputs, tmp_path, keys, said):
    import yaml

    check = {"test": "exponent", "of": ["rule"], "over": "discount", "between": [1, 2], **keys}
    runs = {
        "base": list(SMALL),
        "conditions": {"discount": {text: [f"discount={text}"] for text in DISCOUNTS}},
        "curves": {"rule": ["algorithm=q_learning"]},
    }
    whole = {"statement": "s", "place": "p", "reading": "r", "runs": runs, "checks": [check]}
    (tmp_path / "claim").mkdir()
    (tmp_path / "claim" / "mine.yaml").write_text(yaml.safe_dump(whole))
    done = mqlearn("claims", "mine", "--config-dir", tmp_path, "tracking=none")
    assert done.code == 2 and said in done.err and "Traceback" not in done.err
    assert not outputs.exists()


# --- figures ----------------------------------------------------------------------------------------------------------


def cells_of(runs: list[Run]) -> list[Any]:
    settings = [{"discount": float(text), "algorithm": {"name": "q_learning"}} for text in DISCOUNTS]
    return [
        SimpleNamespace(settings=one, label="rule", panel=text) for one, text in zip(settings, DISCOUNTS, strict=True)
    ]


def test_a_figure_shows_the_points_and_the_slope_of_a_law():
    runs = runs_of_law(1.5)
    figure, data = figures.from_runs(cells_of(runs), runs, {"guides": [1.5]}, "ci95")
    np.testing.assert_allclose(data[" | rule | exponent"], 1.5, rtol=0, atol=1e-9)
    np.testing.assert_allclose(data[" | rule | x"], HORIZON, rtol=1e-12)
    mean = np.array([run.curves["q_error"][:, -1].mean() for run in runs])
    np.testing.assert_allclose(data[" | rule | band"][0], mean, rtol=1e-12)
    texts = " ".join(text.get_text() for text in figure.texts)
    assert "rule 1.50 [1.50, 1.50]" in texts and "Dotted: slopes 1.5" in texts


def test_a_figure_says_what_is_censored():
    runs = runs_of_law(1.5)
    spec = {"measure": "samples", "epsilon": 0.3}
    figure, data = figures.from_runs(cells_of(runs), runs, spec, "ci95")
    assert np.isinf(data[" | rule | exponent"][0]) and np.isinf(data[" | rule | band"][0]).sum() > 0
    assert "censored" in " ".join(text.get_text() for text in figure.texts)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"over": "env.n_states"}, "figure.over"),
        ({"measure": "samples"}, "figure.epsilon"),
        ({"at": 0}, "figure.at"),
        ({"x": "y"}, "figure.x"),
    ],
)
def test_a_figure_with_a_slip_is_refused_before_anything_runs(spec, said):
    with pytest.raises(SettingError, match=said):
        figures.check(cells_of([]), spec)
    with pytest.raises(SettingError, match="at least 3 values"):
        figures.check(cells_of([])[:2], {})


def test_a_figure_of_exponents_is_drawn_from_its_yaml(mqlearn, outputs):
    done = mqlearn("figure", "growth", "--config-dir", CONF, "tracking=none")
    assert done.code == 0, done.err
    record = json.loads((outputs / "figures" / "growth.json").read_text())
    assert len(record["digests"]) == 6 and (outputs / "figures" / "growth.svg").is_file()


def test_a_resample_in_which_the_rival_alone_has_no_slope_counts_as_below_all():
    """A rival that a third of its seeds carries to the last place: where they are not drawn, it has no slope."""
    x = np.log([10.0, 20.0, 40.0])
    own = [statistics.log_mean(np.full(6, scale)) for scale in (1.0, 2.0, 4.0)]

    def lacking(counts: np.ndarray) -> np.ndarray:
        return np.where(counts[:, 0] + counts[:, 1] > 0, 0.5, np.inf)

    rival = [statistics.log_mean(np.ones(6)), statistics.log_mean(np.ones(6)), lacking]
    found = statistics.exponent(x, own, [6, 6, 6], rival, together=True)
    assert np.isfinite(found.value) and found.low == -np.inf and np.isfinite(found.high)
    turned = statistics.exponent(x, rival, [6, 6, 6], own, together=True)
    assert turned.high == np.inf and np.isfinite(turned.low)
    assert np.isneginf(statistics.exponent(x, rival, [6, 6, 6], rival, together=True).low)
