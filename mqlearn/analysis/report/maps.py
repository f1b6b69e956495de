"""Heat maps of Q*, of |Q_k - Q*| over the checkpoints and of visits, and a card for each environment."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mqlearn.analysis.report import grid
from mqlearn.analysis.report.markup import Markup, details, facts, join, number, section, table, tag
from mqlearn.analysis.report.subjects import Subject
from mqlearn.problems import prospects
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal

BUDGET = 4_000_000  # characters that the maps over the checkpoints may take in the page
_CARDS, _VISITS = 12, 24  # environments with Q* drawn, and maps of visits, at most
_FLOOR = 1e-6  # of the largest error: the ramp ends there
_NO_MAP = "This environment has no map, so nothing is drawn."


def environments(some: Sequence[Subject]) -> Markup:
    """A card for each model: map, counts, certified error, what can be reached, Q*."""
    cards = [_card(members, drawn=i < _CARDS) for i, members in enumerate(_by_model(some))]
    return section("environments", "Environments", cards)


def errors(some: Sequence[Subject]) -> Markup:
    """|Q_k - Q*| on the map with a slider over the checkpoints: one figure for runs with common checkpoints."""
    parts, spent = [], 0
    groups: dict[tuple, list[Subject]] = {}
    for members in _by_model(some):
        for one in members:
            if one.mdp is not None and one.mdp.layout is not None and "error_tables" in one.run.tables:
                key = (one.panel, one.mdp.digest(), tuple(one.run.tables["error_iteration"].tolist()))
                groups.setdefault(key, []).append(one)
    for number_, (key, members) in enumerate(groups.items()):
        built, size = _slider(members, f"m{number_}", BUDGET // len(groups))
        parts.append(join([tag("h3", key[0]), built]))
        spent += size
    lacking = [f"{one.panel}: {one.label}" for one in some if not any(one in members for members in groups.values())]
    if lacking:
        reason = "no map, no exact model, or no error tables"
        parts.append(tag("p", f"Not drawn ({reason}): {'; '.join(dict.fromkeys(lacking))}.", class_="quiet"))
    about = "Mean over the seeds of |Q_k − Q*|, on a logarithmic ramp that all maps of a figure share."
    return section("errors", "Where the error is", tag("p", about), parts)


def visits(some: Sequence[Subject]) -> Markup:
    """How often each state was met, where chains were sampled; equal maps are drawn once."""
    drawn: dict[tuple, list[Subject]] = {}
    for one in some:
        if "visits" in one.run.tables:
            drawn.setdefault((one.panel, one.run.tables["visits"].tobytes()), []).append(one)
    maps = [_visited(members) for members in [*drawn.values()][:_VISITS]]
    parts: list[Any] = [tag("div", [one for one in maps if one is not None], class_="maps")]
    if len(drawn) > _VISITS:
        parts.append(tag("p", f"Drawn are {_VISITS} of {len(drawn)} different maps of visits.", class_="quiet"))
    without = [one for one in some if "visits" not in one.run.tables]
    if without:
        synchronous = all(one.run.settings["sampling"]["name"] == "synchronous" for one in without)
        every = "every pair is updated in every iteration" if synchronous else "the record holds none"
        who = "" if len(without) == len(some) else f" of {'; '.join(dict.fromkeys(one.label for one in without))}"
        parts.append(tag("p", f"There are no counts of visits{who}: {every}.", class_="quiet"))
    if any(one is None for one in maps):
        parts.append(tag("p", "Visits of environments without a map are not drawn.", class_="quiet"))
    return section("visits", "Visits", parts)


def _by_model(some: Sequence[Subject]) -> list[list[Subject]]:
    groups: dict[Any, list[Subject]] = {}
    for one in some:
        mdp = one.cell.mdp if one.cell is not None else None
        key = (mdp.name, mdp.digest()) if mdp is not None else json.dumps([one.run.settings["env"], one.why])
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _card(members: Sequence[Subject], *, drawn: bool = True) -> Markup:
    one = members[0]
    if one.mdp is None:
        env = one.run.settings["env"]
        reason = one.why or "It has no exact model: its optimum, and errors against it, are not available."
        return tag("article", tag("h3", env.get("name", env["_target_"])), tag("p", reason), class_="card")
    mdp = one.mdp
    known, warned = prospects.report(mdp)
    hidden = {"environment"}
    rows = [(name.replace("_", " "), _fact(name, value)) for name, value in known.items() if name not in hidden]
    picture = grid.tiles(mdp)
    left = tag("div", picture, class_="maps") if picture else tag("p", _NO_MAP, class_="quiet")
    warnings = [tag("p", f"⚠ {text}", class_="warning") for text in warned]
    head = tag("h3", f"{mdp.name}, discount {mdp.discount:g}")
    small = tag("p", f"Q* is drawn for the first {_CARDS} environments, so that this file stays small.", class_="quiet")
    below = _optimum(mdp) if drawn else small
    return tag("article", head, tag("div", left, facts(rows), class_="beside"), warnings, below, class_="card")


def _fact(name: str, value: Any) -> str:
    if value is None:
        return "no goal"
    return number(value, 3 if name == "certified_error" else 8)


def _optimum(mdp: FiniteMDP) -> Markup | None:
    """V* and Q* on the map, and a table where it is small."""
    if mdp.layout is None:
        return None
    best = optimal(mdp)
    value = np.where(mdp.counted.any(axis=1), best.v, np.nan)
    low, high = float(np.nanmin(value)), float(np.nanmax(value))
    log = low > 0 and high > 30 * low  # else most of the map would have one colour
    place = grid.levels(value, low, high, log=log)
    figures = [_figure(mdp, value, place, "V*, the value of each state under the best actions", arrows=best.q)]
    names = grid.directions(mdp)
    if names and mdp.n_states <= grid.LARGE:
        q = np.where(mdp.counted, best.q, np.nan)
        figures.append(
            _figure(mdp, q, grid.levels(q, low, high, log=log), "Q*, the value of each action: its triangle")
        )
    parts: list[Any] = [tag("div", figures, class_="maps"), _ramp(low, high, log=log, floor=log)]
    if mdp.n_states <= grid.LARGE:
        head = ("state", "V*", *(names or range(mdp.n_actions)))
        rows = [
            [
                str(x),
                number(float(best.v[x]), 6),
                *[number(float(q), 6) if ok else "–" for q, ok in zip(*row, strict=True)],
            ]
            for x, row in enumerate(zip(best.q, mdp.counted, strict=True))
            if mdp.counted[x].any()
        ]
        parts.append(
            details("Numbers: Q*", table(head, rows, caption="V* and Q* of the states that count", class_="numbers"))
        )
    return join(parts)


def _figure(
    mdp: FiniteMDP, values: np.ndarray, place: np.ndarray, caption: str, *, arrows: np.ndarray | None = None
) -> Markup:
    """One map with its caption: an SVG, or an image of pixels where it is large."""
    drawn = _map(mdp, values, place, caption)
    if arrows is not None and mdp.n_states <= grid.LARGE and grid.directions(mdp):
        near = np.where(mdp.counted, arrows, -np.inf)
        best = mdp.counted & (near >= near.max(axis=1, keepdims=True) * (1 - 1e-9))
        drawn = Markup(drawn.replace("</svg>", join(grid.arrows(mdp, best, place)) + "</svg>"))
    return tag("figure", drawn, tag("figcaption", caption), class_="one")


def _map(mdp: FiniteMDP, values: np.ndarray, place: np.ndarray, label: str, **more: Any) -> Markup:
    assert mdp.layout is not None
    rows, columns = len(mdp.layout), len(mdp.layout[0])
    if mdp.n_states > grid.LARGE:
        return grid.picture(_pixels(mdp, place), _PALETTE, label, **more)
    texts = [_short(float(value)) for value in values.ravel()]
    return grid.svg(grid.cells(mdp, values, place, texts), columns, rows, label, **more)


_PALETTE = [*grid.RAMP, "#8a8a8a"]


def _pixels(mdp: FiniteMDP, place: np.ndarray) -> np.ndarray:
    assert mdp.layout is not None
    return np.where(place < 0, len(grid.RAMP), place).reshape(len(mdp.layout), -1).astype(np.uint8)


def _short(value: float) -> str:
    """At most three digits, in as few signs as they take; empty for what is not there."""
    if not math.isfinite(value):
        return ""
    text = f"{value:.3g}" if 1e-2 <= abs(value) < 1e4 or value == 0 else f"{value:.1e}"
    text = text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) and len(text) > 3 else text


def _ramp(low: float, high: float, *, log: bool = False, floor: bool = False) -> Markup:
    colors = ", ".join(grid.RAMP[:: len(grid.RAMP) // 8] + grid.RAMP[-1:])
    bar = tag("span", class_="bar", style=f"background: linear-gradient(to right, {colors})", aria_hidden="true")
    start = f"{'≤ ' if floor else ''}{number(low, 3)}"
    words = "logarithmic" if log else "linear"
    return tag("p", tag("span", start), bar, tag("span", number(high, 3)), tag("span", f" ({words})"), class_="ramp")


# --- over the checkpoints -----------------------------------------------------------------------------------------


def _slider(members: Sequence[Subject], key: str, budget: int) -> tuple[Markup, int]:
    """Maps of all runs at one checkpoint, and a slider that moves all of them; the last checkpoint is shown first."""
    mdp = members[0].mdp
    assert mdp is not None
    iteration = members[0].run.tables["error_iteration"].tolist()
    large, names = mdp.n_states > grid.LARGE, grid.directions(mdp)
    tables = [np.where(mdp.counted, one.run.tables["error_tables"], np.nan) for one in members]
    kinds = {"states": [np.where(mdp.counted.any(axis=1), _largest(t), np.nan) for t in tables]}
    # Characters: a value takes about eight, its shape on the map 170, a pixel of a large map at most one.
    each = mdp.n_states * (len(iteration) if large else 8 * len(iteration) + 170)
    if names and not large and len(members) * each * 5 <= budget:
        kinds["actions"] = tables
    kept = min(len(members), max(1, budget // each))
    left = members[kept:]
    members = members[:kept]
    # The ramp is of the runs that stayed finite, if any did: one that diverges would take all of it.
    steady = [t for t, one in zip(tables, members, strict=False) if not one.run.diverged] or tables[:kept]
    finite = np.concatenate([t[np.isfinite(t)].ravel() for t in steady])
    high = float(finite.max(initial=0.0)) or 1.0
    positive = finite[finite > 0]
    low = max(high * _FLOOR, float(positive.min())) if positive.size else high * _FLOOR
    record: dict[str, Any] = {"iteration": iteration, "ramp": grid.RAMP, "runs": []}
    figures = []
    for i, one in enumerate(members):
        entry: dict[str, Any] = {}
        for kind, values in kinds.items():
            place = grid.levels(values[i], low, high, log=True)
            if large:
                entry[kind] = [grid.data_uri(_pixels(mdp, row), _PALETTE) for row in place]
            else:
                entry[kind] = [_encoded(v, p) for v, p in zip(values[i], place, strict=True)]
        record["runs"].append(entry)
        last = len(iteration) - 1
        value = kinds["states"][i][last]
        label = f"Error of {one.label}"
        drawn = [
            tag("div", _map(mdp, row, grid.levels(row, low, high, log=True), f"{label}, {kind}"), class_=f"view {kind}")
            for kind, row in ((kind, values[i][last]) for kind, values in kinds.items())
        ]
        largest = tag("output", _largest_text(value), class_="largest")
        figures.append(
            tag("figure", drawn, tag("figcaption", one.label, " ", tag("span", "largest ", largest)), class_="one run")
        )
    record["largest"] = [[_largest_text(row) for row in values] for values in kinds["states"][:kept]]
    data = Markup(f'<script type="application/json" class="data">{script_json(record)}</script>')
    parts: list[Any] = [_controls(key, iteration, actions="actions" in kinds), _ramp(low, high, log=True, floor=True)]
    parts += [tag("div", figures, class_="maps small"), data]
    if large:
        parts.append(tag("p", "One pixel a state, largest error over its actions; grey: no value.", class_="quiet"))
    elif "actions" not in kinds:
        parts.append(tag("p", "Largest error over the actions of a state.", class_="quiet"))
    if not large:
        head = ("state", *[one.label for one in members])
        rows = [
            [str(x), *[_short(float(values[-1][x])) for values in kinds["states"][:kept]]]
            for x in np.flatnonzero(mdp.counted.any(axis=1)).tolist()
        ]
        caption = tag(
            "span",
            "Largest error over the actions of a state at k = ",
            tag("output", number(iteration[-1]), class_="k"),
        )
        parts.append(details("Numbers at this checkpoint", table(head, rows, caption=caption, class_="numbers states")))
    if left:
        names_left = "; ".join(one.label for one in left)
        parts.append(tag("p", f"Left out, so that this file stays small: {names_left}.", class_="quiet"))
    return tag("div", parts, class_="checkpoints", id=key), len(data)


def _largest(table_: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(table_), table_, -np.inf).max(axis=-1)


def _largest_text(values: np.ndarray) -> str:
    values = values[np.isfinite(values)]
    return number(float(values.max()), 3) if values.size else "no finite seed"


def _encoded(values: np.ndarray, place: np.ndarray) -> list[str]:
    """Places on the ramp as one letter each, and values as texts: the page's script does no arithmetic."""
    flat = values.ravel()
    letters = "".join("." if level < 0 else chr(48 + int(level)) for level in place.ravel())
    return [letters, " ".join(_short(float(value)) for value in flat)]


def _controls(key: str, iteration: Sequence[int], *, actions: bool) -> Markup:
    last = len(iteration) - 1
    slider = tag(
        "input", type="range", min=0, max=last, step=1, value=last, id=f"{key}-k",
        aria_valuetext=f"k = {number(iteration[last])}", aria_describedby=f"{key}-help",
    )  # fmt: skip
    shown = tag("output", number(iteration[last]), class_="k", for_=f"{key}-k")
    step = [
        tag("button", text, type="button", aria_label=label, class_=class_)
        for text, label, class_ in (("◀", "previous checkpoint", "back"), ("▶", "next checkpoint", "on"))
    ]
    choice = None
    if actions:
        radios = [
            tag(
                "label",
                tag("input", type="radio", name=f"{key}-view", value=kind, checked=kind == "states"),
                f" {text}",
            )
            for kind, text in (("states", "states (largest over actions)"), ("actions", "actions (triangles)"))
        ]
        choice = tag("fieldset", tag("legend", "show"), radios)
    label = tag("label", "checkpoint k = ", shown, for_=f"{key}-k")
    hint = tag("span", f"{len(iteration)} recorded checkpoints; arrow keys move", id=f"{key}-help", class_="quiet")
    return tag("div", tag("div", label, step, slider, hint, class_="track"), choice, class_="controls")


def _visited(members: Sequence[Subject]) -> Markup | None:
    mdp = members[0].mdp
    if mdp is None or mdp.layout is None:
        return None
    count = members[0].run.tables["visits"].sum(axis=-1)
    count = np.where(mdp.counted.any(axis=1), count, np.nan)
    high = max(1.0, float(np.nanmax(count)))
    place = grid.levels(count, 1.0, high, log=True)
    who = "; ".join(dict.fromkeys(one.label for one in members))
    caption = f"{members[0].panel}: {who}"
    drawn = _map(mdp, count, place, f"Visits of each state, {caption}")
    return tag("figure", drawn, tag("figcaption", caption), _ramp(1.0, high, log=True, floor=True), class_="one")


def script_json(value: Any) -> str:
    """JSON that no text in it can end or turn into a comment, whatever it says."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
