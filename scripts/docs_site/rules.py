"""A page for each rule: its equation, source, settings, what theory says of it, and where it stands on each board."""

import re
import sys
from typing import Any

import numpy as np

import mqlearn as mq
from docs_site import boards, docstrings, markdown
from docs_site.yamls import Described, described
from mqlearn.algorithms import source
from mqlearn.analysis import slopes
from mqlearn.analysis.cases import case_of
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import Cell, build
from mqlearn.paths import PACKAGE
from mqlearn.theory import tables

PROBLEM = ("env=frozen_lake_4x4", "discount=0.9")
CHAIN = "env=river_swim discount=0.95 sampling=markovian"  # where rules learn that need samples in a row


def rules() -> list[Described]:
    return described("algorithm")


def pages() -> dict[str, str]:
    """Page -> text."""
    told, some = _table(), rules()
    cells = compose.compose_all([[f"algorithm={one.name}", *PROBLEM] for one in some])
    return {f"rules/{one.name}.md": _page(one, told, _built(cell)) for one, cell in zip(some, cells, strict=True)}


def _built(settings: dict[str, Any]) -> Cell | str:
    """The cell, or why a rule does not run with all pairs at once."""
    try:
        return build(settings)
    except SettingError as error:
        return error.admissible


def index(text: str) -> str:
    """The page of the README of rules, its table with links to the pages."""
    names = [one.name for one in rules()]
    linked = re.sub(
        r"^\| `(\w+)` \|", lambda m: f"| [`{m[1]}`]({m[1]}.md) |" if m[1] in names else m[0], text, flags=re.M
    )
    return f"{linked}\n{markdown.toctree(names)}"


def _table() -> dict[str, list[str]]:
    """Rule -> idea, source and convergence, of the README."""
    page = (PACKAGE / "algorithms" / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|(.*)\|$", page.partition("## Those that come with")[2], re.MULTILINE)
    return {name: [cell.strip() for cell in rest.split("|")] for name, rest in rows}


def _page(one: Described, told: dict[str, list[str]], cell: Cell | str) -> str:
    kind: Any = getattr(mq, one.target)
    idea, origin, converges = told[one.name]
    four = issubclass(kind, mq.Rule)
    of = "four numbers a step" if four else "state of its own"
    about = f"A rule of {of}, in Python {{py:obj}}`mq.{one.target} <mqlearn.{one.target}>`."
    module = docstrings.escaped(" ".join(source.words(_module(kind)).split("\n\n")[0].split()))
    equation = docstrings.rst(kind.__doc__ or "", docstrings.parameters_of(kind))
    parts = [
        f"# {markdown.text(one.name)}\n",
        f"{markdown.sentence(idea)} {about}\n",
        "## Equation\n",
        markdown.directive("eval-rst", body=equation),
        "As code, which is all that runs:\n",
        *[markdown.code(text, "python") for text in source.equation(kind)],
        "## Source\n",
        markdown.sentence(origin) + "\n",
        markdown.directive("eval-rst", body=module),
        "## Settings\n",
        _settings(one),
        "## What theory says\n",
        f"Convergence to Q\\*, as far as the code says: {'nothing is said' if converges == '-' else converges}.\n",
        f"- With synchronous sampling: {markdown.text(cell)}.\n" if isinstance(cell, str) else _theory(cell),
        "## On the leaderboards\n",
        "Tuned, among all rules that ran; the score is the error relative to tuned `q_learning`, below 1 is better.\n",
        markdown.table(["board", "place", "score", "95 % interval", "mean rank", "problems"], boards.of_rule(one.name)),
        "## Try it\n",
        markdown.code(f"mqlearn run algorithm={one.name} {CHAIN}" if isinstance(cell, str) else
                      f"mqlearn run algorithm={one.name} env=frozen_lake_8x8 discount=0.99\n"
                      f"mqlearn theory algorithm={one.name} {' '.join(PROBLEM)}", "sh"),
    ]  # fmt: skip
    return "\n".join(parts)


def _module(kind: type) -> Any:
    return sys.modules[kind.__module__]


def _settings(one: Described) -> str:
    if not one.settings:
        return "None of its own but the step size, `step_size=`, and what every rule takes.\n"
    rows = [[f"`algorithm.{name}`", f"`{value}`", markdown.text(words)] for name, value, words in one.settings]
    return markdown.table(["setting", "default", "meaning"], rows, left=3)


def _theory(cell: Cell) -> str:
    case = case_of(cell)
    rule = case.rule
    where = f"On FrozenLake 4x4 at discount 0.9, with synchronous sampling and its own step size `{rule.step_size}`"
    parts = []
    reason = tables.uncovered(case)
    row = {} if reason else tables.asymptotic_row(case)
    reason = reason or row["reason"]
    if reason:
        parts.append(f"- {where}: no asymptotic constant is known. {markdown.text(markdown.sentence(reason))}")
    else:
        parts.append(
            f"- {where}, for large k the root mean square error is {row['rms_sqrt_k']:.4f}/√k, "
            f"{row['rms_efficiency']:.3f} times the floor {row['floor_rms_sqrt_k']:.4f}/√k; the expected sup error "
            f"{row['sup_sqrt_k']:.4f}/√k, {row['sup_efficiency']:.3f} times the floor."
        )
    check = tables.schedule(case)
    parts.append(f"- {check.name}: {check.verdict}. {markdown.text(markdown.sentence(check.reason))}")
    for bound in tables.table_bounds(case, np.array([case.iterations]), None):
        told = bound.row()
        vacuous = ", which says nothing" if told["vacuous"] else ""
        parts.append(
            f"- Bound of {told['name']}, after {cell.settings['iterations']:,} iterations: {told['value']:.4g}"
            f"{vacuous} ({told['trivial']:.4g} is known; {markdown.text(told['assumes'])})."
        )
    slope = slopes.row(case, None, None)
    if slope is not None:
        parts.append(
            f"- Rate of a theorem without its constants: k^{slope['exponent']:g}, {markdown.text(slope['words'])}."
        )
    return "\n".join(parts) + "\n"
