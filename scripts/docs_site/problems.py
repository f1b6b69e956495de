"""A page for each problem: words, settings, source, what is exact about it, a picture, and who does best on it."""

import inspect
import itertools
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import mqlearn as mq
from docs_site import boards, docstrings, markdown, pictures
from docs_site.yamls import Described, described
from mqlearn.experiments.settings import instantiate
from mqlearn.problems import attainable_values
from mqlearn.problems.known import PROBLEMS
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.problems.solvers import optimal

DRAWN = 256  # states of a model that is drawn without a map, at most
_WORDS = {
    "start_value": "value at the start, V*",
    "certified_error": "its certified error",
    "success_probability": "probability of the goal under the best actions",
    "shortest_path": "shortest path to the goal",
    "optimal_actions": "optimal actions",
    "max_reward": "largest size of a reward",
}
_ELSEWHERE = ("environment", "source", "known_values", "usual_discount")


def problems() -> list[Described]:
    return described("env")


def discounts() -> dict[str, float]:
    """Problem of conf/env -> the discount that its page takes: of its first board, or its usual one, or 0.9."""
    found = {}
    for one in problems():
        for board, name in boards.of_problem(one.name):
            over = [text for text in board.content["problems"][name] if text.startswith("discount=")]
            if over and one.name not in found:
                found[one.name] = float(over[-1].partition("=")[2])
        if one.name in PROBLEMS and one.name not in found:
            found[one.name] = inspect.signature(PROBLEMS[one.name]).parameters["discount"].default
    return found


def pages(to: Path) -> dict[str, str]:
    """Page -> text; pictures are written beside them."""
    at = discounts()
    (to / "problems").mkdir(exist_ok=True, parents=True)
    with ProcessPoolExecutor(2) as pool:  # half of it is drawing
        told = pool.map(_page, problems(), [at.get(one.name, 0.9) for one in problems()], itertools.repeat(to))
        return {f"problems/{one.name}.md": text for one, text in zip(problems(), told, strict=True)}


def index(text: str) -> str:
    """The page of the README of problems, with a table of all before its first heading."""
    listed = markdown.table(
        ["problem", "what it is"], [[f"[`{p.name}`]({p.name}.md)", _first(p)] for p in problems()], 2
    )
    head, heading, rest = text.partition("\n## ")
    return f"{head}\n\n{listed}\n{heading}{rest}\n{markdown.toctree(one.name for one in problems())}"


def _first(one: Described) -> str:
    text = inspect.cleandoc(_function(one).__doc__ or "").partition("\n\n")[0]
    return markdown.text(" ".join(text.split()))


def _function(one: Described) -> Any:
    if one.target == "by_id":
        return mq.from_gymnasium
    return getattr(mq, one.target)


def _model(one: Described, discount: float) -> FiniteMDP | None:
    """The model at its defaults; None where a setting has no default."""
    if any(value == "???" for _, value, _ in one.settings):
        return None
    made = instantiate.make("env", dict(one.content), {}, {"discount": discount})
    return made.with_discount(discount) if isinstance(made, FiniteMDP) else None


def _page(one: Described, discount: float, to: Path) -> str:
    function = _function(one)
    parts = [f"# {markdown.text(one.name)}\n"]
    if one.about:
        parts.append(markdown.text(" ".join(one.about.split())) + "\n")
    words = docstrings.rst(function.__doc__ or "", docstrings.parameters_of(function))
    parts += [
        markdown.directive("eval-rst", body=words),
        f"In Python {{py:obj}}`mq.{function.__name__} <mqlearn.{function.__name__}>`.\n",
    ]
    mdp = _model(one, discount)
    if mdp is not None:
        parts += _exact(one, mdp, to)
    parts += ["## Settings\n", _settings(one)]
    found = boards.of_problem(one.name)
    if found:
        parts += ["## On the leaderboards\n", _standing(found)]
    parts += ["## Try it\n", _commands(one, discount, mdp)]
    return "\n".join(parts)


def _exact(one: Described, mdp: FiniteMDP, to: Path) -> list[str]:
    facts, optimum = attainable_values.report(mdp), optimal(mdp)
    parts = []
    label = f"Values and moves of {one.name}"
    if mdp.layout is not None:
        parts.append(pictures.on_map(mdp, optimum))
    elif mdp.n_states <= DRAWN:
        pictures.of_model(mdp, optimum, to / "problems" / f"{one.name}.png")
        parts.append(f"![{label}]({one.name}.png)\n")
    if "source" in facts:
        parts += ["## Source\n", markdown.text(markdown.sentence(facts["source"])) + "\n"]
    rows = [
        [_WORDS.get(name, name.replace("_", " ")), markdown.number(value, 8 if "error" not in name else 2)]
        for name, value in facts.items()
        if name not in _ELSEWHERE
    ]
    parts += ["## What is exact\n", markdown.table(["quantity", "value"], rows)]
    if "known_values" in facts:
        known = (
            ""
            if str(facts["known_values"]).startswith("not")
            else f"V\\* as known from elsewhere: {facts['known_values']}. "
        )
        parts.append(f"{known}The usual discount is {facts['usual_discount']:g}.\n")
    return parts


def _settings(one: Described) -> str:
    if not one.settings:
        return "None but `discount`.\n"
    rows = [[f"`env.{name}`", f"`{value}`", markdown.text(words)] for name, value, words in one.settings]
    return markdown.table(["setting", "default", "meaning"], rows, left=3)


def _standing(found: list[tuple[boards.Board, str]]) -> str:
    rows = []
    for board, name in found:
        best = board.on(name)[:3]
        told = ", ".join(
            f"[`{c['rule']}`](../rules/{c['rule']}.md) {float(c['score']):.3g}" for c in best if c["score"]
        )
        rows.append([f"[{board.suite}](../boards/{board.suite}.md)", name, told or "–"])
    head = ["board", "problem there", "best three, tuned, with their error relative to tuned `q_learning`"]
    return markdown.table(head, rows, left=3)


def _commands(one: Described, discount: float, mdp: FiniteMDP | None) -> str:
    if mdp is None:
        needed = " ".join(f"env.{name}=..." for name, value, _ in one.settings if value == "???")
        return markdown.code(f"mqlearn truth env={one.name} {needed} discount={discount:g}", "sh")
    lines = [
        f"mqlearn {verb} env={one.name} discount={re.sub('0+$', '', f'{discount:.9f}')}" for verb in ("truth", "run")
    ]
    return markdown.code("\n".join(lines), "sh")
