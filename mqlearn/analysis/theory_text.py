"""What theory predicts as text of 80 columns, and as what a result answers."""

import itertools
import textwrap
from typing import Any

from mqlearn.analysis.in_memory import as_run, cell_of
from mqlearn.errors import SettingError
from mqlearn.learning.record import Result
from mqlearn.problems.mdp import FiniteMDP

_WIDTH = 80


class Predictions(dict[str, Any]):
    """What `mqlearn theory --json` writes, as a dict; at the prompt the text."""

    def __repr__(self) -> str:
        return terminal(self)


def of_result(result: Result) -> Predictions:
    """`Result.theory`."""
    from mqlearn.analysis.predictions import predictions

    cell = cell_of(result)
    if not isinstance(cell.mdp, FiniteMDP):
        raise SettingError("theory", cell.mdp.name, "has no exact model: theory has nothing to compute from")
    return Predictions(predictions(cell, as_run(result)))


def terminal(facts: dict[str, Any]) -> str:
    """At most 80 columns."""
    head = f"{facts['environment']}, discount {facts['discount']:g}, reward {facts['reward']}, {facts['sampling']}"
    lines = [*textwrap.wrap(head, _WIDTH), *textwrap.wrap(facts["cell"], _WIDTH), "", "Assumptions"]
    for one in facts["assumptions"]:
        value = "" if one["value"] is None else f"{one['value']:.5g}"
        lines += _hanging(f"  {one['name']:13} {one['verdict']:14} {value:>10}  ", one["reason"])
    lines += ["", *_asymptotic(facts), "", *_bounds(facts)]
    measured = facts["measured"]
    if measured is None and "command" in facts:
        lines += ["", "No finished run of this digest; this command makes one:"]
        words = textwrap.wrap(facts["command"], _WIDTH - 6, break_long_words=False, break_on_hyphens=False)
        lines += [" \\\n    ".join(["  " + words[0], *words[1:]])]
    elif measured is not None:
        kinds = [f"{name} {measured[kind]:.4g}" for name, kind in (("sup", "sup"), ("rms", "rms")) if kind in measured]
        told = f"{', '.join(kinds)} error" if kinds else "no error of a table"
        if measured["diverged"]:
            told = f"no mean error, as seeds diverged ({measured['diverged']})"
        lines += ["", *textwrap.wrap(f"Measured at k = {measured['iteration']}: {told}", _WIDTH)]
    lines += _interval(facts["interval"])
    return "\n".join(lines)


def _interval(found: dict[str, Any] | None) -> list[str]:
    """Only where there is an interval, or a run would give one."""
    if found is None or (found["reason"] or "").startswith("algorithm.averaged"):
        return []
    if found["reason"]:
        return ["", *_hanging("Interval from one run: ", found["reason"])]
    widths = [high - low for low, high in zip(found["low"], found["high"], strict=True)]
    text = (
        f"of width {min(widths):.4g} to {max(widths):.4g}; {found['covered']:.0%} of the entries of Q* lie within. "
        f"Measured coverage of such intervals, on {found['coverage_seeds']} other seeds: {found['coverage']:.1%}, of "
        f"the worst entry {found['coverage_least']:.1%}"
    )
    return ["", *_hanging(f"Interval of {found['level']:.0%} from one seed, k = {found['iteration']}: ", text)]


def _asymptotic(facts: dict[str, Any]) -> list[str]:
    rows = facts["asymptotic"]
    if not rows:
        return [f"No asymptotic constants: {facts['asymptotic_reason']}"]
    least = next(iter(rows.values()))
    head = f"Error times sqrt(k), {facts['norm']}, for large k"
    lines = [head, f"  {'':28} {'rms':>8} {'largest':>8} {'E sup':>8}   times the floor"]
    lines += [f"  {'floor':28} " + " ".join(f"{least[f'floor_{kind}_sqrt_k']:8.4f}" for kind in ("rms", "max", "sup"))]
    for name, row in rows.items():
        if row["reason"] is not None:
            lines += _hanging(f"  {name:28} ", row["reason"])
            continue
        numbers = " ".join(f"{row[f'{kind}_sqrt_k']:8.4f}" for kind in ("rms", "max", "sup"))
        times = f"{row['rms_efficiency']:.3f} rms, {row['sup_efficiency']:.3f} sup"
        lines += [f"  {name:28} {numbers}   {times if row['floor_rms_sqrt_k'] else '- (no noise)'}"]
    measured = [f"{kind} {least[key]:.4f}" for kind in ("rms", "sup") if (key := f"measured_{kind}_sqrt_k") in least]
    if measured:
        shares = [f"{least[key]:.3f}" for kind in ("rms", "sup") if (key := f"measured_{kind}_efficiency") in least]
        text = f"measured, times sqrt(k): {', '.join(measured)}; times the floor: {', '.join(shares)}"
        lines += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    if least["tied_states"]:
        text = f"approximate: {least['tied_states']} states have several optimal actions, which share equally here"
        lines += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    if "exact" in least:
        k, rms = least["exact"]["iteration"][-1], least["exact"]["rms"][-1]
        text = f"exact rms error at k = {k}, the optimal policy held fixed: {rms:.5g}"
        lines += textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    return lines


def _bounds(facts: dict[str, Any]) -> list[str]:
    lines = []
    for one in facts["bounds"]:
        said = "vacuous: " if one["vacuous"] else ""
        lines += _hanging(
            f"  {one['name']:22} {one['value']:10.4g}  ", f"{said}{one['trivial']:.4g} is known; {one['assumes']}"
        )
    bias = facts["bias"]
    if bias is not None and bias["bound"] is not None:
        lines += _hanging(f"  {'bias, the lemma':22} {bias['bound']:10.4g}  ", f"tau {bias['tau']}")
    lines = ["Bounds at the last iteration", *lines] if lines else ["No bound with known constants covers this cell"]
    if bias is not None:
        lines += _bias(bias["measured"])
        if facts["independent"]:
            lines += textwrap.wrap("Samples are independent: in the mean over all seeds this is 0.", _WIDTH)
    elif facts["bias_reason"]:
        lines += _hanging("No bias of the samples: ", facts["bias_reason"])
    if (memory := facts["replay_distance"]) is not None:
        text = ", ".join(
            f"{d:.3g} at k = {k}" for k, d in list(zip(memory["iteration"], memory["mean"], strict=True))[::4]
        )
        lines += _hanging("  memory of replay  ", f"total variation from mu {text}; {memory['seeds']} seeds")
    elif facts["replay_distance_reason"]:
        lines += _hanging("No distance of the memory of replay: ", facts["replay_distance_reason"])
    if (slope := facts["slope"]) is not None:
        lines += textwrap.wrap(_slope(slope), _WIDTH)
    slopes = [_hanging("  ", f"{name}: {slope}") for name, slope in facts["slopes"].items()]
    return [
        *lines,
        "Rates of plain Q-learning with tables, by theorems without constants",
        *itertools.chain.from_iterable(slopes),
    ]


def _slope(found: dict[str, Any]) -> str:
    """The rate of a theorem without its constants, beside the one that was measured."""
    text = f"Slope of {found['metric']}: k^{found['exponent']:g}, {found['words']}"
    if (seen := found["measured"]) is None:
        return text
    interval = f" [{seen['low']:.3g}, {seen['high']:.3g}]" if seen["low"] == seen["low"] else ""  # of one seed none
    seeds = "" if seen["n_finite"] == seen["seeds"] else f", {seen['n_finite']} of {seen['seeds']} seeds"
    return f"{text}; measured over the last decade: {seen['value']:.3g}{interval}{seeds}"


def _bias(measured: dict[str, Any]) -> list[str]:
    """E (g - gbar)'(theta - theta*) at some iterations."""
    rows = zip(measured["iteration"], measured["mean"], measured["standard_error"], measured["bound"], strict=True)
    lines = [f"Bias of the samples, E (g - gbar)'(theta - theta*), over {measured['seeds']} seeds"]
    for k, mean, error, bound in list(rows)[::3]:
        said = "" if bound is None else f", the lemma's bound {bound:.4g}"
        lines.append(f"  k = {k:<8} {mean:10.3g} +- {error:.2g}{said}")
    return lines


def _hanging(start: str, text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=start, subsequent_indent=" " * min(len(start), 32))
