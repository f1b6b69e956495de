"""An operator on the problem of a run: what it leaves open filled in, its fixed point, and its form for kernels."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from mqlearn.algorithms.operators import SCALARS, Bellman, Operator, is_bellman, name_of
from mqlearn.checks import discounted
from mqlearn.errors import SettingError, asked
from mqlearn.learners.operator_check import check_operator_formula
from mqlearn.problems import solvers
from mqlearn.problems.environments.simulator import Simulator
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.operators import Facts, OperatorPoint, apply, fixed_point, rounding, values
from mqlearn.problems.solvers import ConvergenceError, optimal
from mqlearn.rounding import Rounding

if TYPE_CHECKING:
    from mqlearn import kernels


@dataclass(frozen=True, eq=False)
class BoundOperator:
    """An operator, and the problem that it acts on; on a simulator it has no fixed point that is known.

    compiled: as kernels read it, None for Bellman's, of which they have a form of their own.
    """

    operator: Operator
    mdp: FiniteMDP | Simulator | None = None

    @cached_property
    def plain(self) -> bool:
        """Whether it is Bellman's."""
        return is_bellman(self.operator)

    @property
    def name(self) -> str:
        """The name of its config group."""
        return name_of(self.operator)

    def fixed_point(self, mdp: FiniteMDP) -> np.ndarray:
        """(S, A): the fixed point, which errors are measured against; Q* of Bellman's."""
        return optimal(mdp).q if self.plain else self._point.q

    def rounding(self, mdp: FiniteMDP) -> Rounding:
        """Of the fixed point."""
        return solvers.rounding(mdp) if self.plain else rounding(self._model, self.operator)

    def warnings(self) -> list[str]:
        return [] if self.plain else asked("operator", self.operator, "warnings", _facts_of(self.mdp))

    def facts(self) -> dict[str, Any]:
        """What the summary of a run says of the fixed point; nothing for Bellman's."""
        if self.plain:
            return {}
        if isinstance(self.mdp, Simulator):
            return {"operator": {"name": self.name}}
        point = self._point
        return {
            "operator": {
                "name": self.name,
                "fixed_point": self.operator.fixed_point,
                "residual": point.residual,
                "certified_error": point.error_bound,
                "distance_to_q_star": point.distance,
                "map_to_q_star": point.mapped,
            }
        }

    def report(self) -> dict[str, Any]:
        """What `mqlearn truth` says of the fixed point, values at the start being means; nothing for Bellman's."""
        if self.plain:
            return {}
        v = values(self._model, self.operator, self._point.q)
        said = self.facts()["operator"]
        settings = [f"{field.name}={getattr(self.operator, field.name)}" for field in fields(self.operator)]
        limits = self.operator.limits(Facts(self._model))
        return {
            "operator": " ".join([said.pop("name"), *settings]),
            **{f"operator_{name}": value for name, value in said.items()},
            "operator_start_value": float(self._model.start @ v),
            **{f"operator_{name}": limit for name, limit in limits.items()},
        }

    def residuals(self, q: np.ndarray) -> np.ndarray:
        """(n,): sup norms of T q - q over the counted pairs, for tables q (n, S, A)."""
        return np.abs(apply(self._model, self.operator, q) - q)[:, self._model.counted].max(axis=1)

    @cached_property
    def _point(self) -> OperatorPoint:
        try:
            return fixed_point(self._model, self.operator)
        except ConvergenceError as error:
            expected = (
                f"has no fixed point on {self._model.name} that could be found, to measure errors against ({error})"
            )
            raise SettingError("operator", self.name, expected) from error

    @property
    def _model(self) -> FiniteMDP:
        assert isinstance(self.mdp, FiniteMDP), "errors are measured on models alone"
        return self.mdp

    @cached_property
    def compiled(self) -> "kernels.Operator | None":
        if self.plain:
            return None
        from mqlearn import formulas, kernels

        one, mdp = self.operator, self.mdp
        assert mdp is not None, "Bellman's alone is on no problem"
        # On a simulator the pairs of three observations, see `kernels.simulated`.
        states = mdp.pairs[:, 0] if isinstance(mdp, FiniteMDP) else np.repeat(np.arange(3), mdp.n_actions)
        formula = formulas.Formula(0, 0) if one.greedy else formulas.compiled(one)
        return kernels.Operator(
            greedy=one.greedy,
            value=formula.value,
            slopes=formula.slopes,
            **{name: float(number) for name, number in one.numbers(mdp.discount)._asdict().items()},
            scalar=SCALARS.index(one.scalar),
            terminals=one.counts_terminals,
            states=states.astype(np.uint64),
        )


BELLMAN = BoundOperator(Bellman())


def on_problem(operator: Operator, mdp: Any, features: Any = None) -> BoundOperator:
    """The operator on the problem of a run. Raises SettingError where it has no fixed point that errors could be
    measured against: relative with terminal states, most with features, most undiscounted; with features where it has s
    or Q(x, u), which what learns by features leaves out; and without a model where it has s, or Q(x, u) without a
    table."""
    if is_bellman(operator):
        return BELLMAN
    name = name_of(operator)
    if not isinstance(mdp, FiniteMDP):
        return BoundOperator(_on_simulator(operator, mdp, features), mdp)
    if features is not None and not operator.with_features:
        expected = (
            "has no certified fixed point with features; use bellman, relaxed, truncated, mellowmax, soft, or tables"
        )
        raise SettingError("operator", name, expected)
    if operator.needs_discount:
        discounted(mdp.discount, "operator", name, "use bellman or expected")
    ready = operator.on(Facts(mdp))
    check_operator_formula(ready, Facts(mdp))
    if features is not None and (ready.scalar != "none" or ready.numbers(mdp.discount).own != 0):
        raise SettingError("operator", name, "has s or Q(x, u) in its target, which is possible with tables only")
    return BoundOperator(ready, mdp)


def _on_simulator(operator: Operator, simulator: Simulator, features: Any) -> Operator:
    """The operator with what it leaves open filled in. What it looks at has to be one transition and Q there."""
    name = name_of(operator)
    if operator.scalar != "none":
        of = "the mean of Q over all pairs" if operator.scalar == "mean" else "the least V of all states"
        expected = f"has {of} in its target, and {simulator.name} has no exact model that would list them; use bellman"
        raise SettingError("operator", name, expected)
    if not operator.with_features and getattr(features, "name", "") != "one_hot":
        ways = "features=one_hot" if simulator.n_observations is not None else "bellman, relaxed, truncated, mellowmax"
        raise SettingError("operator", name, f"has no certified fixed point with features; use {ways}")
    ready = operator.on(_facts_of(simulator))
    check_operator_formula(ready, _facts_of(simulator))
    return ready


def _facts_of(mdp: Any) -> Any:
    """What an operator may ask of a problem."""
    return Facts(mdp) if isinstance(mdp, FiniteMDP) else _FactsOfSimulator(mdp.discount)


@dataclass(frozen=True)
class _FactsOfSimulator:
    """`Facts` without a model: the least that can be, and None where nothing is known."""

    discount: float
    terminal: bool = True
    stay: float = 0.0
    no_costs: bool = False
    largest_reward: None = None
    largest_value: None = None
