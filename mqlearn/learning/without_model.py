"""Runs on a `Simulator`, which has no model: what is refused, what is measured, and what the summary records."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from mqlearn.errors import SettingError, user_code
from mqlearn.learning.metrics import Evaluation
from mqlearn.learning.sampling_protocol import exploration_rate
from mqlearn.learning.simulation import SimulatedLearner
from mqlearn.problems.encodings import BoxMap
from mqlearn.problems.environments.simulator import Simulator


def check(
    simulator: Simulator,
    sampling: Any,
    features: Any,
    reward: str = "sampled",
    metrics: Mapping[str, Any] | None = None,
) -> None:
    """Refuse what needs a model or features. Raises SettingError."""
    reason = f"needs an exact model, and {simulator.name} has none"
    if sampling.needs_model:
        raise SettingError("sampling", sampling.name, f"{reason}; use markovian or replay")
    if not isinstance(features, BoxMap):
        name = getattr(features, "name", "tabular")
        ways = "tile_coding, rbf or fourier" if simulator.n_observations is None else "one_hot"
        raise SettingError("features", name, f"{reason}; use {ways}")
    expected = len(features.low), features.n_actions
    given = (*simulator.env.observation_space.shape, simulator.n_actions)  # type: ignore[misc]  # a Box has a shape
    if given != expected:
        wanted = f"was made for {expected[0]} numbers and {expected[1]} actions; {simulator.name} has {given}"
        raise SettingError("features", features.name, wanted)
    for name, value, plain in (
        ("sampling.start", sampling.start, "start"),
        ("sampling.restart_probability", sampling.restart_probability, 0),
        ("sampling.clock", "global" if sampling.clock == "auto" else sampling.clock, "global"),
        ("sampling.update", sampling.update, "pair"),
        ("sampling.warm_up", sampling.warm_up, 0),
        ("reward", reward, "sampled"),
    ):
        if value != plain:
            raise SettingError(name, value, f"{reason}; only {plain} is possible there")
    if metrics:
        raise SettingError("metrics", list(metrics), f"{reason}; functions of the tables cannot be measured there")
    if not isinstance(sampling.behaviour, str):
        raise SettingError("sampling.behaviour", "table", f"{reason}; use uniform or epsilon_greedy")


class SimulationMeasure:
    """What can be measured without a model: the return of greedy episodes from the environment's own start.

    return_start: their sum, and expected_return: their mean, which is an estimate of what the name says.
    Without a time limit that is Gymnasium's own, or 1000 moves where it has none. Raises SettingError for other starts.
    """

    def __init__(self, evaluation: Evaluation, iteration: np.ndarray) -> None:
        if evaluation.start == "uniform":
            expected = "needs an exact model; use start, the environment's own"
            raise SettingError("evaluation.start", evaluation.start, expected)
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


def seen_by_simulators(learners: list[SimulatedLearner], iterations: int, sampling: Any) -> dict[str, Any]:
    """What the walks have seen, over all seeds, of diverged ones until then, as the summary of a run records it."""
    if not learners:
        return {}
    steps, episodes, terminated = np.sum([learner.seen() for learner in learners], axis=0).tolist()
    facts = {
        "chain_steps": steps,
        "episodes": episodes,
        "episodes_terminated": terminated,
        "common_random_numbers": "uniforms, not the trajectory" if sampling.adaptive else "samples",
    }
    if sampling.adaptive:
        facts["exploration"] = float(exploration_rate(sampling.exploration, iterations))
    return facts
