"""Recorded transitions: what another library learned from them, what a literal loop does, and what is refused."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.experiments.settings import cell, compose
from mqlearn.sampling.sample_numbers import pack, unpack

FILE = Path(__file__).parent.parent / "data" / "transitions" / "two_states.npz"
P, R = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.8, 0.2], [0.1, 0.9]]]), np.array([[5.0, 10.0], [-1.0, 2.0]])
SMALL = mq.from_arrays(P, R, axes="xuy", discount=0.9, name="small")
SQRT = mq.Polynomial(exponent=0.5, offset=2)  # 1/sqrt(n + 2), n = 1, 2, ...
SEEN = dict(np.load(FILE))


def learned(rule, sampling, **more):
    settings = {"iterations": 10_000, "n_seeds": 1, "sampling": sampling, "evaluation": mq.Evaluation(episodes=0)}
    result = mq.run(SMALL, rule, **(settings | more))
    return SimpleNamespace(q=np.asarray(result.q), theta=np.asarray(result.theta), facts=result.facts)


@pytest.fixture(scope="module")
def replayed():
    return learned(mq.QLearning(), mq.Recorded(FILE, clock="global"), step_size=SQRT)


def test_the_table_of_pymdptoolbox_from_its_own_transitions(replayed):
    theirs = [[33.330108655211646, 40.82109564847122], [34.37431040682546, 29.672368452303164]]
    np.testing.assert_allclose(replayed.q[0], theirs, rtol=0, atol=1e-12)
    assert replayed.facts["chain_steps"] == 10_000
    assert replayed.facts["rewards_seen"] == 10_000 and replayed.facts["pairs_visited"] == 1


@pytest.mark.parametrize("clock", ["global", "local"])
def test_speedy_q_follows_a_literal_loop(clock):
    """The asynchronous template: the visited pair moves, Q_{k-1} is the whole table before."""
    rule, n = mq.SpeedyQ(), 60
    q = last = np.zeros((2, 2))
    count = np.zeros((2, 2), int)
    for k in range(n):
        x, u, r, y = (SEEN[name][k] for name in "xury")
        row = k if clock == "global" else int(count[x, u])
        a, b, c, d = rule.weights(row, row + 1)[0]
        now = q.copy()
        now[x, u] = a * q[x, u] + b * last[x, u] + c * (r + 0.9 * q[y].max()) + d * (r + 0.9 * last[y].max())
        count[x, u] += 1
        q, last = now, q
    found = learned(rule, mq.Recorded(FILE, clock=clock), iterations=n)
    np.testing.assert_allclose(found.q[0], q, rtol=1e-11)


def test_rules_beside_each_other_and_with_state_learn_from_the_same(replayed):
    both = mq.run_together(
        SMALL, [mq.QLearning(), mq.minibatch(mq.QLearning(), 1)], iterations=10_000, n_seeds=1, step_size=SQRT,
        sampling=mq.Recorded(SEEN, clock="global"), evaluation=mq.Evaluation(episodes=0),
    )  # fmt: skip
    for one in both:
        np.testing.assert_array_equal(np.asarray(one.q), replayed.q)
    average = learned(mq.averaged(mq.QLearning()), mq.Recorded(FILE), step_size=SQRT)
    np.testing.assert_allclose(average.q, replayed.q, rtol=1e-12)


def test_one_hot_features_are_the_table(replayed):
    found = learned(mq.QLearning(), mq.Recorded(FILE), step_size=SQRT, features=mq.one_hot(SMALL))
    np.testing.assert_allclose(found.theta[0], replayed.q[0].ravel(), rtol=1e-11)


def test_recorded_rewards_are_used_and_the_mean_of_the_model_with_reward_mean():
    seen = {"x": np.array([0, 0]), "u": np.array([0, 0]), "r": np.array([3.0, -7.0]), "y": np.array([0, 1])}
    one = learned(mq.QLearning(), mq.Recorded(seen), step_size=mq.Constant(1.0), iterations=1)
    two = learned(mq.QLearning(), mq.Recorded(seen), step_size=mq.Constant(1.0), iterations=2)
    mean = learned(mq.QLearning(), mq.Recorded(seen), step_size=mq.Constant(1.0), iterations=1, reward="mean")
    assert (one.q[0, 0, 0], two.q[0, 0, 0], mean.q[0, 0, 0]) == (3.0, -7.0, 5.0)


def changed(**arrays):
    return mq.Recorded({**SEEN, **arrays})


def entry(name, value):
    return {name: np.where(np.arange(10_000) == 7, value, SEEN[name].astype(float if name == "r" else int))}


@pytest.mark.parametrize(
    ("make", "more", "message"),
    [
        (lambda: changed(r=SEEN["r"][:-1]), {}, r"sampling.path='arrays': r has the shape \(9999,\)"),
        (lambda: changed(x=SEEN["x"] * 1.5), {}, r"x\[\d+\]=1.5 must be a whole number"),
        (lambda: changed(x=SEEN["x"] == 1), {}, "x must be an array of whole numbers, not bool"),
        (lambda: changed(u=SEEN["u"].astype(object)), {}, "u must be an array of whole numbers, not object"),
        (lambda: changed(r=SEEN["r"].astype(str)), {}, "r must be an array of numbers, not <U"),
        (lambda: changed(timeouts=SEEN["x"] + 1), {}, r"timeout\[\d+\]=2 must be a truth value, or 0 or 1"),
        (lambda: changed(done=SEEN["x"]), {}, "done is unknown: it may be the end of an episode or of its time"),
        (lambda: mq.Recorded(SEEN["x"]), {}, "sampling.path="),
        (lambda: mq.Recorded(SEEN, passes=2), {"iterations": 20_001}, "10000 transitions of arrays; .* from 2 times"),
        (lambda: mq.Recorded(SEEN, passes=0), {}, "sampling.passes=0: must be a whole number"),
        (lambda: mq.Recorded(SEEN, resample="boot"), {}, r"must be none or bootstrap \(did you mean 'bootstrap'"),
        (lambda: changed(**entry("r", np.nan)), {}, r"r\[7\]=nan must be finite"),
        (lambda: changed(**entry("x", 2)), {}, r"transition 7 \(x=2, .*x must be from 0 to 1 on small"),
        (lambda: changed(**entry("u", -1)), {}, "u must be from 0 to 1"),
        (lambda: changed(x=SEEN["x"] * 0, u=SEEN["u"] * 0 + 1), {}, "a transition of probability 0 on small"),
        (lambda: changed(terminal=SEEN["x"] == 0), {}, "terminal is not what small says of y"),
        (
            lambda: changed(terminal=SEEN["x"]),
            {},
            r"terminal is not what small says of y; an end of time alone is a timeout",
        ),
        (lambda: changed(rewards=SEEN["r"]), {}, "must have one of r and rewards"),
        (lambda: mq.Recorded({"x": SEEN["x"]}), {}, "it has no u; it has no r; it has no y"),
        (lambda: mq.Recorded(FILE), {"iterations": 10_001}, "iterations=10001: is more than the 10000 transitions"),
        (lambda: mq.Recorded(FILE), {"n_seeds": 2}, "n_seeds=2: must be 1 with recorded transitions"),
        (lambda: mq.Recorded(FILE, content="0" * 64), {}, "has changed: the SHA-256"),
        (lambda: mq.Recorded("two_states.pkl"), {}, "must end in .npz or .csv"),
        (lambda: mq.Recorded("nowhere.csv"), {}, "sampling.path='nowhere.csv': cannot be read"),
        (lambda: mq.Recorded("nowhere.npz"), {}, "sampling.path='nowhere.npz': cannot be read"),
    ],
)
def test_what_cannot_be_replayed_is_refused(make, more, message):
    with pytest.raises(mq.SettingError, match=message):
        learned(mq.QLearning(), make(), **more)


def test_inadmissible_pairs_and_rules_that_draw_more_are_refused():
    seen = {"x": np.array([1]), "u": np.array([1]), "r": np.array([0.0]), "y": np.array([1])}
    with pytest.raises(mq.SettingError, match=r"transition 0 \(x=1, u=1, y=1\): action u is not admissible in state x"):
        mq.run(mq.two_state(), mq.QLearning(), iterations=1, n_seeds=1, sampling=mq.Recorded(seen))
    for rule in (mq.Residual(), mq.minibatch(mq.QLearning(), 2)):
        with pytest.raises(mq.SettingError, match="a record has one successor of a pair an iteration"):
            learned(rule, mq.Recorded(FILE), step_size=SQRT)


OVERRIDES = ["env=file", "sampling=recorded", "tracking=none", "evaluation.episodes=0"]


def test_a_cell_is_named_by_the_arrays_and_reruns_from_its_record(work, mqlearn, outputs):
    model, other = str(work / "small.npz"), str(work / "copy.npz")
    np.savez(model, P=P, R=R, axes="xuy")
    np.savez_compressed(other, **SEEN)
    digests = []
    for path in (FILE, other):
        settings = compose.compose([*OVERRIDES, f"env.path={model}", f"sampling.path={path}", "iterations=0"], None)
        assert settings["n_seeds"] == 1
        digests.append(cell.build(settings).digest)
    assert digests[0] == digests[1]
    assert mqlearn("run", *OVERRIDES, f"env.path={model}", f"sampling.path={other}", "iterations=100").code == 0
    (folder,) = (outputs / "runs" / "default").iterdir()
    assert mqlearn("rerun", folder, "tracking=none").code == 0
    np.savez(other, **{key: value[1:] for key, value in SEEN.items()})
    cell._build.cache_clear()  # as in a new process
    done = mqlearn("rerun", folder, "tracking=none")
    assert done.code == 2 and "has changed: the SHA-256 of its arrays" in done.err
    again = mqlearn("run", *OVERRIDES, f"env.path={model}", f"sampling.path={other}", "iterations=100")
    assert again.code == 0 and len([*(outputs / "runs" / "default").iterdir()]) == 2


def test_the_command_refuses_in_one_message(mqlearn):
    done = mqlearn("run", "sampling=recorded", "tracking=none")
    assert done.code == 2
    assert "sampling.path='': must be given. Recorded transitions, learned from once each" in done.err
    done = mqlearn("run", *OVERRIDES[1:], "env=two_state", f"sampling.path={FILE}", "discount=0.9")
    assert done.code == 2 and "sampling.path" in done.err and done.err.count("\n") == 1


def test_numbers_of_samples_have_their_fields_at_their_bits():
    shift = np.uint64(3)
    fields = np.array([0, 5, 2**28]), np.array([7, 0, 3]), np.array([0, 9, 2**31 - 1]), np.array([True, False, True])
    numbers = pack(*fields, shift)
    literal = [((p << 3 | b) << 32) + 2 * y + w for p, b, y, w in zip(*(part.tolist() for part in fields), strict=True)]
    assert numbers.dtype == np.uint64 and numbers.tolist() == literal
    for field, found in zip(fields, unpack(numbers, shift), strict=True):
        np.testing.assert_array_equal(found, field)
