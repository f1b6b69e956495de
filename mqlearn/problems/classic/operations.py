"""Problems of operations research: stock, queue, machine, stakes.

V is V*, the value under the best actions, at the usual discount, which is the default.
"""

from mqlearn.checks import check_int, check_probability
from mqlearn.problems.classic.building import Outcomes, checked_size, finite_mdp
from mqlearn.problems.mdp import FiniteMDP

_STOCK = 3  # the largest
_DEMAND = ((0.25, 0), (0.5, 1), (0.25, 2))  # probability, units
_PROFIT = ((0.0, -1.0, -2.0, -5.0), (5.0, 0.0, -3.0), (6.0, -1.0), (5.0,))  # R(x, u), means over the demand


def inventory(*, discount: float = 0.9) -> FiniteMDP:
    """Stochastic inventory control (Puterman, Markov Decision Processes, section 3.2, M=3).

    Stock x = 0..3, an order of u <= 3 - x units; a demand of 0, 1, 2 units with probability .25, .5, .25; the next
    stock is max(x + u - demand, 0). The reward R(x, u) is the mean profit over the demand. It starts without stock.
    V = 17.5318096136, 21.7212535344, 25.4441564562, 27.5318096136.
    discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """

    def outcomes(x: int, u: int) -> Outcomes:
        if x + u > _STOCK:
            return []
        return [(p, max(x + u - demand, 0), _PROFIT[x][u]) for p, demand in _DEMAND]

    return finite_mdp("inventory", _STOCK + 1, _STOCK + 1, outcomes, discount=discount)


def queue(n: int = 21, *, discount: float = 0.95) -> FiniteMDP:
    """A server that can work slowly or fast (a definition of this package): x = 0..n-1 jobs.

    One of three things happens in a step: an arrival with probability .3 (lost when full), the end of a service with
    s(u) (nothing when empty), or nothing. Action 0 is slow, s = .3; action 1 is fast, s = .6, and costs 1. The reward
    is -(x + cost), x the state left. It starts empty. V(0) = -23.9341103758; slow is best only when empty.
    discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """
    n = checked_size("env.n", check_int("env.n", n, 2, why=" (empty and full differ)"), lambda n: 6 * n)

    def outcomes(x: int, u: int) -> Outcomes:
        served, reward = (0.3, 0.6)[u], -float(x + u)
        return [(0.3, min(x + 1, n - 1), reward), (served, max(x - 1, 0), reward), (1 - 0.3 - served, x, reward)]

    return finite_mdp(f"queue n={n}", n, 2, outcomes, discount=discount)


def machine(n: int = 8, *, discount: float = 0.95) -> FiniteMDP:
    """Replacement of a machine (a definition of this package): wear x = 0..n-1.

    Action 0 keeps it: it pays -x, and wear grows by 1 (at most n-1) with probability .3. Action 1 replaces it: it pays
    -8 and leads to 0. It starts new. V(0) = -26.6619130807; replacing is best from wear 2.
    discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """
    n = checked_size("env.n", check_int("env.n", n, 2, why=" (new and worn differ)"), lambda n: 4 * n)

    def outcomes(x: int, u: int) -> Outcomes:
        if u == 1:
            return [(1.0, 0, -8.0)]
        return [(0.3, min(x + 1, n - 1), -float(x)), (0.7, x, -float(x))]

    return finite_mdp(f"machine n={n}", n, 2, outcomes, discount=discount)


def gambler(n: int = 100, p: float = 0.4, *, discount: float = 0.999999) -> FiniteMDP:
    """The gambler's problem (Sutton, Barto, Reinforcement Learning, example 4.3): capital x = 0..n.

    0 and n are terminal. Action u stakes u + 1, at most min(x, n - x), and wins as much with probability p, else loses
    it; arriving at n pays 1. It starts in the middle, n // 2. A stake of 0 would change no value and is left out.
    Within 1e-6: V(25) = .16, V(50) = .4, V(75) = .64. Optimal actions tie in 36 states, and nearly tie in most others:
    compare values here, never policies.
    discount: in (0, 1]. Raises SettingError for a value that is not admissible.
    """
    n, p = check_int("env.n", n, 2, why=" (there is a capital between 0 and n)"), check_probability("env.p", p)
    checked_size("env.n", n, lambda n: n * n)

    def outcomes(x: int, u: int) -> Outcomes:
        stake = u + 1
        if stake > min(x, n - x):
            return []
        return [(p, x + stake, float(x + stake == n)), (1 - p, x - stake, 0.0)]

    name = f"gambler n={n} p={p:g}"
    return finite_mdp(name, n + 1, n // 2, outcomes, discount=discount, start=n // 2, terminal=(0, n), goal=(n,))
