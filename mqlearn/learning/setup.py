"""The settings of a run: each checked alone and all together, defaults resolved, in one frozen `Setup`.

`validated` states the keywords of `mq.run` and their defaults, once: `keywords_of` gives them to `run` and
`run_together`.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Concatenate, Literal, ParamSpec, Required, TypedDict, TypeVar

import numpy as np

from mqlearn.algorithms.operators import Bellman, Operator
from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.stateful import Stateful
from mqlearn.algorithms.step_sizes import StepSize
from mqlearn.checks import check_int, choice
from mqlearn.errors import KeywordError, SettingError, asked, nearest
from mqlearn.finding import Finding
from mqlearn.learners import Linear, on_clock, with_state
from mqlearn.learners.initial import Initial, bounds
from mqlearn.learners.operators import BoundOperator, on_problem
from mqlearn.learning import combinations
from mqlearn.learning.bar import Bar
from mqlearn.learning.metrics import Metric
from mqlearn.learning.warm_start import Start, of_parameters, of_tables, told_of
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.sampling.evaluation import Evaluation
from mqlearn.sampling.modes import Sampling, Synchronous
from mqlearn.stateful.check import check

Environment = FiniteMDP | Simulator
AnyRule = Rule | Stateful
Progress = Callable[[int, float], None]


class _Default(int):
    """A default, as told from the same number given: recorded transitions have one seed unless more are asked for."""


SEEDS = _Default(20)  # of a run, unless set
_EPISODES, _SIMULATED_EPISODES = 150, 10  # of an evaluation, unless set; Gymnasium's own steps are slow

_E = TypeVar("_E")
_R = TypeVar("_R")
_T = TypeVar("_T")
_P = ParamSpec("_P")


@dataclass(frozen=True, eq=False, kw_only=True)
class Setup:
    """The validated settings of a run, without its rules. `validated` makes it.

    iteration: (C,) int64 checkpoints, the last is T, as `checkpoints` and `n_checkpoints` ask.
    step_size: of every rule, None leaves each its own.
    evaluation: with its number of episodes.   operator: on this problem.   n_workers: threads, None for as many as
    suit.   reward: mean or sampled.   start_findings: what must be said of a result that is gone on from.
    The other fields are as in `mqlearn.run`.
    """

    mdp: Environment
    iteration: np.ndarray
    checkpoints: str
    n_checkpoints: int
    n_seeds: int
    seed: int
    step_size: StepSize | None
    sampling: Sampling
    features: Any
    linear: Linear
    operator: BoundOperator
    evaluation: Evaluation
    n_workers: int | None
    reward: str
    q0: Initial
    theta0: Initial
    metrics: Mapping[str, Metric]
    progress: Progress | None
    start_findings: tuple[Finding, ...] = ()

    @property
    def iterations(self) -> int:
        return int(self.iteration[-1])

    @property
    def synchronous(self) -> bool:
        return self.sampling.all_pairs

    @property
    def initial(self) -> Initial:
        """Q_0 of tables, theta_0 with features."""
        return self.q0 if self.features is None else self.theta0

    def sampling_of(self, rule: AnyRule) -> Sampling:
        """The sampling with the clock of this rule's step size."""
        return on_clock(self.sampling, rule, self.features)

    def of_rule(self, rule: AnyRule) -> "Setup":
        """The setup with the operator that a rule has of its own, if it has one. Raises SettingError."""
        own = asked("algorithm", rule, "own_operator", self.sampling)
        if own is None:
            return self
        if not self.operator.plain:
            expected = f"must be bellman with {type(rule).__name__}, whose operator follows from its behaviour"
            raise SettingError("operator", self.operator.name, expected)
        return replace(self, operator=on_problem(own, self.mdp, self.features))

    def prepared(self, rule: AnyRule) -> AnyRule:
        """The rule with its step size, at the discount of the problem."""
        rule = rule if self.step_size is None else rule.with_step_size(self.step_size)
        return rule.at(self.mdp.discount) if isinstance(rule, Stateful) else rule

    def check_rule(self, rule: AnyRule) -> None:
        """Raise SettingError if a rule that is prepared, and sound alone, cannot be run with these settings."""
        if rule.clip is not None and self.features is None:
            low, high = bounds(self.q0)
            if not rule.clip[0] <= low <= high <= rule.clip[1]:
                told = f"lies in [{low:g}, {high:g}]" if isinstance(self.q0, np.ndarray) else f"is {self.q0}"
                raise SettingError("algorithm.clip", [*rule.clip], f"must hold Q_0, and q0 {told}")
        own, sampling = with_state(rule, self.features, self.linear), self.sampling_of(rule)
        operator = self.operator.operator
        combinations.check_rule(self.mdp, own, sampling, self.features, self.linear, operator, self.n_seeds)

    def ready(self, rule: AnyRule) -> AnyRule:
        """The rule prepared. Raises SettingError if it cannot be run, alone or with these settings."""
        rule = self.prepared(rule)
        check(rule, self.mdp.discount)
        self.check_rule(rule)
        return rule


class RunSettings(TypedDict, total=False):
    """The keywords of `validated`, for type checkers."""

    iterations: Required[int]
    n_seeds: int
    seed: int
    step_size: StepSize | None
    sampling: Sampling | None
    features: Any
    linear: Linear | None
    operator: Operator | None
    evaluation: Evaluation | None
    checkpoints: Literal["log", "linear"]
    n_checkpoints: int
    n_workers: int | None
    reward: Literal["auto", "mean", "sampled"]
    q0: Start
    theta0: Start
    metrics: Mapping[str, Metric] | None
    progress: Progress | bool | None


def _naming_keywords(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """For `validated`, whose keywords are those of others: one that there is not, or that lacks, is a KeywordError."""
    keywords = [one for one in inspect.signature(function).parameters.values() if one.kind is one.KEYWORD_ONLY]
    known, needed = [one.name for one in keywords], [one.name for one in keywords if one.default is one.empty]

    @functools.wraps(function)
    def call(*given: _P.args, **settings: _P.kwargs) -> _T:
        for name, value in settings.items():
            if name not in known:
                raise KeywordError(name, value, f"is no setting of a run{nearest(name, known)}")
        for name in needed:
            if name not in settings:
                raise KeywordError(name, None, "must be given")
        return function(*given, **settings)

    return call


@_naming_keywords
def validated(
    mdp: Environment,
    *,
    iterations: int,
    n_seeds: int = SEEDS,
    seed: int = 0,
    step_size: StepSize | None = None,
    sampling: Sampling | None = None,
    features: Any = None,
    linear: Linear | None = None,
    operator: Operator | None = None,
    evaluation: Evaluation | None = None,
    checkpoints: Literal["log", "linear"] = "log",
    n_checkpoints: int = 200,
    n_workers: int | None = None,
    reward: Literal["auto", "mean", "sampled"] = "auto",
    q0: Start = 0.0,
    theta0: Start = 0.0,
    metrics: Mapping[str, Metric] | None = None,
    progress: Progress | bool | None = None,
) -> Setup:
    """The setup that these keywords of `mqlearn.run` describe. Raises SettingError for one that is not admissible."""
    bar = progress is None or isinstance(progress, bool)
    for name, given, fits, expected in (
        ("env", mdp, isinstance(mdp, Environment), "an environment, such as mq.frozen_lake()"),
        (
            "step_size",
            step_size,
            step_size is None or (callable(step_size) and not isinstance(step_size, type)),
            "a step size, such as mq.Constant(0.1)",
        ),
        ("sampling", sampling, isinstance(sampling, Sampling | None), "a sampling mode, such as mq.Markovian()"),
        ("linear", linear, isinstance(linear, Linear | None), "mq.Linear(...)"),
        ("operator", operator, isinstance(operator, Operator | None), "an operator, such as mq.Relaxed(1.1)"),
        ("evaluation", evaluation, isinstance(evaluation, Evaluation | None), "mq.Evaluation(...)"),
        ("metrics", metrics, isinstance(metrics, Mapping | None), "a mapping from names to functions"),
        ("progress", progress, bar or callable(progress), "True, or a function (k, error)"),
    ):
        if not fits:
            raise SettingError(name, given, f"must be {expected}")
    sampling = Synchronous() if sampling is None else sampling
    if n_seeds is SEEDS:
        n_seeds = 1 if sampling.one_seed else int(SEEDS)
    iterations, n_seeds = check_int("iterations", iterations, 0), check_int("n_seeds", n_seeds, 1)
    name, start = ("q0", q0) if features is None else ("theta0", theta0)
    start_q, start_theta = of_tables(q0, mdp, n_seeds), of_parameters(theta0, features, n_seeds)
    seed, n_checkpoints = check_int("seed", seed, 0, 2**32 - 1), check_int("n_checkpoints", n_checkpoints, 1)
    n_workers = check_int("n_workers", n_workers, 1, null="one thread a core")
    synchronous = sampling.all_pairs
    resolved = resolve_reward(reward, synchronous)
    evaluation = resolve_evaluation(evaluation, default_episodes(mdp, sampling))
    combinations.check_parts(mdp, sampling, features, resolved, metrics, evaluation, iterations, n_seeds)
    if isinstance(progress, bool):
        progress = Bar(iterations) if progress else None
    return Setup(
        mdp=mdp,
        iteration=checkpoint_iterations(iterations, checkpoints, n_checkpoints, quarters=not synchronous),
        checkpoints=checkpoints,
        n_checkpoints=n_checkpoints,
        n_seeds=n_seeds,
        seed=seed,
        step_size=step_size,
        sampling=sampling,
        features=features,
        linear=Linear() if linear is None else linear,
        operator=on_problem(Bellman() if operator is None else operator, mdp, features),
        evaluation=evaluation,
        n_workers=n_workers,
        reward=resolved,
        q0=start_q,
        theta0=start_theta,
        metrics=metrics or {},
        progress=progress,
        start_findings=told_of(name, start, mdp, n_seeds, seed, sampling),
    )


def keywords_of(
    model: Callable[Concatenate[Any, _P], Any],
) -> Callable[[Callable[Concatenate[_E, _R, ...], _T]], Callable[Concatenate[_E, _R, _P], _T]]:
    """For a function (mdp, rules, **settings): its signature has the keywords of `model`, which takes the settings."""
    keywords = [one for one in inspect.signature(model).parameters.values() if one.kind is one.KEYWORD_ONLY]

    def give(function: Any) -> Any:
        signature = inspect.signature(function)
        own = list(signature.parameters.values())[:2]
        function.__signature__ = signature.replace(parameters=[*own, *keywords])
        return function

    return give


# --- single settings, checked and resolved ------------------------------------------------------------------------


def checked_rules(rules: Any) -> list[AnyRule]:
    """The rules as a list. Raises SettingError for what is no rule."""
    if isinstance(rules, AnyRule) or not hasattr(rules, "__iter__"):
        raise SettingError("rules", rules, "must be a list of rules")
    rules = list(rules)
    for rule in rules:
        if not isinstance(rule, AnyRule):
            raise SettingError("algorithm", rule, "must be a rule, such as mq.QLearning()")
    return rules


def default_episodes(mdp: Any, sampling: Any) -> int:
    """Greedy episodes of an evaluation, unless set."""
    if not isinstance(mdp, FiniteMDP):
        return _SIMULATED_EPISODES
    return 0 if sampling.all_pairs else _EPISODES


def samples_an_iteration(rule: AnyRule, mdp: Any, sampling: Any) -> int:
    """Transitions that one iteration of a seed learns from; a transition that is replayed again counts once more."""
    return rule.samples_per_iteration * rule.batch * sampling.pairs_each(mdp)


def resolve_evaluation(evaluation: Evaluation | None, episodes: int) -> Evaluation:
    """The evaluation with its default number of episodes."""
    evaluation = Evaluation() if evaluation is None else evaluation
    return replace(evaluation, episodes=episodes) if evaluation.episodes is None else evaluation


def resolve_reward(reward: str, synchronous: bool) -> str:
    """mean or sampled. Raises SettingError."""
    if choice("reward", reward, ("auto", "mean", "sampled")) == "auto":
        return "mean" if synchronous else "sampled"
    return reward


def checkpoint_iterations(iterations: int, spacing: str, n: int, *, quarters: bool = False) -> np.ndarray:
    """Increasing iterations (at most n, int64) from 0 to `iterations`: evenly spaced, or evenly in the logarithm.

    With `quarters`, T/4 and T/2 are among them.
    """
    if choice("checkpoints", spacing, ("log", "linear")) == "linear":
        points = np.linspace(0, iterations, max(n, 2))
    else:
        points = np.concatenate([[0.0], np.geomspace(1, max(iterations, 1), n - 1) if n > 2 else [iterations]])
    if quarters:
        points = np.concatenate([points, [iterations // 4, iterations // 2]])
    points = np.unique(np.rint(points).astype(np.int64))
    points = points[points <= iterations]
    return points[-1:] if n == 1 else points
