"""What a null or an auto stood for is recorded, told to MLflow and exported; the settings and the digest stay."""

import csv
import io
import json
import shutil
from pathlib import Path

import pytest

import mqlearn as mq
from mqlearn.analysis.comparison import selection
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import build
from mqlearn.storage import runs
from mqlearn.storage.effective import effective_settings, filled

RECORDED = Path(__file__).parents[1] / "data" / "recorded"
SMALL = ("iterations=20", "n_seeds=6", "n_checkpoints=3")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("algorithm=momentum_q",), {"algorithm.m": 2, "algorithm.shift": "off"}),
        (("algorithm=momentum_q", "algorithm.m=12"), {"algorithm.shift": "on"}),
        (("algorithm=momentum_q", "algorithm.m=12", "algorithm.shift=off"), {}),
        (("algorithm=variance_reduced", "discount=0.95"), {"algorithm.steps": 200}),
        (("algorithm=variance_reduced", "algorithm.steps=7"), {}),
        (("algorithm=nesterov", "algorithm.a=0.5"), {}),
        (("algorithm=phased",), {}),  # no draws: another rule, and not another number
        (("operator=truncated", "discount=0.5"), {"operator.bound": 2}),
        (("operator=truncated", "operator.bound=3"), {}),
        (("evaluation.episodes=3", "evaluation.time_limit=9"), {}),
        (("sampling=markovian",), {"evaluation.episodes": 150}),
        (("env=frozen_lake_8x8",), {"evaluation.time_limit": 128}),
    ],
)
def test_what_stands_for_null_and_auto(words, wanted):
    told = build(compose.compose(["tracking=none", *SMALL, *words])).effective
    expected = {"evaluation.episodes": 0, "evaluation.time_limit": 100} | wanted
    if "evaluation.episodes=3" in words:
        expected = wanted
    assert told == expected


def test_the_gain_of_nesterov_is_that_of_q_learning():
    (told,) = [mq.Nesterov().effective(0.6)["a"]]
    assert told == pytest.approx(1 - (1 - 0.8) / 0.6) and mq.Nesterov(a=0.25).effective(0.6) == {"a": 0.25}


def test_the_bounds_of_an_observation_are_told():
    words = ("env=gymnasium", "env.id=CartPole-v1", "features=tile_coding", "sampling=markovian", *SMALL)
    told = build(compose.compose(["tracking=none", *words])).effective
    assert told["features.high"] == pytest.approx([2.4, 3, 0.21, 3.5])
    assert told["features.low"] == pytest.approx([-2.4, -3, -0.21, -3.5])


def test_only_what_was_open_is_filled():
    settings = {"algorithm": {"m": None, "shift": "auto", "beta": 0.5}, "env": 3}
    values = {"algorithm.m": 2, "algorithm.shift": "off", "algorithm.beta": 7, "env.size": 1, "nothing": 1}
    assert filled(settings, values) == {"algorithm": {"m": 2, "shift": "off", "beta": 0.5}, "env": 3}
    assert settings["algorithm"]["m"] is None


def test_export_and_selection_have_the_value(mqlearn, outputs):
    for words in (("algorithm=momentum_q",), ("algorithm=momentum_q", "algorithm.m=5")):
        done = mqlearn("run", *SMALL, *words, "experiment.name=ms", "tracking=none")
        assert done.code == 0, done.err
    table = mqlearn("export", "experiment.name=ms", "tracking=none")
    assert {row["algorithm.m"] for row in csv.DictReader(io.StringIO(table.out))} == {"2", "5"}
    found = selection.find(outputs, ["ms"]).runs
    (run,) = selection.select(found, ["algorithm.m=2"])
    assert run.settings["algorithm"]["m"] is None and effective_settings(run)["algorithm"]["m"] == 2
    assert len(selection.select(found, ["algorithm.shift=auto"])) == 2
    assert run.digest == build(compose.compose([*SMALL, "algorithm=momentum_q", "algorithm.m=2"])).digest
    for folder in (outputs / "runs" / "ms").iterdir():  # summaries of anybody
        for wrong in ([1], {"algorithm": 3, "algorithm.": 1, "evaluation.episodes.more": 1}, "x"):
            assert effective_settings(runs.update_summary(runs.load(folder), effective=wrong))["algorithm"]


def test_an_earlier_record_is_exported_with_what_its_settings_mean(mqlearn, outputs):
    shutil.copytree(RECORDED / "runs", outputs / "runs")
    table = mqlearn("export", "experiment.name=recorded", "tracking=none", "algorithm=momentum_q", "features=tabular")
    rows = list(csv.DictReader(io.StringIO(table.out)))
    assert len({row["digest"] for row in rows}) == 2  # one was written with m=null, one with m=2: no column tells them
    assert "algorithm.m" not in rows[0]


def test_mlflow_finds_the_default_by_its_value(stored, mqlearn, outputs):
    import mlflow

    assert mqlearn("run", *SMALL, "algorithm=momentum_q", "experiment.name=found").code == 0
    (folder,) = (outputs / "runs" / "found").iterdir()
    run_id = json.loads((folder / "summary.json").read_text())["mlflow_run_id"]
    client = mlflow.MlflowClient(f"sqlite:///{outputs / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("found")
    assert experiment is not None
    places = [experiment.experiment_id]
    asked = "params.`algorithm.m` = '2' and params.`algorithm.shift` = 'off' and metrics.`last/q_error` > 0"
    assert [run.info.run_id for run in client.search_runs(places, asked)] == [run_id]
