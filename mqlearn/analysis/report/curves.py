"""The figures of a report as inline vectors, each with a table of its numbers and all of them as CSV."""

import base64
import csv
import io
import re
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from markupsafe import Markup

from mqlearn.analysis import axis as axes
from mqlearn.analysis.figures import error_curves, heat_map, make, style
from mqlearn.analysis.figures.error_curves import Curve, Panel
from mqlearn.analysis.report.markup import number, plain, render
from mqlearn.analysis.report.subjects import Subject, by_panel
from mqlearn.analysis.statistics.intervals import mean_interval
from mqlearn.experiments.plan import Plan, PlannedCell
from mqlearn.experiments.settings import identity
from mqlearn.experiments.settings.cell import Cell
from mqlearn.experiments.settings.override_commands import operator_name
from mqlearn.storage.runs import AXES, Run

_FIRST = ("q_error", "theta_error", "return_start", "return_uniform")  # the first of these that a run has is drawn
_COLUMNS = 6  # checkpoints in the table of a figure
_CURVES = 14  # of a panel: beyond, they are a map of colours, a row each


def of(
    some: Sequence[Subject], plan: Plan | None = None, axis: str = "iterations"
) -> tuple[Markup, dict[str, np.ndarray]]:
    """The section, and the numbers that its figures show, on an axis. What a plan has is drawn as it says."""
    planned = [] if plan is None else _planned(some, plan)
    done = {one.run.digest for _, one in planned}
    todo: list[tuple[list[str], list[Subject], Any]] = []  # metrics, runs, picture with its numbers
    if planned and plan is not None:
        spec, members = plan.spec | {"axis": axis}, [one for _, one in planned]
        cells = [cell for cell, _ in planned]
        drawing = make.module_of(spec).from_runs(cells, [one.run for one in members], spec, "ci95")
        own = [str(metric) for metric in (plan.spec.get("metric_of") or {}).values()]
        todo.append(([*_rows(str(spec.get("metric", "")), members), *own], members, drawing))
    chosen = _chosen([one for one in some if one.run.digest not in done])
    todo += [(_rows(metric, members), members, _drawn(metric, members, axis)) for metric, members in chosen.items()]
    figures, numbers = [], {}
    for i, (metrics, members, (drawn, data)) in enumerate(todo):
        numbers |= {f"{i} | {metrics[0]} | {name}": array for name, array in data.items()}
        shown = list(dict.fromkeys(metrics))
        drawn_runs = min(len(members), heat_map.MOST)
        figures.append(
            {
                "picture": Markup(_svg(drawn, f"f{i}-")),
                "caption": f"Figure {i + 1}. {', '.join(shown)}: " + "; ".join(by_panel(members)) + ".",
                "left": f"Drawn are {drawn_runs} of {len(members)} runs." if drawn_runs < len(members) else "",
                "numbers": [_numbers(name, members, axis) for name in shown],
            }
        )
    return render("figures.html", figures=figures), numbers


def _planned(some: Sequence[Subject], plan: Plan) -> list[tuple[PlannedCell, Subject]]:
    """The curves of a plan that are among the runs, each with its run, named as the plan names it."""
    by_digest = {identity.digest_of(one.run): one for one in some}
    return [
        (cell, replace(by_digest[cell.digest], panel=plain(cell.panel), label=plain(cell.label)))
        for cell in plan.cells
        if cell.digest in by_digest
    ]


def finals(some: Sequence[Subject]) -> Markup:
    """Each metric at the last checkpoint: mean and interval over the finite seeds."""
    blocks = []
    for panel, members in by_panel(some).items():
        names = list(dict.fromkeys(name for one in members for name in one.run.curves if name not in AXES))
        rows = [[one.label, _seeds(one.run), *[_final(one.run, name) for name in names]] for one in members]
        ks = sorted({int(one.run.curves["iteration"][-1]) for one in members})
        samples = sorted({int(found[-1]) for one in members if (found := axes.samples(one.run)) is not None})
        caption = f"{panel}: mean and 95 % interval of the mean over the finite seeds, at k = {_listed(ks)}"
        caption += f" ({_listed(samples)} samples)" if samples else ""
        blocks.append({"head": ("run", "seeds finite", *names), "rows": rows, "caption": caption})
    return render("results.html", blocks=blocks)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(number, numbers))


def _seeds(run: Run) -> str:
    n = run.settings["n_seeds"]
    return f"{n - len(run.diverged)} of {n}"


def _final(run: Run, name: str) -> str:
    if name not in run.curves:
        return "–"
    return _interval(mean_interval(run.curves[name][:, -1:]), 0, run.settings["n_seeds"])


_INTERVAL = Markup("{}<small>[{}, {}]</small>")


def _interval(interval: Any, column: int, n_seeds: int) -> Any:
    """Mean and interval, and how many seeds are in them, where these are not all."""
    mean, low, high = (float(row[column]) for row in interval[:3])
    text = number(mean)
    if 0 < interval.n_finite[column] < n_seeds:
        text += f" ({interval.n_finite[column]} of {n_seeds} seeds)"
    return _INTERVAL.format(text, number(low), number(high)) if np.isfinite(low) and low < high else text


def _chosen(some: Sequence[Subject]) -> dict[str, list[Subject]]:
    """Metric -> runs of its figure; "" stands for the learning curves of chains with an exact model."""
    chosen: dict[str, list[Subject]] = {}
    for one in some:
        known = one.run.curves.keys()
        if not identity.draws_all_pairs(one.run.settings) and "return_uniform" in known and one.mdp is not None:
            chosen.setdefault("", []).append(one)
        else:
            metric = next((name for name in [*_FIRST, *known] if name in known and name not in AXES), None)
            if metric:
                chosen.setdefault(metric, []).append(one)
    return chosen


def _rows(metric: str, members: Sequence[Subject]) -> list[str]:
    if metric:
        return [metric]
    from mqlearn.analysis.figures.learning_curves import ROWS

    return [name for name in ROWS if any(name in one.run.curves for one in members)]


def _drawn(metric: str, members: Sequence[Subject], axis: str) -> tuple[Any, dict[str, np.ndarray]]:
    """The picture, drawn by the modules of the paper's figures, and its numbers."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")  # names of users hold any character
        if not metric:
            module = make.module_of({"module": "mqlearn.analysis.figures.learning_curves"})
            planned = [PlannedCell.of(_cell(one), _typeset(one.panel), _typeset(one.label)) for one in members]
            return module.from_runs(planned, [one.run for one in members], {"axis": axis}, "ci95")
        panels = [
            Panel(_typeset(panel), [_curve(one, metric, axis) for one in rivals])
            for panel, rivals in by_panel(members[: heat_map.MOST]).items()
        ]
        operators = {operator_name(one.run.settings) for one in members}
        draw = heat_map.draw if max(len(panel.curves) for panel in panels) > _CURVES else error_curves.draw
        return draw(panels, metric=metric, axis=axis, operators=operators), error_curves.data(panels, axis=axis)


def _cell(one: Subject) -> Cell:
    assert one.problem is not None  # `_chosen` asked for a model
    return one.problem


def _curve(one: Subject, metric: str, axis: str) -> Curve:
    family = str(one.run.settings["algorithm"].get("name"))
    short = one.label if len(one.label) <= 14 else ""
    names = {"label": _typeset(one.label), "family": family, "short": _typeset(short)}
    return error_curves.curve_of(one.run, one.run.curves[metric], axis, **names)


def _typeset(text: str) -> str:
    """A text that Matplotlib shows as it is: no mathematics, no leading underscore."""
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _svg(figure: Any, prefix: str) -> str:
    """The picture as an element, with ids of its own: several stand in one page."""
    buffer = io.BytesIO()
    with style.context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing")
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue().decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)  # not needed within HTML, and no address stays in the page
    text = text.replace("xlink:href", "href")
    text = re.sub(r'\bid="', f'id="{prefix}', text)
    text = re.sub(r'href="#', f'href="#{prefix}', text)
    text = text.replace("url(#", f"url(#{prefix}")
    # The picture's numbers follow it as a table, which is what a screen reader gets.
    return re.sub(r"<svg ", '<svg aria-hidden="true" focusable="false" ', text, count=1)


def _numbers(metric: str, members: Sequence[Subject], axis: str) -> dict[str, Any]:
    """The figure's numbers at a few checkpoints, and a file of all of them.

    In samples, where the checkpoints of rules differ: of each run at its last one up to there.
    """
    blocks = []
    for panel, rivals in by_panel([one for one in members if metric in one.run.curves]).items():
        places = [axes.positions(one.run, axis) for one in rivals]
        every = np.unique(np.concatenate(places))
        ks = _few(every if axis == "iterations" else every[every <= min(own[-1] for own in places)])
        rows = []
        for one, own in zip(rivals, places, strict=True):
            interval = mean_interval(one.run.curves[metric])
            columns = np.searchsorted(own, ks, side="right") - 1
            there = [axis == "samples" or own[column] == k for column, k in zip(columns, ks, strict=True)]
            cells = [_interval(interval, int(column), one.run.settings["n_seeds"]) for column in columns]
            rows.append([one.label, *(cell if ok else "–" for cell, ok in zip(cells, there, strict=True))])
        head = ("run", *[axes.words(axis, number(k)) for k in ks])
        blocks.append({"head": head, "rows": rows, "caption": f"{metric}, {panel}"})
    return {"metric": metric, "blocks": blocks, "file": _csv(metric, members), "name": f"{plain(metric)}.csv"}


def _few(iteration: np.ndarray) -> list[int]:
    """Some checkpoints from first to last: decades where these are, else evenly spread."""
    last = int(iteration[-1])
    near = [int(iteration[np.abs(iteration - 10**e).argmin()]) for e in range(1, 16) if 10**e < last]
    even = [int(iteration[round(i)]) for i in np.linspace(0, len(iteration) - 1, _COLUMNS)]
    steps = np.diff(iteration)
    chosen = even if len(steps) == 0 or steps[0] >= 0.5 * steps[-1] else [int(iteration[0]), *near[-_COLUMNS:], last]
    return sorted(set(chosen))


def _csv(metric: str, members: Sequence[Subject]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["panel", "run", "digest", "k", "samples", "mean", "low", "high", "n_finite"])
    for one in members:
        if metric in one.run.curves:
            ks, samples = one.run.curves["iteration"].tolist(), axes.samples(one.run)
            where = zip(ks, [""] * len(ks) if samples is None else samples.tolist(), strict=True)
            columns = zip(*mean_interval(one.run.curves[metric]), strict=True)
            for place, (mean, low, high, n) in zip(where, columns, strict=True):
                names = (one.panel, one.label, one.run.digest[:16])
                writer.writerow([*names, *place, float(mean), float(low), float(high), int(n)])
    return "data:text/csv;base64," + base64.b64encode(file.getvalue().encode("utf-8", "replace")).decode()
