"""What `mqlearn bench` answers, for Python and notebooks."""

from typing import Any


def bench(
    rule: Any, suite: str = "classic", *, name: str | None = None, config_dir: str | None = None
) -> dict[str, Any]:
    """Where a rule stands among all others on a suite of problems: what `mqlearn bench SUITE --json` writes.

    rule: such as mq.RootSA(eta=0.3); it runs as it is, and tuned by its step size.   suite: its
    name.   name: what the rule is called, by default my_ and its class.   config_dir: a folder with suites of your own.
    It runs in this process and is not kept; the others' results are those that are there. Raises SettingError.

    >>> board = mq.bench(mq.RootSA(eta=0.3))  # doctest: +SKIP
    >>> [(row["rule"], row["score"]) for row in board["rules"] if row["own"]]  # doctest: +SKIP
    """
    from mqlearn.suites.leaderboard.board import board
    from mqlearn.suites.own import results_with

    return board(*results_with(rule, suite, name, config_dir), config_dir)
