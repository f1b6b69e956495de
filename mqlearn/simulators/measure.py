"""What is measured of a run on a `Simulator`, which has no model."""

from typing import Any

import numpy as np

from mqlearn.errors import user_code
from mqlearn.sampling.evaluation import Evaluation


class SimulationMeasure:
    """What can be measured without a model: the return of greedy episodes from the environment's own start.

    return_start: their sum, and expected_return: their mean, which is an estimate of what the name says.
    Without a time limit that is Gymnasium's own, or 1000 moves where it has none.
    """

    def __init__(self, evaluation: Evaluation, iteration: np.ndarray) -> None:
        self.evaluation = evaluation
        self.iteration = iteration

    def __call__(self, column: int, learner: Any) -> dict[str, np.ndarray]:
        """Metric name -> (lanes,)."""
        at = self.evaluation.place(self.iteration[column])
        with user_code("env.id", learner.simulator.name):
            returns = learner.returns(self.evaluation.episodes, self.evaluation.time_limit, at)
        if not returns:
            return {}
        return {"expected_return": returns["return_start"] / self.evaluation.episodes, **returns}
