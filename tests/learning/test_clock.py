"""What the step size of a table counts by: `sampling.clock=auto` is what a rule can, and said and recorded as such."""

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import twins

import mqlearn as mq
from mqlearn.analysis.comparison.common_numbers import pairing
from mqlearn.analysis.comparison.labels import entries
from mqlearn.errors import SettingError
from mqlearn.experiments.plan import expand
from mqlearn.experiments.settings import compose, identity
from mqlearn.experiments.settings.cell import build, rebuild
from mqlearn.experiments.settings.override_commands import overrides_of
from mqlearn.learners import on_clock, start
from mqlearn.paths import CONF
from mqlearn.storage import runs
from mqlearn.suites import definition

LAKE = mq.frozen_lake("4x4", discount=0.9)
CHAINS = {"markovian": mq.Markovian, "replay": mq.Replay, "iid": mq.IID}
RESTARTS = {"restart_probability": 0.05, "start": "uniform"}
FAST = {"iterations": 400, "n_seeds": 3, "evaluation": mq.Evaluation(episodes=0)}


def learned(rule, sampling, **more) -> mq.Result:
    return mq.run(LAKE, rule, sampling=sampling, **{**FAST, **more})


@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize(
    ("rule", "clock"),
    [
        (mq.QLearning(), "local"),
        (mq.MomentumQ(m=3), "local"),
        (mq.DoubleQ(), "global"),
        (mq.minibatch(mq.QLearning(), 3), "global"),
        (mq.averaged(mq.QLearning()), "global"),
    ],
    ids=repr,
)
def test_the_usual_clock_is_that_of_the_rule(kind, rule, clock):
    usual, named = (learned(rule, CHAINS[kind](**RESTARTS, **one)) for one in ({}, {"clock": clock}))
    assert usual.facts["clock"] == clock
    np.testing.assert_array_equal(usual.curves["q_error"], named.curves["q_error"])
    if clock == "local":
        other = learned(rule, CHAINS[kind](**RESTARTS, clock="global"))
        assert other.facts["clock"] == "global" and not np.array_equal(np.asarray(other.q), np.asarray(usual.q))


def test_recorded_transitions_are_counted_by_the_pair():
    model = mq.two_state()
    seen = {"x": np.zeros(9, int), "u": np.zeros(9, int), "r": np.full(9, 5.0), "y": np.zeros(9, int)}
    kinds = {"auto": mq.Recorded(seen), **{clock: mq.Recorded(seen, clock=clock) for clock in ("local", "global")}}
    found = {
        clock: mq.run(model, mq.QLearning(), iterations=9, n_seeds=1, sampling=sampling)
        for clock, sampling in kinds.items()
    }
    assert found["auto"].facts["clock"] == "local"
    np.testing.assert_array_equal(found["auto"].q, found["local"].q)


def test_where_no_pair_is_counted_the_clock_is_global():
    assert on_clock(mq.Markovian(update="rounds"), mq.QLearning(), None).clock == "global"
    assert on_clock(mq.Markovian(), mq.QLearning(), mq.one_hot(LAKE)).clock == "global"
    assert on_clock(mq.Synchronous(), mq.QLearning(), None) == mq.Synchronous()
    assert "clock" not in learned(mq.QLearning(), mq.Synchronous()).facts
    linear = learned(mq.QLearning(), mq.Markovian(**RESTARTS), features=mq.one_hot(LAKE))
    assert linear.facts["clock"] == "global" and not any("clock" in text for text in linear.warnings)


class Slowly(mq.DoubleQ):
    compiled = False


@pytest.mark.parametrize("kind", ["uniform", "epsilon_greedy", "replay"])
@pytest.mark.parametrize("clock", ["local", "state"])
def test_double_q_may_count_the_visits_of_a_pair_or_of_its_state(clock, kind):
    """A literal loop of van Hasselt's rule with steps 1/n; the plain form has the same bits."""
    if kind == "replay":
        sampling: Any = mq.Replay(clock=clock, capacity=60, **RESTARTS)
    else:
        sampling = mq.Markovian(clock=clock, behaviour=kind, epsilon=0.3, **RESTARTS)
    found, plain = (learned(rule(factor=1), sampling, step_size=mq.Harmonic()) for rule in (mq.DoubleQ, Slowly))
    assert found.facts["clock"] == clock
    twins.assert_same(found, plain)
    chain, edges = twins.ChainTwin(LAKE, sampling, 1, 0, 400), LAKE.pair_offsets
    a, b, n = np.zeros(len(LAKE.pairs)), np.zeros(len(LAKE.pairs)), Counter()
    for k in range(400):
        pair, y, reward = twins.outcome_of(LAKE, chain.next(k, (a + b) / 2), False)
        n[counted := pair if clock == "local" else LAKE.pairs[pair, 0]] += 1
        moved, other = (a, b) if int(twins.words("own", 0, 1, k)[0]) < twins.WORD / 2 else (b, a)
        ahead = 0.0 if LAKE.terminal[y] else other[edges[y] + moved[edges[y] : edges[y + 1]].argmax()]
        moved[pair] += (reward + LAKE.discount * ahead - moved[pair]) / n[counted]
    np.testing.assert_allclose(np.asarray(found.q)[1][*LAKE.pairs.T], (a + b) / 2, rtol=1e-11, atol=1e-14)
    assert np.abs(a).max() > 0


def test_minibatches_means_and_clips_count_visits_as_the_rule_alone_does():
    sure, sampling = mq.frozen_lake("4x4", slippery=False, discount=0.9), mq.Markovian(clock="local", **RESTARTS)
    for rule in (mq.QLearning(), mq.MomentumQ(m=3)):
        alone = mq.run(sure, rule, sampling=sampling, **FAST)
        for made in (mq.minibatch(rule, 3), mq.averaged(rule), mq.clipped(rule, -9, 9)):
            other = mq.run(sure, made, sampling=sampling, **FAST)
            np.testing.assert_allclose(np.asarray(other.q), np.asarray(alone.q), rtol=1e-12, atol=1e-15)
    tables: Any = [learned(mq.DoubleQ(), sampling, iterations=k, n_checkpoints=2).q for k in range(1, 6)]
    mean = learned(mq.averaged(mq.DoubleQ()), sampling, iterations=5, n_checkpoints=2)
    error = np.abs(np.mean(tables, axis=0) - mq.optimal(LAKE).q)[:, LAKE.counted].max(axis=1)
    np.testing.assert_allclose(mean.curves["q_error_average"][:, -1], error, rtol=1e-12)


def test_counts_are_of_a_seed():
    for sampling in (mq.Markovian(clock="local"), mq.Markovian(clock="local", behaviour="epsilon_greedy")):
        rule, lanes = mq.DoubleQ().at(0.9), np.arange(3, dtype=np.uint32)
        learner: Any = start(LAKE, sampling, None, mq.Linear(), 0, 0.0, False, lanes, rule=rule)
        learner.advance(0, 50, rule.weights(*learner.rows(0, 50)))
        other, counts = learner.copy(), learner.counts.copy()
        assert counts.sum(axis=1).tolist() == [50] * 3
        if sampling.adaptive:  # else the samples are of one block
            learner.advance(50, 10, rule.weights(*learner.rows(50, 10)))
            assert learner.counts.sum(axis=1).tolist() == [60] * 3
        np.testing.assert_array_equal(other.counts, counts)
        other.keep(np.array([False, True, False]))
        np.testing.assert_array_equal(other.counts, counts[1:2])


@pytest.mark.parametrize(
    "rule",
    [mq.Zap(), mq.Adam(), mq.TwoStep(), mq.PolSA(), mq.Periodic(), mq.Periodic(period=77_777)],
    ids=repr,
)
def test_a_rule_of_which_more_than_the_step_size_hangs_on_the_iteration_is_refused(rule):
    name = type(rule).__name__
    with pytest.raises(
        SettingError, match=rf"sampling\.clock='local': must be global for {name}: beside the step size"
    ):
        learned(rule, mq.Markovian(clock="local"))
    learned(rule, mq.Markovian(), iterations=0)


def test_without_a_step_size_there_is_no_clock_to_choose():
    """Before, the run was as with the global clock, and said to have another."""
    with pytest.raises(SettingError, match="must be global for DoubleQ as it is set: it uses no step size"):
        learned(mq.DoubleQ(clock="own"), mq.Markovian(clock="local"))
    learned(mq.DoubleQ(clock="own"), mq.Markovian(), iterations=0)


def test_rules_of_both_kinds_run_together_as_each_alone():
    rules, sampling = [mq.QLearning(), mq.DoubleQ()], mq.Markovian(**RESTARTS)
    for result, rule in zip(mq.run_together(LAKE, rules, sampling=sampling, **FAST), rules, strict=True):
        alone = learned(rule, sampling)
        np.testing.assert_array_equal(result.q, alone.q)
        assert result.facts["clock"] == alone.facts["clock"]


def test_by_default_a_chain_teaches_something():
    """1/(k+1) by iterations ends its steps before the pairs have been seen."""
    model = mq.river_swim(discount=0.9)
    settings = {"iterations": 100_000, "n_seeds": 4, "evaluation": mq.Evaluation(episodes=0)}
    usual, by_iterations = (
        mq.run(model, mq.QLearning(), sampling=sampling, **settings).curves["q_error"].mean(axis=0)
        for sampling in (mq.Markovian(), mq.Markovian(clock="global"))
    )
    assert by_iterations[-1] > 0.9 * by_iterations[0] and usual[-1] < 0.5 * usual[0]


# --- on the command line and in records ---------------------------------------------------------------------------

SMALL = ("sampling=markovian", "iterations=60", "n_seeds=6", "n_checkpoints=6", "evaluation.episodes=0")


def cell_of(*words: str):
    return build(compose.compose([*SMALL, "tracking=none", *words]))


@pytest.mark.parametrize(
    ("words", "clock"),
    [
        ((), "local"),
        (("algorithm=double_q",), "global"),
        (("algorithm.averaged=true",), "global"),
        (("features=one_hot", "step_size=constant"), "global"),
        (("sampling.update=rounds",), "global"),
    ],
)
def test_a_record_holds_what_the_clock_came_to(words, clock):
    cell = cell_of(*words)
    assert cell.settings["sampling"]["clock"] == cell.run_arguments["sampling"].clock == clock
    assert cell.digest == cell_of(*words, f"sampling.clock={clock}").digest
    assert cell.name == cell_of(*words, f"sampling.clock={clock}").name


def test_a_record_without_a_clock_counted_iterations():
    named = cell_of("sampling.clock=global").settings
    older = {**named, "sampling": {key: value for key, value in named["sampling"].items() if key != "clock"}}
    assert identity.resolved(older) == identity.resolved(named) != identity.resolved(cell_of().settings)
    assert rebuild(older).digest == cell_of("sampling.clock=global").digest != cell_of().digest


@pytest.mark.parametrize("clock", ["local", "global", "auto"])
def test_the_command_of_a_record_has_its_clock(clock):
    cell = cell_of(f"sampling.clock={clock}")
    words = overrides_of(cell.settings)
    assert cell_of(*words).digest == cell.digest
    assert ("sampling.clock=global" in words) == (clock == "global")


def test_the_answer_names_the_clock(mqlearn, outputs):
    for words, clock in (((), "local"), (("algorithm=double_q",), "global")):
        done = mqlearn("run", *SMALL, "tracking=none", "experiment.name=clocks", *words)
        assert done.code == 0, done.err
        (line,) = [line for line in done.out.splitlines() if ": finished" in line]
        assert line.split(":")[0].endswith(f", {clock} clock")
    done = mqlearn("run", "iterations=20", "n_seeds=2", "tracking=none")
    assert "clock" not in done.out
    found = [runs.load(folder) for folder in (outputs / "runs" / "clocks").iterdir()]
    assert {run.summary["clock"] for run in found} == {"local", "global"}
    made = entries(found)
    assert len({entry.block for entry in made}) == 1 and pairing(*found)[0]
    done = mqlearn("compare", "experiment.name=clocks")
    assert "the k of step sizes: double_q has the global clock, q_learning the local one" in done.out


def test_one_rule_with_both_clocks_is_two_rules_on_the_same_samples(mqlearn, outputs):
    for clock in ("local", "global"):
        assert mqlearn("run", *SMALL, f"sampling.clock={clock}", "tracking=none", "experiment.name=c").code == 0
    found = [runs.load(folder) for folder in (outputs / "runs" / "c").iterdir()]
    assert {entry.label for entry in entries(found)} == {"q_learning, clock=local", "q_learning, clock=global"}
    assert pairing(*found)[0]


@pytest.mark.parametrize("name", sorted(path.stem for path in (CONF / "experiment").glob("*.yaml")))
def test_experiments_count_iterations(name):
    """Their numbers are of the global clock, whether they say so or have features, or of the clock that they name."""
    settings = compose.compose([f"experiment={name}"])
    spec = settings.get("figure") or {}
    if not spec.get("curves"):
        return
    cells = expand(spec, [f"experiment={name}"])
    for _, _, words in cells[:: max(7, len(cells) // 3)]:
        cell = build(compose.compose(words))
        named = [text.partition("=")[2] for text in words if text.startswith("sampling.clock=")]
        assert cell.settings["sampling"].get("clock", "global") == (named[-1] if named else "global")


def test_all_rules_of_a_board_have_one_clock(work):
    base = ["sampling=markovian", "evaluation.episodes=0", "discount=0.9"]
    seeds = {"tuning": 2, "tuning_seed": 1, "reporting": 2, "reporting_seed": 2}
    content = SimpleNamespace(base=base, problems={"river": ["env=river_swim"]}, budget=1000, metric="q_error")
    suite = definition.made("mine", {**vars(content), "seeds": seeds})
    assert suite.problems[0].cell.settings["sampling"]["clock"] == "global"
    named = definition.made("mine", {**vars(content), "base": [*base, "sampling.clock=global"], "seeds": seeds})
    assert named.problems[0].digest == suite.problems[0].digest
    named = definition.made("mine", {**vars(content), "base": [*base, "sampling.clock=local"], "seeds": seeds})
    assert named.problems[0].cell.settings["sampling"]["clock"] == "local"
