"""`mqlearn truth`: the exact optimum of an environment, with its certified error, and an operator's fixed point."""

import json
from collections.abc import Sequence

from mqlearn.cli.arguments import CONFIG_DIR, parse
from mqlearn.errors import SettingError
from mqlearn.experiments import forecast
from mqlearn.experiments.presentation import printed
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.settings.models import build_environment
from mqlearn.learning import run_warnings
from mqlearn.problems.attainable_values import report
from mqlearn.problems.mdp import FiniteMDP

_ABSENT = {
    "success_probability": "none: no goal can be reached",
    "shortest_path": "none: no goal can be reached",
    "operator_certified_error": "none: no contraction is proven",
    "operator_map_to_q_star": "none: Q* does not follow from it",
}
_LABELS = {"operator_map_to_q_star": "error of Q* recovered from the fixed point"}  # elsewhere: the name in words


def truth(arguments: Sequence[str]) -> int:
    """`mqlearn truth`: print the optimum; returns 0. Raises SettingError for an environment without an exact model."""
    options = parse(arguments, flags=("--json",), values=CONFIG_DIR)
    settings = compose.compose(options.overrides, options.config_dir)
    mdp = build_environment(settings)
    if not isinstance(mdp, FiniteMDP):  # said first: other settings may not suit such an environment either
        reason = "no exact model: its optimum and errors against it are not available"
        if mdp.n_observations is not None:
            reason += "; env.estimate=STEPS makes one from steps"
        raise SettingError("env", mdp.name, reason)
    cell = build(settings)
    forecast.tell(forecast.of_model(cell.mdp), cell.mdp)
    facts, operator = report(cell.mdp), cell.operator
    findings = [*run_warnings.of_problem(cell.mdp, facts), *run_warnings.of_operator(operator)]
    facts |= operator.report()
    if "--json" in options.given:
        print(json.dumps(facts))
    else:
        shown = {name: _ABSENT.get(name, "none") if value is None else value for name, value in facts.items()}
        print("\n".join(f"{_LABELS.get(name, name.replace('_', ' ')):22} {value}" for name, value in shown.items()))
    printed.warn(findings)
    return 0
