"""What ships is complete: asked of conf/ and of the classes, of no list kept by hand. A failure names what lacks."""

import dataclasses
import functools
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import operators_by_hand
import oracle_tables
import pytest
import twins
import yaml

import mqlearn as mq
from mqlearn.algorithms import step_sizes
from mqlearn.algorithms.rule import replaced
from mqlearn.experiments.settings import instantiate, targets
from mqlearn.learners.operator_check import check_formula
from mqlearn.learning import metrics
from mqlearn.learning.metric_kinds import KINDS
from mqlearn.paths import CONF, PACKAGE, config_groups
from mqlearn.problems.operators import Facts, fixed_point
from mqlearn.sampling.check import check_answers
from mqlearn.storage.record_schema import GROUPS

MDP = mq.garnet_fixed(n_states=5, discount=0.8)
RECORD = {"x": np.array([0, 1]), "u": np.array([0, 0]), "r": np.ones(2), "y": np.array([1, 1])}
# Classes of a package that no yaml can name: bases, and what a rule of four numbers is made into.
NOT_CHOSEN = {"Rule", "Stateful", "Operator", "Sampling", "FourNumbers", "FourNumbersLinear"}
BASES = {"algorithm": (mq.Rule, mq.Stateful), "operator": (mq.Operator,), "sampling": (mq.Sampling,)}


def files(*groups: str) -> Any:
    """A parameter for each yaml of these groups."""
    found = [file for group in groups for file in sorted((CONF / group).glob("*.yaml"))]
    return pytest.mark.parametrize("file", found, ids=lambda file: f"{file.parent.name}={file.stem}")


def node_of(file: Path) -> dict[str, Any]:
    """What a yaml says of its object; what suites try beside it is no setting."""
    content = yaml.safe_load(file.read_text(encoding="utf-8"))
    node = content.get(file.parent.name, content)
    return {key: value for key, value in node.items() if key not in ("tuning", "defaults")}


def made(file: Path) -> Any:
    """The object of a yaml."""
    return instantiate.make(file.parent.name, node_of(file), {})


# --- names ------------------------------------------------------------------------------------------------------------


@files(*GROUPS)
def test_a_file_of_its_package_defines_what_a_yaml_names(file):
    node = node_of(file)
    if file == CONF / "step_size" / "own.yaml":  # stands for the rule's own
        assert "_target_" not in node
        return
    name, package = node["_target_"].rpartition(".")[2], targets.PACKAGES[file.parent.name]
    places = sorted({*targets.defined(package).get(name, ())})
    assert len(places) == 1, f"{file}: one file of mqlearn/{package} must define {name}; found in {places or 'none'}"
    assert targets.location(file.parent.name, node["_target_"]) == places[0]
    assert getattr(mq, name) is targets.find(places[0])


@functools.cache
def subclasses(group: str) -> dict[str, type]:
    """The public classes of a group's package that derive from its bases."""
    package = importlib.import_module(f"mqlearn.{targets.PACKAGES[group]}")
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)

    def below(base: type) -> Iterator[type]:
        for kind in base.__subclasses__():
            yield from (kind, *below(kind))

    found = {kind.__name__: kind for base in BASES[group] for kind in below(base)}
    return {name: kind for name, kind in found.items() if kind.__module__.startswith(f"{package.__name__}.")}


@pytest.mark.parametrize("group", BASES)
def test_a_yaml_names_every_class_of_its_package(group):
    classes = {name for name in subclasses(group) if not name.startswith("_")} - NOT_CHOSEN
    without = sorted(classes - targets.shipped(group).keys())
    assert not without, f"no yaml of conf/{group} names {', '.join(without)}"


def test_a_yaml_names_every_step_size():
    own = {kind for kind in vars(step_sizes).values() if getattr(kind, "__module__", "") == step_sizes.__name__}
    names = {kind.__name__ for kind in own if inspect.isclass(kind) and dataclasses.is_dataclass(kind)}
    without = sorted(names - targets.shipped("step_size").keys())
    assert not without, f"no yaml of conf/step_size names {', '.join(without)}"


def test_the_groups_that_make_objects_are_those_of_the_configuration():
    defaults = yaml.safe_load((CONF / "config.yaml").read_text(encoding="utf-8"))["defaults"]
    chosen = {group for one in defaults if isinstance(one, dict) for group in one if not group.startswith("override ")}
    assert {*config_groups()} == chosen
    assert {*GROUPS} == chosen - {"tracking", "experiment"}


def test_the_page_of_groups_names_every_group():
    page = (CONF / "README.md").read_text(encoding="utf-8")
    groups = {folder.name for folder in CONF.iterdir() if folder.is_dir() and folder.name != "hydra"}
    assert {*re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE)} == groups


# --- rules ------------------------------------------------------------------------------------------------------------


@files("algorithm")
def test_every_rule_is_compared_with_an_oracle_in_each_of_its_modes(file):
    rule = made(file)
    modes = oracle_tables.without_oracle(rule)
    name = type(rule).__name__
    assert not modes, f"{file.name}: {name} has no oracle for {', '.join(modes)} in tests/algorithms/oracle_tables.py"


def test_the_table_of_rules_is_that_of_the_configuration():
    page = (PACKAGE / "algorithms" / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `(\w+)` \|", page.partition("## Those that come with")[2], re.MULTILINE)
    assert sorted(named) == sorted(file.stem for file in (CONF / "algorithm").glob("*.yaml"))
    four = [isinstance(made(CONF / "algorithm" / f"{name}.yaml"), mq.Rule) for name in named]
    assert four == sorted(four, reverse=True)


# --- operators --------------------------------------------------------------------------------------------------------


@files("operator")
def test_every_operator_is_what_it_says(file):
    operator = made(file)
    kinds = {type(other) for other, _ in operators_by_hand.TABLE.values()}
    assert type(operator) in kinds, f"{file.name}: {type(operator).__name__} has no row in tests/operators_by_hand.py"
    facts = Facts(MDP)
    operator = operator.on(facts)
    check_formula(operator, facts)
    wrong = fixed_point(MDP, operator).mapped
    assert wrong is None or wrong < 1e-9, (
        f"{file.name}: to_optimum() of {type(operator).__name__} is wrong: Q* as it follows from its fixed point is "
        f"{wrong:.3g} off"
    )


# --- sampling modes ---------------------------------------------------------------------------------------------------


@files("sampling")
def test_every_sampling_mode_is_what_it_says(file):
    sampling: Any = mq.Recorded(RECORD) if "path" in node_of(file) else made(file)
    assert sampling.name == file.stem
    assert file.stem in twins.TWINS, f"{file.name}: {type(sampling).__name__} has no twin in tests/twins.py"
    check_answers(sampling, mq.two_state() if sampling.recorded else MDP)


# --- metrics ----------------------------------------------------------------------------------------------------------

LAKE = mq.frozen_lake("4x4", discount=0.8)
ONCE = mq.Evaluation(episodes=1, time_limit=20)
MEASURED: dict[str, tuple[Any, dict[str, Any]]] = {
    "table": (mq.QLearning(), {"evaluation": ONCE}),
    "features": (mq.QLearning(), {"evaluation": ONCE, "features": mq.one_hot(LAKE), "sampling": mq.Markovian()}),
    "mean of the iterates": (replaced(mq.averaged(mq.Periodic(period=2)), compiled=False), {"evaluation": ONCE}),
}


@functools.cache
def measured(case: str) -> dict[str, Any]:
    """The curves of a run of two iterations."""
    rule, settings = MEASURED[case]
    return mq.run(LAKE, rule, iterations=2, n_seeds=1, n_checkpoints=2, **settings).curves


@pytest.mark.parametrize("case", MEASURED)
def test_a_run_records_the_metrics_that_are_promised_and_each_has_a_label(case):
    rule, settings = MEASURED[case]
    promised = metrics.recorded(LAKE, settings.get("features"), ONCE, averaged=rule.averaged)
    assert {*measured(case)} == {*promised}
    without = sorted({*promised} - {*KINDS})
    assert not without, f"no label, unit and direction in mqlearn/learning/metric_kinds.py: {', '.join(without)}"


def test_some_run_records_every_metric_that_has_a_label():
    never = sorted({*KINDS}.difference(*map(measured, MEASURED)))
    assert not never, f"mqlearn/learning/metric_kinds.py promises what no run records: {', '.join(never)}"
