"""A card for each algorithm in use: its update as the code has it, where it is from, and what its symbols stand for."""

import inspect
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup

from mqlearn.algorithms import source
from mqlearn.analysis.report.markup import number, render
from mqlearn.analysis.report.subjects import Subject, scientific

CONVENTIONS = (
    "k counts updates from 0; q is Q_k, q_prev is Q_{k-1}, and at k = 0 both are the initial table. target is T_k Q_k "
    "and target_prev is T_k Q_{k-1}, the sampled Bellman operator of iteration k with the same sample in both. The "
    "value that is returned is Q_{k+1}. With linear features the same numbers weigh the gradients. A rule with state "
    "of its own has a step instead: z is its state, s the sample of iteration k, c the numbers of this k. s.value(q) "
    "is q(x, u), s.target(q, by) is r + discount q(y, v) with v greedy in by (or in q), s.move(q, to, share) "
    "moves q(x, u) by a share of the way, s.add(q, change) by a change; synchronously at all pairs, from one draw each."
)


def of(some: Sequence[Subject]) -> Markup:
    groups: dict[Any, list[Subject]] = {}
    for one in some:
        rule = one.cell.run_arguments["rule"] if one.cell is not None else None
        groups.setdefault(type(rule) if rule is not None else one.run.settings["algorithm"]["_target_"], []).append(one)
    cards = [_card(kind, members) for kind, members in groups.items()]
    return render("equations.html", conventions=CONVENTIONS, cards=cards)


def _card(kind: Any, members: Sequence[Subject]) -> dict[str, Any]:
    labels = list(dict.fromkeys(one.label for one in members))
    used = "Used by: " + "; ".join(labels) + "."
    if not isinstance(kind, type):
        return {"name": kind, "used": used, "reason": f"Its source is not available here: {members[0].why}."}
    changed = dict.fromkeys(one.label for one in members if not one.same_code)
    warning = f"The code or the numerics version has changed since these runs: {'; '.join(changed)}."
    return {
        "name": kind.__name__,
        "used": used,
        "reason": "",
        "facts": [
            ("from", f"{kind.__module__}.{kind.__qualname__}"),
            ("source", source.words(inspect.getmodule(kind))),
        ],
        "texts": [" ".join(part.split()) for part in source.words(kind).split("\n\n")],
        "code": source.equation(kind),
        "numbers": _numbers(members),
        "steps": _steps(members),
        "warning": warning if changed else "",
    }


def _numbers(members: Sequence[Subject]) -> dict[str, Any] | None:
    """The four numbers of each variant at some k, computed by the update itself."""
    rows, seen = [], set()
    for one in members:
        assert one.cell is not None
        rule = one.cell.run_arguments["rule"].with_step_size(one.cell.run_arguments["step_size"])
        if not source.defines(type(rule), "update"):
            return None
        for k in sorted({0, 10, 1000, max(0, one.run.settings["iterations"] - 1)}):
            weights = tuple(float(x) for x in rule.weights(k, k + 1)[0])
            if (one.label, k) not in seen:
                seen.add((one.label, k))
                rows.append([one.label, number(k), *[number(x) for x in weights]])
    head = ("run", "k", "p (Q_k)", "q (Q_k−1)", "s (T_k Q_k)", "t (T_k Q_k−1)")
    caption = "Q_{k+1} = p Q_k + q Q_{k-1} + s T_k Q_k + t T_k Q_{k-1}, evaluated from the code above"
    return {"head": head, "rows": rows, "caption": caption}


def _steps(members: Sequence[Subject]) -> list[tuple[str, str]]:
    """Source of the step sizes in use, each with its settings."""
    shown: dict[Any, list[str]] = {}
    for one in members:
        assert one.cell is not None
        step = one.cell.run_arguments["step_size"]
        names = scientific({"step_size": one.run.settings["step_size"]})
        words = ", ".join(
            f"{key.removeprefix('step_size.')} {value}" for key, value in names.items() if value != "null"
        )
        shown.setdefault(type(step), []).append(words)
    return [("; ".join(dict.fromkeys(words)), source.text(kind)) for kind, words in shown.items()]
