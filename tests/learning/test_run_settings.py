"""What `run` refuses, and how its settings are resolved."""

import dataclasses
import inspect
import math
from typing import Any

import numpy as np
import pytest
import twins
from loop_cases import BLOCKS, LAKE
from twins import run

from mqlearn.algorithms import QLearning, SpeedyQ
from mqlearn.algorithms.step_sizes import Constant, RescaledLinear
from mqlearn.errors import SettingError
from mqlearn.learning import loop
from mqlearn.learning.loop import run_together
from mqlearn.problems.features import aggregation
from mqlearn.sampling.evaluation import Evaluation
from mqlearn.sampling.modes import Markovian, Replay


@pytest.mark.parametrize(
    "bad",
    [
        {"iterations": -5}, {"iterations": 2.5}, {"iterations": True}, {"iterations": "many"},
        {"n_seeds": 0}, {"n_seeds": 1.5}, {"seed": -1}, {"seed": 2**32}, {"n_checkpoints": 0}, {"n_workers": 0},
        {"checkpoints": "cubic"}, {"reward": "best"},
    ],
    ids=str,
)  # fmt: skip
def test_bad_settings_are_refused_by_name(bad):
    name = next(iter(bad))
    with pytest.raises(SettingError, match=f"^{name}="):
        run(LAKE, QLearning(), **({"iterations": 10} | bad))


def test_the_initial_table_is_a_constant_or_a_range():
    constant = run(LAKE, QLearning(), iterations=0, n_seeds=2, q0=0.25)
    np.testing.assert_array_equal(constant.q[:, LAKE.learned], 0.25)
    np.testing.assert_array_equal(constant.q[:, ~LAKE.learned], 0)
    drawn = run(LAKE, QLearning(), iterations=0, n_seeds=40, q0=(-2.0, 3.0)).q[:, LAKE.learned]
    assert drawn.min() >= -2 and drawn.max() < 3
    assert drawn.mean() == pytest.approx(0.5, abs=4 * 5 / math.sqrt(12 * drawn.size))
    x, u = LAKE.pairs.T
    expected = twins.initial_values(len(x), -2.0, 3.0, 0, 7)
    np.testing.assert_array_equal(run(LAKE, QLearning(), iterations=0, n_seeds=8, q0=(-2.0, 3.0)).q[7, x, u], expected)


def test_rewards_are_resolved_and_recorded():
    assert run(LAKE, QLearning(), iterations=1, n_seeds=1).reward == "mean"
    assert run(LAKE, QLearning(), iterations=1, n_seeds=1, sampling=Markovian()).reward == "sampled"
    mean = run(LAKE, QLearning(), iterations=500, n_seeds=1, sampling=Markovian(), reward="mean")
    assert mean.reward == "mean"
    twin = dataclasses.replace(LAKE, rewards=np.repeat(LAKE.mean_rewards[..., None], 3, axis=2))
    np.testing.assert_array_equal(mean.q, run(twin, QLearning(), iterations=500, n_seeds=1, sampling=Markovian()).q)


def test_a_schedule_that_ends_on_a_plateau_is_told():
    """NU-06: with 1/(k + 1) and discount 0.99 plain Q-learning stands still; the schedule says so, not the error."""

    def ran(rule, discount=0.99, **settings):
        return run(LAKE.with_discount(discount), rule, **{"iterations": 3000, "n_seeds": 2, **settings})

    slow = ran(QLearning())
    assert slow.facts["effective_horizon"] == pytest.approx(sum(1 / k for k in range(1, 3001)))
    (found,) = slow.findings
    assert (found.code, found.numbers["needed"]) == ("step_size_plateau", pytest.approx(100))
    assert found.numbers["effective_horizon"] == slow.facts["effective_horizon"]
    for other in (
        ran(SpeedyQ()),
        ran(QLearning(), step_size=Constant(0.1)),
        ran(QLearning(), discount=0.9),
        ran(QLearning(), step_size=RescaledLinear(0.99)),
    ):
        assert "step_size_plateau" not in {found.code for found in other.findings}
    n = int(LAKE.learned.sum())
    chain = Markovian(clock="local")
    assert ran(QLearning(), sampling=chain).facts["effective_horizon"] == pytest.approx(
        sum(1 / k for k in range(1, 3000 // n + 1))
    )


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"rule": QLearning}, "algorithm="),
        ({"rule": "q_learning"}, "algorithm='q_learning'"),
        ({"mdp": "4x4"}, "env='4x4'"),
        ({"step_size": 0.1}, "step_size=0.1"),
        ({"sampling": "markovian"}, "sampling='markovian'"),
        ({"sampling": Markovian}, "sampling="),
        ({"linear": "stored"}, "linear='stored'"),
        ({"evaluation": 10}, "evaluation=10"),
        ({"metrics": len}, "metrics="),
        ({"q0": math.nan}, "q0=nan"),
        ({"q0": (1, 0)}, "q0=(1, 0)"),
        ({"theta0": "0"}, "theta0='0'"),
        ({"sampling": Markovian(), "features": "one_hot"}, "features='one_hot'"),
        ({"sampling": Markovian(), "features": aggregation(BLOCKS, tile=2)}, "features='aggregation'"),
    ],
    ids=str,
)
def test_what_is_no_part_of_a_run_is_refused_by_its_name(wrong, named):
    with pytest.raises(SettingError) as refused:
        run(**{"mdp": LAKE, "rule": QLearning(), "iterations": 3, "n_seeds": 2, **wrong})
    assert str(refused.value).startswith(named)


@pytest.mark.parametrize("field", ["time_limit", "capacity", "warm_up", "draws"])
def test_numbers_of_steps_are_whole(field):
    for value in (2.5, "2", True):
        with pytest.raises(SettingError, match=f"sampling.{field}="):
            Replay(**dict[str, Any]({field: value}))


@pytest.mark.parametrize("field", ["episodes", "time_limit"])
def test_numbers_of_an_evaluation_are_whole(field):
    for value in (2.5, "2", True):
        with pytest.raises(SettingError, match=f"evaluation.{field}="):
            Evaluation(**dict[str, Any]({field: value}))


def test_a_range_may_be_a_list():
    one, other = (run(LAKE, QLearning(), iterations=3, n_seeds=2, q0=q0) for q0 in ([-1, 1], (-1, 1)))
    assert np.array_equal(one.q, other.q)


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["sampling=markovian"],
        ["sampling=markovian", "evaluation.start=start", "features=one_hot"],
        ["evaluation.episodes=3", "evaluation.start=uniform"],
    ],
)
def test_the_metrics_that_are_said_to_be_recorded_are(words):
    from mqlearn.experiments.settings import cell, compose

    made = cell.build(compose.compose([*words, "iterations=8", "n_seeds=2", "n_checkpoints=4"]))
    (result,) = cell.run_cells([made])
    assert sorted(result.curves) == sorted(cell.measured_by(made))


def test_one_rule_and_several_are_run_with_the_same_keywords():
    one, several = (list(inspect.signature(function).parameters.values()) for function in (loop.run, run_together))
    assert [p.name for p in one[:2]] == ["mdp", "rule"] and [p.name for p in several[:2]] == ["mdp", "rules"]
    assert one[2:] == several[2:] and all(p.kind is p.KEYWORD_ONLY for p in one[2:])
    defaults = {p.name: p.default for p in one[2:]}
    assert (defaults["n_seeds"], defaults["n_checkpoints"], defaults["sampling"]) == (20, 200, None)
    with pytest.raises(TypeError, match="n_seed"):
        loop.run(LAKE, QLearning(), iterations=1, n_seed=3)  # type: ignore[call-arg]  # wrong on purpose
