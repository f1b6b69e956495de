"""Chains: states in a row or a ring, numbered from 0, with one or two actions.

"Stay" at an end of a row means the state itself. V is V*, the value under the best actions, at the usual discount,
which is the default.
"""

import numpy as np

from mqlearn.checks import check_int, check_probability, choice, finite, within
from mqlearn.errors import SettingError
from mqlearn.problems.classic.building import Outcomes, checked_size, finite_mdp, uniform_over
from mqlearn.problems.mdp import FiniteMDP

_BOTH_ENDS = " (the first and the last state differ)"


def two_state(*, discount: float = 0.95) -> FiniteMDP:
    """Puterman's two states, of which the second has one action only (Markov Decision Processes, section 3.1).

    State 0: action 0 pays 5 and leads to 0 or 1 with probability .5 each, action 1 pays 10 and leads to 1.
    State 1 is absorbing, and its action 0 pays -1 each step. It starts in 0.
    V(0) = (5 - 5.5 g) / ((1 - .5 g)(1 - g)) where action 0 is the better one, V(1) = -1 / (1 - g).
    discount: in (0, 1). Raises SettingError for a value that is not admissible.

    >>> mq.optimal(mq.two_state(discount=0.5)).v.round(6).tolist()
    [9.0, -2.0]
    """

    def outcomes(x: int, u: int) -> Outcomes:
        if x == 1:
            return [(1.0, 1, -1.0)] if u == 0 else []
        return [(0.5, 0, 5.0), (0.5, 1, 5.0)] if u == 0 else [(1.0, 1, 10.0)]

    return finite_mdp("two_state", 2, 2, outcomes, discount=discount)


def forest(n: int = 3, r1: float = 4.0, r2: float = 2.0, p: float = 0.1, *, discount: float = 0.9) -> FiniteMDP:
    """A forest of ages 0 to n-1 that burns down with probability p a step (pymdptoolbox, example.forest).

    Action 0 waits: to age 0 with probability p, else one step older (at most n-1); it pays r1 at age n-1, else 0.
    Action 1 cuts: to age 0; it pays 0 at age 0, r2 at age n-1, else 1. It starts at age 0.
    n=3, g=.9: V = 26.244, 29.484, 33.484.
    discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """
    n = checked_size("env.n", check_int("env.n", n, 2, why=_BOTH_ENDS), lambda n: 4 * n)
    p = check_probability("env.p", p)
    r1, r2 = finite("env.r1", r1), finite("env.r2", r2)

    def outcomes(x: int, u: int) -> Outcomes:
        old = x == n - 1
        if u == 0:
            reward = r1 if old else 0.0
            return [(p, 0, reward), (1 - p, min(x + 1, n - 1), reward)]
        return [(1.0, 0, r2 if old else float(x > 0))]

    return finite_mdp(f"forest n={n} r1={r1:g} r2={r2:g} p={p:g}", n, 2, outcomes, discount=discount)


# Of action 1, against the current: up, stay, down in the first state, inside, in the last one. Then the rewards of
# action 0 in the first state and of action 1 in the last one, paid on departure, and the possible first states.
_RIVERS = {
    "osband": ((0.6, 0.4, 0.0), (0.35, 0.6, 0.05), (0.0, 0.6, 0.4), 0.005, 1.0, (0,)),
    "strehl": ((0.3, 0.7, 0.0), (0.3, 0.6, 0.1), (0.0, 0.3, 0.7), 5.0, 10_000.0, (1, 2)),
}


def river_swim(n: int = 6, *, dialect: str = "osband", discount: float = 0.95) -> FiniteMDP:
    """RiverSwim: action 0 drifts left for certain, action 1 swims right against the current. n: all states.

    osband (Osband, Russo, Van Roy 2013): action 1 moves up, stays, moves down with probability .35, .6, .05; in state 0
    with .6, .4, 0; in state n-1 with 0, .6, .4. Action 0 in state 0 pays .005, action 1 in state n-1 pays 1 whether or
    not it stays. It starts in 0. V(0) = 4.6693001607, V(5) = 9.4731556288.
    strehl (Strehl, Littman 2008): .3, .6, .1; in state 0 .3, .7, 0; in state n-1 0, .3, .7; rewards 5 and 10000. It
    starts in 1 or 2 with probability .5 each. V(0) = 20459.7715473982.
    dialect: osband or strehl.   discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """
    dialect = choice("env.dialect", dialect, tuple(_RIVERS))
    first, inside, last, small, large, starts = _RIVERS[dialect]
    n = check_int("env.n", n, 1 + max(2, *starts), why=" (the ends differ, and the first states exist)")
    checked_size("env.n", n, lambda n: 6 * n)

    def outcomes(x: int, u: int) -> Outcomes:
        if u == 0:
            return [(1.0, max(x - 1, 0), small if x == 0 else 0.0)]
        up, stay, down = first if x == 0 else last if x == n - 1 else inside
        reward = large if x == n - 1 else 0.0
        return [(up, x + 1, reward), (stay, x, reward), (down, x - 1, reward)]

    name = f"river_swim {dialect} n={n}"
    return finite_mdp(name, n, 2, outcomes, discount=discount, start=uniform_over(starts, n))


def chain_walk(n: int = 50, *, discount: float = 0.9) -> FiniteMDP:
    """A ring of n states with a rewarding and a costly one (Farahmand, Ghavamzadeh 2021, PID value iteration).

    Action 0 intends x-1, action 1 intends x+1 (mod n); the step is the intended one with probability .7, none with
    .1, the opposite one with .2. Arriving at n-10 pays +1, also by staying there, arriving at 10 pays -1. It starts in
    n-1. V(0) = .701874794, V(10) = -.3411939452, V(49) = .8478009927. The two actions of state 40 differ by less than
    1e-12: they count as tied.
    discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """
    n = checked_size("env.n", check_int("env.n", n, 21, why=" (the states 10 and n-10 lie apart)"), lambda n: 6 * n)
    paid = {n - 10: 1.0, 10: -1.0}

    def outcomes(x: int, u: int) -> Outcomes:
        step = 1 if u == 1 else -1
        return [(p, (x + move) % n, paid.get((x + move) % n, 0.0)) for p, move in ((0.7, step), (0.1, 0), (0.2, -step))]

    return finite_mdp(f"chain_walk n={n}", n, 2, outcomes, discount=discount, start=n - 1)


def chain_walk_walls(n: int = 4, *, discount: float = 0.9) -> FiniteMDP:
    """Four states in a row between walls (Koller, Parr 2000; Lagoudakis, Parr 2003).

    Action 0 left, action 1 right: the intended step with probability .9, the opposite one with .1; off the end means
    stay. Leaving 0, 1, 2, 3 pays 0, 1, 1, 0. It starts in 0. V = 8.1, 9.1, 9.1, 8.1.
    Defined for n=4 only: the version with 50 states of Lagoudakis and Parr pays elsewhere.
    discount: in (0, 1). Raises SettingError for a value that is not admissible.

    >>> mq.optimal(mq.chain_walk_walls()).v.round(6).tolist()
    [8.1, 9.1, 9.1, 8.1]
    """
    if check_int("env.n", n, 1) != 4:
        raise SettingError("env.n", n, "must be 4: this chain is defined for four states only")

    def outcomes(x: int, u: int) -> Outcomes:
        step, reward = 2 * u - 1, float(x in (1, 2))
        return [(0.9, min(max(x + step, 0), 3), reward), (0.1, min(max(x - step, 0), 3), reward)]

    return finite_mdp("chain_walk_walls n=4", 4, 2, outcomes, discount=discount)


def strens_chain(slip: float = 0.2, *, discount: float = 0.95) -> FiniteMDP:
    """Five states in which going back pays at once and going forward pays at the end (Strens 2000).

    Action 0 forward: to min(x+1, 4), paying 10 in state 4, else 0. Action 1 back: to 0, paying 2 from every state. With
    probability slip the move and the reward are those of the other action. It starts in 0.
    slip=.2: V = 61.3794816, 64.8912896, 69.5120896, 75.5920896, 83.5920896.
    discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """
    slip = check_probability("env.slip", slip)

    def outcomes(x: int, u: int) -> Outcomes:
        forward, back = (min(x + 1, 4), 10.0 if x == 4 else 0.0), (0, 2.0)
        intended, other = (forward, back) if u == 0 else (back, forward)
        return [(1 - slip, *intended), (slip, *other)]

    return finite_mdp(f"strens_chain slip={slip:g}", 5, 2, outcomes, discount=discount)


def azar_linear(n: int = 50, *, discount: float = 0.995) -> FiniteMDP:
    """The linear problem of Dynamic Policy Programming and SpeedyQ (Azar et al. 2011, 2012), n: all states.

    States 0 and n-1 are terminal. Action 0 leads to the states y < x, action 1 to the states y > x, with probability
    proportional to 1 / |x - y|. Arriving at 0 or n-1 pays +1, once, elsewhere -1. The first state is uniform over the
    others. n=50: V(1) = V(48) = 1, V(24) = V(25) = -4.375370956.
    discount: in (0, 1]. Raises SettingError for a value that is not admissible.
    """
    n = check_int("env.n", n, 3, why=" (there is a state between the terminal ones)")
    checked_size("env.n", n, lambda n: 2 * n * n)

    def outcomes(x: int, u: int) -> Outcomes:
        y = np.arange(x) if u == 0 else np.arange(x + 1, n)
        return np.column_stack([_nearby(x, y), y, np.where((y == 0) | (y == n - 1), 1.0, -1.0)])

    return finite_mdp(
        f"azar_linear n={n}", n, 2, outcomes, discount=discount, start=uniform_over(range(1, n - 1), n),
        terminal=(0, n - 1), goal=(0, n - 1),
    )  # fmt: skip


def combination_lock(n: int = 50, *, discount: float = 0.995) -> FiniteMDP:
    """A lock that falls back (Azar et al. 2011, 2012), n: all states, the terminal goal n-1 included.

    Action 1: from k to k+1, paying -.01, but 1 from n-2. Action 0 pays nothing and leads to the states y < k with
    probability proportional to 1 / (k - y); in state 0 it stays. It starts in 0.
    n=50: V(0) = .3584633431, V(48) = 1. Long locks are degenerate: V* > 0 in the 81 states before
    the goal only (n=2500: from 2418), else 0.
    discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """
    n = check_int("env.n", n, 2, why=" (there is a state before the goal)")
    checked_size("env.n", n, lambda n: 2 * n * n)

    def outcomes(k: int, u: int) -> Outcomes:
        if u == 1:
            return [(1.0, k + 1, 1.0 if k == n - 2 else -0.01)]
        y = np.arange(k) if k else np.zeros(1, int)
        return np.column_stack([_nearby(k, y) if k else np.ones(1), y, np.zeros(len(y))])

    return finite_mdp(f"combination_lock n={n}", n, 2, outcomes, discount=discount, terminal=(n - 1,), goal=(n - 1,))


def double_chain(*, stay: float = 0.0, discount: float = 0.9) -> FiniteMDP:
    """Two chains of four states that begin in one, of which one ends in more (D'Eramo, Restelli, Nuara 2016).

    Action 0, right, leads from 0 to 1, action 1, left, to 5, paying 2. In 1 to 4 and in 5 to 8 right leads one on with
    probability .8, else it stays; left leads back to 0 with probability .8, paying 2, else it stays. Right in the last
    ones stays and pays 10 in 4, 5 in 8. It starts in 0.
    V(4) = 100, V(0) = 60.9254073504.
    stay: in [0, 1), the probability to stay in 0, unpaid, whatever the action; .2 in MushroomRL: V(0) = 59.4394218053.
    discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """
    within("env.stay", stay, 0.0, 1.0, ends="[)")
    stay = finite("env.stay", stay)

    def outcomes(x: int, u: int) -> Outcomes:
        if x == 0:
            ahead = (1.0 - stay, 5, 2.0) if u == 1 else (1.0 - stay, 1, 0.0)
            return [ahead, (stay, 0, 0.0)] if stay else [ahead]
        if u == 1:
            return [(0.8, 0, 2.0), (0.2, x, 0.0)]
        if x in (4, 8):
            return [(1.0, x, 10.0 if x == 4 else 5.0)]
        return [(0.8, x + 1, 0.0), (0.2, x, 0.0)]

    return finite_mdp(f"double_chain{f' stay={stay:g}' * bool(stay)}", 9, 2, outcomes, discount=discount)


def _nearby(x: int, y: np.ndarray) -> np.ndarray:
    """Probabilities of the states y, proportional to 1 / |x - y|."""
    weights = 1 / np.abs(x - y)
    return weights / weights.sum()
