"""The tables of comparisons: for a terminal of some width, for other programs, for LaTeX."""

import csv
import re

from mqlearn.analysis.comparison import columns, verdict_table
from mqlearn.analysis.report import verdicts


def test_a_narrow_terminal_gets_fewer_columns_and_says_which(compare, monkeypatch):
    wide = compare("experiment.name=small", "against=q_learning")
    assert "Left out" not in wide.out
    monkeypatch.setenv("COLUMNS", "80")
    narrow = compare("experiment.name=small", "against=q_learning")
    assert max(map(len, narrow.out.splitlines())) <= 80
    assert "Left out to fit 80 columns: p, needed, mean a, mean b" in narrow.out
    assert narrow.out.count("12 of 12 pairs") == 4  # every line still says how many seeds are in it
    assert narrow.rows == wide.rows


def test_columns_are_left_out_in_their_order_and_long_texts_broken():
    table = [["a", "b", "p", "q"], ["a long label of two runs", "b", "0.123", "1"]]
    assert columns.aligned(table, None, ("p",), ("a",)) == columns.aligned(table, 60, ("p",), ("a",))
    lines, left = columns.aligned(table, 38, ("p", "q"), ("a",))
    assert left == ["p"] and max(map(len, lines)) <= 38
    lines, left = columns.aligned(table, 24, ("p", "q"), ("a",))
    assert left == ["p", "q"] and max(map(len, lines)) <= 24
    assert [line.split() for line in lines[1:]] == [["a", "long", "label", "of", "two", "b"], ["runs"]]


def test_csv_latex_and_json_hold_the_same_numbers(compare, tmp_path):
    rows = compare("experiment.name=small", "--csv", tmp_path / "v.csv", "--latex", tmp_path / "v.tex").rows
    with (tmp_path / "v.csv").open() as file:
        table = list(csv.DictReader(file))
    assert len(table) == len(rows)
    for line, row in zip(table, rows, strict=True):
        assert line["a"] == row["a"] and line["verdict"] == row["verdict"]
        assert float(line["effect"]) == row["effect"] and float(line["p_corrected"]) == row["p_corrected"]
    tex = (tmp_path / "v.tex").read_text()
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 3  # by rules, and the pairs of two blocks
    by_rule = tex[: tex.index(r"\end{tabular}")]
    means = {(row["group"], row[side]): row[f"value_{side}"] for row in rows for side in "ab"}
    for line in by_rule.splitlines()[by_rule.splitlines().index(r"\midrule") + 1 : -1]:
        label, *cells = line.removesuffix(r" \\").split(" & ")
        values = {
            float(
                re.sub(r" \\cdot 10\^\{(.*?)\}", r"e\1", cell)
                .split()[0]
                .strip("$")
                .replace(r"\mathbf{", "")
                .rstrip("}")
            )
            for cell in cells
        }
        told = [value for (_, name), value in means.items() if verdict_table.escaped(name) == label]
        assert sorted(values) == [float(f"{value:.3g}") for value in sorted(told)], line
    assert tex.count(r"q\_learning") >= 4 and "q_learning &" not in tex
    assert not list(tmp_path.glob(".*"))


def test_every_column_of_verdicts_is_in_all_five_outputs(compare, tmp_path):
    """And every entry of a verdict is in one, or is said beside them."""
    files = {flag: tmp_path / f"v.{flag}" for flag in ("csv", "latex")}
    done = compare("experiment.name=small", *(part for flag, file in files.items() for part in (f"--{flag}", file)))
    written = {flag: file.read_text() for flag, file in files.items()}
    keys = [key for column in verdict_table.COLUMNS for key in column.keys]
    assert sorted([*keys, *verdict_table.BESIDE]) == sorted(done.rows[0])
    assert [*next(csv.reader([written["csv"].splitlines()[0]]))] == [*done.rows[0]]
    page = str(verdicts.of(done.rows))
    head = next(line for line in done.out.splitlines() if line.split()[:3] == ["a", "b", "mean"])
    tex = next(line for line in written["latex"].splitlines() if line.startswith("$a$ & "))
    for column in verdict_table.COLUMNS:
        assert f'<th scope="col">{column.heading}</th>' in page
        assert column.heading.replace(" ", "") in tex.replace("$", "").replace(" ", "")
    assert re.split(r" {2,}", head.strip()) == [column.heading for column in verdict_table.COLUMNS]
    assert len(tex.split(" & ")) == len(verdict_table.COLUMNS)
    pairs = written["latex"].partition(r"\end{tabular}")[2]  # after the table of rules
    assert {line.count(" & ") for line in pairs.splitlines() if r" \\" in line} == {tex.count(" & ")}
