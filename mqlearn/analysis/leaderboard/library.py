"""`mqlearn.bench`: where a rule stands, from Python."""

from typing import Any

from mqlearn.algorithms import Rule, Stateful
from mqlearn.errors import SettingError


def bench(
    rule: Any, suite: str = "classic", *, name: str | None = None, config_dir: str | None = None
) -> dict[str, Any]:
    """The leaderboard of a suite with this rule in it: what `mqlearn bench SUITE --json` writes.

    rule: a rule object, such as mq.RootSA(eta=0.3); it is run with its step size as it is, and tuned by offsets or
    scales of that.   name: what it is called, by default its class.   config_dir: a folder with suites of your own.
    The others' results are those that come with mqlearn; a suite without any is run for the baseline alone. Raises
    SettingError for what is no rule, and for results of other numerics.
    """
    from mqlearn.analysis.leaderboard.board import board
    from mqlearn.experiments.settings.own_step_size import label
    from mqlearn.experiments.suite import definition, rules, run_suite

    if not isinstance(rule, Rule | Stateful):
        raise SettingError("rule", rule, "must be a rule, such as mq.QLearning()")
    known, called = rules.names(), name or f"{label(type(rule).__name__)} (yours)"
    if called in known:
        raise SettingError("name", called, "is the name of a rule that comes with mqlearn")
    asked = definition.load(suite, config_dir)
    mine = rules.Entrant(called, (), None, "", own=True, made=rule)
    base = rules.entrants([definition.BASELINE])
    rivals = rules.entrants([one for one in known if one != definition.BASELINE])
    every, _ = run_suite.of_suite(asked, run_suite.Wanted((mine, *base), tuple(rivals)))
    return board(suite, every, [called])
