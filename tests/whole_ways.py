"""What tests of whole ways through the command line share."""

from pathlib import Path

from mqlearn.storage import runs

SMALL = ("iterations=50", "n_seeds=3", "n_checkpoints=5")


MODULE = """
import numpy as np
import mqlearn as mq

class Wild(mq.Rule):
    def __init__(self, gain: float = 1.0):
        self.gain = gain

    def update(self, k, q, q_prev, target, target_prev):
        a = self.gain * self.step_size(k)
        return (1 - a) * q + a * target

def chain(length: int = 5, discount: float = 0.9):
    step = np.minimum(np.arange(length) + 1, length - 1)
    y = np.stack([np.maximum(np.arange(length) - 1, 0), step], axis=1)[:, :, None]
    terminal = np.arange(length) == length - 1
    y[terminal] = length - 1
    enters = (y == length - 1) & ~terminal[:, None, None]
    return mq.FiniteMDP(
        successors=y, probabilities=np.ones(y.shape), rewards=enters.astype(float), terminal=terminal,
        admissible=np.ones((length, 2), bool), start=np.eye(length)[0], discount=discount, goal=terminal,
        name="my chain",
    )

def largest(q, mdp):
    return np.abs(q).max(axis=(1, 2))
"""


def found(outputs: Path) -> list[runs.Run]:
    """The runs of an outputs folder, by seed."""
    all_runs = [runs.load(path.parent) for path in outputs.glob("runs/**/summary.json")]
    return sorted(all_runs, key=lambda run: run.settings["seed"])
