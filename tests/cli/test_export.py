"""`mqlearn export`: every value of every finished run once, to the last bit, beside what says which run it is of."""

import csv
import io
import json
import math
import shutil
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import yaml
from pyarrow import parquet

import mqlearn as mq
from mqlearn.analysis import tidy

RECORDED = Path(__file__).parents[1] / "data" / "recorded"
LEFT_OUT = "tracking=none"


@pytest.fixture
def recorded(outputs: Path) -> Path:
    """The folder of an experiment's runs that earlier versions have recorded."""
    shutil.copytree(RECORDED / "runs", outputs / "runs")
    return outputs / "runs" / "recorded"


def expected(folder: Path) -> dict[tuple[str, str, int, int], float]:
    """(digest, metric, seed, iteration) -> value, by a loop over the files themselves."""
    values = {}
    for run in sorted(folder.iterdir()):
        digest = json.loads((run / "summary.json").read_text())["digest"]
        with np.load(run / "curves.npz") as curves:
            for metric in set(curves.files) - {"iteration", "samples"}:
                for seed in range(len(curves[metric])):
                    for place, k in enumerate(curves["iteration"]):
                        values[digest, metric, seed, int(k)] = float(curves[metric][seed, place])
    return values


def key(row: dict) -> tuple[str, str, int, int]:
    return row["digest"], row["metric"], int(row["seed"]), int(row["iteration"])


def told(rows: list[dict]) -> dict[tuple[str, str, int, int], float]:
    values = {key(row): math.nan if row["value"] in ("", None) else float(row["value"]) for row in rows}
    assert len(values) == len(rows)  # no row twice
    return values


def test_all_formats_hold_every_value_to_the_last_bit(mqlearn, recorded, tmp_path):
    wanted = expected(recorded)
    assert len(wanted) > 100
    printed = mqlearn("export", "experiment.name=recorded", LEFT_OUT)
    assert printed.code == 0
    rows = {"csv": list(csv.DictReader(io.StringIO(printed.out)))}
    for form in ("json", "parquet"):
        file = tmp_path / f"table.{form}"
        done = mqlearn("export", "experiment.name=recorded", LEFT_OUT, "--output", file)
        assert done.code == 0 and not done.out and f"9 runs: {file}" in done.err
        rows[form] = json.loads(file.read_text()) if form == "json" else parquet.read_table(file).to_pylist()
    for form, some in rows.items():
        np.testing.assert_equal(told(some), wanted, err_msg=form)
    assert rows["json"] == rows["parquet"]  # types too: numbers are numbers


def test_a_row_says_which_run_it_is_of(mqlearn, recorded):
    rows = json.loads(mqlearn("export", "experiment.name=recorded", LEFT_OUT, "--format", "json").out)
    settings = {}
    effective = {"mqlearn.MomentumQ": 2}  # of m, where a record leaves it open
    for folder in recorded.iterdir():
        digest = json.loads((folder / "summary.json").read_text())["digest"]
        settings[digest] = yaml.safe_load((folder / "config.yaml").read_text())
    for row in rows:
        own = settings[row["digest"]]
        assert (row["env"], row["algorithm"]) == (own["env"]["name"], own["algorithm"]["name"])
        assert row["sampling"] == own["sampling"]["name"]
        algorithm = own["algorithm"]
        m = algorithm.get("m") or effective.get(algorithm["_target_"])
        assert row.get("algorithm.m") == (m if algorithm.get("beta") is None else None)
    columns = list(rows[0])
    assert columns[:5] == ["experiment", "run", "digest", "env", "algorithm"]
    assert columns[-5:] == ["metric", "seed", "iteration", "samples", "value"]
    for name in columns[5:-5]:
        assert len({row[name] for row in rows}) > 1, name  # what all runs share is no column


def test_samples_of_earlier_versions_follow_from_the_settings(mqlearn, recorded):
    """The small lake has 44 pairs to learn; a rule whose module is not here may take any number."""
    rows = json.loads(mqlearn("export", "experiment.name=recorded", LEFT_OUT, "--format", "json").out)
    assert {row["algorithm"] for row in rows} > {"damped"}
    for row in rows:
        an_iteration = {"markovian": 1, "synchronous": 44}[row["sampling"]]
        assert row["samples"] == (None if row["algorithm"] == "damped" else an_iteration * row["iteration"])


def test_overrides_select_the_runs(mqlearn, recorded):
    out = mqlearn("export", "experiment.name=recorded", LEFT_OUT, "algorithm=momentum_q").out
    assert {row["algorithm"] for row in csv.DictReader(io.StringIO(out))} == {"momentum_q"}


def test_one_metric_and_one_value_a_seed(mqlearn, recorded):
    everything = list(csv.DictReader(io.StringIO(mqlearn("export", "experiment.name=recorded", LEFT_OUT).out)))
    errors = [row for row in everything if row["metric"] == "q_error"]
    ends = {digest: max(int(row["iteration"]) for row in errors if row["digest"] == digest)
            for digest in {row["digest"] for row in errors}}  # fmt: skip
    asked = ("export", "experiment.name=recorded", LEFT_OUT, "metric=q_error")
    last = list(csv.DictReader(io.StringIO(mqlearn(*asked, "at=last").out)))
    assert last == [row for row in errors if int(row["iteration"]) == ends[row["digest"]]]
    early = list(csv.DictReader(io.StringIO(mqlearn(*asked, "at=1").out)))
    assert early and {row["iteration"] for row in early} <= {"0", "1"} and len(early) == len(last)
    assert list(csv.DictReader(io.StringIO(mqlearn(*asked).out))) == errors


def test_the_size_of_a_table_is_known_before_it_is_made(mqlearn, recorded):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of records that are damaged on purpose
        table = tidy.Table(mq.load("recorded"))
    for form in ("csv", "json"):
        size = sum(map(len, tidy.written(table, form)))
        assert table.n_bytes(form) == pytest.approx(size, rel=0.25), form
    assert table.n_rows == len(list(table.rows()))
    assert tidy.Table(table.runs, ["q_error"], "last").n_rows < table.n_rows


def test_a_seed_that_diverged_has_no_value_from_there_on(mqlearn, outputs):
    few = ("iterations=2000", "n_seeds=2", "n_checkpoints=5", LEFT_OUT)
    assert mqlearn("run", "algorithm=momentum_q", "algorithm.m=1e9", "algorithm.shift=off", *few).code == 0
    out = mqlearn("export", LEFT_OUT).out
    rows = [row for row in csv.DictReader(io.StringIO(out)) if row["metric"] == "q_error"]
    for seed in "01":
        values = [row["value"] for row in rows if row["seed"] == seed]
        first = values.index("")
        assert first > 0 and len(values) > first and not any(values[first:])
        assert all(math.isfinite(float(value)) for value in values[:first])


@pytest.mark.parametrize(
    ("arguments", "named", "words"),
    [
        (["experiment.name=recroded"], "experiment.name='recroded'", "did you mean 'recorded'?"),
        (["experiment.name=recorded", "algoritm=nesa"], "algoritm='nesa'", "did you mean 'algorithm'?"),
        (["experiment.name=recorded", "discount=0.123"], "selection='discount=0.123'", "the nearest that exist"),
        (["experiment.name=recorded", "metric=q_eror"], "metric='q_eror'", "did you mean 'q_error'?"),
        (["experiment.name=recorded", "at=soon"], "at='soon'", "or last for the last of each run"),
        (["--format", "xlsx"], "--format='xlsx'", "csv, parquet or json"),
        (["--format"], "--format=''", "csv, parquet or json"),
        (["--output", "nowhere/table.csv"], "--output='nowhere/table.csv'", "no folder that can be written to"),
        (["--outptu", "table.csv"], "flag='--outptu'", "did you mean '--output'?"),
    ],
)
def test_what_cannot_be_is_one_message(mqlearn, recorded, work, arguments, named, words):
    done = mqlearn("export", LEFT_OUT, *arguments)
    assert done.code == 2 and done.err.startswith(f"mqlearn: {named}") and words in done.err, done.err
    assert not done.out and not list(work.iterdir())


def test_parquet_without_its_package_is_one_message_and_leaves_no_file(mqlearn, recorded, work, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = mqlearn("export", "experiment.name=recorded", LEFT_OUT, "--output", "table.parquet")
    assert done.code == 2 and "needs the package pyarrow" in done.err and len(done.err.splitlines()) == 1
    assert not list(work.iterdir())
