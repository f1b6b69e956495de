"""The learners that are measured, and the seeds they start with."""

from typing import Any

import numpy as np

import mqlearn as mq
from mqlearn import learners
from mqlearn.sampling.chains import Samples, copied

SEEDS = np.arange(20, dtype=np.uint32)


def start(mdp: mq.FiniteMDP, sampling: Any, features: Any, linear: mq.Linear | None = None, n: int = 20) -> Any:
    initial, mean_reward = 0.0 if features is None else 0.05, isinstance(sampling, mq.Synchronous)
    return learners.start(mdp, sampling, features, linear or mq.Linear(), 0, initial, mean_reward, SEEDS[:n])


def restart(learner: Any, fresh: Any) -> None:
    vars(learner).update(vars(fresh.copy()))
    if hasattr(fresh, "samples"):  # of its own, to be drawn anew
        learner.samples = Samples(copied(fresh.samples.chain))
