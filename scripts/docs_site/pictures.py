"""Pictures of problems: maps as the report draws them, other models as values and moves under the best actions."""

from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader

from mqlearn.analysis.figures import style
from mqlearn.analysis.report import grid, maps
from mqlearn.paths import PACKAGE
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import Optimum

_MACROS = Environment(loader=FileSystemLoader(PACKAGE / "analysis" / "report" / "templates"), autoescape=True)


def on_map(mdp: FiniteMDP, optimum: Optimum) -> str:
    """HTML of the map of a model with a layout, and of V* on it with the best actions."""
    value = np.where(mdp.counted.any(axis=1), optimum.v, np.nan)
    low, high = float(np.nanmin(value)), float(np.nanmax(value))
    log = low > 0 and high > 30 * low  # else most of the map would have one colour
    place = grid.levels(value, low, high, log=log)
    caption = "V*, the value of each state under the best actions"
    if mdp.n_states <= grid.LARGE and grid.directions(mdp):
        caption += ", which are the arrows"
    drawn = maps.figure(mdp, value, place, caption, arrows=optimum.q, ramp=maps.ramp(low, high, log=log, floor=log))
    tiles: dict[str, Any] = {"map": grid.tiles(mdp), "caption": "The map", "ramp": None}
    macros: Any = _MACROS.get_template("macros.html").module
    figures = "".join(" ".join(str(macros.figure(one)).split()) for one in (tiles, drawn))
    return f'<div class="maps">{figures}</div>\n'


def of_model(mdp: FiniteMDP, optimum: Optimum, to: Path) -> None:
    """A PNG of V*, and of the probabilities of successors under the best actions, those that tie sharing equally."""
    best = maps.best(mdp, optimum.q)
    share = best / np.maximum(best.sum(1, keepdims=True), 1)
    moves = np.zeros((mdp.n_states, mdp.n_states))
    for x in range(mdp.n_states):
        odds = share[x][:, None] * mdp.probabilities[x]
        np.add.at(moves[x], mdp.successors[x].ravel(), odds.ravel())
    there = mdp.counted.any(axis=1)
    moves[~there] = np.nan
    with style.context():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(style.page().width, 2.9), layout="constrained")
        FigureCanvasAgg(figure)
        left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
        states = np.arange(mdp.n_states)
        left.axhline(0, color=style.QUIET, linewidth=0.6)
        left.vlines(states[there], 0, optimum.v[there], color="#2465ad", linewidth=max(0.8, min(7, 140 / len(states))))
        left.plot(states[there], optimum.v[there], "o", color="#1b2466", markersize=3)
        left.set(title="Value of each state, V*", xlabel="state", ylabel="V*")
        left.xaxis.get_major_locator().set_params(integer=True)
        mesh = right.imshow(np.ma.masked_invalid(moves), cmap="Blues", vmin=0, vmax=1, interpolation="nearest")
        right.set(title="Moves under the best actions", xlabel="successor", ylabel="state")
        for axis in (right.xaxis, right.yaxis):
            axis.get_major_locator().set_params(integer=True)
        figure.colorbar(mesh, ax=right, label="probability")
        figure.savefig(to, format="png", dpi=140, metadata={"Software": None})
