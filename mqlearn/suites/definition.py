"""What a suite is: problems, how they are sampled, a budget of transitions, and seeds that tune and seeds that report.

A suite is a yaml file in conf/suite, or in suite/ of the user's folder of configurations. It is no config group of a
run: each of its cells is composed from the overrides that it lists, which `mqlearn run` takes too.
"""

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from mqlearn.checks import check_int
from mqlearn.errors import SettingError, nearest
from mqlearn.experiments.settings import compose, identity, own_choices, yamls
from mqlearn.experiments.settings.cell import Cell, build
from mqlearn.paths import CONF

CHECKPOINTS = 40
BASELINE = "q_learning"  # tuned, what every score is relative to
# What is alike in all cells; their lengths and seeds are those of the suite.
ALIKE = ("tracking=none", "iterations=1", f"n_checkpoints={CHECKPOINTS + 1}", "n_workers=1")
_KEYS = ("base", "budget", "metric", "seeds", "problems")
_OPTIONAL = ("tuning_budget",)  # of a seed that tunes; the budget without it
_SEEDS = ("tuning", "tuning_seed", "reporting", "reporting_seed")
# Settings that the suite decides for all of its cells, or that make no difference to them.
_TAKEN = ("algorithm", "step_size", "iterations", "seed", "n_seeds", "checkpoints", "n_checkpoints", "n_workers",
          "tracking", "experiment", "plugins", "metrics")  # fmt: skip


@dataclass(frozen=True)
class Seeds:
    """How many seeds tune and how many report, and the `seed` of each: they share no random stream."""

    tuning: int
    tuning_seed: int
    reporting: int
    reporting_seed: int

    def __post_init__(self) -> None:
        for name in ("tuning", "reporting"):
            check_int(f"seeds.{name}", getattr(self, name), 1)
        for name in ("tuning_seed", "reporting_seed"):
            check_int(f"seeds.{name}", getattr(self, name), 0, 2**32 - 1)
        if self.tuning_seed == self.reporting_seed:
            expected = "must not be seeds.reporting_seed: a rule is not tuned on the seeds that report it"
            raise SettingError("seeds.tuning_seed", self.tuning_seed, expected)


@dataclass(frozen=True)
class Problem:
    """A problem of a suite.

    overrides: those that compose it, without a rule.   settings: composed, with Q-learning.
    """

    name: str
    overrides: tuple[str, ...]
    settings: dict[str, Any]
    budget: int
    metric: str
    seeds: Seeds
    config_dir: str | None = None
    tuning_budget: int | None = None

    @cached_property
    def cell(self) -> Cell:
        """One iteration of Q-learning here: the problem's model, sampling and features. Raises SettingError."""
        return build(self.settings)

    @property
    def pairs(self) -> int:
        return len(self.cell.mdp.pairs)

    @property
    def synchronous(self) -> bool:
        return self.cell.run_arguments["sampling"].all_pairs

    @property
    def axis(self) -> np.ndarray:
        """(C,): samples, geometric from one of each pair to the budget."""
        return axis_of(self.pairs, self.budget)

    def samples_each(self, rule: Any) -> int:
        """Transitions that a seed learns from in an iteration of this rule."""
        return rule.samples_per_iteration * rule.batch * (self.pairs if self.synchronous else 1)

    def iterations(self, rule: Any) -> int:
        """How many iterations of this rule the budget pays for, at least one."""
        return max(1, self.budget // self.samples_each(rule))

    def for_tuning(self) -> "Problem":
        """With the budget of a seed that tunes."""
        return replace(self, budget=self.tuning_budget or self.budget)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that decides the numbers of a rule here but the rule. Raises SettingError."""
        from mqlearn.learning.loop import NUMERICS_VERSION

        told = {
            "cell": identity.samples_key({**self.cell.settings, "n_workers": None}, self.cell.mdp),
            "budget": self.budget,
            "metric": self.metric,
            "seeds": vars(self.seeds),
            "numerics": NUMERICS_VERSION,
        }
        told |= {"tuning_budget": self.tuning_budget} if self.tuning_budget is not None else {}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Suite:
    """A suite by its name, with its problems in order."""

    name: str
    problems: tuple[Problem, ...]

    @property
    def command(self) -> str:
        """What runs it with all rules of the package, for messages."""
        folder = self.problems[0].config_dir
        return shlex.join(["mqlearn", "bench", self.name, *(["--config-dir", folder] if folder else [])])


def axis_of(pairs: int, budget: int) -> np.ndarray:
    """(C,): samples, geometric from one of each of so many pairs to the budget."""
    return np.geomspace(min(pairs, budget), budget, CHECKPOINTS)


def load(name: str, config_dir: str | None = None) -> Suite:
    """The suite of this name, checked. Raises SettingError."""
    with own_choices.reading("suite", name, config_dir) as path:
        return made(name, yamls.read("suite", path), config_dir, shipped=path.parent == CONF / "suite")


def made(name: str, content: Any, config_dir: str | None = None, *, shipped: bool = False) -> Suite:
    """A suite from the content of its file; one of the package has the problems of the package, whatever the user's
    folder has of their names. Raises SettingError."""
    content = _mapping(name, content, _KEYS, _OPTIONAL)
    seeds = Seeds(**_mapping(f"{name}.seeds", content["seeds"], _SEEDS))
    budget = check_int(f"{name}.budget", content["budget"], 1, written=True)
    for_tuning = content.get("tuning_budget")
    if for_tuning is not None:
        for_tuning = check_int(f"{name}.tuning_budget", for_tuning, 1, budget, written=True)
    problems, base = content["problems"], _overrides(name, "base", content["base"])
    if not isinstance(problems, dict) or not problems:
        raise SettingError(f"{name}.problems", problems, "must map names of problems to lists of overrides")
    own = {str(label): _overrides(name, str(label), given) for label, given in problems.items()}
    lists = [[*base, *given, *ALIKE] for given in own.values()]
    composed = compose.compose_all(lists, None if shipped else config_dir)
    metric, parts = str(content["metric"]), zip(own.items(), composed, strict=True)
    return Suite(
        name,
        tuple(
            Problem(label, (*base, *given), _on_one_clock(settings), budget, metric, seeds, config_dir, for_tuning)
            for (label, given), settings in parts
        ),
    )


def _on_one_clock(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings in which `sampling.clock=auto` is global: the rules of a board have one clock, which all of them can."""
    sampling = settings["sampling"]
    return {**settings, "sampling": {**sampling, "clock": "global"}} if sampling.get("clock") == "auto" else settings


def _mapping(place: str, content: Any, keys: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    if not isinstance(content, Mapping):
        raise SettingError(place, content, f"must be a mapping with {', '.join(keys)}")
    for key in content:
        if key not in (known := (*keys, *optional)):
            expected = f"there is no such setting; a suite has {', '.join(known)}{nearest(str(key), known)}"
            raise SettingError(f"{place}.{key}", content[key], expected)
    for key in keys:
        if key not in content:
            raise SettingError(f"{place}.{key}", None, "is missing")
    return dict(content)


def _overrides(name: str, label: str, given: Any) -> tuple[str, ...]:
    if not isinstance(given, list) or not all(isinstance(text, str) and "=" in text for text in given):
        raise SettingError(f"{name}.{label}", given, "must be a list of overrides, as in [env=two_state, discount=0.9]")
    for text in given:
        key, _, value = text.lstrip("+~").partition("=")
        if key.partition(".")[0] in _TAKEN:
            raise SettingError(f"{name}.{label}.{key}", value, "is decided by the suite for all of its runs")
    return tuple(given)
