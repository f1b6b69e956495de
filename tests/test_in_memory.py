"""From Python without files: results compared, swept, saved and gone on from."""

import functools
import inspect
import json
import pickle
import tracemalloc
import types
import zipfile
from typing import Any

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.analysis import result_files
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import own_code
from mqlearn.learning.setup import RunSettings, validated

TWO = mq.two_state()
SHORT: dict[str, Any] = {"iterations": 50, "n_seeds": 8}
RULES = {"Q": mq.QLearning(), "Speedy": mq.SpeedyQ()}


class HeavyBall(mq.Rule):
    def update(self, k, q, q_prev, target, target_prev):
        a = self.step_size(k)
        return (1 - a) * q + a * target + 0.1 * (q - q_prev)


@pytest.fixture(scope="module")
def results():
    return {name: mq.run(TWO, rule, **SHORT) for name, rule in RULES.items()}


@pytest.fixture(scope="module")
def swept():
    rules = {**RULES, "exact": mq.CertaintyEquivalence()}
    return mq.sweep({"two": TWO}, rules, grid={"step_size": [mq.Harmonic(), mq.Constant(0.2)]}, **SHORT)


# --- compare ----------------------------------------------------------------------------------------------------------


def test_results_are_paired_by_seed_and_tested_by_sign_flips(results):
    (row,) = mq.compare(results)
    d = results["Q"].curves["q_error"][:, -1] - results["Speedy"].curves["q_error"][:, -1]
    signs = np.array(np.meshgrid(*[[-1, 1]] * len(d))).reshape(len(d), -1)
    p = np.mean(np.abs(d @ signs) >= np.abs(d.sum()) - 1e-9)
    assert row["p"] == pytest.approx(p) and row["effect"] == pytest.approx(d.mean())
    assert row["paired"] and row["verdict"] == "b_better" and (row["a"], row["b"]) == ("Q", "Speedy")


def test_a_comparison_is_a_sentence_a_text_and_a_table(results):
    found = mq.compare(results)
    assert repr(found).startswith("Speedy is better than Q (q_error at k = 50: ") and "8 paired seeds" in repr(found)
    assert found.text.startswith("1 of 1 comparison shows a difference.") and "pairs:" in found.text
    assert found.frame().verdict.tolist() == ["b_better"]


def test_seeds_that_both_have_are_paired(results):
    few = mq.run(TWO, HeavyBall(), iterations=50, n_seeds=6)
    (row,) = mq.compare([results["Q"], few])
    assert row["paired"] and row["n_used"] == 6 and row["b"] == "q_learning" and row["a"] == "heavy_ball"


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"mdp": TWO.with_discount(0.8)}, "its problem is two_state at discount 0.8, not two_state at discount 0.95"),
        ({"seed": 1}, "seed is 1, not 0"),
        ({"sampling": mq.Markovian(restart_probability=0.1)}, "sampling is Markovian, not Synchronous"),
        ({"iterations": 40}, "it has 40 iterations, not 50"),
        ({"q0": 1.0}, "q0 is 1, not 0"),
    ],
)
def test_results_of_other_questions_are_refused_by_name(results, other, said):
    settings = {"mdp": TWO, **SHORT, **other}
    strange = mq.run(settings.pop("mdp"), mq.SpeedyQ(), **settings)
    with pytest.raises(SettingError, match="is not of one kind with Q") as error:
        mq.compare({"Q": results["Q"], "strange": strange})
    assert said in str(error.value) and "compare='strange'" in str(error.value)
    assert len(mq.compare([results["Q"], strange], allow_mixed=True)) == 1


def test_results_of_different_lengths_are_compared_where_one_says(results):
    longer = mq.run(TWO, mq.SpeedyQ(), iterations=60, n_seeds=8)
    assert mq.compare([results["Q"], longer], at=30)[0]["at"] <= 30


@pytest.mark.parametrize("wrong", [[], [1], "Q"])
def test_what_is_no_result_is_refused(wrong):
    with pytest.raises(SettingError, match="some="):
        mq.compare(wrong)


def test_one_result_is_refused_by_the_name_of_the_argument(results):
    for some in ([results["Q"]], [results["Q"]] * 2, {"a": results["Q"], "b": mq.run(TWO, mq.QLearning(), **SHORT)}):
        with pytest.raises(SettingError, match=r"some=.*needs two different results"):
            mq.compare(some)


def test_too_few_seeds_say_how_many_would_do(results):
    few = {name: mq.run(TWO, rule, iterations=50, n_seeds=5) for name, rule in RULES.items()}
    assert "possible from 6 pairs on" in repr(mq.compare(few))  # 2 / 2^6 = .031
    both = mq.compare({**few, "ball": mq.run(TWO, HeavyBall(), iterations=50, n_seeds=5)})
    assert "\nPossible with n_seeds=7 or more (now 5) for 3 comparisons" in both.text  # 2 / 2^7 <= .05 / 3 < 2 / 2^6


def power(k, c=1.0):
    return c / (k + 1) ** 0.6


class Power:
    def __init__(self, c):
        self._c = c

    def __call__(self, k):
        return power(k, self._c)


def of_factory(c):
    return lambda k: power(k, c)


@pytest.mark.parametrize("make", [of_factory, Power, lambda c: functools.partial(power, c=c)])
def test_step_sizes_of_one_text_and_other_numbers_are_two(make):
    results = [mq.run(TWO, mq.QLearning(), step_size=make(c), **SHORT) for c in (0.1, 1.0, 1.0)]
    found = mq.compare(results)
    assert len(found) == 1 and found[0]["effect"] != 0  # the third is the second
    assert "c=0.1" in repr(found) and "c=1 " in repr(found)


def test_what_a_function_reads_is_part_of_what_it_is():
    names: dict[str, Any] = {"scale": 1.0, "helper": lambda k: k + 1}
    made = types.FunctionType((lambda k: scale / helper(k)).__code__, names)  # type: ignore  # noqa: F821  # its names come with it
    before = own_code.digest(made)
    assert own_code.digest(made) == before
    names["scale"] = 2.0
    scaled = own_code.digest(made)
    names["helper"] = lambda k: k + 2
    assert len({before, scaled, own_code.digest(made)}) == 3


def test_an_object_that_was_changed_after_its_run_is_no_reason_to_drop_a_run():
    step = Power(0.1)
    first = mq.run(TWO, mq.QLearning(), step_size=step, **SHORT)
    step._c = 1.0
    assert len(mq.compare([first, mq.run(TWO, mq.QLearning(), step_size=step, **SHORT)])) == 1


# --- sweep ------------------------------------------------------------------------------------------------------------


def test_a_sweep_has_the_runs_of_mq_run_whatever_the_workers(swept):
    assert len(swept) == 6 and repr(swept) == "Runs(6 runs: Q, Speedy, exact on two)"
    alone = mq.run(TWO, mq.SpeedyQ(), step_size=mq.Constant(0.2), **SHORT)
    (same,) = [
        one
        for one in swept
        if (one.settings["algorithm"]["name"], one.settings["step_size"]["name"]) == ("Speedy", "constant")
    ]
    one_thread = mq.sweep({"two": TWO}, {"S": mq.SpeedyQ()}, step_size=mq.Constant(0.2), n_workers=1, **SHORT)[0]
    for other in (alone, same, one_thread):
        np.testing.assert_array_equal(other.curves["q_error"], alone.curves["q_error"])


def test_equal_runs_of_a_rule_without_a_step_size_count_once(swept):
    found = swept.compare()
    assert len(found) == 6 and not found.notes  # of 3 rules at each of 2 points
    found = swept.compare(allow_mixed=True)
    assert {one["correction"] for one in found} == {"Holm over 10 comparisons"}  # of 5 rules, not of 6
    assert found.notes == ("exact, step size not used, two, discount=0.95: 2 equal runs count once, the rule uses no "
                           "step size",)  # fmt: skip
    assert mq.compare(swept, allow_mixed=True) == found


def test_a_sweep_is_compared_at_each_point_of_its_grid():
    """Runs of another length, seed, or step size are no rivals, and none is left out."""
    grids: list[Any] = [{"step_size": [of_factory(0.1), of_factory(1.0)], "iterations": [20, 30]}, {"seed": [0, 1]}]
    for grid in grids:
        usual: Any = {} if "iterations" in grid else {"iterations": 20}
        runs = mq.sweep({"two": TWO}, RULES, grid=grid, n_seeds=6, **usual)
        found = runs.compare()
        assert len(found) == len(runs) // 2 and all(one["paired"] and {one["a"], one["b"]} == {*RULES} for one in found)
        assert len({one["group"] for one in found}) == len(found)


def test_one_rule_at_each_point_has_no_rival_but_across_them():
    runs = mq.sweep({"two": TWO}, {"Q": mq.QLearning()}, grid={"step_size": [Power(0.1), Power(1.0)]}, **SHORT)
    with pytest.raises(SettingError, match=r"some='2 runs': has no two runs in one block.*allow_mixed=True"):
        runs.compare()
    assert len(runs.compare(allow_mixed=True)) == 1


def test_a_part_of_some_runs_is_some_runs(swept):
    for part in (swept[:2], swept[2:] + swept[:2], [swept[0]] + swept[1:2]):  # noqa: RUF005  # + is asked
        assert isinstance(part, type(swept)) and len(part.frame())
    assert swept[0] is swept[:1][0]


def test_the_command_line_counts_equal_runs_once_too(mqlearn, outputs):
    few = ("env=two_state", "iterations=20", "n_seeds=6", "n_checkpoints=3", "tracking=none", "experiment.name=e")
    for choices in (["q_learning"], ["certainty_equivalence"], ["certainty_equivalence", "step_size=constant"]):
        assert mqlearn("run", f"algorithm={choices[0]}", *choices[1:], *few).code == 0
    out = mqlearn("compare", "experiment.name=e", "tracking=none").out
    assert "corrected by Holm over the 1 comparison of the block" in out and "2 equal runs count once" in out


def test_a_sweep_is_one_table_and_one_figure(swept):
    table = swept.frame()
    one = table[(table.algorithm == "Q") & (table.metric == "q_error") & (table["step_size"] == "harmonic")]
    assert len(one) == swept[0].curves["q_error"].size
    (panel,) = swept.plot().axes
    assert len(panel.lines) == 6


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"grid": {"stepsize": [1]}}, "grid='stepsize': must be a setting of mq.run or discount .did you mean"),
        ({"grid": {"n_seeds": 3}}, "must be a list of values"),
        ({"grid": {"n_seeds": [3]}, "n_seeds": 4}, "is given for all runs too"),
        ({"grid": {"discount": [0.9, 1.5]}}, "discount=1.5"),
        ({"n_seeds": 0}, r"n_seeds=0: .* \(two\)"),
    ],
)
def test_a_sweep_that_cannot_be_is_refused_before_it_runs(settings, said):
    with pytest.raises(SettingError, match=said):
        mq.sweep({"two": TWO}, RULES, iterations=10**12, **settings)


def test_type_checkers_know_each_setting_of_a_run():
    keywords = [one.name for one in inspect.signature(validated).parameters.values() if one.kind is one.KEYWORD_ONLY]
    assert list(RunSettings.__annotations__) == keywords


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_result_is_read_as_it_was_saved(results, tmp_path):
    result = results["Speedy"]
    again = mq.read(result.save(tmp_path / "one.npz"))
    assert repr(again) == repr(result) and again.facts == result.facts and again.diverged == result.diverged
    for name in ("iteration", "samples", "q", "error_tables"):
        assert getattr(again, name).tobytes() == getattr(result, name).tobytes()
    assert again.save(tmp_path / "two.npz").read_bytes() == (tmp_path / "one.npz").read_bytes()
    assert repr(again.theory()) == repr(result.theory())
    assert mq.compare({"Q": results["Q"], "Speedy": again}) == mq.compare(results)


def test_the_code_of_a_rule_of_ones_own_is_not_in_the_file(tmp_path, results):
    again = mq.read(mq.run(TWO, HeavyBall(), **SHORT).save(tmp_path / "own.npz"))
    assert len(mq.compare([again, results["Q"]])) == 1
    with pytest.raises(SettingError, match="the file does not hold its algorithm"):
        again.theory()


def test_a_file_that_is_none_of_ours_is_one_line(results, tmp_path):
    path = results["Q"].save(tmp_path / "whole.npz")
    whole = path.read_bytes()
    with zipfile.ZipFile(path) as archive:  # a byte of a table: those between the entries say nothing that is read
        entry = archive.getinfo("q.npy")
    place = whole.index(results["Q"].q.tobytes(), entry.header_offset)
    np.savez(tmp_path / "foreign.npz", x=np.zeros(3))
    (tmp_path / "cut.npz").write_bytes(whole[:-100])
    (tmp_path / "turned.npz").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    for name in ("foreign", "cut", "turned", "missing"):
        with pytest.raises(SettingError, match=f"{name}.npz") as error:
            mq.read(tmp_path / f"{name}.npz")
        assert "\n" not in str(error.value)
    with pytest.raises(SettingError, match="save="):
        results["Q"].save(tmp_path / "nowhere" / "a.npz")


def forged(path, change):
    """The file of a result with another record and a checksum that fits."""
    held = dict(np.load(path))
    about = json.loads(held.pop("about").tobytes())
    about.pop("checksum")
    change(about["record"], held)
    about["checksum"] = result_files._checksum(about, held)
    np.savez(path, about=np.frombuffer(json.dumps(about).encode(), np.uint8), **held)
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda record, held: record.pop("name"), "name of its record is missing"),
        (lambda record, held: record["settings"].update(n_seeds=9), "has 8 seeds, its settings say 9"),
        (lambda record, held: held.update({"curves/a\x1b[2J": held["curves/q_error"]}), "cannot be printed"),
        (lambda record, held: None, None),
    ],
)
def test_a_record_that_no_save_wrote_is_refused_when_it_is_read(results, tmp_path, change, said):
    path = forged(results["Q"].save(tmp_path / "one.npz"), change)
    if said is None:
        assert len(mq.compare([mq.read(path), results["Speedy"]])) == 1
        return
    with pytest.raises(SettingError, match=said) as error:
        mq.read(path)
    assert str(error.value).isprintable()


def test_a_small_file_of_large_arrays_is_refused_before_room_is_made(tmp_path):
    np.savez_compressed(tmp_path / "bomb.npz", about=np.zeros(50_000_000, np.uint8))
    tracemalloc.start()
    with pytest.raises(SettingError, match="larger than the file"):
        mq.read(tmp_path / "bomb.npz")
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_theory_stands_beside_what_was_measured(results):
    found = results["Q"].theory()
    assert found["measured"]["sup"] == results["Q"].curves["q_error"][:, -1].mean()
    assert "Measured at k = 50" in repr(found) and "No finished run" not in repr(found)


def test_a_result_goes_to_another_process_whatever_it_was_given():
    of_corner = {"corner": lambda q, mdp: q[:, 0, 0]}
    result = mq.run(TWO, mq.QLearning(), metrics=of_corner, progress=lambda k, error: None, **SHORT)
    again = pickle.loads(pickle.dumps(result))
    assert again.curves["corner"].tobytes() == result.curves["corner"].tobytes()
    assert repr(again.theory()) == repr(result.theory())


def test_samples_that_a_result_has_seen_are_said_to_be_seen_again(tmp_path):
    """The same word as drawn before, by the seed's successors: Q after one step from Q* tells which was drawn."""
    lake = mq.frozen_lake("4x4")
    how: dict[str, Any] = {"iterations": 20, "n_seeds": 2}
    first = mq.run(lake, mq.QLearning(), **how)
    read = mq.read(first.save(tmp_path / "first.npz"))

    def said(**settings):
        return "samples_again" in {one.code for one in mq.run(lake, mq.QLearning(), **how, **settings).findings}

    assert said(q0=first) and said(q0=read) and not said(q0=first.q)
    assert not said(q0=first, seed=1) and not said(q0=first, sampling=mq.Markovian())
    walk = mq.frozen_lake("4x4", slippery=False)  # where nothing is drawn
    assert not mq.run(walk, mq.QLearning(), q0=mq.run(walk, mq.QLearning(), **how), **how).findings


# --- warm starts ------------------------------------------------------------------------------------------------------


def test_a_run_goes_on_from_each_seed_of_a_result(results):
    on = mq.run(TWO, mq.QLearning(), q0=results["Q"], **SHORT)
    np.testing.assert_array_equal(on.curves["q_error"][:, 0], results["Q"].curves["q_error"][:, -1])
    fewer = mq.run(TWO, mq.QLearning(), q0=results["Q"], iterations=50, n_seeds=3)
    assert on.q is not None
    np.testing.assert_array_equal(fewer.q, on.q[:3])
    with pytest.raises(SettingError, match="has 8 seeds, and this run 9"):
        mq.run(TWO, mq.QLearning(), q0=results["Q"], iterations=50, n_seeds=9)


@pytest.mark.parametrize("rule", [mq.QLearning(), mq.DoubleQ(), mq.CertaintyEquivalence()])
@pytest.mark.parametrize("sampling", [mq.Synchronous(), mq.Markovian(restart_probability=0.1)])
def test_a_table_and_a_function_of_pairs_are_where_learning_starts(rule, sampling):
    table = np.array([[1.0, 11.0], [2.0, 7.0]])
    table[~TWO.learned] = 0.0
    by = [table, np.stack([table] * 4), lambda x, u: table[x, u]]
    runs = [mq.run(TWO, rule, q0=q0, iterations=10, n_seeds=4, sampling=sampling) for q0 in by]
    optimal = mq.optimal(TWO).q
    assert runs[0].curves["q_error"][0, 0] == np.abs(table - optimal)[TWO.counted].max()
    for other in runs[1:]:
        np.testing.assert_array_equal(other.q, runs[0].q)


def test_parameters_go_on_from_a_result_with_features():
    how = {"features": mq.one_hot(TWO), "sampling": mq.Markovian(restart_probability=0.1), **SHORT}
    first = mq.run(TWO, mq.QLearning(), step_size=mq.Constant(0.1), **how)
    on = mq.run(TWO, mq.QLearning(), step_size=mq.Constant(0.1), theta0=first, **how)
    np.testing.assert_array_equal(on.curves["q_error"][:, 0], first.curves["q_error"][:, -1])
    with pytest.raises(SettingError, match="has no features"):
        mq.run(TWO, mq.QLearning(), theta0=mq.run(TWO, mq.QLearning(), **SHORT), **how)


@pytest.mark.parametrize(
    ("q0", "said"),
    [
        (np.zeros((3, 2)), r"must have the shape \(2, 2\) of a table"),
        (np.full((2, 2), np.nan), "must be finite"),
        (lambda x, u: "a", r"q0\(0, 0\)='a': must be a finite number"),
        (lambda x, u: 1 / 0, "raised ZeroDivisionError"),
        ("a", "must be a number, or"),
    ],
)
def test_a_start_that_is_none_is_refused(q0, said):
    with pytest.raises(SettingError, match=said):
        mq.run(TWO, mq.QLearning(), q0=q0, **SHORT)
