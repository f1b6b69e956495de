"""From Python and notebooks: one line at the prompt, tables, pictures, finished runs loaded and compared."""

import dataclasses
import json

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.errors import SettingError

LAKE = mq.frozen_lake("4x4")
SMALL = ("iterations=60", "n_seeds=6", "n_checkpoints=5", "tracking=none", "experiment.name=small")


@pytest.fixture
def result():
    return mq.run(LAKE, mq.QLearning(), iterations=60, n_seeds=3, n_checkpoints=5)


@pytest.mark.parametrize(
    "thing",
    [
        LAKE,
        mq.optimal(LAKE),
        mq.one_hot(LAKE),
        mq.simulator("CartPole-v1"),
        mq.tile_coding(mq.simulator("CartPole-v1")),
        mq.QLearning().with_step_size(mq.Constant(0.3)),
        mq.averaged(mq.clipped(mq.SpeedyQ(), 0, 1)),
    ],
)
def test_models_and_what_belongs_to_them_are_one_line_at_the_prompt(thing):
    assert "\n" not in repr(thing) and len(repr(thing)) < 120
    assert type(thing).__name__ in repr(thing)


def test_a_rule_says_what_it_was_given():
    rule = mq.averaged(mq.QLearning().with_step_size(mq.Constant(0.3)))
    assert repr(rule) == "QLearning(step_size=Constant(alpha=0.3), averaged=True)"
    assert repr(mq.RootSA()) == "RootSA(eta=0.1)" and repr(mq.Harmonic()) == "Harmonic(offset=0.0)"
    assert repr(mq.Markovian(behaviour=np.full((16, 4), 0.25))).startswith(
        "Markovian(behaviour=array (16, 4), epsilon="
    )


def test_a_result_is_one_line_at_the_prompt(result):
    last = result.curves["q_error"][:, -1].mean()
    assert repr(result).startswith(f"Result(finished, 3 seeds, k = 0 to 60, q_error {last:.4g}, expected_return ")
    assert "array" not in repr(result)


def test_a_table_has_a_row_for_each_seed_and_checkpoint(result):
    table = result.frame()
    assert table.shape == (3 * len(result.iteration), 2 + len(result.curves))
    one = table[(table.seed == 1) & (table.iteration == 60)]
    assert one.q_error.item() == result.curves["q_error"][1, -1]


def test_a_picture_shows_mean_and_interval_and_is_shown_by_a_notebook(result):
    figure = result.plot()
    (axes,) = figure.axes
    np.testing.assert_allclose(axes.lines[0].get_ydata(), result.curves["q_error"].mean(axis=0))
    assert axes.get_ylabel().startswith("error") and axes.get_yscale() == "log"
    assert "3 seeds" in axes.get_title("left")
    assert figure._repr_png_().startswith(b"\x89PNG")
    (by_samples,) = result.plot(axis="samples").axes
    np.testing.assert_array_equal(by_samples.lines[0].get_xdata(), result.samples)
    assert by_samples.get_xlabel() == "samples"
    assert result.plot("expected_return").axes[0].get_yscale() == "linear"
    with pytest.raises(SettingError, match=r"metric='q_eror': must be one of .*did you mean 'q_error'"):
        result.plot("q_eror")


@pytest.fixture
def made(mqlearn, outputs):
    for rule in ("q_learning", "speedy_q"):
        assert mqlearn("run", f"algorithm={rule}", *SMALL).code == 0
    return outputs


def test_finished_runs_are_loaded_by_experiment_or_folder(made):
    runs = mq.load("small")
    assert sorted(run.settings["algorithm"]["name"] for run in runs) == ["q_learning", "speedy_q"]
    (one,) = mq.load(str(runs[0].folder))
    (same,) = mq.load(runs[0].folder)
    assert one.digest == same.digest == runs[0].digest
    np.testing.assert_array_equal(one.curves["q_error"], runs[0].curves["q_error"])
    assert one.frame().shape[0] == 6 * len(one.curves["iteration"])
    assert one.plot().axes[0].get_title("left").startswith(one.name)
    assert "\n" not in repr(runs[0]) and runs[0].name in repr(runs[0])
    with pytest.raises(SettingError, match="did you mean 'small'"):
        mq.load("smal")
    with pytest.raises(SettingError, match="no such folder"):
        mq.load("./nowhere")
    with pytest.raises(SettingError, match="must be an experiment's name"):
        mq.load(3)  # pyright: ignore[reportArgumentType]  # wrong on purpose


@pytest.mark.parametrize("question", [{}, {"at": 10}, {"summary": "area"}, {"against": "q_learning"}])
def test_comparing_gives_what_the_command_line_gives(made, mqlearn, work, question):
    asked = [f"{key}={value}" for key, value in question.items()]
    assert mqlearn("compare", "experiment.name=small", *asked, "--json", "rows.json").code == 0
    assert mq.compare(mq.load("small"), **question) == json.loads((work / "rows.json").read_text())


def test_a_question_that_there_is_not_is_refused(made):
    with pytest.raises(SettingError, match="compare='sumary'"):
        mq.compare(mq.load("small"), sumary="area")  # pyright: ignore[reportCallIssue]  # wrong on purpose


def test_a_progress_bar_reaches_the_end_and_changes_nothing(result, capsys):
    again = mq.run(LAKE, mq.QLearning(), iterations=60, n_seeds=3, n_checkpoints=5, progress=True)
    np.testing.assert_array_equal(again.curves["q_error"], result.curves["q_error"])
    assert "60.0/60.0" in capsys.readouterr().err
    mq.run(LAKE, mq.QLearning(), iterations=60, n_seeds=3, progress=False)
    assert not capsys.readouterr().err
    with pytest.raises(SettingError, match=r"progress='yes': must be True, or a function"):
        mq.run(LAKE, mq.QLearning(), iterations=60, progress="yes")  # pyright: ignore[reportArgumentType]  # wrong on purpose


@pytest.mark.parametrize("kind", [mq.Markovian, mq.Replay, mq.IID])
def test_every_parameter_of_a_sampling_mode_is_explained(kind):
    names = [field.name for field in dataclasses.fields(kind)]
    assert all(f"\n    {name}: " in kind.__doc__ for name in names)


def test_what_the_library_lacks_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'bensch'"):
        mq.bensch  # noqa: B018  # wrong on purpose
