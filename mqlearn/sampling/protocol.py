"""What a sampling mode says of itself: the questions of `Sampling`, which kernels, learners and theory ask.

Nobody asks for the class of a mode. What a mode does not say is refused by name, and never guessed.
"""

from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from mqlearn.checks import PlainNumbers, are_distributions
from mqlearn.errors import SettingError, user_code
from mqlearn.problems.mdp import FiniteMDP

CLOCKS = ("auto", "global", "local", "state")
ADAPTIVE = ("epsilon_greedy", "boltzmann")  # behaviours that see what is learned
# What every mode answers, and by which kind; None stands for a method of the model.
QUESTIONS = {
    **dict.fromkeys(("all_pairs", "independent"), bool),
    **dict.fromkeys(("distribution", "trajectory", "walk"), None),
    **dict.fromkeys(("adaptive", "consecutive", "recorded", "one_seed", "needs_model"), bool),
    "capacity": int,
}


Line = tuple[float, float, float]  # (first, last, iterations): linear in so many iterations, then constant


class Walk(NamedTuple):
    """How a chain moves: policy (S, A), None if it depends on what is learned; whether it is uniform; starts (S,) of
    episodes; restart_probability and time_limit of an episode; exploration and temperature, (first, last, iterations),
    the latter None but for a Boltzmann behaviour."""

    policy: np.ndarray | None
    uniform: bool
    starts: np.ndarray
    restart_probability: float = 0.0
    time_limit: int | None = None
    exploration: Line = (0.0, 0.0, 1.0)
    temperature: Line | None = None


# In place of the iterations of an exploration: at most 1, and 1/log(k + 2);
LOGARITHMIC = -1.0
# 1/n^first, n the visits of the state by then, this one included.
BY_VISITS = -2.0


def exploration_rate(exploration: Line, k: Any) -> Any:
    """The exploration rate at iteration k, a number or an array: from first to last in so many iterations."""
    first, last, iterations = exploration
    if iterations == LOGARITHMIC:
        return np.minimum(1.0, 1 / np.log(np.asarray(k) + 2.0))
    return first + (last - first) * np.minimum(1.0, k / iterations)


class _Question:
    """An answer that a sampling mode gives: asked of one that does not, it raises SettingError, which names it."""

    def __init__(self, purpose: str) -> None:
        self.purpose = purpose

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, sampling: Any, owner: type | None = None) -> Any:
        if sampling is None:
            return self
        raise SettingError("sampling", sampling.name, f"does not say `{self.name}`, {self.purpose}")


class _OfDependent(_Question):
    """A question that independence answers: it is open where samples depend on each other."""

    def __init__(self, answer: Any, purpose: str) -> None:
        super().__init__(purpose)
        self.answer = answer

    def __get__(self, sampling: Any, owner: type | None = None) -> Any:
        return self.answer if sampling is not None and sampling.independent else super().__get__(sampling, owner)


class Sampling(PlainNumbers):
    """Base of the sampling modes. One of your own draws independent pairs, with probabilities `distribution(mdp)`.

    >>> class EachState(mq.Sampling):
    ...     all_pairs = False  # an iteration draws one pair
    ...     independent = True
    ...     def distribution(self, mdp):
    ...         actions = mdp.learned.sum(axis=1, keepdims=True)  # 0 at a terminal state
    ...         return mdp.learned / np.maximum(actions, 1) / (actions > 0).sum()
    >>> mq.run(mq.two_state(), mq.QLearning(), iterations=10, n_seeds=2, sampling=EachState()).status
    'finished'

    A mode says whether an iteration draws a successor of `all_pairs`, whether its samples are `independent`, and their
    `distribution(mdp)` over pairs, (S, A), or None where that depends on what is learned. Modes whose samples depend on
    each other say more, and need a kernel that draws them. What is not said is refused, by name, where it is asked for.
    """

    name: ClassVar[str]
    all_pairs: ClassVar[Any] = _Question("whether an iteration draws a successor of every pair, or of one")
    independent: ClassVar[Any] = _Question("whether samples are independent, which theory and the draws need to know")
    distribution: Any = _Question("its probabilities (S, A) of pairs, which theta*, theory and the draws need")
    adaptive: Any = _OfDependent(False, "whether samples depend on what is learned")
    consecutive: Any = _OfDependent(False, "whether a sample begins where the last one ended, as traces need")
    recorded: ClassVar[Any] = _OfDependent(False, "whether the samples are given before the run")
    one_seed: Any = _OfDependent(False, "whether every seed would learn from the same samples")
    needs_model: ClassVar[Any] = _OfDependent(True, "whether it draws from a model, and cannot step a simulator")
    capacity: Any = _OfDependent(0, "how many transitions its memory holds, 0 without one")
    trajectory: Any = _OfDependent(
        lambda mdp: "its samples are independent, and no chain",
        "the `Walk` of its chain, by which it mixes, or in words why that is unknown",
    )
    draws: ClassVar[int] = 1  # iterations for each step of the chain
    warm_up: ClassVar[int] = 0  # steps of the chain before iteration 0
    clock: ClassVar[str] = "global"  # of a table's step size, where it is no setting
    update: ClassVar[str] = "pair"

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__

    @property
    def clocks(self) -> tuple[str, ...]:
        """What `clock` may be: all where it is a setting."""
        setting = is_dataclass(self) and any(field.name == "clock" for field in fields(self))
        return CLOCKS if setting else (self.clock,)

    def pairs_each(self, mdp: Any) -> int:
        """Pairs whose successors an iteration draws."""
        return len(mdp.pairs) if self.all_pairs and isinstance(mdp, FiniteMDP) else 1

    def walk(self, mdp: FiniteMDP) -> Walk:
        """How the chain moves; of independent samples, by which episodes are counted."""
        if not self.independent:
            raise SettingError("sampling", self.name, "does not say `walk`, how its chain moves from sample to sample")
        return Walk(None, True, mdp.start)

    def check(self, mdp: FiniteMDP, iterations: int, n_seeds: int) -> None:
        """Refuse a problem or a length of run that there are no samples for. Raises SettingError."""


def of_walk(mdp: FiniteMDP, walk: Walk) -> np.ndarray:
    """(S, A): stationary distribution of the pairs of a walk with a policy. Raises SettingError where it has none."""
    from mqlearn.problems.fixed_points import stationary_distribution

    assert walk.policy is not None
    episodes = {"restart_probability": walk.restart_probability, "time_limit": walk.time_limit}
    return stationary_distribution(mdp, walk.policy, start=walk.starts, **episodes)


def stationary(sampling: Sampling, mdp: FiniteMDP) -> np.ndarray | None:
    """(S, A): distribution of the pairs that are sampled, None when it depends on what is learned.

    Of recorded transitions, the share of each pair among them. Raises SettingError for what is no distribution.
    """
    setting = "sampling", sampling.name
    with user_code(*setting):
        said = sampling.distribution(mdp)
    if said is None:
        return None
    shape = (mdp.n_states, mdp.n_actions)
    try:
        mu = np.asarray(said, dtype=np.float64)
    except (TypeError, ValueError):
        raise SettingError(*setting, f"distribution(mdp) must return probabilities {shape}, not {said!r}") from None
    if mu.shape != shape:
        raise SettingError(*setting, f"distribution(mdp) must have the shape {shape}, not {mu.shape}")
    if not are_distributions(mu.ravel(), rounding=1e-6) or mu[~mdp.learned].any():
        total = float(mu[mdp.learned].sum())
        expected = f"must be probabilities of the learned pairs of {mdp.name} that sum to 1"
        raise SettingError(*setting, f"distribution(mdp) {expected}; theirs is {total:.6g}, the least {mu.min():.3g}")
    return mu
