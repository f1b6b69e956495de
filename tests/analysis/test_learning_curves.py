"""The figure of the linear rules: nothing hidden, lines that are exact, the same bytes each time."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from twins import success_within

import mqlearn as mq
from mqlearn.analysis.figures import exact_lines, learning_curves, make, reference, style
from mqlearn.analysis.figures.error_curves import Curve
from mqlearn.analysis.figures.learning_curves import ROWS, Column
from mqlearn.analysis.statistics.intervals import mean_interval
from mqlearn.cli.figure import figure
from mqlearn.errors import SettingError
from mqlearn.experiments.plan import plan
from mqlearn.experiments.run_missing import finished
from mqlearn.learners.operators import BELLMAN
from mqlearn.learning.metrics import Measure
from mqlearn.problems.features import aggregation, one_hot
from mqlearn.problems.fixed_points import theta_star
from mqlearn.problems.solvers import optimal
from mqlearn.sampling.modes import stationary

RULES = {
    "Q-learning": "q_learning",
    "Q-learning, twice the step": "q_learning, other steps",
    "Q-learning, matched step": "q_learning, other steps",
    "MomentumQ": "momentum_q",
}
LINES = {
    "return_uniform": {"$Q^{*}$": 150.0, r"$\theta^{*}$": 149.0, "random actions": 3.2},
    "policy_value": {"optimal": 0.9},
}
ITERATION = np.arange(41) * 300_000
QUARTERS = [10, 20, 40]


def curves(metric: str, *, n_seeds: int = 20, diverged: dict[str, dict[int, int]] | None = None) -> list[Curve]:
    rivals = []
    for i, (label, family) in enumerate(RULES.items()):
        speed = min(i, 2)  # the last two coincide, as a matched schedule and momentum do
        noise = np.random.default_rng(speed).normal(size=(n_seeds, 41))
        values = 1 - np.exp(-ITERATION / 5e6 * (1 + speed)) + 0.01 * noise
        lost = (diverged or {}).get(label, {})
        for seed, step in lost.items():
            values[seed, step <= ITERATION] = np.nan
        if metric == "policy_value":
            values[:, np.setdiff1d(range(41), QUARTERS)] = np.nan
        rivals.append(Curve(label, ITERATION, 150 * values if metric == "return_uniform" else values, lost, family))
    return rivals


def setting(title: str = "constant step, replay", rows=tuple(ROWS), **more) -> Column:
    return Column(title, {metric: curves(metric, **more) for metric in rows}, LINES)


FOUR = [f"{step} step, {mode}" for step in ("constant", "diminishing") for mode in ("replay", "Markovian")]


def texts(figure) -> str:
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible()).replace("\n", " ")


def lines(axes) -> list[tuple[Any, np.ndarray, np.ndarray]]:
    """Marker, x and y of the lines of `axes`."""
    return [(line.get_marker(), np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in axes.lines]


def cell(mdp, *, sampling=None, features=None, evaluation=None) -> Any:
    """As much of a cell as the exact lines read."""
    arguments = {"sampling": sampling or mq.Replay(start="uniform"), "features": features}
    more = {"evaluation": evaluation or mq.Evaluation(), "operator": mq.Bellman()}
    return SimpleNamespace(
        mdp=mdp, run_arguments=arguments | more, setup=SimpleNamespace(theta0=0.05), operator=BELLMAN
    )


def test_rivals_that_coincide_both_stay_visible():
    figure = learning_curves.draw([setting()])
    looks = style.looks(RULES)
    momentum, matched = looks["MomentumQ"], looks["Q-learning, matched step"]
    assert momentum.dashes is None and matched.dashes and momentum.filled and not matched.filled
    for axes in figure.axes[:2]:
        drawn = {line.get_color(): line for line in axes.lines if np.size(line.get_xdata()) == 41}
        assert drawn[matched.color].get_zorder() > drawn[momentum.color].get_zorder()
        filled = [line for line in axes.lines if line.get_markerfacecolor() == momentum.color]
        opened = [line for line in axes.lines if line.get_markeredgecolor() == matched.color]
        at_filled, at_open = (set(np.asarray(line.get_xdata())) for line in (filled[-1], opened[-1]))
        assert len(at_filled) == len(at_open) == 5 and not at_filled & at_open


def test_the_first_step_size_of_a_rival_is_told_apart_from_its_others_and_momentum_looks_as_in_other_figures():
    before: list[Curve] = []
    for label, algorithm in zip(RULES, ["q_learning"] * 3 + ["momentum_q"], strict=True):
        family = learning_curves._family(algorithm, before)
        assert family == RULES[label]
        before.append(Curve(label, ITERATION, np.ones((1, 41)), family=family))
    assert style.looks(RULES)["MomentumQ"] == style.looks({"MomentumQ": "momentum_q"})["MomentumQ"]


def test_exact_values_are_points_side_by_side_at_the_quarters_with_their_intervals():
    one = setting()
    figure = learning_curves.draw([one])
    axes = figure.axes[2]
    drawn = [(x, y) for mark, x, y in lines(axes) if mark != "None" and len(x) == 41]
    assert len(drawn) == len(RULES) == len(axes.collections)
    places = np.array([x[QUARTERS] for x, _ in drawn])
    assert np.all(np.diff(places, axis=0) > 0) and np.all(np.abs(places - ITERATION[QUARTERS] / 1e6) < 0.7)
    for (_, y), curve, bars in zip(drawn, one.curves["policy_value"], axes.collections, strict=True):
        interval = mean_interval(curve.values)
        np.testing.assert_array_equal(y, interval.mean)
        assert isinstance(bars, LineCollection)
        ends = np.array([np.asarray(segment)[:, 1] for segment in bars.get_segments()])
        np.testing.assert_array_equal(ends.T, [interval.low[QUARTERS], interval.high[QUARTERS]])
    assert "side by side" in texts(figure)


def test_exact_values_at_every_checkpoint_are_curves():
    everywhere = Column("small map", {"policy_value": curves("theta_error")})
    figure = learning_curves.draw([everywhere])
    assert sum(mark == "None" and len(x) == 41 for mark, x, _ in lines(figure.axes[0])) == len(RULES)
    assert "side by side" not in texts(figure)


def test_axes_are_linear_shared_in_a_row_and_in_millions_of_updates():
    figure = learning_curves.draw([setting(title) for title in FOUR])
    assert len(figure.axes) == 12
    for row in range(3):
        assert len({axes.get_ylim() for axes in figure.axes[4 * row : 4 * row + 4]}) == 1
    for axes in figure.axes:
        assert axes.get_xscale() == axes.get_yscale() == "linear"
        assert axes.get_ylim()[0] <= 0 and list(axes.get_xticks()) == [0, 3, 6, 9, 12]
    assert "updates $k$ (millions)" in texts(figure)
    assert {axes.get_title(loc="left")[4:] for axes in figure.axes[:4]} == set(FOUR)


def test_reference_lines_are_drawn_at_their_heights_and_close_ones_are_named_together_once():
    figure = learning_curves.draw([setting(title) for title in FOUR])
    for axes in figure.axes[:4]:
        heights = [y[0] for _, x, y in lines(axes) if list(x) == [0, 1]]
        assert sorted(heights) == sorted(LINES["return_uniform"].values())
    names = [{text.get_text() for text in axes.texts} - {""} for axes in figure.axes[:4]]
    assert names == [{r"$Q^{*}$, $\theta^{*}$", "random actions"}, set(), set(), set()]
    other = replace(setting(), title="other", lines={"return_uniform": {"$Q^{*}$": 80.0}})
    figure = learning_curves.draw([setting(), other])
    assert [text.get_text() for text in figure.axes[1].texts] == ["$Q^{*}$"]


def test_diverged_seeds_are_marked_counted_and_leave_the_mean_of_the_others():
    label, lost = "MomentumQ", {3: 5_000_001, 9: 8_000_000}
    broken, whole = setting(diverged={label: lost}), setting("constant step, Markovian")
    for row in broken.curves.values():
        row[-1].values[9, (ITERATION < 8e6) & np.isfinite(row[-1].values[9])] = 1e90
    figure = learning_curves.draw([broken, whole])
    words = texts(figure)
    assert "MomentumQ †" in words and "Q-learning †" not in words
    assert "18 of 20 seeds finite on constant step, replay (first lost at k = 5000001)" in words
    for row, top in ((0, 200), (2, 1.5), (4, 1.5)):
        axes = figure.axes[row]
        assert axes.get_ylim()[1] < top  # the blow-up of one seed does not squash the others
        crosses = [x for mark, x, _ in lines(axes) if mark == "x" and len(x)]
        assert len(crosses) == 1 and len(crosses[0]) == 2
    keep = [i for i in range(20) if i not in lost]
    for metric, axes in zip(ROWS, figure.axes[::2], strict=True):
        values = broken.curves[metric][-1].values
        ends = [y[-1] for _, x, y in lines(axes) if len(x) == 41]
        assert np.isclose(ends, values[keep, -1].mean(), rtol=1e-12).any()
    numbers = learning_curves.data([broken])
    counts = numbers["constant step, replay | return_uniform | MomentumQ | n_finite"]
    assert counts[0] == 20 and counts[-1] == 18
    figure.canvas.draw()


def test_a_rule_whose_seeds_are_all_lost_is_named_and_the_others_are_drawn(tmp_path):
    gone = setting(diverged={"Q-learning": dict.fromkeys(range(20), 900_000)})
    figure = learning_curves.draw([gone])
    assert "0 of 20 seeds finite" in texts(figure)
    style.save(figure, tmp_path / "gone", {})


def test_rows_that_no_run_has_are_left_out_with_a_note():
    figure = learning_curves.draw([setting(rows=("return_uniform",)), setting("other", rows=("return_uniform",))])
    assert len(figure.axes) == 2
    assert "Not measured: theta_error, policy_value." in texts(figure)
    partly = [setting(), setting("other", rows=("return_uniform",))]
    assert len(learning_curves.draw(partly).axes) == 6
    with pytest.raises(SettingError, match="at least one curve of return_uniform"):
        learning_curves.draw([Column("empty", {})])


@pytest.mark.parametrize("value", [0.0, 1.0, -13.0, 1e300, np.nan])
def test_constant_curves_one_seed_and_no_iterations_are_figures_too(value):
    for iteration in ([0], [0, 1], [0, 250, 500, 1000]):
        rows = {metric: [Curve("rule", np.array(iteration), np.full((1, len(iteration)), value))] for metric in ROWS}
        figure = learning_curves.draw([Column("map", rows)])
        figure.canvas.draw()
        assert "one seed; no band" in texts(figure)


@pytest.mark.parametrize("n", [1, 4, 5])
def test_no_text_sticks_out_of_the_page_and_no_panels_overlap(n):
    note = "What a reader must know of the cell, piece by piece, in as many words as a long caption has. " * 4
    figure = learning_curves.draw([setting(f"diminishing step, Markovian {i}") for i in range(n)], notes=[note])
    figure.canvas.draw()
    page, boxes = figure.bbox, []
    for axes in figure.axes:
        if axes.get_visible():
            box = axes.get_tightbbox()
            assert box is not None
            assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1
            boxes.append(box.shrunk(0.98, 0.98))
    assert len(boxes) == 3 * n
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])
    for artist in [*figure.legends, *figure.texts]:
        box = artist.get_window_extent()
        assert page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0
        assert all(box.y1 < lowest.y0 for lowest in boxes)


def test_the_data_hold_all_metrics_and_lines_and_do_not_depend_on_the_order_of_dicts():
    one = setting()
    numbers = learning_curves.data([one])
    for metric in ROWS:
        for curve in one.curves[metric]:
            interval = mean_interval(curve.values)
            key = f"constant step, replay | {metric} | {curve.label} | "
            np.testing.assert_array_equal(numbers[key + "band"], interval[:3])
            np.testing.assert_array_equal(numbers[key + "n_finite"], interval.n_finite)
    assert numbers["constant step, replay | policy_value | line | optimal"] == [0.9]
    assert len(numbers) == 3 * 3 * len(RULES) + 4
    turned = Column(one.title, dict(reversed([*one.curves.items()])), dict(reversed([*one.lines.items()])))
    assert reference.digest(learning_curves.data([turned])) == reference.digest(numbers)
    moved = Column(one.title, one.curves, LINES | {"policy_value": {"optimal": 0.91}})
    assert reference.digest(learning_curves.data([moved])) != reference.digest(numbers)


# --- the lines are exact ------------------------------------------------------------------------------------------


def test_the_returns_of_the_lines_are_episodes_times_the_probability_of_success():
    mdp = mq.frozen_lake_blocks(2, discount=0.95)
    features, evaluation = aggregation(mdp, tile=2), mq.Evaluation(episodes=150, time_limit=60)
    drawn, notes = exact_lines.lines(cell(mdp, features=features, evaluation=evaluation))
    mu = stationary(mq.Replay(start="uniform"), mdp)
    assert mu is not None
    tables = [optimal(mdp).q, features.table(mdp, theta_star(mdp, features, mu).theta), np.zeros_like(optimal(mdp).q)]
    measure = Measure(mdp, optimal(mdp), evaluation=evaluation)
    exact = 150 * measure.success(np.stack(tables))["success_uniform"]
    np.testing.assert_allclose(list(drawn["return_uniform"].values()), exact, rtol=1e-9)
    assert list(drawn["return_uniform"]) == ["$Q^{*}$", r"$\theta^{*}$", "random actions"]
    assert drawn["policy_value"] == {"optimal": optimal(mdp).start_value}
    assert r"of $Q^{*}$ and $\theta^{*}$ and" in notes[0]
    lanes = np.arange(40, dtype=np.uint32)
    for table, height in zip(tables, exact, strict=True):  # and what greedy episodes return, to five standard errors
        simulated = measure.returns(np.repeat(table[None], 40, axis=0), lanes)["return_uniform"]
        assert abs(simulated.mean() - height) < 5 * np.sqrt(150 * 0.25 / 40)


def test_other_rewards_than_those_of_a_goal_count_too():
    mdp = mq.frozen_lake("4x4", discount=0.9, rewards=(5, -1, -0.25))
    random = mdp.learned / np.maximum(mdp.learned.sum(axis=1, keepdims=True), 1)
    p = np.zeros((16, 16), dtype=np.float64)
    np.add.at(p, (np.arange(16)[:, None, None], mdp.successors), random[:, :, None] * mdp.probabilities)
    r = (random * mdp.mean_rewards).sum(axis=1)
    p[mdp.terminal] = 0
    total = np.sum([np.linalg.matrix_power(p, t) @ r for t in range(7)], axis=0)
    drawn, _ = exact_lines.lines(cell(mdp, evaluation=mq.Evaluation(episodes=10, time_limit=7)))
    assert drawn["return_uniform"]["random actions"] == pytest.approx(10 * total[~mdp.terminal].mean(), rel=1e-12)


def test_without_a_stationary_chain_there_is_no_line_of_theta_star_and_one_hot_makes_it_that_of_q_star():
    mdp = mq.frozen_lake("4x4", discount=0.95)
    adaptive = mq.Markovian(behaviour="epsilon_greedy", start="uniform")
    for sampling, features in ((adaptive, one_hot(mdp)), (mq.Synchronous(), None), (mq.Replay(), None)):
        drawn, notes = exact_lines.lines(cell(mdp, sampling=sampling, features=features))
        assert list(drawn["return_uniform"]) == ["$Q^{*}$", "random actions"]
        assert not any("Assumption" in note for note in notes)
    drawn, _ = exact_lines.lines(cell(mdp, features=one_hot(mdp)))
    assert drawn["return_uniform"][r"$\theta^{*}$"] == pytest.approx(drawn["return_uniform"]["$Q^{*}$"], rel=1e-12)


def test_features_without_a_fixed_point_have_no_line_but_a_note(monkeypatch):
    mdp = mq.frozen_lake("4x4", discount=0.95)
    monkeypatch.setattr(exact_lines, "fixed_point", lambda *_: (None, None))
    drawn, notes = exact_lines.lines(cell(mdp, features=one_hot(mdp)))
    assert list(drawn["return_uniform"]) == ["$Q^{*}$", "random actions"]
    assert any(r"No $\theta^{*}$ was found" in note for note in notes)


def test_equal_actions_are_chosen_uniformly_even_when_rounding_tells_them_apart():
    mdp = mq.frozen_lake("4x4", discount=0.9)
    q = np.ones((16, 4)) * np.linspace(-1, 1, 16)[:, None]
    noisy = q * (1 + 1e-13 * np.random.default_rng(0).normal(size=q.shape))
    np.testing.assert_array_equal(exact_lines._greedy(mdp, noisy), exact_lines._greedy(mdp, q))
    np.testing.assert_array_equal(exact_lines._greedy(mdp, q)[~mdp.terminal], 0.25)
    steps = success_within(mdp, exact_lines._greedy(mdp, np.eye(4)[None, 2] + 0 * q), 5)
    np.testing.assert_array_equal(steps, success_within(mdp, np.full(16, 2), 5))


@pytest.mark.parametrize("builder", [one_hot, lambda mdp: aggregation(mdp, tile=2)])
def test_assumption_2_fails_at_the_discounts_of_the_figure_but_no_witness_is_claimed_at_small_ones(builder):
    found = {}
    for discount in (0.3, 0.6, 0.7, 0.95, 0.99):
        mdp = mq.frozen_lake_blocks(2, discount=discount)
        _, notes = exact_lines.lines(cell(mdp, features=builder(mdp)))
        found[discount] = any("Assumption 2 of the theorems does not hold" in note for note in notes)
    assert found == {0.3: False, 0.6: False, 0.7: True, 0.95: True, 0.99: True}


# --- from runs to the figure and its record -----------------------------------------------------------------------


def test_the_summary_has_means_of_the_finite_seeds_at_the_quarters_and_the_area():
    rows: dict[str, Any] = {metric: np.array(curves(metric)[0].values) for metric in ROWS}
    rows["return_uniform"][4, 15:] = np.nan
    run: Any = SimpleNamespace(curves={"iteration": ITERATION} | rows)
    record = json.loads(json.dumps(learning_curves.summary(run), allow_nan=False))
    assert record["n_finite"]["return_uniform"] == {"T/4": 20, "T/2": 19, "T": 19}
    for metric, values in rows.items():
        assert record["mean"][metric] == pytest.approx(
            dict(zip(("T/4", "T/2", "T"), np.nanmean(values[:, QUARTERS], axis=0), strict=True)), rel=1e-12
        )
    finite = np.delete(rows["return_uniform"], 4, axis=0)
    area = np.sum((finite[:, 1:] + finite[:, :-1]) / 2 * 300_000, axis=1).mean()
    assert record["area_under_return_uniform"] == pytest.approx(area, rel=1e-12)
    lost: Any = SimpleNamespace(curves={"iteration": ITERATION, "q_error": np.full((2, 41), np.nan)})
    assert learning_curves.summary(lost)["mean"]["q_error"] == {"T/4": None, "T/2": None, "T": None}


def test_figure_2_in_small_is_drawn_from_runs_and_again_from_the_finished_ones_with_the_same_bytes(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path))
    small = ["iterations=3000", "n_seeds=3", "n_checkpoints=5", "env.repeat=1", "tracking=none"]
    contents = []
    for _ in range(2):
        assert figure(["figure2_smoke", *small]) == 0
        files = sorted((tmp_path / "figures").iterdir())
        contents.append({file.name: file.read_bytes() for file in files})
        monkeypatch.setattr("mqlearn.experiments.execute.perform_together", None)  # the second time nothing may run
    capsys.readouterr()
    assert contents[0] == contents[1] and len(contents[0]) == 4
    record = json.loads(next(content for name, content in contents[0].items() if name.endswith(".json")))
    assert len(record["runs"]) == 16
    for row in record["runs"]:
        assert row["mean"].keys() >= {*ROWS, "return_start", "q_error"}
        assert row["mean"]["return_uniform"].keys() == {"T/4", "T/2", "T"}
        assert row["area_under_return_uniform"] >= 0
    svg = next(content for name, content in contents[0].items() if name.endswith(".svg"))
    assert style.read_provenance(next((tmp_path / "figures").glob("*.svg")))["data_digest"] == record["data_digest"]
    assert b"Date" not in svg


def test_curves_of_the_smoke_figure_have_the_numbers_of_its_reference_data(tmp_path, monkeypatch):
    """One curve of each kind of sampling, each with another step size: all sixteen take half a minute."""
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path))
    planned = plan("figure2_smoke", ["tracking=none"])
    chosen = {("constant step, replay", "MomentumQ"), ("diminishing step, Markovian", "Q-learning")}
    some = tuple(one for one in planned.cells if (one.panel, one.label) in chosen)
    done = finished(replace(planned, cells=some))
    _, data = learning_curves.from_runs(some, [done[one.cell.digest] for one in some], planned.spec, "ci95")
    with np.load(make.REFERENCE / "figure2_smoke.npz") as stored:
        reference.write_reference(tmp_path / "some.npz", {name: stored[name] for name in data})
    compared = reference.against_reference(data, tmp_path / "some.npz")
    assert compared.verdict in ("same", "compatible"), compared.difference
    assert len(data) > len(chosen) * len(ROWS)


DRAW = """
import sys
from pathlib import Path
from tests_learning_curves import FOUR, setting
from mqlearn.analysis.figures import learning_curves, style
style.save(learning_curves.draw([setting(title) for title in FOUR[:2]], notes=["A note."]), Path(sys.argv[1]), {})
assert "matplotlib.pyplot" not in sys.modules
"""


def test_bytes_do_not_depend_on_the_process(tmp_path):
    (tmp_path / "tests_learning_curves.py").symlink_to(__file__)
    processes = []
    for seed in ("1", "2"):
        path = os.pathsep.join([str(tmp_path), str(Path(__file__).parents[1])])
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": path, "MPLBACKEND": "tkagg"}
        code = [sys.executable, "-W", "error", "-c", DRAW, str(tmp_path / seed / "figure")]
        processes.append(subprocess.Popen(code, env=environment))
    assert [process.wait() for process in processes] == [0, 0]
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / seed).iterdir()} for seed in ("1", "2"))
    assert first == second and len(first) == 3
