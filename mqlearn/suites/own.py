"""A rule that is an object, on a suite: what `mqlearn.bench` ranks."""

from typing import Any

from mqlearn.algorithms import Rule, Stateful
from mqlearn.errors import SettingError
from mqlearn.experiments.settings.own_step_size import label
from mqlearn.suites import definition, rules
from mqlearn.suites.results import Results
from mqlearn.suites.run_suite import Wanted, of_suite


def results_with(
    rule: Any, suite: str, name: str | None = None, config_dir: str | None = None
) -> tuple[str, list[Results], list[str]]:
    """The suite's name, its results with this rule among them, and what the rule is called. Raises SettingError.

    The rule is run in this process and is not kept; the baseline is run where it is missing, and the others' results
    are those that are there.
    """
    if not isinstance(rule, Rule | Stateful):
        raise SettingError("rule", rule, "must be a rule, such as mq.QLearning()")
    known, called = rules.names(), name or f"my_{label(type(rule).__name__)}"
    if called in known:
        raise SettingError("name", called, "is the name of a rule that comes with mqlearn")
    asked = definition.load(suite, config_dir)
    mine = rules.Entrant(called, (), None, "", own=True, made=rule)
    base, *rivals = rules.entrants([definition.BASELINE, *(one for one in known if one != definition.BASELINE)])
    every, _ = of_suite(asked, Wanted((mine, base), tuple(rivals)))
    return suite, every, [called]
