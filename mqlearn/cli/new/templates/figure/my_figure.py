"""A figure of one's own kind: the last error of every seed, rule beside rule, a panel for each problem."""

import numpy as np
from matplotlib.figure import Figure


def from_runs(cells, ended, spec, band):
    """The figure and its numbers by name.

    cells: what the yaml plans, each with `panel` and `label`.   ended: their finished runs, in the same order.
    spec: the node `figure` of the yaml.   band: what `band=` says; unused here, every seed is shown.
    """
    metric = spec.get("metric", "q_error")
    last = {(one.panel, one.label): run.curves[metric][:, -1] for one, run in zip(cells, ended, strict=True)}
    return draw(last, metric), {f"{panel} | {label}": values for (panel, label), values in last.items()}


def draw(last, metric="q_error"):
    """last: (panel, label) -> values (n_seeds,)."""
    panels = list(dict.fromkeys(panel for panel, _ in last))
    figure = Figure(figsize=(7.2, 3.2), layout="constrained")
    for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False, sharey=True)[0], panels, strict=True):
        rules = {label: values for (where, label), values in last.items() if where == panel}
        for place, values in enumerate(rules.values()):
            axes.plot(np.full(len(values), place), values, "o", alpha=0.5, color="#2465ad", markersize=4)
            axes.plot([place - 0.3, place + 0.3], [np.mean(values)] * 2, color="#1a1a1a")
        axes.set_xticks(range(len(rules)), list(rules), rotation=20, ha="right")
        axes.set(title=panel, yscale="log")
    figure.axes[0].set_ylabel(f"last {metric}, each seed and mean")
    return figure
