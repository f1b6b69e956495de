"""Verdicts as one table: what its columns say stands once, and each output takes them from here.

A row is a verdict as plain data (`comparison.row`, or what `mqlearn compare --json` wrote). JSON and CSV have all its
entries by name; a terminal, LaTeX and the report have one column for each of COLUMNS, in this order.
"""

import csv as csv_module
import io
import json as json_module
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison.columns import aligned
from mqlearn.storage.runs import plain

Row = Mapping[str, Any]
WORDS = {
    "a_better": "a better",
    "b_better": "b better",
    "no_difference": "no difference shown",
    "impossible": "impossible",
    "equal": "equal within margin",
}


@dataclass(frozen=True)
class Style:
    """How an output writes what stands in a cell. math: around numbers; none: for what is absent or not a number."""

    text: Callable[[str], Any]
    digits: Callable[[float, int], str]
    precision: int = 4
    precision_p: int = 3
    none: str = "-"
    math: str = "{}"
    verdict: Callable[[str, str], Any] = lambda kind, words: words

    def number(self, x: Any, precision: int | None = None) -> str:
        return self.none if _absent(x) else self.math.format(self.digits(x, precision or self.precision))

    def p(self, x: Any) -> str:
        return self.number(x, self.precision_p)

    def interval(self, low: Any, high: Any) -> str:
        ends = ["" if _absent(x) else self.digits(x, self.precision) for x in (low, high)]
        return self.math.format(f"[{ends[0]}, {ends[1]}]") if all(ends) else "none"


@dataclass(frozen=True)
class Column:
    """keys: the entries of a row that it says.   ratio: the heading where a / b is compared, if it is another.
    narrow: when a narrow terminal leaves it out, 1 first; 0: never."""

    heading: str
    keys: tuple[str, ...]
    cell: Callable[[Row, Style], Any]
    ratio: str = ""
    narrow: int = 0

    def head(self, *, ratio: bool) -> str:
        return self.ratio if ratio and self.ratio else self.heading


def _absent(x: Any) -> bool:
    return x is None or (isinstance(x, float) and math.isnan(x))


def _seeds(row: Row, style: Style) -> Any:
    """Finite seeds of how many; pairs where they are common."""

    def of(n: Any, total: Any) -> str:
        return str(n) if total is None else f"{n} of {total}"

    if row.get("n_finite") is None:
        return style.none
    if row.get("paired"):
        return f"{of(row['n_finite'], row.get('n_seeds_a'))} pairs"
    sides = [of(row.get(f"n_finite_{side}", row["n_finite"]), row.get(f"n_seeds_{side}")) for side in "ab"]
    return " | ".join(sides)


def _needed(row: Row, style: Style) -> Any:
    """Seeds that would show the difference; none that would, or not known (?) where the spread is not."""
    if row["verdict"] in ("a_better", "b_better", "equal") or row.get("deterministic") or "seeds_needed" not in row:
        return style.none
    known = not _absent(row.get("low")) and row.get("effect") != (1 if is_ratio(row) else 0)
    return style.text(str(row.get("seeds_needed") or (">1000" if known else "?")))


COLUMNS = (
    Column("a", ("a",), lambda row, style: style.text(row["a"])),
    Column("b", ("b",), lambda row, style: style.text(row["b"])),
    Column("mean a", ("value_a",), lambda row, style: style.number(row.get("value_a")), "median a", 3),
    Column("mean b", ("value_b",), lambda row, style: style.number(row.get("value_b")), "median b", 4),
    Column("a - b", ("effect",), lambda row, style: style.number(row.get("effect")), "a / b"),
    Column("interval", ("low", "high"), lambda row, style: style.interval(row.get("low"), row.get("high")), narrow=5),
    Column("p", ("p",), lambda row, style: style.p(row.get("p")), narrow=1),
    Column("p Holm", ("p_corrected",), lambda row, style: style.p(row.get("p_corrected"))),
    Column(
        "finite seeds",
        ("paired", "n_finite", "n_finite_a", "n_seeds_a", "n_finite_b", "n_seeds_b"),
        _seeds,
    ),
    Column("needed", ("seeds_needed",), _needed, narrow=2),
    Column("verdict", ("verdict",), lambda row, style: style.verdict(row["verdict"], WORDS[row["verdict"]])),
)
# Said beside the table: of its block, in its caption, legend or remarks. JSON and CSV have them as all others.
BESIDE = (
    "group", "summary", "metric", "axis", "at", "at_a", "at_b", "epsilon", "reason", "effect_kind", "interval",
    "correction", "p_smallest", "p_t", "test", "level", "effect_size", "effect_size_kind", "pairing", "n_used",
    "margin", "p_equal", "diverged", "deterministic", "mixed", "digest_a", "digest_b", "notes", "tuning",
)  # fmt: skip


def is_ratio(row: Row) -> bool:
    """Whether the effect of a row is a ratio a / b, and no difference a - b."""
    return row.get("summary") == "time"


def block_of(row: Row) -> tuple[Any, ...]:
    """What the rows of one table share: group, place and metric."""
    return tuple(row.get(key) for key in ("group", "at", "metric"))


def head(rows: Sequence[Row]) -> list[str]:
    """The headings of a table of rows."""
    method = str(rows[0].get("correction", "Holm")).partition(" ")[0]
    heads = [column.head(ratio=is_ratio(rows[0])) for column in COLUMNS]
    return ["p Bonferroni" if text == "p Holm" and method == "Bonferroni" else text for text in heads]


def cells(rows: Sequence[Row], style: Style) -> list[list[Any]]:
    """The cells of a table of rows, as an output writes them."""
    return [[column.cell(row, style) for column in COLUMNS] for row in rows]


# --- outputs; that of the report is in analysis/report/verdicts.py ------------------------------------------------


def number(x: float, digits: int = 4) -> str:
    """A number of a terminal's table."""
    return "-" if math.isnan(x) else "not reached" if math.isinf(x) else f"{x:.{digits}g}"


TERMINAL = Style(str, number, precision_p=2)


def terminal(rows: Sequence[Row], width: int | None = None) -> tuple[list[str], list[str]]:
    """The lines of a table that fits `width`, and the headings that were left out for that."""
    ratio = is_ratio(rows[0])
    drop = [column.head(ratio=ratio) for column in sorted(COLUMNS, key=lambda c: c.narrow) if column.narrow]
    return aligned([head(rows), *cells(rows, TERMINAL)], width, drop, ("a", "b"))


def json(rows: Sequence[Row]) -> str:
    """All entries; null for what is not finite."""
    return json_module.dumps(plain(list(rows), finite=True), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def csv(rows: Sequence[Row]) -> str:
    """All entries under a header; nested ones as JSON, what is not finite as an empty cell."""
    out = io.StringIO()
    if rows:
        names = list(dict.fromkeys(name for one in rows for name in one))
        writer = csv_module.DictWriter(out, names, lineterminator="\n")
        writer.writeheader()
        for one in plain(list(rows), finite=True):
            writer.writerow({k: json_module.dumps(v) if isinstance(v, list | dict) else v for k, v in one.items()})
    return out.getvalue()


def latex(rows: Sequence[Row]) -> str:
    """A tabular for each block (package booktabs), its caption as a comment above it."""
    lines = []
    for (group, at, metric), members in groupby(rows, block_of):
        own = list(members)
        first, place = own[0], axes.words(own[0]["axis"], at)
        about = f"{first['effect_kind']}; {first['interval']}; {first['correction']}"
        lines += [f"% {escaped(group)}; {first['summary']}, {escaped(metric)} at {place}; {escaped(about)}"]
        lines += [rf"\begin{{tabular}}{{ll{'r' * (len(COLUMNS) - 3)}l}}", r"\toprule"]
        # The letters of a heading, a, b and p, are mathematics.
        letters = [re.sub(r"\b[abp]( [-/] b)?\b", lambda m: f"${m[0].replace(' ', '')}$", text) for text in head(own)]
        lines += [f"{' & '.join(letters)} \\\\", r"\midrule"]
        lines += [f"{' & '.join(row)} \\\\" for row in cells(own, _LATEX)]
        lines += [r"\bottomrule", r"\end{tabular}", ""]
    return "\n".join(lines)


def tex(x: float, digits: int) -> str:
    """A number within mathematics."""
    mantissa, _, exponent = f"{x:.{digits}g}".partition("e")
    return f"{mantissa} \\cdot 10^{{{int(exponent)}}}" if exponent else mantissa.replace("inf", "\\infty")


def escaped(text: str) -> str:
    """A text for LaTeX, in one line."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", ">": "$>$"}
    line = " ".join(text.split())  # a new line would end a comment
    return "".join(special.get(c) or (f"\\{c}" if c in "&%$#_{}" else c) for c in line)


_LATEX = Style(escaped, tex, precision=3, none="--", math="${}$")
