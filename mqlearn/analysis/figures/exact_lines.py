"""What learning curves are read against: exact returns and values of policies, computed from the model of a cell."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mqlearn.learning.diagnostics import fixed_point
from mqlearn.problems.feature_rows import Features
from mqlearn.problems.fixed_points import mean_gradient
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.policy_chains import chain_of
from mqlearn.problems.solvers import optimal
from mqlearn.sampling.modes import stationary

if TYPE_CHECKING:
    from mqlearn.experiments.settings.cell import Cell

Lines = Mapping[str, Mapping[str, float]]  # metric -> name -> height
_TIE = 1e-9  # actions this near to the best are equal: rounding must not choose between them


def lines(cell: "Cell") -> tuple[Lines, list[str]]:
    """Reference lines, and what the caption must say of them and of the theory; nothing is simulated.

    return_uniform: of the greedy policies of Q* and of theta*, and of uniformly random actions, within the step limit
    from uniform non-terminal states.   policy_value: the optimal value at the start. Best actions are chosen uniformly
    among equal ones. Without a model there are none; without theta* its line is left out.
    """
    mdp, evaluation = cell.mdp, cell.run_arguments["evaluation"]
    sampling, features = cell.run_arguments["sampling"], cell.run_arguments["features"]
    if not isinstance(mdp, FiniteMDP):
        return {}, ["No exact model, so no reference lines."]
    optimum = optimal(mdp)
    tables, notes = {"$Q^{*}$": optimum.q}, []
    mu = None if features is None or sampling.all_pairs else stationary(sampling, mdp)
    if features is not None and mu is not None:
        point, _ = fixed_point(mdp, features, sampling, cell.setup.theta0, cell.operator)  # that of the runs
        if point is None:
            notes.append(r"No $\theta^{*}$ was found, so its line and the error are left out.")
        else:
            tables[r"$\theta^{*}$"] = features.table(mdp, point.theta)
            if cell.operator.plain and breaks_assumption_2(mdp, features, mu, point.theta):
                notes.append(
                    "Assumption 2 of the theorems does not hold at this discount, so they do not cover these runs."
                )
    notes.insert(
        0, f"Dotted: exact, for the greedy policies of {' and '.join(tables)} and for uniformly random actions."
    )
    tables["random actions"] = np.zeros_like(optimum.q)
    episodes, limit = 150 if evaluation.episodes is None else evaluation.episodes, evaluation.limit(mdp)
    returns = {name: episodes * _return_within(mdp, _greedy(mdp, q), limit) for name, q in tables.items()}
    return {"return_uniform": returns, "policy_value": {"optimal": optimum.start_value}}, notes


def _greedy(mdp: FiniteMDP, q: np.ndarray) -> np.ndarray:
    """(S, A): uniform over the actions that are best up to rounding."""
    best = np.where(mdp.learned, q, -np.inf).max(axis=1, keepdims=True)
    chosen = mdp.learned & (q >= best - _TIE * np.abs(best))
    return chosen / np.maximum(chosen.sum(axis=1, keepdims=True), 1)


def _return_within(mdp: FiniteMDP, policy: np.ndarray, limit: int) -> float:
    """Expected undiscounted return of an episode of at most `limit` moves from a uniform non-terminal state."""
    p, r = chain_of(mdp, policy)
    p.eliminate_zeros()
    v = np.zeros(mdp.n_states)
    for _ in range(limit):
        v = r + p @ v
    return float(v[~mdp.terminal].mean())


def breaks_assumption_2(mdp: FiniteMDP, features: Features, mu: np.ndarray, theta: np.ndarray) -> bool:
    """Whether a theta with (theta - theta*)' gbar(theta) < 0 was found, which Assumption 2 of the paper excludes.

    Tried is theta* (d,) plus much of one table: in every state one action is worth 1, the others (sqrt(A)-1)/(A-1).
    With one-hot features and uniform actions that does it above a discount of about 2/(sqrt(A)+1), 2/3 for A = 4: the
    maximum over the next actions is always 1, the behaviour seldom takes it.
    """
    (x, u), n = mdp.pairs.T, mdp.n_actions
    table = np.where(u == mdp.admissible.argmax(axis=1)[x], 1.0, (np.sqrt(n) - 1) / max(n - 1, 1))
    phi = features.matrix()
    step = (phi.T @ table) / np.maximum(abs(phi).T @ np.ones(len(x)), 1)
    step *= 1e6 * (1 + np.abs(theta).max())
    return bool(step @ mean_gradient(mdp, features, mu, theta + step) < 0)
