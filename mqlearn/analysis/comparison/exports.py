"""Verdicts for other programs: rows for CSV, and tables for LaTeX."""

import csv as csv_module
import io
import json
import math
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison.comparison import Verdict
from mqlearn.analysis.comparison.wording import WORDS, seeds
from mqlearn.storage.runs import plain


def csv(rows: Sequence[dict[str, Any]]) -> str:
    """The rows with a header; nested entries as JSON, what is not finite as an empty cell."""
    out = io.StringIO()
    if rows:
        names = list(dict.fromkeys(name for one in rows for name in one))
        writer = csv_module.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        for one in plain(list(rows), finite=True):
            writer.writerow({k: json.dumps(v) if isinstance(v, list | dict) else v for k, v in one.items()})
    return out.getvalue()


def latex(verdicts: Sequence[Verdict]) -> str:
    """A tabular for each block (package booktabs), its caption as a comment above it."""
    lines = []
    for (block, at, metric), members in groupby(verdicts, lambda v: (v.tested.group, v.tested.at, v.tested.metric)):
        own = list(members)
        first, question = own[0], own[0].tested.question
        effect = r"$a/b$" if question.is_ratio else r"$a-b$"
        level = f"{100 * (1 - question.level):g}\\,\\%"
        kind = f"{first.tested.effect.kind}; {first.correction}"
        place = axes.words(question.axis, at)
        lines += [f"% {escaped(block)}; {question.summary}, {escaped(metric)} at {place}; {kind}"]
        lines += [r"\begin{tabular}{llrrrl}", r"\toprule"]
        lines += [f"$a$ & $b$ & {effect} [{level}] & $p$ (Holm) & seeds & verdict \\\\", r"\midrule"]
        for v in own:
            found = v.tested.effect
            interval = "" if math.isnan(found.low) else f" $[{_tex(found.low)}, {_tex(found.high)}]$"
            p = "--" if math.isnan(v.p_corrected) else f"${_tex(v.p_corrected)}$"
            sides = [escaped(side.label) for side in (v.tested.a, v.tested.b)]
            cells = [*sides, f"${_tex(found.value)}${interval}", p, seeds(v), WORDS[v.verdict]]
            lines.append(" & ".join(cells) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def _tex(x: float) -> str:
    mantissa, _, exponent = f"{x:.3g}".partition("e")
    return f"{mantissa} \\cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def escaped(text: str) -> str:
    """A text for LaTeX, in one line."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    line = " ".join(text.split())  # a new line would end a comment
    return "".join(special.get(c) or (f"\\{c}" if c in "&%$#_{}" else c) for c in line)
