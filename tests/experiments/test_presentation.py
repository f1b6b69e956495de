"""How runs are shown in MLflow: names, notes, pictures."""

import io
import math
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

import mqlearn as mq
from mqlearn.experiments.presentation import names, picture
from mqlearn.experiments.presentation.mlflow_view import shows
from mqlearn.storage import runs

SETTINGS = {
    "algorithm": {"name": "momentum_q", "_target_": "mqlearn.MomentumQ", "m": 2.0},
    "env": {"name": "lake|4x4"},
    "experiment": {"name": "two words"},
    "discount": 0.9,
}
NAME = "momentum_q m=2, harmonic offset=0, frozen_lake_4x4, discount=0.9"
SVG = "{http://www.w3.org/2000/svg}"


def run_of(settings=SETTINGS, status="finished", **summary) -> runs.Run:
    told = {"digest": "05d100c1" * 8, "name": NAME, "status": status, "diverged": {}, **summary}
    run = runs.Run(Path("nowhere"), told)
    curves = {"iteration": np.array([1, 10, 100]), "q_error": np.array([[1.0, 0.1, 0.01], [3.0, 0.3, 0.03]])}
    run.__dict__.update(settings=settings, curves=curves)  # as if they had been read from the folder
    return run


@pytest.mark.parametrize(
    ("tags", "begin"),
    [
        ({}, "momentum_q m=2, harmonic"),
        ({"cell": NAME, "group": "lake|4x4 discount=0.9 synchronous"}, "momentum_q m=2, harmonic"),
        (
            {"cell": "algorithm.m=2 seed=3", "group": "lake|4x4 discount=0.9 synchronous"},
            "m=2 seed=3, momentum_q, harm",
        ),
        ({"cell": "algorithm=momentum_q discount=0.9"}, "momentum_q discount=0.9, m=2, harmonic offset=0, froz"),
        ({"cell": r"NeSA $\zeta=0.1$", "group": "4x4"}, "NeSA zeta=0.1 4x4, momentum_q m=2, harmonic"),
    ],
)
def test_a_name_begins_with_what_was_swept_and_ends_with_the_digest(tags, begin):
    name = names.of_run(run_of(), tags)
    assert name.startswith(begin) and name.endswith(", 05d100c1")
    assert {*NAME.replace(",", "").split()} <= {*name.replace(",", "").split()}


def test_a_note_has_the_equation_and_commands_to_be_typed():
    run = run_of(command="mqlearn run seed=1", made_of={"model": "f" * 64})
    shown = shows({"tracking.uri": "http://host:1"})(run, {})
    assert "def update(" in shown.note and ">>>" not in shown.note
    asked = ["compare", "experiment.name='two words'", "tracking.uri=http://host:1"]
    commands = [shlex.split(text)[1:] for text in re.findall(r"`(mqlearn .*?)`", shown.note)]
    assert commands == [asked, ["run", "seed=1"]]
    assert f"`mqlearn {shlex.join(asked)}`" in shown.about
    assert (shown.error, shown.model) == ("q_error", ("lake|4x4", "f" * 64))


def test_a_note_names_no_code_of_a_module_that_only_the_record_names():
    own = {**SETTINGS, "algorithm": {"_target_": "os.system", "name": "own"}, "plugins": ["os"]}
    assert "def " not in shows({})(run_of(own), {}).note


def test_a_note_on_a_run_of_no_experiment_asks_for_no_comparison():
    own = {key: value for key, value in SETTINGS.items() if key != "experiment"}
    shown = shows({})(run_of(own), {})
    assert "def update(" in shown.note and "mqlearn compare" not in shown.note and shown.about == ""


def test_a_failed_run_has_a_name_and_no_picture():
    shown = shows({})(run_of({}, status="failed"), {})
    assert shown.name.endswith("05d100c1") and not shown.pictures and not shown.note


def points(svg: bytes) -> np.ndarray:
    """The points of the curve, the last line that is drawn in its colour."""
    lines = [line.attrib for line in ElementTree.fromstring(svg).iter(f"{SVG}polyline")]
    (text,) = [line["points"] for line in lines if line["stroke"] == "#1f5fa8"]
    return np.array([[float(x) for x in pair.split(",")] for pair in text.split()])


def test_the_curve_is_straight_where_the_error_is_a_power_of_the_iteration():
    k = np.array([0, 1, 10, 100, 1000])
    values = np.vstack([10.0 / np.maximum(k, 1), 30.0 / np.maximum(k, 1)])
    drawn = picture.error_curve(k, values, "q_error", "a < b & c")
    place = points(drawn["error_curve.svg"])
    assert len(place) == 4  # the iteration 0 has no logarithm
    steps = np.diff(place, axis=0)
    assert np.ptp(steps, axis=0).max() < 0.2 and (steps > 0).all()  # to the right, and down
    labels = [text.text for text in ElementTree.fromstring(drawn["error_curve.svg"]).iter(f"{SVG}text")]
    assert {"1", "10", "100", "1000", "a < b & c"} <= {*labels}
    image = Image.open(io.BytesIO(drawn["error_curve.png"]))
    assert image.size == (picture.WIDTH, picture.HEIGHT)
    for x, y in place[1:3]:
        red, _, blue = np.asarray(image, int)[round(y), round(x)]
        assert blue > red + 60  # the line is there in the same place


@pytest.mark.parametrize(
    ("values", "error", "value"),
    [
        ([[1.0, 0.0]], True, True),  # of errors one point
        ([[0.0, 0.0]], True, True),  # errors that are 0 alone: on a linear axis
        ([[math.nan, math.inf]], False, False),
        ([[1e300, 1e-300]], False, True),  # on a linear axis, the point near 0
        ([[1e200, 1e-200]], True, True),
    ],
)
def test_whatever_the_values_a_picture_is_drawn_or_none(values, error, value):
    for metric, drawn in (("q_error", error), ("expected_return", value)):
        made = picture.error_curve(np.array([5, 6]), np.array(values), metric, "x")
        assert bool(made) == drawn, metric


def test_the_equation_is_the_text_of_the_rule():
    from mqlearn.algorithms import source

    assert source.equation(mq.QLearning)[0].startswith("def update(")
    assert source.equation(mq.DoubleQ)


def test_two_models_from_files_have_the_names_of_their_files(mqlearn, work):
    for seed, name in enumerate(("shop", "plant")):
        rng = np.random.default_rng(seed)
        probabilities = rng.random((3, 2, 3))
        np.savez(f"{name}.npz", P=probabilities / probabilities.sum(2, keepdims=True), R=rng.random((3, 2)))
        done = mqlearn("run", "env=file", f"env.path={name}.npz", "iterations=50", "n_seeds=2", "tracking=none")
        assert re.search(rf"^q_learning, harmonic offset=0, {name}, discount=0.9: finished", done.out, re.MULTILINE)
        assert "success" not in done.out
        more = ("algorithm=speedy_q", "iterations=50", "n_seeds=2", "tracking=none")
        assert mqlearn("run", "env=file", f"env.path={name}.npz", *more).code == 0
    done = mqlearn("compare", "tracking=none")
    assert "[shop, " in done.out and "[plant, " in done.out
    assert names.of_problem({"name": "file", "path": "/somewhere/shop.v2.npz"}) == "shop.v2"
    assert names.of_problem({"name": "file"}) == "file" and names.of_problem({"name": "lake"}) == "lake"


def test_seeds_without_a_spread_have_no_interval_of_length_0(mqlearn, work):
    """A problem without chance: all seeds have one value, and both tables say so."""
    run = ("run", "env=file", "env.path=sure.npz", "iterations=50", "n_seeds=3", "tracking=none")
    np.savez("sure.npz", P=np.eye(3)[[[1, 2], [2, 0], [0, 1]]], R=np.arange(6.0).reshape(3, 2))
    done = mqlearn(*run)
    assert re.search(r"q_error +[\d.]+  no spread: the same in all 3 seeds", done.out)
    assert mqlearn(*run, "algorithm=speedy_q").code == 0
    told = mqlearn("compare", "tracking=none").out
    assert re.search(r"q_learning +[\d.]+ no spread: all seeds alike", told) and not re.search(
        r"\[([\d.]+), \1\]", told
    )
    assert re.search(r"q_error +[\d.]+  \[", mqlearn("run", "iterations=50", "n_seeds=3", "tracking=none").out)


def test_a_return_that_is_estimated_is_said_to_be(mqlearn, work):
    cell = ("run", "env=gymnasium", "env.id=CartPole-v1", "sampling=markovian", "features=tile_coding", "iterations=30")
    done = mqlearn(*cell, "n_seeds=2", "evaluation.episodes=10", "tracking=none")
    assert "expected_return: the mean of 10 greedy episodes of each seed, as there is no model" in done.out, done.err
    assert "as there is no model" not in mqlearn("run", "iterations=30", "n_seeds=2", "tracking=none").out
