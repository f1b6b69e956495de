"""What a figure draws: nothing hidden, nothing cut off, readable without colour."""

import re
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from drawn import FAMILIES, RIVALS, curve
from hypothesis import given, settings
from hypothesis import strategies as st

from mqlearn.analysis.figures import error_curves, heat_map, parts, style
from mqlearn.analysis.figures.error_curves import Curve, Panel
from mqlearn.analysis.statistics.intervals import mean_interval
from mqlearn.errors import SettingError
from mqlearn.experiments.plan import FIGURE_KEYS
from mqlearn.learning import metric_kinds
from mqlearn.paths import PACKAGE


def lines(axes) -> list[tuple[Any, np.ndarray, np.ndarray]]:
    """Marker, x and y of the lines of `axes`."""
    return [(line.get_marker(), np.asarray(line.get_xdata()), np.asarray(line.get_ydata())) for line in axes.lines]


def texts(figure) -> str:
    from matplotlib.text import Text

    return "\n".join(text.get_text() for text in figure.findobj(Text) if text.get_visible())


@pytest.mark.parametrize(
    ("band", "seeds", "words"),
    [
        ("ci95", [20], ["20 seeds", "95 %", "confidence interval"]),
        ("std", [20], ["20 seeds", "standard deviation"]),
        ("ci95", [20, 5], ["5 to 20 seeds"]),
        ("ci95", [1], ["one seed", "no band", "at least two seeds"]),
    ],
)
def test_the_legend_names_the_band(band, seeds, words):
    figure = error_curves.draw([Panel("map", [curve(f"rule {n}", n_seeds=n) for n in seeds])], band=band)
    assert all(word in texts(figure) for word in words)
    assert len(figure.axes[0].collections) == sum(n > 1 for n in seeds)


def test_diverged_seeds_are_marked_counted_and_leave_the_mean_of_the_others():
    whole = curve("MomentumQ", family="momentum_q")
    values = whole.values.copy()
    values[3, 20:] = np.nan
    values[9, 25:] = np.nan
    values[9, 20:25] = 1e300
    steps = {3: int(whole.position[20]), 9: int(whole.position[25])}
    broken = Curve("MomentumQ", whole.position, values, steps, "momentum_q")
    figure = error_curves.draw([Panel("4×4", [broken, curve()]), Panel("8×8", [whole])])
    words = texts(figure)
    assert "MomentumQ †" in words and "Q-learning †" not in words
    assert f"18 of 20 seeds finite on 4×4 (first lost at k = {steps[3]})" in words
    axes = figure.axes[0]
    crosses = [list(x) for mark, x, _ in lines(axes) if mark == "x"]
    assert crosses == [sorted(steps.values())]
    assert axes.get_ylim()[1] < 10  # the blow-up of one seed does not squash the other curves
    drawn = next(y for mark, x, y in lines(axes) if mark == "None" and np.size(x) == np.size(whole.position) - 1)
    keep = [i for i in range(20) if i not in (3, 9)]
    np.testing.assert_allclose(drawn[-10:], values[keep][:, -10:].mean(axis=0), rtol=1e-12)


def test_what_has_no_place_on_a_logarithmic_axis_is_drawn_and_named(tmp_path):
    base = curve()
    zero = Curve("to zero", base.position, np.where(base.position > 100, 0.0, base.values))
    gone = Curve("never finite", base.position, base.values * np.nan)
    lost = Curve(
        "all lost",
        base.position,
        np.where(base.position > 50, np.nan, base.values),
        dict.fromkeys(range(20), 51),
    )
    huge = Curve("huge", base.position, base.values * np.linspace(1, 1e307, 20)[:, None])
    same = Curve("same seeds", base.position, np.repeat(base.values[:1], 3, axis=0))
    figure = error_curves.draw([Panel("map", [base, zero, gone, lost, huge, same])], band="std")
    words = texts(figure)
    assert "zero from there on" in words
    assert "never finite: 0 of 20 seeds finite" in words and "all lost: 0 of 20 seeds finite" in words
    style.save(figure, tmp_path / "edge", {})
    assert "start" in texts(error_curves.draw([Panel("map", [base, zero])]))


def test_a_band_that_leaves_the_axis_is_said_and_one_that_does_not_is_not():
    """Of a skewed error the interval of the mean reaches far below the lowest mean, zero and beyond."""
    steady, skewed = curve(), curve()
    skewed = replace(skewed, values=skewed.values * np.where(np.arange(20) == 0, 30.0, 0.01)[:, None])
    interval = mean_interval(skewed.values)
    assert (interval.low < 0).any() and (interval.mean > 0).all()
    for drawn, leaves in ((steady, False), (skewed, True)):
        words = " ".join(texts(error_curves.draw([Panel("4x4", (drawn,))])).split())
        assert (parts.BEYOND in words) == leaves


@pytest.mark.parametrize("value", [0.0, 1.0, 5e-324, 1e308, np.nan])
def test_a_run_of_no_iterations_and_constant_curves_are_figures_too(value):
    for iteration in ([0], [0, 1], [1], [0, 1, 2, 3]):
        values = np.full((2, len(iteration)), value)
        figure = error_curves.draw([Panel("map", [Curve("rule", np.array(iteration), values)])])
        figure.canvas.draw()
        if not np.isnan(value):
            assert "the seeds agree" in texts(figure)


def test_different_starts_are_ticks_not_one_line():
    figure = error_curves.draw([Panel("map", [curve("a"), curve("b", start=2.0)])])
    ticks = [y[0] for mark, _, y in lines(figure.axes[0]) if mark == "_"]
    assert ticks == [1.0, 2.0]
    assert "start" not in texts(figure)


def test_guides_are_named_dotted_lines_within_the_limits_of_every_panel():
    panels = [Panel("4×4", [curve("a")]), Panel("8×8", [curve("a")])]
    figure = error_curves.draw(panels, metric="largest_at_start", guides={"$V^*$": 77.0})
    for axes in figure.axes[:2]:
        assert [77.0, 77.0] in [list(y) for _, _, y in lines(axes)] and axes.get_ylim()[1] > 77
    assert texts(figure).count("$V^*$") == 2
    assert not [y for _, _, y in lines(error_curves.draw(panels).axes[0]) if list(y) == [77.0, 77.0]]


@pytest.mark.parametrize(
    ("width", "n_panels", "last"),  # each width with each number of panels, and with short and long numbers below them
    [
        ("two_columns", 1, 30), ("two_columns", 2, 100_000), ("two_columns", 3, 30),
        ("one_column", 1, 100_000), ("one_column", 2, 30), ("one_column", 3, 100_000),
    ],
)  # fmt: skip
def test_no_text_sticks_out_of_the_page_and_none_of_the_legend_is_lost(last, n_panels, width):
    curves = [curve(label, family=family, short="m = 100", last=last) for label, family in FAMILIES.items()]
    with style.on_page(width):
        figure = error_curves.draw([Panel(f"map {i}", curves) for i in range(n_panels)])
    assert figure.get_figwidth() == style.WIDTHS[width]
    figure.canvas.draw()
    page = figure.bbox
    lowests = []
    for axes in figure.axes:
        if axes.get_visible():
            box = axes.get_tightbbox()
            assert box is not None
            lowests.append(box.y0)
            assert page.x0 <= box.x0 and box.x1 <= page.x1 + 1 and page.y0 <= box.y0 and box.y1 <= page.y1
    for legend in figure.legends:
        box = legend.get_window_extent()
        assert page.x0 <= box.x0 and box.x1 <= page.x1
        assert all(box.y1 < lowest for lowest in lowests)
    shown = [text.get_text() for text in figure.legends[-1].get_texts() if text.get_text()]
    assert sorted(shown) == sorted(FAMILIES)


@pytest.mark.parametrize("metric", ["q_error", "policy_value", "theta_error", "success_uniform", "own_metric"])
def test_a_metric_brings_its_label_its_scale_and_its_direction(metric):
    figure = error_curves.draw([Panel("map", [curve("a"), curve("b", start=2.0)])], metric=metric)
    kind = metric_kinds.kind_of(metric)
    assert figure.axes[0].get_ylabel() == kind.axis
    assert figure.axes[0].get_yscale() == kind.scale == ("linear" if kind.more_is_better else "log")
    assert ("more is better" in figure.axes[0].get_ylabel()) == kind.more_is_better
    assert kind.label != metric_kinds.kind_of("q_error").label or metric == "q_error"


@pytest.mark.parametrize("metric", ["q_error", "policy_value"])
def test_many_runs_are_rows_of_a_map_of_colours_best_first(metric):
    curves = [curve(f"rule {i}", start=1 + i) for i in range(60)]
    lost = Curve(
        "lost",
        curves[0].position,
        np.where(curves[0].position > 10, np.nan, curves[0].values),
        dict.fromkeys(range(20), 11),
    )
    figure = heat_map.draw([Panel("map", [*curves, lost])], metric=metric)
    names = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    best = "rule 59" if metric == "policy_value" else "rule 0"
    assert names[0] == best and names[-1].startswith("lost (0 of ") and len(names) == 61
    figure.canvas.draw()
    page = figure.bbox
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert box is not None and page.x0 <= box.x0 and box.x1 <= page.x1 and page.y0 <= box.y0 and box.y1 <= page.y1


def test_the_ends_are_named_in_the_order_of_the_errors():
    curves = [curve(f"rule {s}", start=s, short=f"s{s}") for s in (3.0, 1.0, 2.0)]
    figure = error_curves.draw([Panel("map", curves)])
    places = {t.get_text(): t.get_position()[1] for t in figure.axes[0].texts}
    assert places["s1.0"] < places["s2.0"] < places["s3.0"]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30).map(sorted), st.floats(0.001, 0.2))
def test_end_labels_keep_their_order_and_distance_and_move_only_if_they_must(places, step):
    before = np.array(places)
    after = parts._spread(before, step)
    step = min(step, 1 / max(len(before) - 1, 1))
    assert np.all(np.diff(after) >= step - 1e-12)
    assert after.min() >= -1e-12 and after.max() <= 1 + 1e-12
    if np.all(np.diff(before) >= step):
        np.testing.assert_allclose(after, before, atol=1e-9)


@given(st.lists(st.integers(1, 8), min_size=1, max_size=6), st.integers(1, 9))
def test_legend_columns_hold_every_label_once_in_order_and_split_no_small_group(sizes, rows):
    groups = [[f"{i}.{j}" for j in range(size)] for i, size in enumerate(sizes)]
    columns = parts._pack(groups, rows)
    assert [label for column in columns for label in column] == [label for group in groups for label in group]
    assert all(0 < len(column) <= rows for column in columns)
    for group in groups:
        assert len(group) > rows or any(set(group) <= set(column) for column in columns)


def _lab(color: str, deficiency: str = "") -> np.ndarray:
    """CIELAB of a colour as seen with a full deficiency (matrices: Machado et al., 2009)."""
    matrices = {
        "": np.eye(3),
        "protan": [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ],
        "deutan": [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ],
        "tritan": [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ],
    }
    rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(np.array(matrices[deficiency]) @ linear, 0, 1)
    to_xyz = [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
    x, y, z = np.cbrt(np.array(to_xyz) @ linear / [0.95047, 1, 1.08883])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("deficiency", ["", "protan", "deutan", "tritan"])
def test_colours_are_told_apart_by_any_eye(deficiency):
    looks = style.looks(FAMILIES)
    seen = {label: _lab(look.color, deficiency) for label, look in looks.items()}
    for a, b in combinations(RIVALS, 2):
        assert np.linalg.norm(seen[a] - seen[b]) > 20, (a, b)
    ramp = [seen[label] for label in FAMILIES if label not in RIVALS]
    assert np.all(np.diff([lab[0] for lab in ramp]) < -4)  # darker with each m


def test_every_curve_is_told_apart_without_colour():
    looks = style.looks(FAMILIES | {f"more {i}": f"family {i}" for i in range(12)})
    assert len({(look.dashes, look.marker, look.filled) for look in looks.values()}) == len(looks)
    assert all(look.filled == (look.dashes is None) for look in looks.values())
    alone = style.looks({f"rule {i}": f"rule {i}" for i in range(12)}, ramps=()).values()
    assert len({look.color for look in alone}) == 12  # as in the profiles of a leaderboard
    some = style.looks({"of two": "a", "and": "a"} | {one: one for one in "bcdefgh"}, ramps=()).values()
    assert len({look.color for look in some}) == 9
    assert style.looks({"MomentumQ": "momentum_q"})["MomentumQ"].filled  # alone too: one scheme for all figures


@pytest.mark.parametrize(
    ("panels", "message"),
    [
        ([], "at least one curve"),
        ([Panel("map", [curve(r"$\nonsense{$")])], "valid mathematics"),
        ([Panel("$x_{$", [curve()])], "valid mathematics"),
        ([Panel("map", [curve("_hidden")])], "underscore"),
    ],
)
def test_what_cannot_be_drawn_is_one_clear_message(panels, message):
    with pytest.raises(SettingError, match=message):
        error_curves.draw(panels)


def test_one_column_has_its_panels_below_each_other_and_text_of_eight_points():
    panels = [Panel(f"map {i}", [curve("a"), curve("b")]) for i in range(2)]
    with style.on_page("one_column"):
        figure = error_curves.draw(panels)
    first, second = (axes.get_position() for axes in figure.axes)
    assert first.x0 == second.x0 and first.y0 > second.y1
    assert figure.axes[0].xaxis.get_ticklabels()[0].get_fontsize() == 8
    assert style.page().width == error_curves.draw(panels).get_figwidth() == 7.2  # after it as before
    for width in ("wide", "2", "nan", "inf", "-3"):
        with pytest.raises(SettingError, match=r"two_columns or one_column, or inches from 2\.5 to 20"):
            style.width_in_inches(width)


def test_names_that_are_given_twice_hide_nothing():
    with pytest.raises(SettingError, match="given once"):
        Panel("map", [curve("a"), curve("a")])
    with pytest.raises(SettingError, match="given once"):
        error_curves.data([Panel("map", [curve("a")]), Panel("map", [curve("b")])])


def test_wrong_shapes_and_bands_are_one_clear_message():
    with pytest.raises(SettingError, match="n_seeds, checkpoints"):
        Curve("rule", np.arange(3), np.ones((2, 4)))
    with pytest.raises(SettingError, match="did you mean 'std'"):
        error_curves.draw([Panel("map", [curve()])], band="sdt")  # type: ignore[arg-type]  # on purpose


def test_the_parts_serve_linear_axes_reference_lines_and_sparse_checkpoints():
    x = np.linspace(0, 12e6, 41)
    values = np.full((20, 41), np.nan)
    values[:, [10, 20, 40]] = np.random.default_rng(0).normal(size=(20, 3))
    with style.context():
        figure, axes = parts.sheet(3, 2)
        look = style.looks({"vanilla": "q_learning"})["vanilla"]
        for one in axes.flat:
            one.set(xlim=(0, 12e6), ylim=(-3, 3))
            assert not parts.curve(one, look, x, mean_interval(values))
            parts.reference_line(one, 2.0, "policy of $Q^*$")
        line, marks = lines(axes[0, 0])[:2]
        assert list(line[1]) == list(marks[1]) == [3e6, 6e6, 12e6]
        name = parts.band_name("ci95", [20])
        height = parts.legend(figure, {"vanilla": look}, [["vanilla"]], name, ["A note."])
        parts.arrange(figure, axes, footer=height, row_height=1.5)
    boxes = [one.get_window_extent() for one in axes.flat]
    assert not any(a.overlaps(b) for a, b in combinations(boxes, 2))


def test_a_key_that_no_figure_reads_is_refused_and_each_that_is_read_is_known(mqlearn, outputs):
    done = mqlearn("figure", "figure1", "+figure.metrik=q_error", "tracking=none")
    assert done.code == 2 and "figure.metrik='q_error'" in done.err and "did you mean 'metric'?" in done.err
    assert not list(outputs.rglob("*.png"))
    texts = [file.read_text(encoding="utf-8") for file in (PACKAGE / "analysis" / "figures").glob("*.py")]
    read = {key for text in texts for key in re.findall(r'\bspec(?:\.get\(|\[)"(\w+)"', text)}
    assert read <= {*FIGURE_KEYS}, read - {*FIGURE_KEYS}
