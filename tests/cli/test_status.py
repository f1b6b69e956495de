"""The counts of `mqlearn status` as text: they fit the terminal, and what is left out is said."""

from mqlearn.cli import status


def report(name: str, **counts: int) -> dict:
    return {"experiment": name, "cells": []} | dict.fromkeys(status._ORDER, 0) | counts


def test_one_experiment_is_a_sentence_that_breaks_between_words():
    one = report("small", planned=12, done=12)
    (line,) = status._text([one], None).splitlines()
    assert line.startswith("small: 12 planned, 12 done, 0 running") and line.endswith("0 not uploaded")
    narrow = status._text([one], 50).splitlines()
    assert max(map(len, narrow)) <= 50 and " ".join(part.strip() for part in narrow) == line


def test_several_experiments_are_a_table_under_their_sums():
    reports = [report("first", planned=1000, done=900, failed=3), report("a name of several words", planned=7, done=7)]
    reports[0]["cells"] = [{"name": "one", "cell": "", "status": "failed", "error": "e", "command": "mqlearn run x"}]
    wide = status._text(reports, None)
    assert wide.startswith("2 experiments: 1007 planned, 907 done, 0 running, 3 failed")
    assert "Left out" not in wide
    narrow = status._text(reports, 70)
    assert max(map(len, narrow.splitlines())) <= 70
    assert "Left out to fit 70 columns: not uploaded, diverged, damaged, killed;" in narrow
    lines = narrow.splitlines()
    head, row = (next(line for line in lines if line.startswith(f"  {word}")) for word in ("exp", "first"))
    assert dict(zip(head.split(), row.split(), strict=True)) == {
        "experiment": "first", "planned": "1000", "done": "900", "running": "0", "failed": "3", "missing": "0"
    }  # fmt: skip
    assert lines[-3:] == ["first:", "  failed: one: e", "    alone: mqlearn run x"]
