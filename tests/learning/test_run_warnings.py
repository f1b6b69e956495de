"""What is said beside the numbers: of unstable steps, errors that grew, idle settings, seeds that are gone."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.algorithms.rule import replaced
from mqlearn.experiments.execute import before_run as before_cell
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.settings.compose import compose
from mqlearn.learning.diagnostics import grown
from mqlearn.learning.run_warnings import before_run, idle, unstable_step
from mqlearn.learning.setup import validated

LAKE = mq.frozen_lake("4x4")
RULES = [
    mq.QLearning(), mq.SpeedyQ(), mq.SpeedyQ("printed"), mq.NeSA(),
    *(mq.MomentumQ(m=m) for m in (2, 10, 100, 1000)), mq.MomentumQLinear(beta=0.8),
]  # fmt: skip


def warned(rule: mq.Rule | mq.Stateful | None = None, mdp: Any = LAKE, **settings: Any) -> str:
    settings = {"iterations": 200, "n_seeds": 4, **settings}
    return "\n".join(mq.run(mdp, rule or mq.QLearning(), **settings).warnings)


# --- steps that are too large -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [1.04, 1.5, 2.5])
@pytest.mark.parametrize("discount", [0.5, 0.9])
def test_a_constant_step_is_unstable_where_the_recursion_of_its_errors_grows(alpha, discount):
    """Q-learning's errors are multiplied by 1 - alpha + alpha l, l in {0, g, -g}."""
    factor = max(abs(1 - alpha), abs(1 - alpha - alpha * discount))
    found = unstable_step(mq.QLearning().with_step_size(mq.Constant(alpha)), discount, 200)
    assert bool(found) == (factor > 1)
    if found:
        assert found[0].numbers["growth"] == pytest.approx(factor) and found[0].numbers["iteration"] == 199


def test_what_is_unstable_at_first_only_is_not_warned_of():
    assert not unstable_step(mq.QLearning().with_step_size(mq.InverseSqrt(3.0)), 0.9, 1000)
    assert unstable_step(mq.QLearning().with_step_size(mq.InverseSqrt(3.0)), 0.9, 3)


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("discount", [0.5, 0.9, 0.99, 0.999])
def test_the_rules_as_they_are_raise_no_alarm(rule, discount):
    assert not [text for iterations in (10**3, 10**5, 10**9) for text in unstable_step(rule, discount, iterations)]


def test_momentum_of_a_rule_of_ones_own_is_checked_too():
    class Heavy(mq.Rule):
        def update(self, k, q, q_prev, target, target_prev):
            return (1 - 0.1) * q + 0.1 * target + 1.05 * (q - q_prev)

    assert "errors may grow 1.02 times" in warned(Heavy(), iterations=20)


def test_an_error_far_above_its_start_is_remarked():
    assert "4 of 4 seeds end with an error more than 10 times its start" in warned(step_size=mq.Constant(1.5))
    assert "seeds end with" not in warned()
    curve = np.array([[1.0, 30.0], [1.0, np.nan], [1.0, 50.0], [1.0, 0.1], [0.0, 5.0]])
    (found,) = grown(curve)
    assert (found.code, found.numbers) == ("error_grew", {"seeds": 2, "n_seeds": 5, "median": 40.0})


def test_on_the_command_line_it_is_said_once_and_before_the_run(mqlearn, work):
    done = mqlearn("run", "step_size=constant", "step_size.alpha=1.5", "iterations=100", "n_seeds=4", "tracking=none")
    assert done.code == 0
    assert done.err.count("errors may grow") == 1
    assert done.err.index("errors may grow") < done.err.index("4 of 4 seeds end with")


# --- settings without effect ------------------------------------------------------------------------------------------

ONE_HOT = {"features": mq.one_hot(LAKE), "sampling": mq.Markovian()}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sampling": mq.Markovian(epsilon=0.5)}, "sampling.epsilon=0.5 has no effect: the behaviour is not"),
        ({"sampling": mq.Replay(epsilon=(1, 0.1, 50))}, "sampling.epsilon=(1, 0.1, 50) has no effect"),
        ({"sampling": mq.Markovian(epsilon=0.5, behaviour="epsilon_greedy")}, ""),
        (ONE_HOT | {"sampling": mq.Markovian(clock="local")}, "sampling.clock=local has no effect"),
        (ONE_HOT | {"sampling": mq.Markovian(update="rounds")}, "sampling.update=rounds has no effect"),
        ({"sampling": mq.Markovian(update="rounds", clock="local")}, "sampling.clock=local has no effect: a step size"),
        ({"sampling": mq.Markovian(update="rounds")}, ""),
        (ONE_HOT | {"q0": 1.0}, "q0=1.0 has no effect: features are learned, and no table"),
        (ONE_HOT | {"theta0": 0.1}, ""),
        ({"theta0": (0.0, 1.0)}, "theta0=(0.0, 1.0) has no effect: there are no linear features"),
        ({"linear": mq.Linear("same_sample")}, "linear.previous_gradient=same_sample has no effect"),
        ({"linear": mq.Linear(projection=2.0)}, "linear.projection=2.0 has no effect"),
        ({"evaluation": mq.Evaluation(start="start")}, "evaluation.start=start has no effect: no episodes"),
        ({"evaluation": mq.Evaluation(start="start", episodes=2)}, ""),
        ({"mdp": mq.frozen_lake(slippery=False, success_rate=0.8)}, "env.success_rate=0.8 has no effect"),
        ({"mdp": mq.frozen_lake_blocks(1, slippery=False)}, ""),
    ],
)
def test_a_setting_without_effect_is_said(settings, said):
    text = warned(**settings)
    assert said in text
    assert ("has no effect" in text) == bool(said)


def test_a_store_that_is_named_and_not_used_is_said(mqlearn, work):
    done = mqlearn("run", "tracking=none", "tracking.uri=sqlite:///x.db", "iterations=5", "n_seeds=1")
    assert "tracking.uri=sqlite:///x.db has no effect: tracking=none" in done.err


# --- seeds that diverged ----------------------------------------------------------------------------------------------


def test_facts_count_what_diverged_seeds_had_seen():
    lake = mq.frozen_lake(rewards=(1, -1, 0))
    result = mq.run(
        lake, mq.QLearning(), step_size=mq.Constant(2.5), sampling=mq.Markovian(), iterations=60_000, n_seeds=8
    )
    assert len(result.diverged) > 0
    ends = sum(result.diverged.values()) + 60_000 * (8 - len(result.diverged))
    assert ends - 8 <= result.facts["chain_steps"] <= ends
    assert result.facts["rewards_seen"] > 0
    assert "outcome" not in result.facts


def test_the_mean_of_the_surviving_seeds_is_called_that(mqlearn, work):
    arguments = ("step_size=constant", "step_size.alpha=2.5", "sampling=markovian", "iterations=2600", "n_seeds=8")
    done = mqlearn("run", *arguments, "tracking=none", "evaluation.episodes=0")
    gone = done.out.count("diverged at step")
    assert 0 < gone < 8
    assert f"of {8 - gone} of 8 seeds" in done.out
    assert f"mean, 95 % interval of the mean, the {8 - gone} of 8 seeds that did not diverge" in done.out


# --- theta* ----------------------------------------------------------------------------------------------------------


def test_where_theta_star_is_zero_the_relative_error_is_absent_with_the_reason():
    lake = mq.frozen_lake("8x8")
    settings = {"features": mq.one_hot(lake), "iterations": 50, "n_seeds": 2}
    near = mq.run(lake, mq.QLearning(), sampling=mq.Markovian(time_limit=12), **settings)
    assert "theta_error" not in near.curves
    assert "zero_theta_star" in {found.code for found in near.findings}
    assert np.isfinite(mq.run(lake, mq.QLearning(), sampling=mq.Markovian(), **settings).curves["theta_error"]).all()


def test_the_step_of_a_local_clock_is_that_of_the_visits():
    rule = mq.QLearning().with_step_size(mq.InverseSqrt(3.0))
    local, of_all = (
        validated(LAKE, sampling=mq.Markovian(clock=clock), iterations=44 * 3) for clock in ("local", "global")
    )
    assert [found.code for found in before_run(local, rule)] == ["unstable_step"]
    assert not before_run(of_all, rule)


@pytest.mark.parametrize(
    ("rule", "settings", "said"),
    [
        (mq.Zap(), {}, True),
        (mq.Zap(), {"q0": 2.0}, True),
        (mq.Zap(), {"q0": (-1.0, 1.0)}, False),
        (mq.PolSA(zeta=1), {}, True),
        (mq.PolSA(zeta=0.1), {}, False),
        (mq.QLearning(), {}, False),
    ],
)
def test_a_start_whose_ties_are_broken_by_rounding_is_said(rule, settings, said):
    text = "all actions tie in Q_0"
    assert (text in warned(rule, iterations=5, n_seeds=2, **settings)) == said


def test_ties_of_the_start_are_said_once_and_before_the_run(mqlearn, work):
    done = mqlearn("run", "algorithm=zap", "iterations=5", "n_seeds=2", "tracking=none")
    assert done.err.count("all actions tie in Q_0 = 0") == 1
    assert mqlearn("run", "algorithm=zap", "iterations=5", "q0=[-1,1]", "tracking=none").err == ""


# --- what has no effect is declared by each object, and found out here ------------------------------------------------

RULES_WITH_IDLE_SETTINGS: list[tuple[Any, dict[str, list[Any]]]] = [
    *((mq.PID(ki=ki, eta=eta), {"al0": [0.3], "be": [0.2], "lam": [0.5], "eps": [1.0], "previous_draw": [True]})
      for ki in (0.0, 0.1) for eta in (0.0, 0.01)),
    *((mq.Phased(draws=draws), {"first": [3, 7]}) for draws in (None, 5)),
    *((mq.DoubleQ(clock=clock), {"factor": [0.5], "exponent": [0.6]}) for clock in ("global", "own")),
    *((mq.Zap(shift=shift), {"start": [3.0], "shift": [5.0], "rho": [0.7]}) for shift in (1, 2)),
    *((mq.AMSGrad(b1=b1, decay=decay), {"decay": [0.5], "restart": [7, None], "b2": [0.5]})
      for b1 in (0.0, 0.9) for decay in (0.0, 1.0)),
    *((mq.MomentumQLinear(beta=beta), {"lam": [0.5], "phi": [0.2]}) for beta in (0.0, 0.8)),
    (mq.Adam(), {"b1": [0.5], "b2": [0.5], "eps": [0.1]}),
    (mq.VarianceReduced(first=2, steps=5), {"first": [3], "steps": [4]}),
    (mq.PolSA(), {"zeta": [0.5], "rho": [0.5]}),
    (mq.AveragingQ(), {"d": [0.5], "measured": ["a"]}),
    (mq.MoVI(), {"keep_start": [False], "measured": ["q"]}),
    (mq.MomentumQ(), {"m": [3.0], "shift": ["on"]}),
]  # fmt: skip


def table(rule: Any) -> bytes:
    plain = replaced(rule, compiled=False) if isinstance(rule, mq.Stateful) else rule
    settings: dict[str, Any] = {"iterations": 40, "n_seeds": 2, "n_workers": 1, "evaluation": mq.Evaluation(episodes=0)}
    return mq.run(mq.garnet_fixed(4, 2, 2), plain, **settings).curves["q_error"].tobytes()


@pytest.mark.parametrize(("rule", "others"), RULES_WITH_IDLE_SETTINGS, ids=lambda value: repr(value)[:60])
def test_a_rule_declares_the_settings_that_move_no_number_and_no_others(rule, others):
    before = table(rule)
    declared = rule.without_effect()
    for name, values in others.items():
        moved = any(table(replace(rule, **{name: value})) != before for value in values)
        assert moved == (name not in declared), name
        said = idle("algorithm", replace(rule, **{name: values[0]}))
        assert any(f"algorithm.{name}=" in found.text for found in said) == (not moved)


@pytest.mark.parametrize(
    ("step_size", "name", "value"),
    [
        (mq.Polynomial(exponent=0.0), "offset", 5.0),
        (mq.Polynomial(exponent=0.5), "offset", 5.0),
        (mq.Matched(mq.Constant(0.1), beta=0.0), "lam", 0.5),
        (mq.Matched(mq.Constant(0.1), beta=0.5), "lam", 0.5),
    ],
)
def test_a_step_size_declares_the_settings_that_move_no_number(step_size, name, value):
    k, other = np.arange(50.0), replace(step_size, **{name: value})
    moved = (step_size(k) != other(k)).any()
    assert (f"step_size.{name}={value} has no effect" in warned(step_size=other, iterations=5)) == (not moved)


def test_the_step_size_of_a_rule_with_a_clock_of_its_own_is_said():
    assert "step_size=Constant(alpha=0.5) has no effect: clock is own" in warned(
        mq.DoubleQ(clock="own"), step_size=mq.Constant(0.5), iterations=5
    )
    assert "has no effect" not in warned(mq.DoubleQ(clock="own"), iterations=5)


@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (mq.garnet(dialect="stick", n_rewarding=3), "env.n_rewarding=3 has no effect: dialect is stick"),
        (mq.garnet(dialect="stick"), ""),
        (mq.garnet(n_rewarding=3), ""),
        (mq.deep_sea(3, map_seed=4), "env.map_seed=4 has no effect: randomise_actions is false"),
        (mq.deep_sea(3, map_seed=4, randomise_actions=True), ""),
    ],
)
def test_a_problem_says_which_of_its_settings_has_no_effect(problem, said):
    assert " ".join(problem.notes) == said


def test_a_rule_of_ones_own_declares_its_own():
    @dataclass(frozen=True)
    class Slowed(mq.Rule):
        slow: bool = False
        by: float = 0.5

        def without_effect(self):
            return {} if self.slow else {"by": "slow is false"}

        def update(self, k, q, q_prev, target, target_prev):
            return q + (self.by if self.slow else 1.0) * self.step_size(k) * (target - q)

    assert "algorithm.by=0.1 has no effect: slow is false" in warned(Slowed(by=0.1), iterations=5)
    assert "has no effect" not in warned(Slowed(slow=True, by=0.1), iterations=5)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (("algorithm=momentum_q", "algorithm.lam=0.5"), "algorithm.lam=0.5 has no effect: beta is null"),
        (("algorithm=momentum_q", "algorithm.phi=1"), "algorithm.phi=1 has no effect: beta is null"),
        (("algorithm=momentum_q", "algorithm.beta=0.8", "algorithm.shift=on"), "algorithm.shift=on has no effect"),
        (("algorithm=momentum_q", "algorithm.beta=0.8", "algorithm.lam=0.5"), ""),
        (("sampling=markovian", "sampling.epsilon=0.5"), "sampling.epsilon=0.5 has no effect: the behaviour is not"),
        (("theta0=1",), "theta0=1 has no effect: there are no linear features"),
    ],
)
def test_what_has_no_effect_is_said_once_and_before_the_run(mqlearn, work, setting, said):
    done = mqlearn("run", *setting, "env=two_state", "iterations=5", "n_seeds=2", "tracking=none")
    assert done.code == 0
    assert done.err.count(said or "has no effect") == bool(said)
    cell = build(compose([*setting, "env=two_state", "iterations=5", "tracking=none"]))
    assert any(found.code == "no_effect" and said in found.text for found in before_cell(cell)) == bool(said)
