"""The compiled form of a rule: a module is generated whose name is a digest of its text, and its loop compiled.

The code is cached as that of the kernels is, under their stamp: an edit of a rule gives another text and so another
module, and leaves those of other rules as they are.
"""

import ast
import functools
import hashlib
import linecache
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from mqlearn import linear_solves, source_text
from mqlearn.algorithms.four_numbers import FourNumbers
from mqlearn.algorithms.operators import BELLMAN, Operator
from mqlearn.algorithms.stateful import Stateful
from mqlearn.errors import SettingError
from mqlearn.stateful.loops import HEAD, LOOPS
from mqlearn.stateful.point_verbs import BEYOND, KEPT, PointVerbs
from mqlearn.stateful.reference import measured
from mqlearn.stateful.source import Step
from mqlearn.stateful.sweep_verbs import SweepVerbs
from mqlearn.stateful.text import Text
from mqlearn.stateful.values import TABLE, VECTOR, Layout, Value
from mqlearn.stateful.written import written_by_verbs

_COUNTED = ["row = np.uint64(count[firsts[pair]])", "count[firsts[pair]] += 1"]


def compiled_step(
    rule: Stateful, mode: str, layout: Layout, source: str, operator: Operator = BELLMAN, counts: bool = False
) -> "Compiled":
    """The compiled loop of a rule in a mode of `algorithms.stateful.MODES`. Raises SettingError for its text.

    source: of its samples, "sweeps", "chain", "greedy chain" (which follows `acting`) or "samples".   operator: of the
    targets.   counts: whether the numbers of an iteration are those of as many visits; then the last argument of the
    loop is (counts, firsts) as in `kernels.asynchronous`, and row 0 of its numbers is count 0.
    """
    step = Step(rule)
    synchronous, linear = mode == "synchronous", mode == "linear"
    verbs = SweepVerbs(rule.batch, operator) if synchronous else PointVerbs(rule.batch, linear, operator)
    text = Text(step, layout, rule.number_names, verbs)
    lazy: list[int] = []
    if rule.averaged and rule.clip is None:  # what is cut after the verbs, they do not know
        if mode == "asynchronous" or source == "samples":  # a projection moves all entries
            lazy = written_by_verbs(text)
        verbs.averaged = bool(lazy)
    text.block(step.body)
    row, counted = ("numbers[row", ("count", "firsts")) if counts else ("given[i", ())
    parts = {
        "others": [f"m_{name} = others[{i}][lane]" for i, name in enumerate(layout.others)],
        "numbers": [*_COUNTED * counts, *(f"c_{name} = {row}, {i}]" for i, name in enumerate(rule.number_names))],
        "fields": [f"f_{name} = fields[{i}]" for i, name in enumerate(text.fields)],
        "words": [],
        "draw": _sweep_draws(rule, verbs) if mode == "synchronous" else _further_draws(rule, verbs),
        "greedy": [],
        "clip": _clips(rule, layout, mode),
        "average": _sums(rule, layout, lazy),
        "project": _projection(rule, layout) if mode == "linear" and source.endswith("chain") else [],
        # As in `chain.move`.
        "named": ["_ = " + " + ".join(f"{name}.size" for name in [*_arrays(layout, source), *counted])],
    }
    parts["others"] += ["count, firsts = counting[0][lane], counting[1]"] * counts
    if rule.averaged:
        parts["others"].append(f"sums = others[{len(layout.others)}][lane]")
    followed = verbs.followed or []
    parts["others"] += [f"{name}_n = {BEYOND}" for name in followed]
    scratch = dict.fromkeys(followed, f"np.empty({KEPT}, np.int64)") | text.scratch
    if mode == "synchronous":
        shape = f"({rule.batch}, n)" if rule.batch > 1 else "n"
        scratch |= {"words": "np.empty(4 * model.counters.shape[0], np.uint32)"}
        scratch |= {"u": "np.empty((model.steps, model.room), np.uint32)"}
        scratch |= {"y": f"np.empty({shape}, np.uint32)", "r": f"np.empty({shape})"}
        scratch |= {"y2": f"np.empty({shape}, np.uint32)", "r2": "np.empty(n)"} if "again" in verbs.uses else {}
    else:
        m = rule.batch
        scratch |= {"y1": f"np.empty({m}, np.int64)", "r": f"np.empty({m})"} if m > 1 else {}
        scratch |= {"y2": f"np.empty({m}, np.int64)", "r2": f"np.empty({m})"} if "again" in verbs.uses else {}
    if "uniform" in verbs.uses:
        scratch |= {"own": f"np.zeros((4, {'model.steps' if mode == 'synchronous' else 'CHUNK'}), np.uint32)"}
        parts["words"] = ["philox_steps(k + done, length, lanes[lane], seed, OWN, own)"]
        parts["draw"] += [f"uniform_{j} = own[{j}, i] / 4294967296.0" for j in sorted(verbs.coins)]
        if any(re.search(r"\buniform\b", line) for _, line, _ in text.lines):  # as an array
            scratch |= {"uniform": "np.zeros(4)"}
            parts["draw"] += [f"uniform[{j}] = own[{j}, i] / 4294967296.0" for j in range(4)]
    if source == "greedy chain":
        parts["greedy"] = _greedy(rule, layout, mode == "linear")
        scratch |= {"acting": "np.zeros(model.successors.shape[0])"}
    parts["scratch"] = [f"{name} = {made}" for name, made in scratch.items()]
    given = "z_all, others, fields, model, numbers, discount, k, n_all, lanes, seed, operator"
    parts["call"] = [f"learn({', '.join([given, *scratch])})"]
    parts["learn"] = [f"def {parts['call'][0]}:"]
    own_arrays = ", _nrt=True" if text.makes_arrays or layout.others else ""
    parts["compiled"] = [f"@compiled(apart=True{own_arrays}, **kept)"]
    return Compiled(*_filled(LOOPS[source.removeprefix("greedy ")], parts, text), step, text.fields, lazy)


def _filled(loop: str, parts: dict[str, list[str]], text: Text) -> tuple[str, dict[int, int]]:
    """The text of a module, and the lines of the user's file that its lines come from."""
    lines: list[str] = list(HEAD.splitlines())
    calling = [*(line for _, line, _ in text.lines), *text.helpers.texts]
    for name in ("solve", "times"):
        if any(f"{name}(" in line for line in calling):
            _, text_of_it = source_text.of_function(getattr(linear_solves, name))  # an edit of it is another module
            lines += ["@compiled(**kept)", *text_of_it.splitlines()]
    for helper in text.helpers.texts:
        lines += ["@compiled(**kept)", *helper.splitlines()]
    places = {}
    for line in loop.splitlines():
        name, indent = line.strip().removeprefix("$"), line[: len(line) - len(line.lstrip())]
        if line.strip() == "$step":
            for depth, content, origin in text.lines:
                lines.append(f"{indent}{'    ' * depth}{content}")
                places[len(lines)] = origin
        else:
            lines += [indent + part for part in parts[name]] if line.strip().startswith("$") else [line]
    return "\n".join(lines) + "\n", places


def _arrays(layout: Layout, source: str) -> list[str]:
    own = "drawn" if source == "samples" else "words"
    read = ["z", "z_all", "offsets", "columns", "values", "numbers", "given", own]
    return [*read, *(f"m_{name}" for name in layout.others)]


def _sums(rule: Stateful, layout: Layout, lazy: list[int]) -> list[str]:
    """Statements that add the tables of an iteration to their sums, but for those of which verbs keep them."""
    rows = [row for row in range(len(layout.tables)) if row not in lazy] if rule.averaged else []
    return [line for row in rows for line in ("for p in range(n):", f"    sums[{row}, p] += z[{row}, p]")]


def _sweep_draws(rule: Stateful, verbs: Any) -> list[str]:
    """Statements that draw the successors of an iteration."""
    n, lines = rule.batch, list[str]()
    if n == 1:
        lines += [*_swept("y", "r")]
    else:
        lines += [*_swept("y[0]", "r[0]"), f"for draw in range(1, {n}):"]
        place = "draw * each, k + done + i, lanes[lane], seed, BATCH, y[draw], r[draw]"
        lines.append(f"    sweep_once(model, {place})")
    if "again" in verbs.uses:
        to = "y2" if n == 1 else "y2[draw]"
        lines.append(f"for draw in range({n}):")
        lines.append(f"    sweep_once(model, draw * each, k + done + i, lanes[lane], seed, AGAIN, {to}, r2)")
    return lines


def _swept(y: str, r: str) -> list[str]:
    """Statements that choose the first successor of all pairs, and its reward if that is not always the same."""
    return [
        f"sweep(successors, thresholds, u[i], {y})",
        "if not model.alike or done + i == 0:",
        f"    sweep(rewards, thresholds, u[i], {r})",
    ]


def _further_draws(rule: Stateful, verbs: Any) -> list[str]:
    """Statements that draw successors of the pair beyond the first."""
    lines: list[str] = []
    place = "np.int64(pair), k + done + i, lanes[lane], seed"
    if rule.batch > 1:
        lines += ["y1[0] = np.int64(y)", "r[0] = reward"]
        lines.append(f"further_successors(model, {place}, BATCH, y1[1:], r[1:])")
    if "again" in verbs.uses:
        lines.append(f"further_successors(model, {place}, AGAIN, y2, r2)")
    return lines


def _projection(rule: Stateful, layout: Layout) -> list[str]:
    """Statements that keep each table that is measured in the ball."""
    names = measured(rule, {name: np.zeros(shape) for name, shape in layout.shapes.items()})
    lines: list[str] = []
    for row in (layout.tables.index(name) for name in names if name in layout.tables):
        lines += [
            "    norm = 0.0",
            "    for p in range(n):",
            f"        norm += z[{row}, p] * z[{row}, p]",
            "    if norm > radius * radius:",
            "        shrink = radius / np.sqrt(norm)",
            "        for p in range(n):",
            f"            z[{row}, p] *= shrink",
        ]
    return ["if radius < np.inf:", *lines] if lines else []


def _clips(rule: Stateful, layout: Layout, mode: str) -> list[str]:
    """Statements that cut each table that is measured; where one entry alone has moved, that one."""
    if rule.clip is None:
        return []
    low, high = rule.clip
    names = measured(rule, {name: np.zeros(shape) for name, shape in layout.shapes.items()})
    at, depth = ("np.uint64(pair)", "") if isinstance(rule, FourNumbers) and mode == "asynchronous" else ("p", "    ")
    lines = [
        f"{depth}z[{row}, {at}] = min(max(z[{row}, {at}], {low!r}), {high!r})"
        for row in (layout.tables.index(name) for name in names if name in layout.tables)
    ]
    return lines if at != "p" else ["for p in range(n):", *lines]


def _greedy(rule: Stateful, layout: Layout, linear: bool) -> list[str]:
    """Statements that find the pair of the greedy action of `acting` where the chain is."""
    value, lines = _formula(rule, "acting", layout)
    place = "offsets, walk.state, k + done + i, lanes[lane], seed, streams.ties, chain.temperature"
    call = f"greedy = greedy_pair({{}}, {place})"
    if not linear and value.kind == TABLE:
        return [*lines, call.format(value.whole)]
    lines = [*lines, "for q in range(offsets[walk.state], offsets[walk.state + np.uint64(1)]):"]
    if linear:
        lines += [
            "    at = np.uint64(q) * n_active",
            "    p = np.uint64(columns[at])",
            f"    acting[q] = {value.entry} * values[at]",
            "    for at in range(np.uint64(q) * n_active + np.uint64(1), (np.uint64(q) + np.uint64(1)) * n_active):",
            "        p = np.uint64(columns[at])",
            f"        acting[q] += values[at] * {value.entry}",
        ]
    else:
        lines += ["    p = q", f"    acting[q] = {value.entry}"]
    return [*lines, call.format("acting")]


def _formula(rule: Stateful, method: str, layout: Layout) -> tuple[Value, list[str]]:
    """What `estimate` or `acting` returns, as code, and the lines before it."""
    if getattr(type(rule), method) is getattr(Stateful, method):
        return _formula(rule, "estimate", layout) if method == "acting" else (Value(TABLE, "0"), [])
    step = Step(rule, method)
    body = [node for node in step.body if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))]
    last = body[-1]
    if len(body) != 1 or not isinstance(last, ast.Return) or last.value is None:
        step.refuse(last, f"{method}() must be one expression, to be compiled; or set compiled = False")
    text = Text(step, layout, (), PointVerbs(1, False))
    value = text.lower(last.value)
    if value.kind not in (TABLE, VECTOR) or text.fields or text.helpers.texts:
        step.refuse(last, f"{method}() must be an expression in tables of the state; or set compiled = False")
    return value, [line for _, line, _ in text.lines]


class Compiled:
    """A generated module, compiled when it is called first."""

    def __init__(
        self, text: str, places: dict[int, int], step: Step, fields: Sequence[str], lazy: Sequence[int]
    ) -> None:
        self.text, self.step, self.places, self.lazy = text, step, places, lazy
        self.fields: np.ndarray = np.array([getattr(step.rule, name) for name in fields], np.float64)

    def __call__(self, z: np.ndarray, others: tuple[np.ndarray, ...], *arguments: Any) -> None:
        from numba.core.errors import NumbaError

        try:
            _function(self.text)(z, others, self.fields, *arguments)
        except NumbaError as error:
            raise self._told(error) from None

    def _told(self, error: Exception) -> SettingError:
        said = [line.strip() for line in str(error).split("\n") if line.strip()]
        lines = [int(number) for number in re.findall(r"rule_\w+\.py[\"']?[,:( ]+(?:line )?(\d+)", str(error))]
        known = [self.places[line] for line in lines if line in self.places]
        where = f"{self.step.file}, line {known[-1] if known else self.step.first}"
        reason = said[1] if len(said) > 1 and said[0].startswith("Failed in nopython") else said[0]
        expected = f"step() cannot be compiled: {reason}; or set compiled = False ({where})"
        return SettingError("algorithm", self.step.name, expected)


@functools.lru_cache(maxsize=256)
def _function(text: str) -> Any:
    from mqlearn import kernels

    name = f"rule_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
    file = str(Path(kernels.__file__).with_name(f"{name}.py"))  # where it would lie: its stamp is that of its folder
    module = ModuleType(f"mqlearn.kernels.{name}")
    module.__file__ = file
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    sys.modules[module.__name__] = module  # the cache asks for it by name
    exec(compile(text, file, "exec"), module.__dict__)
    return module.advance
