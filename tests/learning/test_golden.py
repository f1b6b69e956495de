"""The numbers themselves: digests of a few small runs, pinned to NUMERICS_VERSION.

A cell is found again by its digest, of which NUMERICS_VERSION is a part: were the same settings to give other numbers
under the same version, old and new runs would be mixed. Hashed is what learning and evaluation compute, not the
distance to the optimum, which the machine's linear algebra may round in its own way.
"""

import hashlib
from typing import Any

import numpy as np
import pytest
from twins import run

from mqlearn.algorithms import MomentumQ, NeSA, QLearning, Rule, SpeedyQ
from mqlearn.algorithms.step_sizes import Constant, Harmonic, InverseSqrt
from mqlearn.learners import Linear
from mqlearn.learning.loop import NUMERICS_VERSION
from mqlearn.problems.environments import frozen_lake, frozen_lake_blocks
from mqlearn.problems.features import aggregation, one_hot
from mqlearn.sampling.evaluation import Evaluation
from mqlearn.sampling.modes import IID, Markovian, Replay

LAKE = frozen_lake("4x4", rewards=(1, -0.5, -0.01))
BLOCKS = frozen_lake_blocks(2, "4x4", rewards=(1, -0.5, -0.01))


class Momentum(Rule):
    """Algorithm 2 with b = c = 0.375 throughout: no power of lam, which processors round differently."""

    def update(self, k, q, q_prev, target, target_prev):
        a, b = self.step_size(k), 0.375
        return (1 - a) * q + (b * (1 - a) + b) * (q - q_prev) + a * ((1 + b) * target - b * target_prev)


RUNS: dict[str, dict[str, Any]] = {
    "synchronous, equal shares": {"mdp": LAKE, "rule": MomentumQ(m=2)},
    "synchronous, thresholds": {"mdp": frozen_lake("4x4", success_rate=0.8), "rule": NeSA(), "reward": "sampled"},
    "markovian": {"mdp": LAKE, "rule": SpeedyQ(), "sampling": Markovian(clock="local", restart_probability=0.01)},
    "epsilon-greedy": {
        "mdp": LAKE,
        "rule": QLearning().with_step_size(InverseSqrt(0.5, 100)),
        "sampling": Markovian(behaviour="epsilon_greedy", epsilon=(1.0, 0.25, 400), time_limit=50, clock="global"),
    },
    "rounds": {"mdp": LAKE, "rule": SpeedyQ(), "sampling": Markovian(update="rounds", start="uniform")},
    "replay": {"mdp": LAKE, "rule": QLearning(), "sampling": Replay(capacity=64, warm_up=20, draws=2, clock="global")},
    "iid": {"mdp": LAKE, "rule": QLearning().with_step_size(Harmonic(9)), "sampling": IID(clock="global")},
    "linear": {
        "mdp": BLOCKS,
        "rule": Momentum().with_step_size(Constant(0.125)),
        "sampling": Replay(capacity=200, start="uniform"),
        "features": aggregation(BLOCKS, tile=2),
        "theta0": 0.05,
    },
    "linear, same sample": {
        "mdp": LAKE,
        "rule": Momentum().with_step_size(Constant(0.125)),
        "sampling": Markovian(behaviour="epsilon_greedy"),
        "features": one_hot(LAKE),
        "linear": Linear("same_sample", projection=2.0),
        "theta0": (0.0, 0.1),
    },
}

# NUMERICS_VERSION and the first 16 digits of each digest under it.
PINNED = (
    1,
    {
        "synchronous, equal shares": "e3b03e5df8da54a0",
        "synchronous, thresholds": "700bd90919266f52",
        "markovian": "3cb7c794d6f6e011",
        "epsilon-greedy": "3d139fde56a89c7d",
        "rounds": "a90e206551c3fac8",
        "replay": "891da4a7fc327f55",
        "iid": "4cf641d4eb94536f",
        "linear": "12f0c890cb50cb40",
        "linear, same sample": "80f78eff689c7af2",
    },
)


def largest(tables: np.ndarray, mdp: Any) -> np.ndarray:
    return tables[:, mdp.learned].max(axis=1)


def digest(name: str) -> str:
    """Of the curves of the largest entry and of the returns, the tables, the parameters and the visits."""
    settings = dict(RUNS[name])
    result = run(
        settings.pop("mdp"), settings.pop("rule"), iterations=800, n_seeds=6, seed=11, n_checkpoints=12,
        metrics={"largest": largest}, evaluation=Evaluation(episodes=5, time_limit=60), **settings,
    )  # fmt: skip
    code = hashlib.sha256(result.iteration.tobytes())
    for curve in ("largest", "return_start", "return_uniform"):
        code.update(result.curves[curve].tobytes())
    for array in (result.q, result.theta, result.theta_average, result.visits):
        if array is not None:
            code.update(np.ascontiguousarray(array).astype(np.float64).tobytes())
    return code.hexdigest()[:16]


@pytest.mark.parametrize("name", RUNS)
def test_the_same_settings_give_the_same_numbers(name):
    version, digests = PINNED
    found = digest(name)
    assert version == NUMERICS_VERSION, f"NUMERICS_VERSION was raised: pin the new digests here, {name!r}: {found!r}"
    assert digests[name] == found, (
        f"{name}: the same settings give other numbers. If that is meant, raise NUMERICS_VERSION in "
        f"mqlearn/experiment.py and pin the new digests here; else find out what changed them. Now {found!r}."
    )


def test_every_pinned_run_is_made():
    assert PINNED[1].keys() == RUNS.keys()
