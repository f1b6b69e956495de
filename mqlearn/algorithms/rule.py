"""What a rule is: one equation, linear in four numbers a step.

Every scalar-gain rule with one step of memory reads

    Q_{k+1} = p_k Q_k + q_k Q_{k-1} + s_k T_k Q_k + t_k T_k Q_{k-1},      p + q + s + t = 1,

with T_k the sampled Bellman operator, the same sample in both places (the paper, 3.1 and 4.2). A rule states this
equation once, as plain Python; evaluated on the four unit vectors it yields its weights, and one compiled loop per
sampling mode runs them all.
"""

import copy
from typing import Any, ClassVar

import numpy as np

from mqlearn import source_text
from mqlearn.algorithms.step_sizes import Harmonic, StepSize
from mqlearn.checks import PlainNumbers
from mqlearn.errors import SettingError, user_code

LARGEST = 1e100  # weight: squares of larger ones are no numbers


def replaced(rule: Any, **attributes: Any) -> Any:
    """A copy of a rule with other attributes."""
    rule = copy.copy(rule)
    for name, value in attributes.items():
        object.__setattr__(rule, name, value)
    return rule


_CACHED = 8192  # iterations, whose numbers stay in the cache while they are made; of fewer NumPy's calls take longer


class Rule(PlainNumbers):
    """Base of the rules of four numbers. A new one defines `update`, and uses ``self.step_size(k)`` for alpha_k.

    A run raises SettingError for an update that is not linear, or under which Q* is no fixed point: the weights of the
    four arguments must sum to 1.

    >>> class HeavyBall(mq.Rule):
    ...     def update(self, k: np.ndarray, q: Any, q_prev: Any, target: Any, target_prev: Any) -> Any:
    ...         a = self.step_size(k)
    ...         return (1 - a) * q + a * target + 0.25 * (q - q_prev)
    >>> HeavyBall().with_step_size(mq.Constant(0.5)).weights(0, 1).tolist()
    [[0.75, -0.25, 0.5, 0.0]]
    """

    step_size: StepSize = Harmonic()
    batch: ClassVar[int] = 1
    averaged: ClassVar[bool] = False
    burn_in: ClassVar[float] = 0.0
    clip: ClassVar[tuple[float, float] | None] = None
    needs: ClassVar[tuple[str, ...]] = ()  # as of `Stateful`
    samples_per_iteration: ClassVar[int] = 1

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        source_text.keep(cls)

    def update(self, k: np.ndarray, q: Any, q_prev: Any, target: Any, target_prev: Any) -> Any:
        """Return Q_{k+1} from Q_k, Q_{k-1}, T_k Q_k and T_k Q_{k-1}; k is an array, so write np.where, not if."""
        raise NotImplementedError

    def own_step_size(self, discount: float) -> StepSize:
        """The step size of the rule's source at this discount, which `step_size=own` stands for."""
        return self.step_size

    def own_operator(self, sampling: Any) -> Any:
        """The `Operator` that follows from the behaviour of a sampling, for rules that learn its values; else None."""
        return None

    def warnings(self, discount: float) -> list[str]:
        """Reasons why this rule lies outside its theory at this discount; shown and recorded, never fatal."""
        return []

    def effective(self, discount: float) -> dict[str, Any]:
        """What is used where a parameter is null or auto: name -> value; it is recorded beside the settings."""
        return {}

    def with_step_size(self, step_size: StepSize) -> "Rule":
        """The same rule with another step size."""
        return replaced(self, step_size=step_size)

    def weights(self, first: int, stop: int) -> np.ndarray:
        """The four numbers (p, q, s, t) of iterations first .. stop - 1, shape (stop - first, 4)."""
        k = np.arange(first, stop, dtype=np.float64)
        table = np.empty((k.size, 4))
        if type(self).__module__.startswith("mqlearn."):  # elementwise: what depends on k is made once for all four
            units = np.eye(4)[:, :, None]
            for i in range(0, k.size, _CACHED):
                table[i : i + _CACHED] = self.update(k[i : i + _CACHED], *units).T
            return table
        with user_code("algorithm", type(self).__name__):
            for column, unit in enumerate(np.eye(4)):
                table[:, column] = self.update(k, *unit)
        return table


def check_rule(rule: Rule) -> None:
    """Refuse a rule whose update is not linear in its four arguments, or that moves away from Q*.

    Raises SettingError, also for an update that does not give the same numbers twice. Q* is a fixed point under exact
    targets exactly when the four numbers sum to 1.
    """
    name = type(rule).__name__
    k = np.concatenate([np.arange(20.0), [1e3, 1e6]])
    probes = np.array([[0.3, -1.7, 2.9, 0.6], [-0.8, 1.1, -0.4, -2.3]])  # each argument with both signs

    def evaluate(arguments: np.ndarray) -> np.ndarray:
        with user_code("algorithm", name), np.errstate(all="ignore"):
            return np.stack([np.broadcast_to(rule.update(k, *one), k.shape) for one in arguments])

    try:
        weights, values, again = evaluate(np.eye(4)).T, evaluate(probes), evaluate(np.eye(4)).T
    except (ValueError, TypeError) as error:
        reason = f"({error})"
        if isinstance(error, SettingError):
            if not isinstance(error.__cause__, ValueError | TypeError):
                raise
            reason = f"but {error.admissible}"
        raise SettingError("algorithm", name, f"update() must work on an array of k {reason}") from error
    if not np.array_equal(weights, again, equal_nan=True):
        expected = "its chance comes from the samples, and what it keeps is the previous iterate"
        raise SettingError("algorithm", name, f"update() gives other numbers when it is called again; {expected}")
    for wrong, what in ((~np.isfinite(weights), "is not finite"), (np.abs(weights) > LARGEST, "is beyond 1e100")):
        if wrong.any():
            where = f"update() {what} at k = {k[wrong.any(1)][0]:g}"
            raise SettingError("algorithm", name, f"{where} (step size {rule.step_size(k[wrong.any(1)][:1])[0]:g})")
    scale = np.abs(weights).sum(axis=1)
    if not (np.abs(probes @ weights.T - values) <= 1e-9 * scale).all():
        raise SettingError("algorithm", name, "update() must be linear in q, q_prev, target and target_prev")
    if (np.abs(weights.sum(axis=1) - 1.0) > 1e-9 * scale).any():
        raise SettingError("algorithm", name, "the weights of update() must sum to 1, so that Q* is a fixed point")
