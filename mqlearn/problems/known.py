"""What is known of the problems: where each comes from, values of V* to test against, and the table of all of them."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from mqlearn.problems import classic
from mqlearn.problems.environments import cliff_walking, frozen_lake, frozen_lake_blocks, frozen_lake_random, taxi
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal
from mqlearn.problems.structure import kind

SOURCES = {
    "azar_linear": "Azar, Munos, Ghavamzadeh, Kappen 2011, Speedy Q-learning; Azar, Gómez, Kappen 2012",
    "bias": "Sutton, Barto 2018, Reinforcement Learning, example 6.7; Lan, Pan, Fyshe, White 2020, Maxmin Q-learning",
    "chain_walk": "Farahmand, Ghavamzadeh 2021, PID accelerated value iteration",
    "chain_walk_walls": "Koller, Parr 2000; Lagoudakis, Parr 2003, Least-squares policy iteration",
    "combination_lock": "Azar, Munos, Ghavamzadeh, Kappen 2011, Speedy Q-learning; Azar, Gómez, Kappen 2012",
    "cone": "Wainwright 2019, cone-contractive operators; Li, Yang, Liang, Zhang, Jordan 2023, Averaged Q-learning",
    "deep_sea": "Osband et al. 2019, Behaviour suite for reinforcement learning",
    "dense_random": "Li, Yang, Liang, Zhang, Jordan 2023, Averaged Q-learning; Kamanchi, Diddigi, Bhatnagar 2019",
    "double_chain": "D'Eramo, Restelli, Nuara 2016, Weighted Q-learning",
    "estimation_bias": "Ren et al. 2021, On the estimation bias in double Q-learning",
    "forest": "pymdptoolbox, example.forest",
    "gambler": "Sutton, Barto, Reinforcement Learning, example 4.3",
    "garnet": "Bhatnagar, Sutton, Ghavamzadeh, Lee 2009, Natural actor-critic algorithms",
    "garnet_fixed": "a definition of this package",
    "inventory": "Puterman, Markov Decision Processes, section 3.2",
    "lower_bound": "Li, Cai, Chen, Wei, Chi 2021, Is Q-learning minimax optimal?; Azar, Munos, Kappen 2013",
    "machine": "a definition of this package",
    "noisy_grid": "van Hasselt 2010, Double Q-learning",
    "one_state": "Even-Dar, Mansour 2003, Learning rates for Q-learning",
    "queue": "a definition of this package",
    "recurring_cliff": "Rakhsha, Wang, Ghavamzadeh, Farahmand 2022, Operator splitting value iteration",
    "river_swim": "Strehl, Littman 2008; Osband, Russo, Van Roy 2013",
    "roulette": "Shreyas et al. 2024, Two-step Q-learning; after van Hasselt 2010, Double Q-learning",
    "six_state": "Devraj, Meyn 2017, Zap Q-learning",
    "slip_grid": "Weng, Gupta, He, Ying, Srikant 2020, The mean-squared error of double Q-learning",
    "strens_chain": "Strens 2000, A Bayesian framework for reinforcement learning",
    "truncation_example": "Chen, Clarke, Maguluri 2023, Target network and truncation overcome the deadly triad",
    "two_state": "Puterman, Markov Decision Processes, section 3.1",
    "windy_grid": "Sutton, Barto 2018, Reinforcement Learning, example 6.5",
}

# V* by the name of a model and its discount: state -> value.
VALUES: dict[tuple[str, float], dict[int, float]] = {
    ("two_state", 0.95): {0: -8.5714285714, 1: -20.0},
    ("forest n=3 r1=4 r2=2 p=0.1", 0.9): {0: 26.244, 1: 29.484, 2: 33.484},
    ("forest n=10 r1=4 r2=2 p=0.1", 0.96): {0: 26.8301859311, 9: 48.3507194808},
    ("river_swim osband n=6", 0.95): dict(
        enumerate((4.6693001607, 5.0788878941, 5.9011429679, 6.9059978984, 8.0880445273, 9.4731556288))
    ),
    ("river_swim strehl n=6", 0.95): {0: 20459.7715473982},
    ("chain_walk n=50", 0.9): {0: 0.701874794, 10: -0.3411939452, 49: 0.8478009927},
    ("chain_walk_walls n=4", 0.9): {0: 8.1, 1: 9.1, 2: 9.1, 3: 8.1},
    ("recurring_cliff", 0.9): {30: 31.7389194279, 0: 12.4995510732, 5: 200.0},
    ("lower_bound", 0.9): {0: 0.0, 1: 7.5, 2: 7.5, 3: 10.0},
    ("strens_chain slip=0.2", 0.95): dict(enumerate((61.3794816, 64.8912896, 69.5120896, 75.5920896, 83.5920896))),
    ("inventory", 0.9): dict(enumerate((17.5318096136, 21.7212535344, 25.4441564562, 27.5318096136))),
    ("queue n=21", 0.95): {0: -23.9341103758},
    ("machine n=8", 0.95): {0: -26.6619130807},
    ("noisy_grid", 0.95): dict(
        enumerate((2.5625, 3.75, 5.0, 1.434375, 2.5625, 3.75, 0.36265625, 1.434375, 2.5625, 0.0))
    ),
    ("six_state", 0.8): {5: 495.9317454937},
    ("azar_linear n=50", 0.995): {1: 1.0, 48: 1.0, 24: -4.375370956, 25: -4.375370956},
    ("combination_lock n=50", 0.995): {0: 0.3584633431, 48: 1.0},
    ("deep_sea n=10", 0.99): {0: 0.9039554549845},
    ("garnet_fixed 20,3,3", 0.9): {0: 8.4672913367},
    ("one_state", 0.9): {0: 0.0},
    ("cone", 0.9): {0: 6.75, 1: 7.5, 2: 7.5, 3: 0.0},
    ("truncation_example", 0.8): {0: 18.0, 1: 20.0},
    ("estimation_bias law=uniform deviation=1 nodes=9", 0.99): {0: 110.0, 1: 100.0},
    ("bias n_actions=10 mean=-0.1 law=normal deviation=1 nodes=5", 0.999): {0: 0.0, 1: -0.1},
    ("roulette n_bets=38 mean=-0.0526 law=normal deviation=1 nodes=5", 0.99): {0: 0.0},
    ("roulette bets=wheel", 0.95): {0: 0.0},
    ("dense_random averaged 4,3 map_seed=3154", 0.9): {0: 6.945999258317, 3: 6.934686469918},
    ("double_chain", 0.9): {0: 60.9254073504, 4: 100.0, 5: 55.446699137},
    ("slip_grid n=3", 0.9): {0: 0.5708811458, 4: 0.7395200998, 8: 1.0},
    ("windy_grid", 0.999): {30: -14.895453638},
    ("gambler n=100 p=0.4", 0.999999): {25: 0.16, 50: 0.4, 75: 0.64},
    # undiscounted, as the sources have them
    ("bias n_actions=10 mean=-0.1 law=normal deviation=1 nodes=5", 1.0): {0: 0.0, 1: -0.1},
    ("deep_sea n=10", 1.0): {0: 0.99},
    ("gambler n=100 p=0.4", 1.0): {25: 0.16, 50: 0.4, 75: 0.64},
    ("windy_grid", 1.0): {30: -15.0},
}

PROBLEMS: dict[str, Callable[..., FiniteMDP]] = {
    "frozen_lake_4x4": partial(frozen_lake, "4x4"),
    "frozen_lake_8x8": partial(frozen_lake, "8x8"),
    "frozen_lake_128x128": frozen_lake_blocks,
    "frozen_lake_blocks": partial(frozen_lake_blocks, 2),
    "frozen_lake_random": frozen_lake_random,
    "cliff_walking": cliff_walking,
    "taxi": taxi,
    **{name: getattr(classic, name) for name in classic.__all__},
}


def known(mdp: FiniteMDP) -> dict[str, Any]:
    """Source, usual discount and known values of V* of a model of `mqlearn.problems.classic`; of others nothing."""
    name = mdp.name.split()[0]
    if name not in SOURCES:
        return {}
    values = VALUES.get((mdp.name, mdp.discount), {})
    return {
        "known_values": ", ".join(f"V({x})={value:.13g}" for x, value in values.items()) or "not at these settings",
        "usual_discount": inspect.signature(PROBLEMS[name]).parameters["discount"].default,
        "source": SOURCES[name],
    }


def problems_table(problems: Mapping[str, Callable[..., FiniteMDP]] = PROBLEMS) -> list[dict[str, Any]]:
    """A row for each problem at its defaults: name, states, pairs that count, usual discount, kind."""
    rows = []
    for name, make in problems.items():
        mdp = make()
        row = {"name": name, "states": mdp.n_states, "pairs": int(mdp.counted.sum()), "discount": mdp.discount}
        rows.append(row | {"kind": kind(mdp, optimal(mdp))})
    return rows
