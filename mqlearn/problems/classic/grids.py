"""Grids, numbered row by row from the top left: state = row * columns + column. A wall means stay.

V is V*, the value under the best actions, at the usual discount, which is the default.
"""

import numpy as np

from mqlearn.checks import check_bool, check_int
from mqlearn.finding import no_effect
from mqlearn.problems.classic.building import Outcomes, checked_size, finite_mdp
from mqlearn.problems.mdp import FiniteMDP

_MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # up, right, down, left: rows and columns


def recurring_cliff(*, discount: float = 0.9) -> FiniteMDP:
    """A 6x6 cliff walk that never ends (Rakhsha et al. 2022, Operator Splitting Value Iteration). Not Gymnasium's.

    Actions up, right, down, left: the intended move with probability .9, each other one with .1/3. Absorbing, and paid
    in every step: state 5 (top right) +20; columns 1 to 4 of the rows 0, 2, 4 pay -32, -16, -8. Every other state pays
    -1 a step. It starts in 0 (top left). V(30) = 31.7389194279, V(0) = 12.4995510732, V(5) = 200.
    discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """
    paid = {5: 20.0}
    paid |= {6 * row + column: cost for row, cost in ((0, -32.0), (2, -16.0), (4, -8.0)) for column in range(1, 5)}

    def outcomes(x: int, u: int) -> Outcomes:
        if x in paid:
            return [(1.0, x, paid[x])]
        return [(0.9 if move == u else 0.1 / 3, _neighbour(x, move, 6), -1.0) for move in range(4)]

    return finite_mdp("recurring_cliff", 36, 4, outcomes, discount=discount)


def noisy_grid(*, discount: float = 0.95) -> FiniteMDP:
    """A 3x3 grid with noisy rewards, on which Q-learning overestimates (van Hasselt 2010, Double Q-learning).

    Actions up, right, down, left, which never slip. It starts in 6 (bottom left); the goal is 2 (top right), where
    every action pays 5 and ends in a tenth, terminal state, 9. Every other step pays -12 or +10 with probability .5
    each, whatever its successor: the mean, -1, leaves no noise (`reward=mean`).
    V by rows: 2.5625 3.75 5 / 1.434375 2.5625 3.75 / .36265625 1.434375 2.5625.
    discount: in (0, 1]. Raises SettingError for a value that is not admissible.
    """

    def outcomes(x: int, u: int) -> Outcomes:
        if x == 2:
            return [(0.5, 9, 5.0), (0.5, 9, 5.0)]  # as many outcomes as elsewhere, all equally likely
        y = _neighbour(x, u, 3)
        return [(0.5, y, -12.0), (0.5, y, 10.0)]

    return finite_mdp("noisy_grid", 10, 4, outcomes, discount=discount, start=6, terminal=(9,), goal=(9,))


def deep_sea(n: int = 10, *, randomise_actions: bool = False, map_seed: int = 0, discount: float = 0.99) -> FiniteMDP:
    """DeepSea: a triangle in which a single way pays (Osband et al. 2019, bsuite).

    State (i, j) has the number i * n + j; it starts in (0, 0). Each step leads to row i+1. Action 1, right: to column
    min(j+1, n-1), paying -.01 / n. Action 0, left: to column max(j-1, 0), paying nothing. Right in column n-1 pays +1
    besides, which only the last row can reach; after that row the episode ends in a terminal state, n * n. The states
    with j > i are never reached, and errors leave them out.
    randomise_actions: left and right change places in some states, drawn with map_seed; V* is the same.
    n=10: V(0) = g^9 - .001 (1 - g^10) / (1 - g) = .9039554549845.
    discount: in (0, 1]. Raises SettingError for a value that is not admissible.
    """
    n = checked_size("env.n", check_int("env.n", n, 1), lambda n: 2 * n * n)
    map_seed = check_int("env.map_seed", map_seed, 0)
    randomise_actions = check_bool("env.randomise_actions", randomise_actions)
    generator = np.random.Generator(np.random.Philox(map_seed))
    swapped = generator.random(n * n) < 0.5 if randomise_actions else np.zeros(n * n, bool)

    def outcomes(x: int, u: int) -> Outcomes:
        i, j = divmod(x, n)
        right = (u == 1) != swapped[x]
        column = min(j + 1, n - 1) if right else max(j - 1, 0)
        reward = (1.0 if j == n - 1 else 0.0) - 0.01 / n if right else 0.0
        return [(1.0, n * (i + 1) + column if i < n - 1 else n * n, reward)]

    name = f"deep_sea n={n}" + (f" randomised map_seed={map_seed}" if randomise_actions else "")
    vain = map_seed != 0 and not randomise_actions
    notes = (no_effect("env.map_seed", map_seed, "randomise_actions is false").text,) if vain else ()
    return finite_mdp(name, n * n + 1, 2, outcomes, discount=discount, terminal=(n * n,), notes=notes)


def slip_grid(n: int = 3, *, discount: float = 0.9) -> FiniteMDP:
    """An n x n grid on which moves slip (Weng, Gupta, He, Ying, Srikant 2020, The mean-squared error of double Q).

    Actions up, right, down, left: the intended move with probability .7 + .3/4, each other one with .3/4, paying -.001.
    In the last state, bottom right, every action pays 1 and ends in a terminal state, n * n. It starts in 0 (top left).
    n=3: V(0) = .5708811458, V(8) = 1.
    discount: in (0, 1]. Raises SettingError for a value that is not admissible.
    """
    n = checked_size("env.n", check_int("env.n", n, 2), lambda n: 16 * n * n)
    last = n * n - 1

    def outcomes(x: int, u: int) -> Outcomes:
        if x == last:
            return [(1.0, n * n, 1.0)]
        return [(0.7 + 0.075 if move == u else 0.075, _neighbour(x, move, n), -1e-3) for move in range(4)]

    name = f"slip_grid n={n}"
    return finite_mdp(name, n * n + 1, 4, outcomes, discount=discount, terminal=(n * n,), goal=(n * n,))


def windy_grid(*, discount: float = 0.999) -> FiniteMDP:
    """A 7x10 grid with an upward wind (Sutton, Barto 2018, example 6.5; its discount is 1).

    Actions up, right, down, left, which never slip; the wind of the column that is left, 0 0 0 1 1 1 2 2 1 0, moves up
    as many rows besides. Each step pays -1. It starts in 30 (row 3, column 0); the goal, 37, is terminal, 15 steps
    away. V(30) = -(1 - g^15) / (1 - g) = -14.8954536380, undiscounted -15.
    discount: in (0, 1]. Raises SettingError for a value that is not admissible.
    """
    rows, columns, wind = 7, 10, (0, 0, 0, 1, 1, 1, 2, 2, 1, 0)

    def outcomes(x: int, u: int) -> Outcomes:
        row, column = divmod(x, columns)
        down, right = _MOVES[u]
        below = min(max(row + down - wind[column], 0), rows - 1)
        return [(1.0, columns * below + min(max(column + right, 0), columns - 1), -1.0)]

    return finite_mdp(
        "windy_grid", rows * columns, 4, outcomes, discount=discount, start=30, terminal=(37,), goal=(37,)
    )


def _neighbour(x: int, move: int, side: int) -> int:
    row, column = np.clip(np.add(divmod(x, side), _MOVES[move]), 0, side - 1).tolist()
    return side * row + column
