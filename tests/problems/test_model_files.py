"""Models from arrays and files: round trips, and messages that name the row."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from scipy import sparse

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import cell, compose
from mqlearn.problems.arrays import from_outcomes
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.storage import runs

SMALL = ("iterations=40", "n_seeds=2", "n_checkpoints=4", "tracking=none", "sampling=markovian")


def dense(mdp: FiniteMDP) -> tuple[np.ndarray, np.ndarray]:
    """P (S, A, S) and mean rewards (S, A), with rows of 0 at pairs that are not learned."""
    P = np.zeros((mdp.n_states, mdp.n_actions, mdp.n_states))
    x, u, b = np.nonzero(mdp.learned[:, :, None] & (mdp.probabilities > 0))
    np.add.at(P, (x, u, mdp.successors[x, u, b]), mdp.probabilities[x, u, b])
    return P, mdp.mean_rewards


def model() -> dict[str, Any]:
    """Three states, of which the last is terminal; action 1 is missing in state 1."""
    P, R = np.zeros((3, 2, 3)), np.zeros((3, 2))
    P[0, 0, :2], P[0, 1, 2], P[1, 0, 0], R[0, 1] = 0.5, 1, 1, 1
    return {"P": P, "R": R, "terminal": np.array([False, False, True])}


@pytest.mark.parametrize("name", ["two_state", "six_state", "inventory", "gambler", "deep_sea", "river_swim"])
def test_arrays_of_a_model_give_it_back(name):
    mdp = getattr(mq, name)()
    P, R = dense(mdp)
    again = mq.from_arrays(P, R, axes="xuy", discount=mdp.discount, start=mdp.start, terminal=mdp.terminal)
    assert np.array_equal(again.learned, mdp.learned) and again.notes == ()
    assert mq.optimal(again).v == pytest.approx(mq.optimal(mdp).v, abs=1e-8)
    back = dense(again)
    assert np.array_equal(back[0], P) and back[1] == pytest.approx(R, abs=1e-14)


def test_rewards_of_each_successor_are_kept():
    mdp = mq.chain_walk(21)
    P, _ = dense(mdp)
    arrival = np.zeros(21)
    arrival[11], arrival[10] = 1.0, -1.0
    again = mq.from_arrays(P, np.broadcast_to(arrival, P.shape), discount=0.9, start=20)
    assert mq.optimal(again).v == pytest.approx(mq.optimal(mdp).v, abs=1e-12)
    assert np.array_equal(np.unique(again.rewards), [-1, 0, 1])
    assert again.start[20] == 1 and again.n_successors == 3


def test_without_a_start_every_state_that_is_not_terminal_is_one():
    assert mq.from_arrays(**model(), discount=0.9).start.tolist() == [0.5, 0.5, 0]


def changed(**entries: object) -> dict[str, Any]:
    return model() | {"discount": 0.9} | entries


def with_entry(array: str, place: tuple[int, ...], value: float) -> dict[str, Any]:
    given = changed()
    given[array][place] = value
    return given


@pytest.mark.parametrize(
    ("given", "setting", "said"),
    [
        (changed(P=model()["P"].transpose(1, 0, 2)), "P", "(state, action, successor); this looks like (action, state"),
        (changed(P=np.zeros((3, 2))), "P", "(S, A, S)"),
        (changed(R=np.zeros((2, 3))), "R", "give R.T"),
        (changed(R=np.zeros(3)), "R", "(state, action)"),
        (with_entry("P", (0, 0, 1), 0.4), "P[state 0, action 0]", "must sum to 1 within 1e-6; divide"),
        (with_entry("P", (1, 0, 1), -0.1), "P[state 1, action 0, entry 1]", "must not be negative"),
        (with_entry("P", (0, 0, 1), np.nan), "P[state 0, action 0, entry 1]", "must be finite"),
        (with_entry("P", (2, 0, 0), 1.0), "P[state 2, action 0, entry 0]", "leads out of a terminal state"),
        (with_entry("R", (1, 1), 2.0), "R[state 1, action 1]", "not admissible"),
        (with_entry("R", (2, 0), 2.0), "R[state 2, action 0]", "terminal"),
        (changed(terminal=None), "P[state 2]", "no admissible action"),
        (changed(admissible=np.ones((3, 2), bool)), "P[state 1, action 1]", "must sum to 1"),
        (changed(terminal=[0, 1]), "terminal", "truth values"),
        (changed(start=3), "start", "a state from 0 to 2"),
        (changed(start=[0.5, 0.6, 0]), "start", "sum to 1"),
        (changed(discount=1.5), "discount", "strictly between"),
        (changed(P=[["a"]]), "P", "numbers"),
    ],
)
def test_messages_name_the_row(given, setting, said):
    with pytest.raises(SettingError) as refused:
        mq.from_arrays(**given)
    assert refused.value.setting == setting and said in str(refused.value)


def test_sums_that_are_nearly_1():
    for off, said in ((5e-11, False), (5e-7, True)):
        given = model()
        given["P"][0, 0] *= 1 + off
        mdp = mq.from_arrays(**given, discount=0.9)
        assert mdp.probabilities[0, 0] == pytest.approx([0.5, 0.5], abs=1e-15 if said else 5e-11)
        assert bool(mdp.notes) == said
        told = mq.run(mdp, mq.QLearning(), iterations=5, n_seeds=1).warnings
        assert (
            any("of 1 pairs were divided by their sums" in text and "state 0, action 0" in text for text in told)
            == said
        )
    given = model()
    given["P"][0, 0] *= 1 + 2e-6
    with pytest.raises(SettingError, match="must sum to 1"):
        mq.from_arrays(**given, discount=0.9)


def test_an_outcome_may_be_listed_twice():
    mdp = from_outcomes([[[0, 0]]], [[[0.5, 0.5]]], [[[-12, 10]]], discount=0.5)
    assert mdp.rewards[0, 0].tolist() == [-12, 10] and mq.optimal(mdp).v[0] == pytest.approx(-2)


# --- files --------------------------------------------------------------------------------------------------------


def test_both_formats_hold_the_same_model(tmp_path):
    np.savez(tmp_path / "m.npz", **model(), start=np.array(0))
    lists = {
        "successors": [[[0, 1], [2]], [[0]], []],
        "probabilities": [[[0.5, 0.5], [1]], [[1]], []],
        "rewards": [[0, 1], [0], []],
        "terminal": [0, 0, 1],
        "start": 0,
        "discount": 0.9,
    }
    (tmp_path / "m.json").write_text(json.dumps(lists), encoding="utf-8")
    arrays, listed = mq.from_file(str(tmp_path / "m.npz"), discount=0.9), mq.from_file(str(tmp_path / "m.json"))
    assert mq.optimal(arrays).v.tolist() == pytest.approx([1, 0.9, 0])
    assert np.array_equal(mq.optimal(arrays).q, mq.optimal(listed).q)
    assert np.array_equal(arrays.learned, listed.learned) and np.array_equal(arrays.start, listed.start)


def write(folder: Path, **fields: object) -> str:
    def plain(value: object) -> object:
        return value.tolist() if isinstance(value, np.ndarray) else value

    (folder / "m.json").write_text(json.dumps({key: plain(value) for key, value in fields.items()}), encoding="utf-8")
    return str(folder / "m.json")


@pytest.mark.parametrize(
    ("fields", "setting", "said"),
    [
        (changed(), "discount", "must be that of"),
        ({"P": model()["P"], "discount": 0.5}, "env.path", "it has no R"),
        (model() | {"starts": 0}, "env.path", "did you mean 'start'"),
        (model() | {"R": [[0, 0], [0, 1], [0, 0]]}, "env.path", "R[state 1, action 1]"),
        ({"discount": 0.5}, "env.path", "it has no successors"),
        (model() | {"discount": "half"}, "env.path", "must be a number"),
        ({"successors": [["a"]], "probabilities": [[1]], "rewards": [[0]]}, "env.path", "lists of numbers"),
        ({"successors": [[[1]]], "probabilities": [[[1]]], "rewards": [[0]]}, "env.path", "from 0 to 0"),
    ],
)
def test_files_that_are_refused(tmp_path, fields, setting, said):
    with pytest.raises(SettingError) as refused:
        mq.from_file(write(tmp_path, **fields), discount=0.5)
    assert refused.value.setting == setting and said in str(refused.value)


def test_files_that_cannot_be_read(tmp_path):
    np.savez(tmp_path / "objects.npz", P=np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "text.npz").write_text("no archive", encoding="utf-8")
    (tmp_path / "text.json").write_text("{", encoding="utf-8")
    (tmp_path / "list.json").write_text("[1]", encoding="utf-8")
    (tmp_path / "m.csv").write_text("1", encoding="utf-8")
    for name in ("objects.npz", "text.npz", "text.json", "list.json", "m.csv", "absent.npz"):
        with pytest.raises(SettingError) as refused:
            mq.from_file(str(tmp_path / name), discount=0.5)
        assert refused.value.setting == "env.path"


def square() -> dict[str, Any]:
    """As many actions as states: a model in either order of the axes."""
    P = np.array([[[0.5, 0.5], [0.0, 1.0]], [[0.8, 0.2], [0.1, 0.9]]])
    return {"P": P, "R": np.array([[5.0, 10.0], [-1.0, 2.0]])}


def test_the_order_of_axes_is_asked_for_and_said_by_setting_or_file(tmp_path):
    np.savez(tmp_path / "square.npz", **square())
    path = str(tmp_path / "square.npz")
    with pytest.raises(SettingError) as refused:
        mq.from_file(path, discount=0.5)
    assert refused.value.setting == "env.axes"
    assert "env.axes=xuy for (state" in str(refused.value) and "env.axes=uxy for (action" in str(refused.value)
    usual, turned = (mq.from_file(path, axes=axes, discount=0.5) for axes in ("xuy", "uxy"))
    assert usual.digest() == mq.from_arrays(**square(), axes="xuy", discount=0.5).digest()
    assert turned.digest() == mq.from_arrays(**square(), axes="uxy", discount=0.5).digest() != usual.digest()
    own = write(tmp_path, **square(), axes="uxy")
    assert mq.from_file(own, discount=0.5).digest() == turned.digest()
    with pytest.raises(SettingError, match=r"env.axes='xuy': must be that of .*, 'uxy', or the file must have none"):
        mq.from_file(own, axes="xuy", discount=0.5)
    with pytest.raises(SettingError, match=r"env.axes='xyu': must be xuy or uxy"):
        mq.from_file(path, axes="xyu", discount=0.5)


def test_records_from_before_the_order_was_a_setting_stay_found_and_repeatable(tmp_path):
    np.savez(tmp_path / "square.npz", **square())
    words = ["env=file", f"env.path={tmp_path / 'square.npz'}", "iterations=5", "n_seeds=1", "tracking=none"]
    with pytest.raises(SettingError, match=r"env.axes=None: must be given"):
        cell.build(compose.compose(words, None))
    now = cell.build(compose.compose([*words, "env.axes=xuy"], None))
    before = {key: value for key, value in now.settings.items() if key != "experiment"}
    before["env"] = {key: value for key, value in now.settings["env"].items() if key != "axes"}
    again = cell.rebuild(before, pinned=True)
    assert again.digest == now.digest and again.mdp.digest() == now.mdp.digest()
    assert cell.build(compose.compose([*words, "env.axes=uxy"], None)).digest != now.digest


@pytest.mark.parametrize(
    "names", [("transitions", "rewards", "gamma"), ("T", "R", "discount"), ("P", "reward", "beta"), ("Q", "R", "gamma")]
)
def test_usual_names_of_other_libraries_are_known(tmp_path, names):
    given = {**model(), "discount": 0.8}
    renamed = dict(zip(names, (given["P"], given["R"], given["discount"]), strict=True))
    path = write(tmp_path, **renamed, terminal=given["terminal"])
    assert mq.from_file(path).digest() == mq.from_arrays(**given).digest()
    twice = write(tmp_path, **{**given, names[0]: given["P"], names[1]: given["R"], "gamma": 0.8})
    with pytest.raises(SettingError, match="must have one of "):
        mq.from_file(twice)


def test_state_action_pairs_of_a_file(tmp_path):
    given = model()
    x, u = np.nonzero(given["P"].any(2))
    path = write(
        tmp_path, P=given["P"][x, u], R=given["R"][x, u], s_indices=x, a_indices=u, terminal=given["terminal"],
        discount=0.9,
    )  # fmt: skip
    assert mq.from_file(path).digest() == mq.from_arrays(**given, discount=0.9).digest()


MDP = "state,action,successor,probability,reward\n0,0,0,.5,0\n0,0,1,.5,0\n0,1,1,1,1\n1,0,0,1,0\n1,1,1,1,2\n2,0,2,1,0\n"
TRA = "3 5 6\n0 0 0 .5\n0 0 1 .5\n0 1 1 1\n1 0 0 1\n1 1 1 1\n2 0 2 1\n"


@pytest.mark.parametrize("ending", ["npy", "mat", "csv", "tra", "pomdp"])
def test_the_lines_that_convert_another_format_work(tmp_path, monkeypatch, ending):
    """They are run as they are written in the message."""
    monkeypatch.chdir(tmp_path)
    P, R = np.zeros((3, 2, 3)), np.zeros((3, 2))
    P[0, 0, :2], P[0, 1, 1], P[1, 0, 0], P[1, 1, 1], P[2, 0, 2] = 0.5, 1, 1, 1, 1
    R[0, 1], R[1, 1] = 1, 2
    R = R * (ending != "tra")
    (tmp_path / "m.csv").write_text(MDP, encoding="utf-8")
    (tmp_path / "m.tra").write_text(TRA, encoding="utf-8")
    (tmp_path / "m.pomdp").write_text("discount: 0.9\n", encoding="utf-8")
    np.save("P.npy", P)
    np.save("R.npy", R)
    scipy.io.savemat("m.mat", {"P": P.transpose(0, 2, 1), "R": R})
    with pytest.raises(SettingError) as refused:
        mq.from_file("P.npy" if ending == "npy" else f"m.{ending}", discount=0.9)
    message = str(refused.value)
    assert message.count("\n") == 0 and "must end in .npz or .json; in Python, after `import numpy as np`: " in message
    code = message.partition("`import numpy as np`: ")[2]
    exec(code, {"np": np, "scipy": scipy, "T": P.swapaxes(0, 1), "R": R.T})  # our own message
    found = mq.from_file("m.npz", discount=0.9)
    assert np.array_equal(dense(found)[0], P) and np.array_equal(dense(found)[1], R)


def test_a_run_on_a_file_is_repeated_from_its_record(mqlearn, work, outputs):
    np.savez(work / "m.npz", **model(), discount=0.9)
    first = mqlearn("run", "env=file", "env.path=m.npz", *SMALL)
    assert first.code == 0, first.err
    (folder,) = (outputs / "runs" / "default").iterdir()
    recorded = runs.load(folder).settings["env"]
    assert recorded["path"] == str(work / "m.npz") and len(recorded["content"]) == 64
    assert "bit for bit" in mqlearn("rerun", folder).out

    (work / "copy").mkdir()
    (work / "m.npz").rename(work / "copy" / "n.npz")  # the same model elsewhere is the same cell
    assert "finished already" in mqlearn("run", "env=file", "env.path=copy/n.npz", *SMALL, "existing=skip").out

    changed = model()
    changed["R"][0, 1] = 2
    np.savez(work / "copy" / "n.npz", **changed)
    other = mqlearn("run", "env=file", "env.path=copy/n.npz", *SMALL)
    assert other.code == 0, other.err
    assert len([*(outputs / "runs" / "default").iterdir()]) == 2
    stale = mqlearn("truth", "env=file", "env.path=copy/n.npz", f"env.content={recorded['content']}")
    assert stale.code == 2 and "has changed" in stale.err
    absent = mqlearn("run", "env=file", "env.path=absent.npz", *SMALL)
    assert absent.code == 2 and "cannot be read" in absent.err
    assert mqlearn("run", "env=file", *SMALL).code == 2


def test_a_file_may_hold_a_sparse_matrix(tmp_path):
    mdp = mq.garnet(7, 2, 3, dialect="normalised")
    P, _ = dense(mdp)
    rewards = np.zeros_like(P)
    np.put_along_axis(rewards, mdp.successors.astype(int), mdp.rewards, 2)
    matrix = sparse.csr_array(P.reshape(14, 7))
    arrays = {"P_data": matrix.data, "P_indices": matrix.indices, "P_indptr": matrix.indptr, "P_shape": matrix.shape}
    paid = rewards.reshape(14, 7)[matrix.nonzero()]
    file = str(tmp_path / "m.npz")
    np.savez(file, **arrays, R_data=paid, axes="xuy")
    assert mq.from_file(file, discount=0.9).digest() == mq.from_arrays(P, rewards, axes="xuy", discount=0.9).digest()
    np.savez(file, **arrays, R=mdp.mean_rewards)
    assert mq.from_file(file, discount=0.9).digest() == mq.from_arrays(P, mdp.mean_rewards, discount=0.9).digest()
    for wrong in ({"P_indptr": matrix.indptr[1:]}, {"P_indices": matrix.indices + 7}, {"P_shape": (14,)}):
        changed: dict[str, Any] = arrays | wrong
        np.savez(file, **changed, R=mdp.mean_rewards)
        with pytest.raises(SettingError, match=r"env.path=.*must have the arrays of one sparse matrix in rows"):
            mq.from_file(file, discount=0.9)
    np.savez(file, P_data=matrix.data, R=mdp.mean_rewards)
    with pytest.raises(SettingError, match="it has P_data of P_data, P_indices"):
        mq.from_file(file, discount=0.9)
