"""Rules with state of their own: the plain form in every mode, against the four numbers and against mistakes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from stateful_rules import UNCOMPILED, Plain

import mqlearn as mq
from mqlearn.stateful.check import check
from mqlearn.stateful.verbs import no_verb

LAKE = mq.frozen_lake("4x4", discount=0.9, rewards=(1, -0.5, -0.01))
BLOCKS = mq.aggregation(LAKE, tile=2)
MODES = {
    "synchronous": {},
    "synchronous, sampled reward": {"reward": "sampled"},
    "markovian": {"sampling": mq.Markovian(clock="global")},
    "epsilon-greedy": {"sampling": mq.Markovian(behaviour="epsilon_greedy", epsilon=0.3, clock="global")},
    "replay": {"sampling": mq.Replay(warm_up=20, draws=2, capacity=50, clock="global")},
    "iid": {"sampling": mq.IID(clock="global")},
    "linear": {"sampling": mq.Markovian(start="uniform"), "features": BLOCKS},
    "linear, epsilon-greedy": {"sampling": mq.Markovian(behaviour="epsilon_greedy"), "features": BLOCKS},
}


PLAIN, DOUBLE, MEMORY, _, _, EPOCHS, _ = UNCOMPILED


def run(rule, **settings) -> Any:
    settings = {
        "iterations": 200,
        "n_seeds": 3,
        "seed": 5,
        "n_workers": 1,
        "n_checkpoints": 6,
        "q0": (0, 0.1),
    } | settings
    return mq.run(LAKE, rule, step_size=mq.Harmonic(3), **settings)


@pytest.mark.parametrize("mode", MODES)
def test_q_learning_with_state_is_q_learning_of_four_numbers(mode):
    expected, found = run(mq.QLearning(), **MODES[mode]), run(PLAIN, **MODES[mode])
    np.testing.assert_allclose(found.q, expected.q, rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.curves["value_gap"], expected.curves["value_gap"], rtol=0, atol=1e-9)


@pytest.mark.parametrize("mode", ["synchronous", "markovian", "epsilon-greedy", "replay"])
def test_a_previous_table_of_its_own_is_that_of_the_four_numbers(mode):
    expected, found = run(mq.MomentumQ(), **MODES[mode]), run(MEMORY, **MODES[mode])
    np.testing.assert_allclose(found.q, expected.q, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rule", UNCOMPILED, ids=lambda rule: type(rule).__name__)
@pytest.mark.parametrize("mode", MODES)
def test_seeds_do_not_depend_on_each_other_or_on_blocks(rule, mode):
    """Of so many iterations that the buffer of a replay is full."""
    short = MODES[mode] | {"iterations": 60, "n_seeds": 2, "evaluation": mq.Evaluation(episodes=0)}
    few = run(rule, **short)
    more = run(rule, **short | {"n_seeds": 3, "n_workers": 2, "n_checkpoints": 20})
    np.testing.assert_array_equal(few.q, more.q[:2])
    assert np.isfinite(few.q).all()


def test_what_acts_is_not_what_is_measured():
    result = run(EPOCHS, iterations=7, n_checkpoints=1)
    greedy = run(EPOCHS, iterations=5, n_checkpoints=1)
    # The anchor is the table of iteration 5, as if it had ended there.
    assert result.curves["policy_value"] == pytest.approx(greedy.curves["policy_value"])
    assert (result.curves["q_error"] != greedy.curves["q_error"]).any()


def test_rules_share_samples_with_others_on_linear_features():
    alone = [run(rule, **MODES["linear"]).q for rule in (mq.QLearning(), DOUBLE)]
    settings = MODES["linear"] | {"iterations": 200, "n_seeds": 3, "seed": 5, "n_workers": 1}
    together: Any = mq.run_together(LAKE, [mq.QLearning(), DOUBLE], step_size=mq.Harmonic(3), **settings)
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one, other.q)


def test_solve_and_times():
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(7, 7)), rng.normal(size=7)
    np.testing.assert_allclose(mq.solve(a, b), np.linalg.solve(a, b), rtol=1e-10)
    np.testing.assert_allclose(mq.times(a, b), a @ b, rtol=1e-12)
    assert np.isnan(mq.solve(np.zeros((2, 2)), np.ones(2))).all()


@dataclass(frozen=True)
class Mistaken(Plain):
    """Each mistake is one of these functions in place of `step`, `init` or `numbers`."""


def _mistakes():
    def unknown_verb(self, z, s, c):
        s.move(z.q, s.targt(z.q), c.alpha)

    def unknown_state(self, z, s, c):
        s.move(z.p, s.target(z.q), c.alpha)

    def unknown_number(self, z, s, c):
        s.move(z.q, s.target(z.q), c.beta)

    def replaced(self, z, s, c):
        z.q = z.q + 1

    def new_state(self, z, s, c):
        z.p = 1.0

    def not_finite(self, z, s, c):
        z.q[:] /= 0 * c.alpha

    def wrong_shape(self, z, s, c):
        z.q[:] = np.zeros(17)

    def branch(self, z, s, c):
        s.add(z.q, 1.0 if s.target(z.q) > 0 else 0.0)

    def largest(self, z, s, c):
        s.move(z.q, max(s.target(z.q), 0.0), c.alpha)

    def no_coins(self, z, s, c):
        s.move(z.q, s.target(z.q), s.uniform[0])

    def python_object(self, q0):
        return {"q": q0, "seen": {}}

    def no_mapping(self, q0):
        return q0

    def infinite_numbers(self, k):
        return {"alpha": 1 / (k - 3)}

    def short_numbers(self, k):
        return {"alpha": np.ones(3)}

    step = [
        unknown_verb,
        unknown_state,
        unknown_number,
        replaced,
        new_state,
        not_finite,
        wrong_shape,
        no_coins,
        branch,
        largest,
    ]
    return [("step", one) for one in step] + [
        ("init", python_object), ("init", no_mapping), ("numbers", infinite_numbers), ("numbers", short_numbers)
    ]  # fmt: skip


SAID = {
    "unknown_verb": "no verb targt (did you mean 'target'?)",
    "unknown_state": "there is no p",
    "unknown_number": "there is no beta",
    "replaced": "step() replaces z.q; change it in place: z.q[:] = ...",
    "new_state": "step() makes z.p",
    "not_finite": "leaves z.q not finite",
    "wrong_shape": "could not broadcast",
    "no_coins": "draws_own = True",
    "branch": "write np.where(test, a, b) for `if`, np.maximum for max(); or say modes = ('asynchronous', 'linear')",
    "largest": "write np.where(test, a, b) for `if`, np.maximum for max(); or say modes = ('asynchronous', 'linear')",
    "python_object": "init()['seen'] must be an array of numbers, not dict",
    "no_mapping": "init() must return a mapping",
    "infinite_numbers": "numbers()['alpha'] is not finite at k = 3",
    "short_numbers": "numbers()['alpha'] must be an array like k",
}


@pytest.mark.parametrize(("method", "function"), _mistakes(), ids=lambda part: getattr(part, "__name__", None))
def test_a_mistake_is_one_line_with_file_and_line(method, function):
    rule = type(function.__name__, (Mistaken,), {method: function})().at(0.9)
    with np.errstate(all="ignore"), pytest.raises(mq.SettingError) as caught:
        check(rule)
    said, line = str(caught.value), function.__code__.co_firstlineno
    assert SAID[function.__name__] in said
    assert "\n" not in said
    assert any(f"({__file__}, line {number})" in said for number in (line, line + 1))


def test_all_verbs_are_listed_and_the_most_alike_first():
    words = ["value", "best", "target", "add", "move", "add_best", "follow", "add_jacobian", "add_gradient"]
    for name, nearest in (("expected", ""), ("targt", "target"), ("gradient", "add_gradient")):
        said = no_verb(name)
        assert all(word in said for word in [*words, "again", "uniform", "discount", "single"])
        assert f"it has {nearest}" in said


def test_a_branch_is_one_of_a_rule_that_learns_a_pair_at_a_time():
    class Branch(mq.Stateful):
        modes = ("asynchronous", "linear")

        def init(self, q0):
            return {"q": q0}

        def step(self, z, s, c):
            if s.target(z.q) > s.value(z.q):
                s.move(z.q, max(s.target(z.q), 0.0), c.alpha)

    settings = {"iterations": 50, "n_seeds": 2, "sampling": mq.Markovian()}
    plain = type("Plain", (Branch,), {"compiled": False})()
    np.testing.assert_array_equal(
        mq.run(mq.two_state(), Branch(), **settings).q, mq.run(mq.two_state(), plain, **settings).q
    )


def test_a_state_beyond_memory_is_refused_with_the_figure():
    lake = mq.frozen_lake_random(128, map_seed=1)
    with pytest.raises(mq.SettingError, match=r"need [\d.e+]+ GB, and this machine has [\d.e+]+ GB"):
        mq.run(lake, mq.Zap(), iterations=1, n_seeds=20)


def test_a_projection_is_that_of_the_four_numbers():
    settings = MODES["linear"] | {"linear": mq.Linear(projection=0.1), "theta0": (0, 0.1)}
    expected, found = run(mq.QLearning(), **settings), run(PLAIN, **settings)
    np.testing.assert_allclose(found.theta, expected.theta, rtol=0, atol=1e-12)
    free = run(PLAIN, **settings | {"linear": mq.Linear()})
    assert np.linalg.norm(found.theta, axis=1).max() <= 0.1 * (1 + 1e-12) < np.linalg.norm(free.theta, axis=1).min()


class Sliced(Plain):
    """A rule whose estimate is a part of a larger array."""

    compiled = False

    def init(self, q0):
        return {"q": np.stack([q0, q0])}

    def step(self, z, s, c):
        s.move(z.q[0], s.target(z.q[0]), c.alpha)

    def estimate(self, z):
        return z.q[0]


@pytest.mark.parametrize(
    ("rule", "settings", "said"),
    [
        (Sliced(), MODES["linear"] | {"linear": mq.Linear(projection=1.0)}, "linear.projection=1.0"),
        (
            type("Only", (Plain,), {"modes": ("synchronous", "linear")})(),
            MODES["markovian"],
            "algorithm='Only'.*synchronous sampling and linear features",
        ),
        (type("Calm", (Plain,), {"acts": False})(), MODES["epsilon-greedy"], "sampling.behaviour"),
        (Plain(), {"sampling": mq.Markovian(update="rounds")}, "sampling.update"),
        (Plain(), MODES["linear"] | {"linear": mq.Linear("same_sample")}, "linear.previous_gradient"),
    ],
)
def test_what_a_rule_does_not_have_is_refused_by_name(rule, settings, said):
    with pytest.raises(mq.SettingError, match=said):
        run(rule, **settings)
