"""The tables of comparisons: for a terminal of some width, for other programs, for LaTeX."""

import csv

from mqlearn.analysis.comparison import columns


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
    assert tex.count(r"\begin{tabular}") == tex.count(r"\end{tabular}") == 2
    assert tex.count(r"q\_learning") >= 4 and "q_learning &" not in tex
    assert not list(tmp_path.glob(".*"))
