"""Runs of every kind of sampling and features, small."""

from typing import Any

from twins import run

from mqlearn.algorithms import MomentumQ, MomentumQLinear, QLearning, SpeedyQ
from mqlearn.algorithms.step_sizes import Constant
from mqlearn.learners import Linear
from mqlearn.problems.environments import frozen_lake, frozen_lake_blocks
from mqlearn.problems.features import aggregation, one_hot
from mqlearn.sampling.evaluation import Evaluation
from mqlearn.sampling.modes import IID, Markovian, Replay

LAKE = frozen_lake("4x4", discount=0.9)
# With a cost of every move a table shows all that was sampled.
COSTLY = frozen_lake("4x4", discount=0.9, rewards=(1, -0.5, -0.01))
BLOCKS = frozen_lake_blocks(2, "4x4", discount=0.9, rewards=(1, -0.5, -0.01))

KINDS = {
    "synchronous": {"mdp": COSTLY, "rule": MomentumQ()},
    "markovian": {"mdp": COSTLY, "rule": SpeedyQ(), "sampling": Markovian(clock="local")},
    "epsilon-greedy": {"mdp": COSTLY, "rule": QLearning(), "sampling": Markovian(behaviour="epsilon_greedy")},
    "rounds": {"mdp": COSTLY, "rule": SpeedyQ(), "sampling": Markovian(update="rounds", start="uniform")},
    "replay": {"mdp": COSTLY, "rule": QLearning(), "sampling": Replay(capacity=100, warm_up=30, draws=2)},
    "iid": {"mdp": COSTLY, "rule": MomentumQLinear(beta=0.5), "sampling": IID(start="uniform")},
    "linear": {
        "mdp": BLOCKS,
        "rule": MomentumQLinear(beta=0.8).with_step_size(Constant(0.1)),
        "sampling": Replay(capacity=1000, start="uniform"),
        "features": aggregation(BLOCKS, tile=2),
        "theta0": (0.0, 0.1),
    },
    "linear, markovian": {
        "mdp": COSTLY,
        "rule": MomentumQLinear(beta=0.8).with_step_size(Constant(0.1)),
        "sampling": Markovian(),
        "features": one_hot(COSTLY),
        "linear": Linear("same_sample"),
        "theta0": 0.05,
    },
}  # fmt: skip


def learn(kind: str, **more: Any) -> Any:
    arguments: dict[str, Any] = (
        {"iterations": 3000, "n_checkpoints": 8, "evaluation": Evaluation(episodes=4)} | KINDS[kind] | more
    )
    mdp, rule = arguments.pop("mdp"), arguments.pop("rule")
    return run(mdp, rule, **arguments)
