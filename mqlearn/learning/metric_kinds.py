"""What a metric is: how its axis is labelled and scaled, its unit, and which way is better."""

from collections.abc import Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class MetricKind:
    """label: of an axis, with Matplotlib's mathematics.   scale: log for errors that may fall to 0, linear for values.
    unit: empty where the number has none of its own.   more_is_better: as a return is, and an error is not.
    against: the exact solution that it is measured against, "fixed point" (Q* or the operator's), "theta*", or the
    values of a "policy"; empty where tables alone decide it.
    """

    label: str
    scale: str = "log"
    unit: str = ""
    more_is_better: bool = False
    against: str = ""

    @property
    def axis(self) -> str:
        """The label with the unit, and which way is better where that is up."""
        about = ", ".join(filter(None, [self.unit, "more is better" * self.more_is_better]))
        return f"{self.label}\n({about})" if about else self.label


def _value(label: str, unit: str, against: str = "") -> MetricKind:
    return MetricKind(label, "linear", unit, more_is_better=True, against=against)


def _error(label: str, against: str = "fixed point") -> MetricKind:
    return MetricKind(label, against=against)


def _gap(label: str) -> MetricKind:
    return MetricKind(label, "linear", "discounted reward", against="policy")


KINDS = {
    "q_error": _error(r"error $\Vert Q_k-Q^*\Vert_\infty$"),
    "expected_return": _value("expected return from the start", "reward of an episode"),
    "q_error_l2": _error(r"error $\Vert Q_k-Q^*\Vert_2$"),
    "bellman_error": _error(r"Bellman error $\Vert TQ_k-Q_k\Vert_\infty$", ""),
    "policy_value": _value("exact value of the greedy policy at the start", "discounted reward", "policy"),
    "value_gap": _gap("optimal value minus that of the greedy policy"),
    "theta_error": _error(r"$\Vert\theta_k-\theta^{*}\Vert\,/\,\Vert\theta^{*}\Vert$", "theta*"),
    "theta_error_average": _error(
        r"$\Vert\bar\theta_k-\theta^{*}\Vert\,/\,\Vert\theta^{*}\Vert$, mean iterate", "theta*"
    ),
    "q_error_average": _error(r"error $\Vert\bar Q_k-Q^*\Vert_\infty$, mean iterate"),
    "q_error_l2_average": _error(r"error $\Vert\bar Q_k-Q^*\Vert_2$, mean iterate"),
    "bellman_error_average": _error(r"Bellman error $\Vert T\bar Q_k-\bar Q_k\Vert_\infty$, mean iterate", ""),
    "policy_value_average": _value(
        "exact value at the start, greedy in the mean iterate", "discounted reward", "policy"
    ),
    "value_gap_average": _gap("optimal value minus that, mean iterate"),
    "return_uniform": _value("return from uniform states", "reward of all greedy episodes"),
    "return_start": _value("return from the start", "reward of all greedy episodes"),
    "success_probability": _value("probability of success from the start", "probability"),
    "success_uniform": _value("probability of success from uniform states", "probability"),
}
# Of `asked_metrics`, which no run has unless they are asked for. Neither way is better: less stands first.
ASKED = {
    "first_action_greedy": MetricKind("probability that the greedy action\nat the start is the first", "linear"),
    "first_at_start": MetricKind(r"$Q_k$ of the first action at the start", "linear"),
    "largest_at_start": MetricKind(r"$\max_u Q_k$ at the start", "linear"),
    "q_bias": MetricKind(r"bias, the mean of $Q_k-Q^*$", "linear", against="fixed point"),
    "span_error": _error(r"error up to a constant, half the span of $Q_k-Q^*$"),
    "reward_a_step": _value("reward of a step while learning", "mean since the first step"),
}
BUILT_IN = tuple(KINDS)
MORE_IS_BETTER = tuple(name for name, kind in {**KINDS, **ASKED}.items() if kind.more_is_better)


def kind_of(name: str, operators: Iterable[str] = ()) -> MetricKind:
    """The kind of a metric by its name; one of the user's is an error on a logarithmic axis, labelled by its name.

    operators: names of those in use, "" for Bellman's. Errors are from the fixed point of the operator, and the label
    says so: Q_relaxed in place of Q*, Q_T if they differ.
    """
    if name in ASKED:
        return ASKED[name]
    if name not in KINDS:
        return MetricKind(name.lstrip("_").replace("$", r"\$").replace("_", " "))
    kind, used = KINDS[name], {*operators}
    if used <= {""} or name.startswith("theta"):
        return kind
    name_of_it = min(used).replace("_", r"\_") if len(used) == 1 else "T"
    label = kind.label.replace("Q^*", rf"Q_{{\mathrm{{{name_of_it}}}}}").replace("Bellman error", "residual")
    return replace(kind, label=label)
