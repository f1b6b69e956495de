"""What the exact values of a model take, in seconds and memory, before any of them is computed.

From the size of the model alone: its states, its outcomes, the states that separate it (`sweeps`), and what is
multiplied where they go one by one (`elimination`). Seconds of one core, to a factor of a few, as measured on lakes of
10^4 to 10^6 states and garnets of 10^3 to 10^5. Where LU fills up, what is foretold to be quicker is what is done.
"""

import math
from dataclasses import dataclass

from mqlearn.checks import OUTCOME_BYTES
from mqlearn.problems import elimination, sweeps
from mqlearn.problems.mdp import FiniteMDP

_FACTOR = 3e-8  # s a state and state that separates: sparse LU
_OUTCOME = 1e-6  # s: improvements between solves of LU
_SWEPT = 2e-9  # s an outcome and sweep
_PRODUCT = 7e-10  # s a multiplication of an elimination,
_PLACED = 5e-6  # and a state for their order
_WIDE = 3.0  # times the root of all states: levels of maps are narrower, those of random graphs are not
_POLICIES = 20  # until none is better, of which each is eliminated
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
    outcomes, goal = mdp.successors.size, bool(mdp.goal.any())
    if sweeps.fills_up(mdp):
        seconds, policies = _STRUCTURE * outcomes, 0
        if eliminates_optimum(mdp):
            policies += _POLICIES
        else:
            seconds += _swept_optimum(mdp)
        if goal and narrow(mdp):
            policies += _POLICIES
        elif goal:
            seconds += mdp.n_states * mdp.n_successors * sweeps.foreseen_of_success(mdp) * _SWEPT
        if policies:
            seconds += _eliminated(mdp, policies)
        return Cost(seconds, OUTCOME_BYTES * outcomes + _shares(mdp))
    solves = _SOLVES * (1 + goal)
    seconds = solves * _factor(mdp) + outcomes * (_OUTCOME + _STRUCTURE)
    return Cost(seconds, OUTCOME_BYTES * outcomes + 16 * _fill(mdp))


def of_policies(mdp: FiniteMDP, n_policies: int) -> Cost:
    """Of the exact values of policies."""
    if sweeps.fills_up(mdp):
        by_elimination = eliminates_policy(mdp)
        seconds = _eliminated(mdp, n_policies) if by_elimination else n_policies * _swept_policy(mdp)
        return Cost(seconds, OUTCOME_BYTES * mdp.successors.size + _shares(mdp))
    return Cost(n_policies * _factor(mdp), 16 * _fill(mdp))


def narrow(mdp: FiniteMDP) -> bool:
    """Whether the states that separate the others are few beside the root of all, as on maps: elimination then takes
    about the power 3/2 of the states."""
    return sweeps.separator(mdp) <= _WIDE * math.sqrt(mdp.n_states)


def eliminates_optimum(mdp: FiniteMDP) -> bool:
    """Whether Q* of a model on which LU fills up is quicker by elimination than by sweeps."""
    return narrow(mdp) and _eliminated(mdp, _POLICIES) < _swept_optimum(mdp)


def eliminates_policy(mdp: FiniteMDP) -> bool:
    """The same of the values of one policy."""
    return narrow(mdp) and _eliminated(mdp, 1) < _swept_policy(mdp)


def of_returns(mdp: FiniteMDP, limit: int, n_policies: int) -> Cost:
    """Of the expected returns of policies within a limit of moves."""
    successors = mdp.n_states * min(mdp.n_actions * mdp.n_successors, mdp.n_actions + 1 if mdp.layout else mdp.n_states)
    return Cost(-(-n_policies // 8) * limit * successors * _MOVED, 64.0 * successors)


def _factor(mdp: FiniteMDP) -> float:
    return _FACTOR * mdp.n_states * sweeps.separator(mdp)


def _fill(mdp: FiniteMDP) -> float:
    """Numbers that sparse LU keeps, which it doubles while it works."""
    return 60.0 * mdp.n_states if sweeps.separator(mdp) < mdp.n_states / 4 else mdp.n_states**2 / 2


def _eliminated(mdp: FiniteMDP, n_policies: int) -> float:
    return n_policies * elimination.products(mdp) * _PRODUCT + mdp.n_states * _PLACED


def _shares(mdp: FiniteMDP) -> float:
    """Bytes that eliminations keep."""
    return elimination.FILL_BYTES * elimination.fill(mdp) if narrow(mdp) else 0.0


def _swept_optimum(mdp: FiniteMDP) -> float:
    return mdp.successors.size * sweeps.foreseen(mdp) * _SWEPT


def _swept_policy(mdp: FiniteMDP) -> float:
    return mdp.n_states * mdp.n_successors * sweeps.foreseen(mdp) * _SWEPT
