"""Questions that finished runs cannot answer: what is missing is named, and nothing is left out unsaid."""

import pytest
from compared import of, rewritten

import mqlearn as mq
from mqlearn.analysis.comparison import selection
from mqlearn.analysis.comparison.labels import _block_texts
from mqlearn.analysis.comparison.seed_values import Question, horizon
from mqlearn.analysis.in_memory import as_run
from mqlearn.errors import SettingError
from mqlearn.storage import runs


@pytest.fixture
def apart(made, tmp_path, monkeypatch, mqlearn):
    """Outputs of two runs, one measured at k = 100 alone, the other at k = 200 alone."""
    for name, last in (("q_learning", 100), ("speedy_q", 200)):
        run = of(made, "three", algorithm=name)
        run.__dict__["curves"] = {"iteration": run.curves["iteration"][-1:] * 0 + last}
        curve = runs.load(run.folder).curves["q_error"][:, -1:]
        changed = {"experiment": {"name": "apart"}, "iterations": last, "n_checkpoints": 1}
        rewritten(run, tmp_path / "runs" / "apart" / name, curve=curve, **changed)
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("summary=time", "epsilon=0.5"), "is before the first checkpoint of speedy_q"),
        ((), "there is no checkpoint that the runs have in common: q_error was measured in "),
        (("summary=area",), "there is no checkpoint that the runs have in common"),
    ],
)
def test_runs_without_a_common_checkpoint(asked, said, apart, mqlearn):
    done = mqlearn("compare", "experiment.name=apart", *asked)
    assert done.code == 2 and said in done.err and "k = 200" in done.err
    report = mqlearn("report", "experiment.name=apart", "tracking=none", "--output", "a.html")
    assert report.code == 0, report.err


def test_a_time_needs_a_checkpoint_up_to_where_it_is_asked(made):
    question = Question(summary="time", epsilon=0.5, at=0)
    assert horizon(question, "q_error", of(made, "three", algorithm="q_learning")) == 0


def test_what_is_damaged_is_said_where_one_run_is_left(apart, mqlearn):
    with (apart / "runs" / "apart" / "speedy_q" / "curves.npz").open("ab") as file:
        file.write(b"x")
    done = mqlearn("compare", "experiment.name=apart")
    assert done.code == 2 and "is one run" in done.err and "damaged, not counted" in done.err
    assert "speedy_q: curves.npz is damaged" in done.err
    for verb in ("compare", "export", "report"):
        done = mqlearn(verb, "experiment.name=apart", "algorithm=speedy_q", "tracking=none")
        assert done.code == 2 and "damaged, not counted" in done.err, verb


@pytest.mark.parametrize("verb", ["compare", "export", "report"])
def test_an_alternative_that_no_run_has_is_named(verb, apart, mqlearn):
    done = mqlearn(verb, "experiment.name=apart", "algorithm=q_learning,speedy", "tracking=none")
    assert done.code == 2 and not done.out
    assert "algorithm='speedy': no run has it; there are " in done.err and "did you mean 'speedy_q'?" in done.err
    done = mqlearn(verb, "experiment.name=apart", "iterations=100,101", "tracking=none")
    assert done.code == 2 and "iterations=" in done.err and "no run has it; there are " in done.err


def test_an_alternative_that_some_run_has_is_no_mistake(made):
    found = selection.find(made, ["small"]).runs
    assert len(selection.select(found, ["algorithm=q_learning,nesa", "env=frozen_lake_4x4"])) == 2
    with pytest.raises(SettingError, match="no run has it"):
        selection.select(found, ["algorithm=nesa,nope"])


def test_a_setting_that_an_identity_leaves_out_is_told_by_its_value():
    """Before, it was null."""
    hot = (mq.Markovian(behaviour="boltzmann", temperature=one) for one in (1, 0.5))
    one, other = (mq.run(mq.two_state(), mq.QLearning(), iterations=5, n_seeds=2, sampling=some) for some in hot)
    with pytest.raises(SettingError, match=r"sampling\.temperature is 0\.5, not 1;"):
        mq.compare({"one": one, "other": other})
    texts = _block_texts([as_run(one), as_run(other)], ['{"model": "1"}', '{"model": "2"}'])
    assert {text.rpartition("=")[2] for text in texts.values()} == {"0.5", "1"}
