"""Heat maps of Q*, of |Q_k - Q*| over the checkpoints and of visits, and a card for each environment."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from mqlearn.analysis.report import grid
from mqlearn.analysis.report.markup import number, render
from mqlearn.analysis.report.subjects import Subject
from mqlearn.experiments.settings import identity
from mqlearn.learning import run_warnings
from mqlearn.problems import attainable_values
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal

BUDGET = 4_000_000  # characters that the maps over the checkpoints may take in the page
_CARDS, _VISITS = 12, 24  # environments with Q* drawn, and maps of visits, at most
_EQUAL = 1e-9  # of the largest value: actions so near to the best are best too
_FLOOR = 1e-6  # of the largest error: the ramp ends there


def environments(some: Sequence[Subject]) -> Markup:
    """A card for each model: map, counts, certified error, what can be reached, Q*."""
    cards = [_card(members, drawn=i < _CARDS) for i, members in enumerate(_by_model(some))]
    return render("environments.html", cards=cards)


def errors(some: Sequence[Subject]) -> Markup:
    """|Q_k - Q*| on the map with a slider over the checkpoints: one figure for runs with common checkpoints."""
    groups: dict[tuple, list[Subject]] = {}
    for members in _by_model(some):
        for one in members:
            if one.mdp is not None and one.mdp.layout is not None and "error_tables" in one.run.tables:
                key = (one.panel, one.mdp.digest(), tuple(one.run.tables["error_iteration"].tolist()))
                groups.setdefault(key, []).append(one)
    sliders = [
        _slider(members, f"m{i}", BUDGET // len(groups)) | {"title": key[0]}
        for i, (key, members) in enumerate(groups.items())
    ]
    lacking = [f"{one.panel}: {one.label}" for one in some if not any(one in members for members in groups.values())]
    reason = "no map, no exact model, or no error tables"
    said = f"Not drawn ({reason}): {'; '.join(dict.fromkeys(lacking))}." if lacking else ""
    return render("errors.html", sliders=sliders, lacking=said)


def visits(some: Sequence[Subject]) -> Markup:
    """How often each state was met, where chains were sampled; equal maps are drawn once."""
    drawn: dict[tuple, list[Subject]] = {}
    for one in some:
        if "visits" in one.run.tables:
            drawn.setdefault((one.panel, one.run.tables["visits"].tobytes()), []).append(one)
    maps = [_visited(members) for members in [*drawn.values()][:_VISITS]]
    notes = []
    if len(drawn) > _VISITS:
        notes.append(f"Drawn are {_VISITS} of {len(drawn)} different maps of visits.")
    without = [one for one in some if "visits" not in one.run.tables]
    if without:
        synchronous = all(identity.draws_all_pairs(one.run.settings) for one in without)
        every = "every pair is updated in every iteration" if synchronous else "the record holds none"
        who = "" if len(without) == len(some) else f" of {'; '.join(dict.fromkeys(one.label for one in without))}"
        notes.append(f"There are no counts of visits{who}: {every}.")
    if any(one is None for one in maps):
        notes.append("Visits of environments without a map are not drawn.")
    return render(
        "maps.html", id="visits", title="Visits", figures=[one for one in maps if one is not None], notes=notes
    )


def _by_model(some: Sequence[Subject]) -> list[list[Subject]]:
    groups: dict[Any, list[Subject]] = {}
    for one in some:
        mdp = one.problem.mdp if one.problem is not None else None
        key = (mdp.name, mdp.digest()) if mdp is not None else json.dumps([one.run.settings["env"], one.why])
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _card(members: Sequence[Subject], *, drawn: bool = True) -> dict[str, Any]:
    one = members[0]
    if one.mdp is None:
        env = one.run.settings["env"]
        reason = one.why or "It has no exact model: its optimum, and errors against it, are not available."
        return {"name": env.get("name", env["_target_"]), "reason": reason}
    mdp = one.mdp
    known = attainable_values.report(mdp)
    told = {found.text for member in members for found in member.run.findings}  # among the warnings of runs
    hidden = {"environment"}
    small = f"Q* is drawn for the first {_CARDS} environments, so that this file stays small."
    return {
        "name": f"{mdp.name}, discount {mdp.discount:g}",
        "reason": "",
        "map": grid.tiles(mdp),
        "facts": [(name.replace("_", " "), _fact(name, value)) for name, value in known.items() if name not in hidden],
        "warnings": [found.text for found in run_warnings.of_problem(mdp, known) if found.text not in told],
        "optimum": _optimum(mdp) if drawn else None,
        "left": "" if drawn else small,
    }


def _fact(name: str, value: Any) -> str:
    if value is None:
        return "no goal"
    return number(value, 3 if name == "certified_error" else 8)


def _optimum(mdp: FiniteMDP) -> dict[str, Any] | None:
    """V* and Q* on the map, and a table where it is small."""
    if mdp.layout is None:
        return None
    star = optimal(mdp)
    value = np.where(mdp.counted.any(axis=1), star.v, np.nan)
    low, high = float(np.nanmin(value)), float(np.nanmax(value))
    log = low > 0 and high > 30 * low  # else most of the map would have one colour
    place = grid.levels(value, low, high, log=log)
    figures = [figure(mdp, value, place, "V*, the value of each state under the best actions", arrows=star.q)]
    names = grid.directions(mdp)
    if names and mdp.n_states <= grid.LARGE:
        q = np.where(mdp.counted, star.q, np.nan)
        figures.append(figure(mdp, q, grid.levels(q, low, high, log=log), "Q*, the value of each action: its triangle"))
    rows = [
        [
            str(x),
            number(float(star.v[x]), 6),
            *[number(float(q), 6) if ok else "–" for q, ok in zip(*row, strict=True)],
        ]
        for x, row in enumerate(zip(star.q, mdp.counted, strict=True))
        if mdp.counted[x].any()
    ]
    return {
        "figures": figures,
        "ramp": ramp(low, high, log=log, floor=log),
        "head": ("state", "V*", *(names or range(mdp.n_actions))),
        "rows": rows if mdp.n_states <= grid.LARGE else [],
    }


def figure(
    mdp: FiniteMDP,
    values: np.ndarray,
    place: np.ndarray,
    caption: str,
    *,
    arrows: np.ndarray | None = None,
    ramp: dict[str, str] | None = None,
) -> dict[str, Any]:
    """One map with its caption: shapes, or an image of pixels where it is large.

    arrows: (S, A), the largest of each state are drawn.   ramp: its own legend of colours.
    """
    drawn = _map(mdp, values, place, caption)
    if arrows is not None and mdp.n_states <= grid.LARGE and grid.directions(mdp):
        drawn["shapes"] += grid.arrows(mdp, best(mdp, arrows), place)
    return {"map": drawn, "caption": caption, "ramp": ramp}


def best(mdp: FiniteMDP, values: np.ndarray) -> np.ndarray:
    """(S, A) bool: the actions with the largest of values (S, A), or nearer to it than 1e-9 of the largest size."""
    near = np.where(mdp.counted, values, -np.inf)
    size = np.abs(values[mdp.counted]).max(initial=0.0)
    return mdp.counted & (near >= near.max(axis=1, keepdims=True) - _EQUAL * size)


def _map(mdp: FiniteMDP, values: np.ndarray, place: np.ndarray, label: str) -> dict[str, Any]:
    assert mdp.layout is not None
    rows, columns = len(mdp.layout), len(mdp.layout[0])
    if mdp.n_states > grid.LARGE:
        return grid.picture(_pixels(mdp, place), _PALETTE, label)
    texts = [_short(float(value)) for value in values.ravel()]
    return grid.drawing(grid.cells(mdp, values, place, texts), columns, rows, label)


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


def ramp(low: float, high: float, *, log: bool = False, floor: bool = False) -> dict[str, str]:
    """The legend of colours; floor: the lowest stands for all below it too."""
    return {
        "low": f"{'≤ ' if floor else ''}{number(low, 3)}",
        "high": number(high, 3),
        "colors": ", ".join(grid.RAMP[:: len(grid.RAMP) // 8] + grid.RAMP[-1:]),
        "words": "logarithmic" if log else "linear",
    }


# --- over the checkpoints -----------------------------------------------------------------------------------------


def _slider(members: Sequence[Subject], key: str, budget: int) -> dict[str, Any]:
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
    left, members = members[kept:], members[:kept]
    low, high = _range(tables[:kept], [not one.run.diverged for one in members])

    def level(values: np.ndarray) -> np.ndarray:
        return grid.levels(values, low, high, log=True)

    states = kinds["states"][:kept]
    record = {
        "iteration": iteration,
        "ramp": grid.RAMP,
        "runs": [
            {kind: _moving(mdp, values[i], level(values[i]), large) for kind, values in kinds.items()}
            for i in range(kept)
        ],
        "largest": [[_largest_text(row) for row in values] for values in states],
    }
    figures = [
        {
            "label": one.label,
            "largest": _largest_text(states[i][-1]),
            "views": [
                (kind, _map(mdp, values[i][-1], level(values[i][-1]), f"Error of {one.label}, {kind}"))
                for kind, values in kinds.items()
            ],
        }
        for i, one in enumerate(members)
    ]
    about = "Largest error over the actions of a state." if "actions" not in kinds else ""
    rows = [
        [str(x), *[_short(float(values[-1][x])) for values in states]]
        for x in np.flatnonzero(mdp.counted.any(axis=1)).tolist()
    ]
    return {
        "key": key, "k": number(iteration[-1]), "last": len(iteration) - 1, "actions": "actions" in kinds,
        "ramp": ramp(low, high, log=True, floor=True), "figures": figures, "data": Markup(script_json(record)),
        "about": "One pixel a state, largest error over its actions; grey: no value." if large else about,
        "head": ("state", *[one.label for one in members]), "rows": [] if large else rows,
        "left": f"Left out, so that this file stays small: {'; '.join(one.label for one in left)}." if left else "",
    }  # fmt: skip


def _range(tables: Sequence[np.ndarray], finite: Sequence[bool]) -> tuple[float, float]:
    """Ends of the ramp: of the runs that stayed finite, if any did; one that diverges would take all of it."""
    steady = [table for table, ok in zip(tables, finite, strict=True) if ok] or tables
    known = np.concatenate([table[np.isfinite(table)].ravel() for table in steady])
    high = float(known.max(initial=0.0)) or 1.0
    positive = known[known > 0]
    return (max(high * _FLOOR, float(positive.min())) if positive.size else high * _FLOOR), high


def _moving(mdp: FiniteMDP, values: np.ndarray, place: np.ndarray, large: bool) -> list[Any]:
    """What the page's script shows at each checkpoint: an image, or places and texts."""
    if large:
        return [grid.data_uri(_pixels(mdp, row), _PALETTE) for row in place]
    return [_encoded(v, p) for v, p in zip(values, place, strict=True)]


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


def _visited(members: Sequence[Subject]) -> dict[str, Any] | None:
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
    return {"map": drawn, "caption": caption, "ramp": ramp(1.0, high, log=True, floor=True)}


def script_json(value: Any) -> str:
    """JSON that no text in it can end or turn into a comment, whatever it says."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
