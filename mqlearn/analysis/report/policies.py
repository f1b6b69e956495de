"""What is learned to do: on the map, the greedy policy of the table that acts at the end, over the seeds of a run."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from mqlearn.analysis.report import grid, maps
from mqlearn.analysis.report.markup import render
from mqlearn.analysis.report.subjects import Subject
from mqlearn.learning.metrics import greedy_policies
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal

_MOST = 24  # maps


def of(some: Sequence[Subject]) -> Markup:
    """The section: a map for each run on a map that is not too large."""
    acting = [(one, tables) for one in some if (tables := acting_tables(one)) is not None]
    figures = [_figure(one, tables) for one, tables in acting[:_MOST]]
    notes = ["Arrows: what most seeds choose. Colour: the share of the seeds that choose an optimal action."]
    if not acting:
        notes = ["Not drawn: there is no map of at most 256 states, or no exact model."]
    elif len(acting) > _MOST:
        notes.append(f"Policies are drawn of {_MOST} of {len(acting)} runs.")
    return render("maps.html", id="policies", title="Greedy policies", figures=figures, notes=notes)


def acting_tables(one: Subject) -> np.ndarray | None:
    """(n_seeds, S, A): the last tables of which greedy actions are taken; None where they cannot be drawn."""
    mdp, tables = one.mdp, one.run.tables
    if mdp is None or mdp.n_states > grid.LARGE or not grid.directions(mdp) or one.problem is None:
        return None
    if "theta" in tables:
        return one.problem.run_arguments["features"].table(mdp, tables.get("theta_acting", tables["theta"]))
    return tables.get("acting", tables.get("q"))


def chosen(mdp: FiniteMDP, tables: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of tables (n, S, A): (S, A) the share of seeds that choose each action, and (S,) of those that choose well.

    A seed with equal best actions chooses each of them in part. NaN where nothing is chosen.
    """
    policies = greedy_policies(mdp, tables)
    share = (policies * maps.best(mdp, optimal(mdp).q)).sum(axis=2).mean(axis=0)
    return policies.mean(axis=0), np.where(mdp.counted.any(axis=1), share, np.nan)


def _figure(one: Subject, tables: np.ndarray) -> dict[str, Any]:
    mdp = one.mdp
    assert mdp is not None
    policy, share = chosen(mdp, tables)
    differs = {"acting", "theta_acting"} & {*one.run.tables}
    about = " (greedy in the table that acts, not in the one that is measured)" if differs else ""
    caption = f"{one.panel}: {one.label}{about}"
    place = grid.levels(share, 0.0, 1.0, log=False)
    return maps.figure(mdp, share, place, caption, arrows=policy, ramp=maps.ramp(0.0, 1.0))
