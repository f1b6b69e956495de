"""What the exact values of a model take, in seconds and memory, before any of them is computed.

From the size of the model alone: its states, its outcomes, and the states that separate it (`sweeps`). Seconds of one
core, to a factor of a few, as measured on lakes of 10^4 to 10^6 states and garnets of 10^3 to 10^5.
"""

from dataclasses import dataclass

from mqlearn.checks import OUTCOME_BYTES
from mqlearn.problems import sweeps
from mqlearn.problems.mdp import FiniteMDP

_FACTOR = 3e-8  # s a state and state that separates: sparse LU
_OUTCOME = 1e-6  # s: improvements between solves of LU
_SWEPT = 2e-9  # s an outcome and sweep
_STRUCTURE = 6e-7  # s an outcome: which states separate the model, its certificate, its structure
_MOVED = 3.5e-9  # s a successor, move, and eight seeds: the expected return
_SOLVES = 4  # of Q*, and as many of the best success probability


@dataclass(frozen=True)
class Cost:
    """seconds: of one core.   n_bytes: at most at once."""

    seconds: float
    n_bytes: float


def of_optimum(mdp: FiniteMDP) -> Cost:
    """Of Q* and, where there is a goal, of the best probability of success."""
    outcomes = mdp.successors.size
    if sweeps.fills_up(mdp):
        seconds = outcomes * (sweeps.foreseen(mdp) * _SWEPT + _STRUCTURE)
        if mdp.goal.any():
            seconds += mdp.n_states * mdp.n_successors * sweeps.foreseen_of_success(mdp) * _SWEPT
        return Cost(seconds, OUTCOME_BYTES * outcomes)
    solves = _SOLVES * (1 + bool(mdp.goal.any()))
    seconds = solves * _factor(mdp) + outcomes * (_OUTCOME + _STRUCTURE)
    return Cost(seconds, OUTCOME_BYTES * outcomes + 16 * _fill(mdp))


def of_policies(mdp: FiniteMDP, n_policies: int) -> Cost:
    """Of the exact values of policies."""
    if sweeps.fills_up(mdp):
        each = mdp.n_states * mdp.n_successors * sweeps.foreseen(mdp) * _SWEPT
        return Cost(n_policies * each, OUTCOME_BYTES * mdp.successors.size)
    return Cost(n_policies * _factor(mdp), 16 * _fill(mdp))


def of_returns(mdp: FiniteMDP, limit: int, n_policies: int) -> Cost:
    """Of the expected returns of policies within a limit of moves."""
    successors = mdp.n_states * min(mdp.n_actions * mdp.n_successors, mdp.n_actions + 1 if mdp.layout else mdp.n_states)
    return Cost(-(-n_policies // 8) * limit * successors * _MOVED, 64.0 * successors)


def _factor(mdp: FiniteMDP) -> float:
    return _FACTOR * mdp.n_states * sweeps.separator(mdp)


def _fill(mdp: FiniteMDP) -> float:
    """Numbers that sparse LU keeps, which it doubles while it works."""
    return 60.0 * mdp.n_states if sweeps.separator(mdp) < mdp.n_states / 4 else mdp.n_states**2 / 2
