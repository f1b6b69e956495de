"""Logged data as people have it: names, kinds and files; ends of time; several passes; seeds by the bootstrap."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mqlearn as mq
from mqlearn.sampling.recorded import RecordedSamples
from mqlearn.sampling.sample_numbers import unpack
from tests.twins import words

LAKE = mq.frozen_lake("4x4", discount=0.9, rewards=(1, -0.5, 0.125))
USUAL = {"x": "observations", "u": "actions", "r": "rewards", "y": "next_observations", "terminal": "terminals"}
GYMNASIUM = {"x": "obs", "u": "action", "r": "reward", "y": "next_obs", "terminal": "terminated"}


def logged(n: int = 400, seed: int = 0) -> dict[str, np.ndarray]:
    """Transitions of the lake under random actions; after five moves an episode is out of time."""
    rng = np.random.default_rng(seed)
    rows, x, moves = [], 0, 0
    for _ in range(n):
        u = int(rng.integers(4))
        b = int(rng.choice(LAKE.n_successors, p=LAKE.probabilities[x, u]))
        y, moves = int(LAKE.successors[x, u, b]), moves + 1
        terminal = bool(LAKE.terminal[y])
        rows.append((x, u, LAKE.rewards[x, u, b], y, terminal, moves == 5 and not terminal))
        x, moves = (0, 0) if terminal or moves == 5 else (y, moves)
    columns = (np.array(column) for column in zip(*rows, strict=True))
    return dict(zip(("x", "u", "r", "y", "terminal", "timeout"), columns, strict=True))


SEEN = logged()
PLAIN = {name: SEEN[name] for name in ("x", "u", "r", "y", "terminal")}


def learned(given, rule=None, iterations=400, **more):
    settings = {"step_size": mq.Constant(0.5), "evaluation": mq.Evaluation(episodes=0), **more}
    sampling = given if isinstance(given, mq.Recorded) else mq.Recorded(given)
    return mq.run(LAKE, rule or mq.QLearning(), iterations=iterations, sampling=sampling, **settings)


@pytest.fixture(scope="module")
def q():
    return table(learned(PLAIN))


def table(result) -> np.ndarray:
    q = np.asarray(result.q)
    assert np.count_nonzero(q) > 10
    return q


def named(names):
    return {names[name]: array for name, array in PLAIN.items()}


FORMS = {
    "usual names": lambda: named(USUAL),
    "names of Gymnasium": lambda: named(GYMNASIUM),
    "with timeouts": lambda: named(USUAL) | {"timeouts": SEEN["timeout"]},
    "flags as 0 and 1": lambda: PLAIN | {"terminal": PLAIN["terminal"].astype(int)},
    "flags as floats": lambda: PLAIN | {"terminal": PLAIN["terminal"].astype(np.float32)},
    "floats": lambda: {name: array.astype(float) for name, array in PLAIN.items()},
    "columns": lambda: {name: array[:, None] for name, array in PLAIN.items()},
    "lists": lambda: {name: array.tolist() for name, array in PLAIN.items()},
    "big-endian": lambda: {
        name: array.astype(">f8" if name == "r" else ">i4") for name, array in PLAIN.items() if name != "terminal"
    },
    "backwards": lambda: {name: array[::-1].copy()[::-1] for name, array in PLAIN.items()},
    "without flags": lambda: {name: PLAIN[name] for name in "xury"},
    "a DataFrame": lambda: pd.DataFrame(named(USUAL)),
    "columns of a DataFrame": lambda: pd.DataFrame(PLAIN).to_dict("series"),
}


@pytest.mark.parametrize("form", FORMS)
def test_the_same_transitions_in_any_form_teach_the_same(form, q):
    found = learned(FORMS[form]())
    assert len(table(found)) == 1  # without n_seeds there is one
    np.testing.assert_array_equal(found.q, q)


@pytest.mark.parametrize("ending", ["npz", "csv", "csv of pandas", "csv with its index"])
def test_the_same_transitions_in_any_file_have_one_digest(tmp_path, ending, q):
    path = tmp_path / f"logged.{ending[:3]}"
    if ending == "npz":
        np.savez(path, **{**named(USUAL), "timeouts": SEEN["timeout"]})  # pyright: ignore[reportArgumentType] names by chance
    elif ending == "csv":
        rows = np.column_stack([array.astype(float) for array in PLAIN.values()])
        np.savetxt(path, rows, delimiter=",", header=" , ".join(PLAIN), comments="")
    else:
        pd.DataFrame(named(USUAL)).to_csv(path, index=ending == "csv with its index")
    assert mq.Recorded(str(path)).digest() == mq.Recorded(PLAIN).digest()
    np.testing.assert_array_equal(learned(path).q, q)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "must have the arrays x, u, r, y"),
        ("x,u,r,y\n", r"all arrays must have one shape \(N,\), N >= 1"),
        ("x,u,r,y\n0,0,0,4\n0,0,0\n", "line 3 has 3 fields; the line of names has 4"),
        ("x,u,r,y\n0,0,zero,4\n", "line 2: r='zero' must be a number"),
        ("x,u,r,y,terminal\n0,0,0,4,maybe\n", "line 2: terminal='maybe' must be a number"),
        ("x,u,r,y\n0,0,nan,4\n", r"r\[0\]=nan must be finite"),
        ("x,u,r,r,y\n0,0,0,0,4\n", "has 'r' twice"),
        ("x;u;r;y\n0;0;0;4\n", "line 2: x;u;r;y='0;0;0;4' must be a number"),
        ("x,u,r,y\n0,0,0,4\x00\n", "sampling.path"),
    ],
)
def test_a_wrong_csv_names_its_line(tmp_path, text, said):
    (tmp_path / "wrong.csv").write_text(text, encoding="utf-8")
    with pytest.raises(mq.SettingError, match=said):
        learned(tmp_path / "wrong.csv", iterations=1)


def test_a_csv_that_is_not_utf_8_is_refused(tmp_path):
    (tmp_path / "wrong.csv").write_bytes("x,u,r,y,ä\n".encode("latin-1"))
    with pytest.raises(mq.SettingError, match="cannot be read"):
        learned(tmp_path / "wrong.csv")


def test_an_end_of_time_is_bootstrapped_through_and_a_terminal_state_is_not():
    """Q_0 = 1: after a step of size 1, Q(x, u) = r + .9 for any y that is not terminal, and r where it is."""
    for flag, y in (("timeout", 4), ("terminal", 5)):
        seen = {"x": [4 if y == 5 else 0], "u": [2 if y == 5 else 1], "r": [0.25], "y": [y], flag: [1]}
        found = learned(seen, iterations=1, step_size=mq.Constant(1.0), q0=1.0)
        assert np.asarray(found.q)[0, seen["x"][0], seen["u"][0]] == 0.25 + 0.9 * (y == 4)
    with pytest.raises(mq.SettingError, match="an end of time alone is a timeout"):
        learned({"x": [0], "u": [1], "r": [0.0], "y": [4], "terminal": [1]}, iterations=1)


@pytest.mark.parametrize("rule", [mq.QLearning(), mq.averaged(mq.QLearning())])
def test_passes_are_the_record_so_many_times_over(rule):
    thrice = {name: np.tile(array, 3) for name, array in PLAIN.items()}
    one = learned(mq.Recorded(PLAIN, passes=3), rule, iterations=1100)
    other = learned(thrice, rule, iterations=1100)
    np.testing.assert_array_equal(one.q, other.q)
    assert one.facts == other.facts
    features = {"features": mq.one_hot(LAKE)}
    if not rule.averaged:
        one = learned(mq.Recorded(PLAIN, passes=3), rule, iterations=1100, **features)
        np.testing.assert_array_equal(one.theta, learned(thrice, rule, iterations=1100, **features).theta)


# --- seeds by the bootstrap -------------------------------------------------------------------------------------------


def resampled(seed: int, lane: int) -> np.ndarray:
    """The indices that a seed draws, by the twin: word 0 at the counter (0, j, lane), times N, shifted by 32."""
    return np.array([words("choices", seed, lane, j)[0] * np.uint64(400) >> np.uint64(32) for j in range(400)])


def test_each_seed_learns_from_its_own_draws_of_the_record():
    found = learned(mq.Recorded(PLAIN, passes=2, resample="bootstrap"), iterations=700, n_seeds=3, seed=7)
    drawn = [resampled(7, lane) for lane in range(3)]
    assert 200 < len(np.unique(drawn[0])) < 300  # of 400: about 1 - 1/e
    for lane, index in enumerate(drawn):
        own = {name: np.tile(array[index], 2) for name, array in PLAIN.items()}
        alone = learned(own, iterations=700)
        np.testing.assert_array_equal(table(found)[lane], table(alone)[0])
    assert len({table.tobytes() for table in np.asarray(found.q)}) == 3


@pytest.mark.parametrize("n_seeds", [2, 20])
def test_seeds_that_are_asked_for_and_would_be_equal_are_refused(n_seeds):
    """20 too, which is the default of other runs."""
    with pytest.raises(mq.SettingError, match=f"n_seeds={n_seeds}: must be 1 .*; sampling.resample=bootstrap draws"):
        learned(PLAIN, n_seeds=n_seeds)


def test_a_seed_is_the_same_whatever_the_number_of_seeds_workers_and_rules():
    sampling = mq.Recorded(PLAIN, resample="bootstrap")
    many = learned(sampling, n_seeds=6, seed=3, n_workers=2)
    assert many.curves["q_error"].shape[0] == 6
    few = learned(sampling, n_seeds=2, seed=3, n_workers=1)
    np.testing.assert_array_equal(np.asarray(many.q)[:2], few.q)
    both = mq.run_together(
        LAKE, [mq.SpeedyQ(), mq.QLearning()], iterations=400, n_seeds=2, seed=3, sampling=sampling,
        step_size=mq.Constant(0.5), evaluation=mq.Evaluation(episodes=0),
    )  # fmt: skip
    np.testing.assert_array_equal(both[1].q, few.q)
    assert table(learned(sampling)).shape[0] == 20  # as any run


@pytest.mark.parametrize("resample", ["none", "bootstrap"])
def test_what_was_seen_before_an_iteration_is_counted(resample):
    sampling = mq.Recorded(PLAIN, passes=2, resample=resample)
    samples = RecordedSamples(LAKE, sampling, np.arange(3, dtype=np.uint32), 5, False)
    rows = np.array([0, 2])
    for k in (0, 1, 399, 400, 401, 750, 30):
        states, visits = samples.chain_state(k, rows)
        if k:
            seen = unpack(samples.block(0, k, rows), samples.chain.model.shift)
            ended = LAKE.terminal[seen.y]
            expected = [ended.sum(1), (ended & LAKE.goal[seen.y]).sum(1), seen.paid.sum(1)]
            np.testing.assert_array_equal(states[:, 3:].T, expected)
        assert (states[:, 2] == k).all() and (visits.sum(1) == k).all() and visits.dtype == np.int32


def test_settings_on_the_command_line_keep_older_digests(work, mqlearn, outputs):
    from mqlearn.experiments.settings import cell, compose

    np.savez(work / "logged.npz", **named(USUAL))  # pyright: ignore[reportArgumentType] names by chance
    words = ["sampling=recorded", f"sampling.path={work / 'logged.npz'}", "env=frozen_lake_4x4", "iterations=400"]
    plain = cell.build(compose.compose(words, None))
    before = {key: value for key, value in plain.settings.items() if key != "experiment"}
    before["sampling"] = {k: v for k, v in before["sampling"].items() if k not in ("passes", "resample")}
    assert cell.rebuild(before, pinned=True).digest == plain.digest
    more = [*words, "sampling.passes=2", "sampling.resample=bootstrap", "n_seeds=3", "tracking=none"]
    assert cell.build(compose.compose(more, None)).digest != plain.digest
    done = mqlearn("run", *more, "evaluation.episodes=0")
    assert done.code == 0, done.err
    (folder,) = (outputs / "runs" / "default").iterdir()
    assert "bit for bit" in mqlearn("rerun", folder, "tracking=none").out
    assert Path(folder / "config.yaml").read_text(encoding="utf-8").count("resample: bootstrap") == 1
