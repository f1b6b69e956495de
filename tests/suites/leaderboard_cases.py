"""A small suite and results on it, for the tests of leaderboards."""

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.suites import definition, trials
from mqlearn.suites.leaderboard.board import board
from mqlearn.suites.results import Entry, Results
from mqlearn.suites.scores import log_errors, scores

# What a smallest suite says of itself.
KEYS = {"base": [], "budget": 100, "metric": "q_error", "problems": {"two": ["env=two_state"]},
        "seeds": {"tuning": 2, "tuning_seed": 1, "reporting": 3, "reporting_seed": 0}}  # fmt: skip

PROBLEMS = {
    "two": ["env=two_state", "discount=0.9"],
    "forest": ["env=forest", "discount=0.9"],
    "walls": ["env=chain_walk_walls", "discount=0.9"],
    "river": ["env=river_swim", "discount=0.9"],
    "inventory": ["env=inventory", "discount=0.9"],
    "strens": ["env=strens_chain", "discount=0.9"],
    "six": ["env=six_state", "discount=0.8"],
    "garnet": ["env=garnet_fixed", "env.n_states=6", "discount=0.9"],
}
RULES = {
    "q_learning": mq.QLearning().with_step_size(mq.RescaledLinear(0.9)),
    "speedy_q": mq.SpeedyQ(),
    "root_sa": mq.RootSA(eta=0.5),
    "harmonic": mq.QLearning(),
}


@pytest.fixture(scope="module")
def suite():
    content = {
        "base": ["reward=sampled"],
        "budget": 3000,
        "metric": "q_error",
        "problems": PROBLEMS,
        "seeds": {"tuning": 2, "tuning_seed": 1000, "reporting": 8, "reporting_seed": 0},
    }
    return definition.made("small", content)


def results_of(problem, curves) -> Results:
    """Results of curves by rule: samples (K,), errors (n_seeds, K)."""
    facts = {
        "problem": problem.name, "digest": "", "overrides": problem.overrides, "env": problem.name,
        "model": problem.name, "discount": 0.9,
        "reward": "sampled", "sampling": "synchronous", "metric": "q_error", "pairs": problem.pairs, "budget": 3000,
        "seeds": vars(problem.seeds), "kind": "ergodic", "floor": 0.1,
        "kinds": ["ergodic" if problem.name in ("two", "forest", "walls") else "absorbing", "noisy"],
    }  # fmt: skip
    entries = {}
    for name, (samples, measured) in curves.items():
        own = scores(samples, measured, problem.axis).astype(np.float32)
        curve = log_errors(samples, measured, problem.axis).mean(0).astype(np.float32)
        entries[name] = Entry(
            "",
            (f"algorithm={name}",),
            9,
            ((),),
            0,
            np.zeros((1, 2), np.float32),
            np.stack([own] * 2),
            np.stack([curve] * 2),
        )
    return Results(facts, entries)


def errors(problem, rules, n_seeds=8, seed=0):
    found = trials.run(problem, [[rule] for rule in rules.values()], seed, n_seeds)
    return {name: (one.samples, one.errors) for name, (one,) in zip(rules, found, strict=True)}


@pytest.fixture(scope="module")
def every(suite):
    return [results_of(problem, errors(problem, RULES)) for problem in suite.problems]


@pytest.fixture(scope="module")
def found(every):
    return board("small", every, ["root_sa"])
