"""One to five states of papers on step sizes, horizons, truncation and estimation bias.

V is V*, the value under the best actions, at the usual discount, which is the default.
"""

import inspect
from typing import Any

import numpy as np

from mqlearn.checks import check_int, choice, finite, within
from mqlearn.errors import SettingError
from mqlearn.finding import unused
from mqlearn.problems.classic.building import Outcomes, finite_mdp
from mqlearn.problems.classic.reward_laws import RewardLaw
from mqlearn.problems.mdp import FiniteMDP, check_discount


def one_state(*, discount: float = 0.9) -> FiniteMDP:
    """One state, one action, no reward: from Q_0 above 0 and with steps 1/k the error falls like k^-(1-g), no faster.

    The lower bound of Even-Dar, Mansour 2003 on linear steps. Q* = 0, so start elsewhere, as in q0=1.
    discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """
    return finite_mdp("one_state", 1, 1, lambda x, u: [(1.0, 0, 0.0)], discount=discount)


def cone(*, noise: float = 0.0, discount: float = 0.9) -> FiniteMDP:
    """Five states on which errors grow with a high power of 1/(1 - g) (Wainwright 2019, Stochastic approximation with
    cone-contractive operators; read in the code of Li et al. 2023).

    Action u in state 0 leads to 1 + u and pays 0. States 1 and 2 pay 1, stay with probability p = (4g - 1) / (3g), and
    else lead to 3 and 4, absorbing states of their own that pay 0; there both actions are the same. It starts in 0.
    The model depends on the discount, which must be above 1/4: `with_discount` does not change p.
    V = .75 g / (1 - g), .75 / (1 - g), .75 / (1 - g), 0, 0.
    noise: at least 0; a reward is its mean plus or minus it, as often, whatever follows (Zhao, Xiong, Liang 2021: 0.5).
    Raises SettingError for a discount that is not in (1/4, 1).
    """
    discount = check_discount(discount)
    within("env.noise", noise, 0.0, ends="[)")
    if discount <= 0.25:
        raise SettingError("discount", discount, "must be above 1/4 for cone: p = (4g - 1) / (3g) is positive")
    p = (4 * discount - 1) / (3 * discount)

    def outcomes(x: int, u: int) -> Outcomes:
        if x == 0:
            means = [(1.0, 1 + u, 0.0)]
        else:
            means = [(p, x, 1.0), (1 - p, x + 2, 1.0)] if x in (1, 2) else [(1.0, x, 0.0)]
        if not noise:
            return means
        return [(share / 2, y, mean + sign * noise) for share, y, mean in means for sign in (-1, 1)]

    return finite_mdp("cone", 5, 2, outcomes, discount=discount)


def truncation_example(*, discount: float = 0.8) -> FiniteMDP:
    """Two states on which Q-learning with one feature diverges (Chen, Clarke, Maguluri 2023).

    Action u leads to state u. Rewards: 1 and 2 of the actions in state 0, 2 and 4 in state 1. The feature is (1, 2, 2,
    4) too: `features=mean_reward`. From the uniform distribution the mean iteration is theta -> 1 + 1.2 g theta, so
    that a target network and plain Q-learning diverge where g > 5/6. It starts in either state.
    V = 2 + 4 g / (1 - g), 4 / (1 - g).
    discount: in (0, 1). Raises SettingError for a value that is not admissible.
    """
    paid = ((1.0, 2.0), (2.0, 4.0))
    start = np.array([0.5, 0.5])
    return finite_mdp("truncation_example", 2, 2, lambda x, u: [(1.0, u, paid[x][u])], discount=discount, start=start)


def estimation_bias(
    law: str = "uniform", deviation: float = 1.0, nodes: int = 9, *, discount: float = 0.99
) -> FiniteMDP:
    """Two states on which the mean of double Q-learning has three fixed points (Ren et al. 2021, On the estimation bias
    in double Q-learning).

    In state 0 action 0 stays and pays 1.1, action 1 leads to 1 and pays 1; in state 1 its one action stays and pays 1.
    It starts in 0. V = 110, 100. If each estimate of an action is off by an independent number of U(-1, 1), the value
    P(0) Q(0, 0) + P(1) Q(0, 1), with the probabilities of the actions being greedy, has the fixed points V(0) =
    100.162, 101.158 (theirs: 101.159) and 110, where action 0 is greedy with probability .622, .929 and 1: of double
    Q's mean, not of the model. Here the reward carries that number, so that double Q-learning with step 1 has such
    estimates.
    law, deviation, nodes: of the reward, see `RewardLaw`.   discount: in (0, 1). Raises SettingError for values that
    are not admissible.
    """
    noise = RewardLaw(law, finite("env.deviation", deviation), nodes)

    def outcomes(x: int, u: int) -> Outcomes:
        if x == 1 and u == 1:
            return []
        return [(p, max(x, u), r) for p, r in noise.outcomes(1.1 if (x, u) == (0, 0) else 1.0)]

    name = f"estimation_bias {noise.words}"
    return finite_mdp(name, 2, 2, outcomes, discount=discount, notes=noise.notes)


def bias(
    n_actions: int = 10,
    mean: float = -0.1,
    law: str = "normal",
    deviation: float = 1.0,
    nodes: int = 5,
    *,
    discount: float = 0.999,
) -> FiniteMDP:
    """The maximisation bias of A and B (Sutton, Barto 2018, example 6.7; Lan et al. 2020 with a uniform law).

    State 0 is A: action 0, left, leads to B, action 1, right, ends, both pay 0. State 1 is B, whose n_actions actions
    end and pay a reward of the same law. It starts in A; the end is state 2. The source has discount 1. The number of
    actions is not in the book, and 10 in code for it; Lan et al. have 8, mean .1 or -.1, law uniform, deviation 1.
    V(B) = mean, V(A) = max(0, g mean).
    law, deviation, nodes: of the rewards of B, see `RewardLaw`.   discount: in (0, 1]. Raises SettingError for values
    that are not admissible.
    """
    n_actions, mean = check_int("env.n_actions", n_actions, 2), finite("env.mean", mean)
    rewards = RewardLaw(law, finite("env.deviation", deviation), nodes)

    def outcomes(x: int, u: int) -> Outcomes:
        if x == 0:
            return [(1.0, 1 + u, 0.0)] if u < 2 else []
        return [(p, 2, r) for p, r in rewards.outcomes(mean)]

    name = f"bias n_actions={n_actions} mean={mean:g} {rewards.words}"
    return finite_mdp(name, 3, n_actions, outcomes, discount=discount, terminal=(2,), notes=rewards.notes)


# The bets on an American wheel of 38 numbers by kind: how many there are, what a dollar wins, on how many numbers.
_WHEEL = (
    (38, 35, 1), (58, 17, 2), (15, 11, 3), (24, 8, 4), (12, 6, 5), (11, 5, 6), (6, 2, 12), (6, 1, 18),
)  # fmt: skip


def roulette(
    n_bets: int = 38,
    mean: float = -0.0526,
    law: str = "normal",
    deviation: float = 1.0,
    nodes: int = 5,
    *,
    bets: str = "alike",
    discount: float = 0.99,
) -> FiniteMDP:
    """Bets that lose on average, and leaving: Q-learning keeps betting for long.

    In state 0 action 0 leaves and pays 0; the others bet a dollar and stay. The end is state 1. V = 0, and Q* of a bet
    is its mean.
    alike (Shreyas et al. 2024, 39 arms): n_bets bets, all of which pay a reward of the same law.
    wheel (van Hasselt 2010, discount .95; the list of Shreyas' program RL.py, read there): 170 bets on a wheel of 38
    numbers, by kind: 38 on a number (pay 35), 58 splits (17), 15 on three numbers (11), 24 corners (8), 12 times the
    top line of five numbers (6), 11 six lines (5), 6 columns and dozens (2), 6 on half of 36 (1); else the dollar is
    lost. A bet on j numbers wins with j/38; the program has 3/37 in one place. The mean is -2/38, of the top line
    -3/38; n_bets and the law have no effect. Two of the corners are on no table, which changes no number.
    mean, law, deviation, nodes: of what a bet pays, see `RewardLaw`.   discount: in (0, 1]. Raises SettingError for
    values that are not admissible.

    >>> mdp = mq.roulette(bets="wheel", discount=0.95)
    >>> len(mdp.pairs), (38 * mq.optimal(mdp).q[0, [0, 1, 170]]).round(9).tolist()
    (171, [0.0, -2.0, -2.0])
    """
    if choice("env.bets", bets, ("alike", "wheel")) == "wheel":
        return _wheel(discount, {"n_bets": n_bets, "mean": mean, "law": law, "deviation": deviation, "nodes": nodes})
    n_bets, mean = check_int("env.n_bets", n_bets, 1), finite("env.mean", mean)
    rewards = RewardLaw(law, finite("env.deviation", deviation), nodes)

    def outcomes(x: int, u: int) -> Outcomes:
        return [(1.0, 1, 0.0)] if u == 0 else [(p, 0, r) for p, r in rewards.outcomes(mean)]

    name = f"roulette n_bets={n_bets} mean={mean:g} {rewards.words}"
    return finite_mdp(name, 2, n_bets + 1, outcomes, discount=discount, terminal=(1,), notes=rewards.notes)


def _wheel(discount: float, given: dict[str, Any]) -> FiniteMDP:
    """Roulette with the bets of the wheel; given: the settings that have no effect on it."""
    listed = [(paid, numbers / 38) for count, paid, numbers in _WHEEL for _ in range(count)]

    def outcomes(x: int, u: int) -> Outcomes:
        if u == 0:
            return [(1.0, 1, 0.0)]
        paid, p = listed[u - 1]
        return [(p, 0, paid), (1 - p, 0, -1.0)]

    plain = {name: one.default for name, one in inspect.signature(roulette).parameters.items() if name in given}
    notes = tuple(finding.text for finding in unused("env", given, plain, "bets is wheel"))
    name = "roulette bets=wheel"
    return finite_mdp(name, 2, len(listed) + 1, outcomes, discount=discount, terminal=(1,), notes=notes)
