"""The table of the leaderboard in the words of the outputs folder is that of the stored boards."""

import csv
import io
import re
from pathlib import Path

import pytest

from mqlearn.suites import results
from mqlearn.suites.leaderboard import tables
from mqlearn.suites.leaderboard.board import board

PAPER = Path(__file__).parents[2] / "outputs" / "paper"
TEXT = (PAPER / "README.md").read_text(encoding="utf-8").partition("## Leaderboard\n")[2].partition("\n## ")[0]
SUITES = ("classic", "discount", "paper", "markovian", "linear")


def stored(suite: str) -> dict[str, dict[str, str]]:
    head = (PAPER / f"bench_{suite}.csv").read_text(encoding="utf-8").partition("\n\n")[0]
    return {row["rule"]: row for row in csv.DictReader(io.StringIO(head)) if row["setting"] == "tuned"}


def test_the_stored_table_is_that_of_the_stored_arrays():
    """Of the suite that has all columns, as the code of today makes it."""
    made = tables.comma_separated(board("classic", results.read(PAPER / "bench_classic.npz")))
    kept = (PAPER / "bench_classic.csv").read_text(encoding="utf-8")
    cells = [[cell for row in csv.reader(io.StringIO(text)) for cell in row] for text in (made, kept)]
    assert len(cells[0]) == len(cells[1])
    for one, other in zip(*cells, strict=True):
        assert one == other or float(one) == pytest.approx(float(other), rel=1e-9)


def short(value: str | float) -> str:
    return f"{float(value):.3g}".removeprefix("0")


@pytest.mark.parametrize("suite", SUITES)
def test_the_table_of_scores_is_that_of_the_stored_board(suite):
    lines = [line.strip("| ").split(" | ") for line in TEXT.splitlines() if line.startswith("| ")]
    head, rows = lines[0], {name.strip("`"): cells for name, *cells in lines[1:]}
    rules = stored(suite)
    assert set(rows) == set(rules)
    for name, row in rules.items():
        some = "" if row["n_problems"] == row["of_problems"] else f" ({row['n_problems']}/{row['of_problems']})"
        expected = f"{short(row['score'])}{some}" if row["score"] else "-"
        assert rows[name][head[1:].index(suite)] == expected, name


def test_the_sentence_on_other_tuning_seeds_is_of_the_stored_numbers():
    stored_text = (PAPER / "bench_classic_tuning_seeds.csv").read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(stored_text)))
    (changed,) = re.findall(r"no score changes by more than ([\d.]+) %", " ".join(TEXT.split()))
    ratios = [float(row["score_2000"]) / float(row["score_1000"]) for row in rows]
    largest = 100 * max(max(one, 1 / one) - 1 for one in ratios)
    assert float(changed) == pytest.approx(largest, abs=0.51) and float(changed) >= largest
    orders = [sorted(rows, key=lambda row: float(row[f"score_{seed}"])) for seed in (1000, 2000)]
    moved = {row["rule"] for one, other in zip(*orders, strict=True) if one is not other for row in (one, other)}
    assert moved == {"q_learning", "nesa"} and "`q_learning` and `nesa` change places" in " ".join(TEXT.split())
    scores = stored("classic")
    assert all(float(row["score_1000"]) == float(scores[row["rule"]]["score"]) for row in rows)
