"""Six changes that a maintainer makes, in a copy of the package: complete they pass, and each omission is named.

In one copy all of them are complete, in the other each lacks one thing. The kernels run as plain Python there.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from mqlearn.analysis.comparison import verdict_table
from mqlearn.analysis.report import verdicts
from mqlearn.paths import CONF, PACKAGE

TESTS = Path(__file__).parent
RULES, ORACLES = "mqlearn/algorithms", "tests/algorithms/oracle_tables.py"
CHECKS = (
    "tests/test_completeness.py",
    "tests/algorithms/test_stateful_rules.py",
    "tests/learning/test_sampling_protocol.py",
)
# What is run of these files: all of the first, and what the others ask of the new names.
SELECTED = "test_completeness or heavy_ball or anchored or each_pair"

RULE = '''
from dataclasses import dataclass

from mqlearn.algorithms.rule import Rule


@dataclass(frozen=True)
class {name}(Rule):
    """Q-learning plus the share beta of the last move."""

    beta: float = 0.3

    def update(self, k, q, q_prev, target, target_prev):
        a = self.step_size(k)
        return (1 - a) * q + a * target + self.beta * (q - q_prev)
'''
RULE_ORACLE = """

def _{name}(problem, draws, iterations, beta=0.3):
    now, before, trace = problem.q0(), problem.q0(), oracles.Trace()
    for k in range(iterations):
        t, after = oracles.target(problem, draws.sample(k), now), now.copy()
        for i in t:
            after[i] = now[i] + (t[i] - now[i]) / (k + 1) + beta * (now[i] - before[i])
        before, now = now, after
        trace.add(now)
    return trace


FOUR_NUMBERS["{name}"] = (mq.{kind}(), _{name})
"""
STATEFUL = '''
from dataclasses import dataclass

from mqlearn.algorithms.stateful import Stateful


@dataclass(frozen=True)
class {name}(Stateful):
    """Q-learning whose target is that of a slow table, which follows by the share w."""

    w: float = 0.2
    modes = ("synchronous", "asynchronous")

    def init(self, q0):
        return {{"q": q0, "slow": q0.copy()}}

    def numbers(self, k):
        return {{"alpha": self.alpha(k), "w": self.w + 0 * k}}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.{table}), c.alpha)
        s.move(z.slow, s.value(z.q), c.w)
'''
STATEFUL_ORACLE = """

def _{name}(problem, draws, iterations, w=0.2):
    q, slow, trace = problem.q0(), problem.q0(), oracles.Trace()
    for k in range(iterations):
        t = oracles.target(problem, draws.sample(k), slow)
        for i in t:
            q[i] += (t[i] - q[i]) / (k + 1)
            slow[i] += w * (q[i] - slow[i])
        trace.add(q)
    return trace


SYNCHRONOUS["{name}"] = ASYNCHRONOUS["{name}"] = (mq.{kind}(), _{name})
"""
SAMPLING = '''
from typing import ClassVar

from mqlearn.sampling.protocol import Sampling


class {kind}(Sampling):
    """Independent pairs, each as often as any other."""

    name: ClassVar[str] = "{name}"
    all_pairs: ClassVar[bool] = False
    independent: ClassVar[bool] = True

    def distribution(self, mdp):
        weights = mdp.learned * (1.0 + {skew} * (mdp.learned.cumsum(1) == 1))
        return weights / weights.sum()
'''
CHAIN = '''
from dataclasses import dataclass
from typing import ClassVar

from mqlearn.sampling.modes import Markovian


@dataclass(frozen=True, kw_only=True)
class Forgetful(Markovian):
    """A chain that says to be uniform over pairs, and is not."""

    name: ClassVar[str] = "forgetful"

    def distribution(self, mdp):
        return mdp.learned / mdp.learned.sum()
'''
SAMPLING_TWIN = """

def _each_pair(mdp, sampling, n, lane, seed):
    return np.array([below(word, len(mdp.pairs)) for word in words("chain", seed, lane, np.arange(n))[0]])


TWINS["{name}"] = _each_pair
"""
OPERATOR = '''
from dataclasses import dataclass

from mqlearn.algorithms.operators.operator import Operator


@dataclass(frozen=True)
class {kind}(Operator):
    """V halfway between the largest value and the mean."""

    def value(self, q, by):
        return (q[by.argmax()] + q.mean()) / 2
'''
NO_OPTIMUM = """
    def to_optimum(self, q, v, mean, discount):
        return None
"""
OPERATOR_ROW = """

TABLE["{name}"] = (mq.{kind}(), Row(_bellman, lambda q: (max(q) + sum(q) / len(q)) / 2))
"""


@dataclass(frozen=True)
class Copy:
    """A copy of what a maintainer changes."""

    root: Path

    def write(self, path: str, text: str) -> None:
        """A new file, or more of one that is there."""
        file = self.root / path
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        file.write_text(before + text, encoding="utf-8")

    def replace(self, path: str, old: str, new: str) -> None:
        file = self.root / path
        text = file.read_text(encoding="utf-8")
        assert text.count(old) == 1
        file.write_text(text.replace(old, new), encoding="utf-8")

    def choice(self, group: str, name: str, kind: str, more: str = "") -> None:
        """A yaml of conf/."""
        self.write(f"conf/{group}/{name}.yaml", f"_target_: mqlearn.{kind}\nname: {name}\n{more}")

    def checked(self) -> str:
        """What the checks say."""
        environment = {**os.environ, "PYTHONPATH": str(self.root), "NUMBA_DISABLE_JIT": "1"}
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", "-k", SELECTED, *CHECKS]
        done = subprocess.run(command, cwd=self.root, env=environment, capture_output=True, text=True)
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Callable[[str], Copy]:
    def copy(name: str) -> Copy:
        root = tmp_path_factory.mktemp(name)
        compiled = shutil.ignore_patterns("*.nbi", "*.nbc", "recorded", "*.npz")
        for folder in (PACKAGE, CONF, TESTS):
            shutil.copytree(folder, root / folder.name, ignore=compiled)
        shutil.copy(PACKAGE.parent / "pyproject.toml", root)
        return Copy(root)

    return copy


def row(name: str) -> tuple[str, str, str]:
    """A line of documentation: a rule of four numbers comes first in its table."""
    first = "| `q_learning` |"
    return f"{RULES}/README.md", first, f"| `{name}` | an example | this test | - |\n{first}"


@pytest.fixture(scope="module")
def complete(copied) -> str:
    """What the checks say of all changes, each with all that it takes."""
    copy = copied("complete")
    copy.write(f"{RULES}/heavy_ball.py", RULE.format(name="HeavyBall"))
    copy.choice("algorithm", "heavy_ball", "HeavyBall", "beta: 0.3\n")
    copy.write(ORACLES, RULE_ORACLE.format(name="heavy_ball", kind="HeavyBall"))
    copy.replace(*row("heavy_ball"))
    copy.write(f"{RULES}/anchored.py", STATEFUL.format(name="Anchored", table="slow"))
    copy.choice("algorithm", "anchored", "Anchored", "w: 0.2\n")
    copy.write(ORACLES, STATEFUL_ORACLE.format(name="anchored", kind="Anchored"))
    copy.write(f"{RULES}/README.md", "| `anchored` | an example | this test | - |\n")
    copy.write("mqlearn/sampling/each_pair.py", SAMPLING.format(name="each_pair", kind="EachPair", skew=0))
    copy.choice("sampling", "each_pair", "EachPair")
    copy.write("tests/twins.py", SAMPLING_TWIN.format(name="each_pair"))
    copy.write(f"{RULES}/operators/halfway.py", OPERATOR.format(kind="Halfway") + NO_OPTIMUM)
    copy.choice("operator", "halfway", "Halfway")
    copy.write("tests/operators_by_hand.py", OPERATOR_ROW.format(name="halfway", kind="Halfway"))
    metric(copy)
    label(copy, '"q_largest": _value("largest entry", "")')
    return copy.checked()


def metric(copy: Copy) -> None:
    """The largest entry of a table, measured and recorded."""
    file, first, last = "mqlearn/learning/metrics.py", '{"q_error": errors["q_error"]', "return [*names, "
    copy.replace(file, first, f'{first}, "q_largest": q.max((1, 2))')
    copy.replace(file, last, f'{last}"q_largest", ')


def label(copy: Copy, entry: str) -> None:
    copy.replace("mqlearn/learning/metric_kinds.py", "KINDS = {\n", f"KINDS = {{\n    {entry},\n")


@pytest.fixture(scope="module")
def lacking(copied) -> str:
    """What the checks say of the same changes, of which each lacks one thing."""
    copy = copied("lacking")
    copy.write(f"{RULES}/heavy_ball.py", RULE.format(name="HeavyBall"))  # no yaml
    copy.write(f"{RULES}/heavier_ball.py", RULE.format(name="HeavierBall"))  # no oracle
    copy.choice("algorithm", "heavier_ball", "HeavierBall", "beta: 0.3\n")
    copy.write(f"{RULES}/anchored.py", STATEFUL.format(name="Anchored", table="q"))  # the wrong table
    copy.choice("algorithm", "anchored", "Anchored", "w: 0.2\n")
    copy.write(ORACLES, STATEFUL_ORACLE.format(name="anchored", kind="Anchored"))
    copy.write(f"{RULES}/unanchored.py", STATEFUL.format(name="Unanchored", table="slow"))  # no oracle
    copy.choice("algorithm", "unanchored", "Unanchored", "w: 0.2\n")
    skewed = SAMPLING.format(name="each_pair", kind="EachPair", skew=1)
    copy.write("mqlearn/sampling/each_pair.py", skewed)
    copy.choice("sampling", "each_pair", "EachPair")
    copy.write("tests/twins.py", SAMPLING_TWIN.format(name="each_pair"))
    copy.write("mqlearn/sampling/forgetful.py", CHAIN)  # another distribution than its chain's
    copy.choice("sampling", "forgetful", "Forgetful")
    copy.write("tests/twins.py", '\n\nTWINS["forgetful"] = chain_draws\n')
    copy.write("mqlearn/sampling/some_pair.py", SAMPLING.format(name="some_pair", kind="SomePair", skew=0))  # no twin
    copy.choice("sampling", "some_pair", "SomePair")
    copy.write(f"{RULES}/operators/halfway.py", OPERATOR.format(kind="Halfway"))  # no to_optimum
    copy.choice("operator", "halfway", "Halfway")
    copy.write("tests/operators_by_hand.py", OPERATOR_ROW.format(name="halfway", kind="Halfway"))
    copy.write(f"{RULES}/operators/midway.py", OPERATOR.format(kind="Midway") + NO_OPTIMUM)  # no row by hand
    copy.choice("operator", "midway", "Midway")
    metric(copy)  # no label
    label(copy, '"regret": _error("regret")')
    return copy.checked()


def test_complete_changes_pass(complete):
    passed = bool(re.search(r"^\d+ passed, \d+ deselected", complete, re.MULTILINE))
    assert passed, complete[-4000:]


OMISSIONS = {
    "a rule without its yaml": r"no yaml of conf/algorithm names HeavyBall\b",
    "a rule without its oracle": r"heavier_ball\.yaml: HeavierBall has no oracle for four numbers",
    "a rule that the page of rules does not name": r"FAILED .*test_the_table_of_rules_is_that_of_the_configuration",
    "a rule with state with a wrong equation": r"FAILED .*test_synchronous\[1-anchored\]",
    "a rule with state without its oracle": r"Unanchored has no oracle for synchronous, asynchronous",
    "a sampling mode that draws otherwise than is said": r"FAILED .*draws_the_same_pairs\[each_pair\]",
    "a chain that says a wrong distribution": r"sampling='forgetful': draws otherwise than distribution\(mdp\) says",
    "a sampling mode without its twin": r"some_pair\.yaml: SomePair has no twin",
    "an operator that forgets a part": r"halfway\.yaml: to_optimum\(\) of Halfway is wrong: .* [\d.]+ off",
    "an operator without its row": r"midway\.yaml: Midway has no row in tests/operators_by_hand\.py",
    "a metric without its label": r"no label, unit and direction in .*metric_kinds\.py: q_largest",
    "a label without its metric": r"promises what no run records: regret",
}


@pytest.mark.parametrize("omission", OMISSIONS)
def test_an_omission_is_named(lacking, omission):
    named = bool(re.search(OMISSIONS[omission], lacking))
    assert named, lacking[-6000:]


def test_nothing_else_fails(lacking):
    failed = sorted({*re.findall(r"^FAILED \S+::(\w+)", lacking, re.MULTILINE)})
    assert failed == [
        "test_a_run_records_the_metrics_that_are_promised_and_each_has_a_label",
        "test_a_yaml_names_every_class_of_its_package",
        "test_every_mode_has_a_twin_that_draws_the_same_pairs",
        "test_every_operator_is_what_it_says",
        "test_every_rule_is_compared_with_an_oracle_in_each_of_its_modes",
        "test_every_sampling_mode_is_what_it_says",
        "test_one_pair_an_iteration",
        "test_some_run_records_every_metric_that_has_a_label",
        "test_synchronous",
        "test_the_table_of_rules_is_that_of_the_configuration",
    ]


# --- a column of verdicts: one table has it, and five outputs take it from there --------------------------------------

ROW: dict[str, Any] = {key: None for column in verdict_table.COLUMNS for key in column.keys} | {
    **dict.fromkeys(verdict_table.BESIDE), "a": "one", "b": "other", "group": "lake", "summary": "error",
    "metric": "q_error", "axis": "iterations", "at": 100, "effect_kind": "difference of means", "verdict": "a_better",
    "interval": "t", "correction": "Holm", "effect": -0.5, "n_finite": 7, "paired": True,
}  # fmt: skip


def forgotten(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Output and heading of each column that an output does not have."""
    written = {
        "terminal": verdict_table.terminal(rows)[0][0],
        "LaTeX": verdict_table.latex(rows).replace("$", ""),
        "report": str(verdicts.of(rows)),
    }
    entries = {
        "JSON": {*json.loads(verdict_table.json(rows))[0]},
        "CSV": {*verdict_table.csv(rows).partition("\n")[0].split(",")},
    }
    lost = [
        f"{output}: {column.heading}"
        for column in verdict_table.COLUMNS
        for output, text in written.items()
        if column.heading.replace(" ", "") not in text.replace(" ", "")
    ]
    keys = [key for column in verdict_table.COLUMNS for key in column.keys]
    return lost + [f"{output}: {key}" for output, known in entries.items() for key in keys if key not in known]


def test_a_column_of_verdicts_is_in_five_outputs_and_one_that_forgets_it_is_named(monkeypatch):
    column = verdict_table.Column("sign test", ("p_sign",), lambda row, style: style.p(row.get("p_sign")))
    before = verdict_table.COLUMNS
    monkeypatch.setattr(verdict_table, "COLUMNS", (*before, column))
    assert forgotten([ROW | {"p_sign": 0.125}]) == []
    assert forgotten([ROW]) == ["JSON: p_sign", "CSV: p_sign"]

    latex = verdict_table.latex

    def forgetful(rows):
        with monkeypatch.context() as patch:
            patch.setattr(verdict_table, "COLUMNS", before)
            return latex(rows)

    monkeypatch.setattr(verdict_table, "latex", forgetful)
    assert forgotten([ROW | {"p_sign": 0.125}]) == ["LaTeX: sign test"]
