"""The doctor: what differs is found and named, what is in order is left in peace, and nothing is left behind."""

import functools
import json
import operator
import os
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mqlearn.analysis.figures import make
from mqlearn.cli.doctor import checks, resumed, surroundings
from mqlearn.cli.doctor.command import carried_out
from mqlearn.errors import SettingError
from mqlearn.experiments import execute
from mqlearn.experiments.plan import plan
from mqlearn.experiments.settings.cell import build
from mqlearn.rounding import SUMS, Rounding
from mqlearn.storage import array_comparison, runs

TINY = ["iterations=60", "n_seeds=5"]
RULES = '''
import os
from dataclasses import dataclass
import mqlearn as mq

@dataclass(frozen=True)
class ByProcess(mq.Rule):
    """Q-learning whose step depends on the process that it runs in."""

    def update(self, k, q, q_prev, target, target_prev):
        a = 1 / (k + 2 + os.getpid() / 1e6)
        return (1 - a) * q + a * target

@dataclass(frozen=True)
class Other(mq.QLearning):
    """A rule that runs other numbers than its equation says."""

    def weights(self, first, stop):
        return mq.SpeedyQ().weights(first, stop)
'''


def tiny(folder: Path, *own: str) -> dict[str, checks.Case]:
    return {case.name: case for case in checks.cases([*TINY, *own], None, folder)}


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> checks.Case:
    return tiny(tmp_path_factory.mktemp("doctor"))["replay, linear features"]


def altered(run: runs.Run, kind: str, name: str, change) -> runs.Run:
    """The run with one of its arrays changed in place by `change`."""
    arrays = {key: array.copy() for key, array in getattr(run, kind).items()}
    change(arrays[name])
    other = runs.Run(run.folder, run.summary)
    vars(other).update(vars(run) | {kind: arrays})
    return other


def flip(*places: tuple[int, int]):
    def change(array: np.ndarray) -> None:
        for place in places:
            array.view(np.uint64)[place] ^= 1

    return change


def with_alone(case: checks.Case, run: runs.Run) -> checks.Case:
    other = replace(case, folder=case.folder / "other")
    vars(other)["alone"] = run
    return other


# --- comparing ------------------------------------------------------------------------------------------------------


def test_one_bit_of_a_curve_is_named_with_its_seed_and_iteration(case):
    wrong = altered(case.alone, "curves", "theta_error", flip((3, 5), (1, 7)))
    k, was = int(case.alone.curves["iteration"][5]), float(case.alone.curves["theta_error"][3, 5])
    for check in (checks.threads, checks.repeated):
        found = check(with_alone(case, wrong))
        assert found.verdict == "different"
        assert found.detail.startswith(f"curve theta_error, seed 3: {was!r}, ")
        assert f"(k = {k}, relative difference " in found.detail
    # seed 0 is sound; of the first two, only seed 1 is not, at a later iteration
    assert checks.seeds(with_alone(case, wrong), 1).verdict == "same"
    assert "theta_error, seed 1" in checks.seeds(with_alone(case, wrong), 2).detail


def test_the_earliest_iteration_comes_first_whatever_the_curve_is_called(case):
    wrong = altered(case.alone, "curves", "bellman_error", flip((0, 9)))
    wrong = altered(wrong, "curves", "theta_error", flip((4, 2)))
    compared = array_comparison.compare(
        array_comparison.of_run(wrong), array_comparison.of_run(case.alone), place=array_comparison.place_in(case.alone)
    )
    assert compared.difference.startswith("curve theta_error, seed 4: ")
    assert compared.names == ("curve bellman_error", "curve theta_error")


def test_a_sign_of_zero_is_a_difference_and_nan_is_none():
    a = {"x": np.array([[0.0, np.nan]])}
    assert array_comparison.compare(a, {"x": np.array([[-0.0, np.nan]])}).verdict == "different"
    rounded = {"x": Rounding((SUMS,))}
    assert array_comparison.compare(a, {"x": np.array([[-0.0, np.nan]])}, rounding=rounded).verdict == "compatible"
    assert array_comparison.compare(a, {"x": np.array([[0.0, np.nan]])}) == array_comparison.Comparison("same")
    assert array_comparison.compare(a, {"x": a["x"].astype(np.float32)}).verdict == "same"  # the same numbers
    assert array_comparison.compare(a, {"y": a["x"]}).difference == "x: only in the first"


def test_a_table_is_compared_too(case):
    wrong = altered(case.alone, "tables", "theta", flip((2, 11)))
    assert checks.repeated(with_alone(case, wrong)).detail.startswith("table theta, seed 2, entry [11]: ")
    visits = altered(case.alone, "tables", "visits", lambda table: np.add(table, 1, out=table))
    assert "table visits, entry [0, 0]" in checks.threads(with_alone(case, visits)).detail


def test_kernels_agree_with_their_equations_but_for_rounding(case):
    def scaled(factor):
        return altered(case.alone, "tables", "theta", lambda theta: np.multiply(theta, factor, out=theta))

    assert checks.linear_kernel(with_alone(case, case.alone)).verdict in ("same", "compatible")
    assert checks.linear_kernel(with_alone(case, scaled(1 + 1e-12))).verdict == "compatible"
    found = checks.linear_kernel(with_alone(case, scaled(1 + 1e-7)))
    assert found.verdict == "different" and found.detail.startswith("table theta, seed 0, entry [0]: ")


def test_a_rule_that_diverges_is_no_fault_of_a_kernel(tmp_path):
    """What rounds at 1e74 differs at the seventh digit; but it still repeats bit by bit."""
    grown = tiny(tmp_path, "algorithm=momentum_q", "algorithm.m=100", "iterations=300")["replay, linear features"]
    assert grown.alone.diverged
    assert checks.linear_kernel(grown).verdict == "not_checked"
    assert checks.repeated(grown).verdict == checks.threads(grown).verdict == "same"


# --- faulty rules ---------------------------------------------------------------------------------------------------


@pytest.fixture
def faulty(work: Path) -> Path:
    (work / "faulty.py").write_text(RULES)
    (work / "mine" / "algorithm").mkdir(parents=True)
    for name in ("ByProcess", "Other"):
        (work / "mine" / "algorithm" / f"{name}.yaml").write_text(f"_target_: faulty.{name}\nname: {name}\n")
    return work


def faulty_cases(folder: Path, name: str) -> dict[str, checks.Case]:
    own = [*TINY, f"algorithm={name}", "plugins=[faulty]"]
    return {case.name: case for case in checks.cases(own, "mine", folder)}


def test_a_rule_that_depends_on_its_process_is_caught_in_another(faulty, tmp_path):
    case = faulty_cases(tmp_path / "d", "ByProcess")["markovian table"]
    assert checks.repeated(case).verdict == "same"
    found = checks.fresh(case)
    assert found.verdict == "different" and found.detail.startswith("curve ") and ", seed 0: " in found.detail


def test_a_kernel_that_runs_other_numbers_than_the_equation_is_caught(faulty, tmp_path):
    case = faulty_cases(tmp_path / "d", "Other")["synchronous table"]
    found = checks.table_kernel(case)
    assert found.verdict == "different" and found.detail.startswith("table q, seed 0, entry [")
    assert checks.table_kernel(tiny(tmp_path / "sound")["synchronous table"]).verdict in ("same", "compatible")


def test_a_process_that_fails_is_told_with_its_last_words(case, tmp_path):
    nowhere = replace(case, folder=tmp_path)
    (tmp_path / "nothing").mkdir()
    vars(nowhere)["alone"] = runs.Run(tmp_path / "nothing", {})
    found = checks.fresh(nowhere)
    assert found.verdict == "failed" and found.detail.startswith("exit code 2: ")
    assert "not a complete run folder" in found.detail


# --- sweeps ---------------------------------------------------------------------------------------------------------


def test_cells_of_two_sweeps_are_compared_number_for_number(case):
    run = case.alone
    whole = {run.digest: run}
    assert resumed.difference({}, whole, whole).verdict == "same"
    assert resumed.difference(whole, whole, whole).detail.startswith("killed when 1 of 1 cells were finished")
    found = resumed.difference(whole, {run.digest: altered(run, "curves", "q_error", flip((1, 4)))}, whole)
    assert found.verdict == "different" and f"cell seed=0, {run.digest[:16]}: curve q_error, seed 1: " in found.detail
    later = runs.Run(run.folder, run.summary | {"ended": "later"})
    assert "ran again" in resumed.difference(whole, {run.digest: later}, whole).detail
    assert "only in the sweep left alone" in resumed.difference({}, {}, whole).detail


# --- surroundings ---------------------------------------------------------------------------------------------------

REQUIRED = [
    "numpy<2.6,>=2.1",
    "numba<0.69,>=0.63,!=0.65",
    "winreg>=1; sys_platform == 'none'",
    "submitit>=2; extra == 'slurm'",
]


@pytest.mark.parametrize(
    ("python", "installed", "wrong"),
    [
        ("3.11.0", {"numpy": "2.1", "numba": "0.68.1"}, []),
        ("3.11.0", {"numpy": "2.1", "numba": "0.68.1", "submitit": "2.5"}, []),
        ("3.14.0", {"numpy": "2.1", "numba": "0.68.1"}, ["Python 3.14.0 is outside >=3.11,<3.14"]),
        ("3.12.1", {"numpy": "2.6.0", "numba": "0.65"}, ["numpy 2.6.0 is outside", "numba 0.65 is outside"]),
        ("3.12.1", {"numpy": "2.1"}, ["numba is not installed"]),
        ("3.12.1", {"numpy": "2.1", "numba": "0.64", "submitit": "1.5"}, ["submitit 1.5 is outside >=2"]),
    ],
)
def test_what_lies_outside_the_range_is_named(python, installed, wrong):
    found = surroundings.in_range(">=3.11,<3.14", python, REQUIRED, ["slurm"], installed.get)
    assert found.verdict == ("outside" if wrong else "inside")
    assert all(part in found.detail for part in wrong)
    assert len(found.detail.split("; ")) == max(1, len(wrong))


def test_versions_are_those_of_this_environment_and_a_foreign_one_is_seen(tmp_path, monkeypatch):
    found = surroundings.versions()
    assert found.verdict == "inside", found.detail
    assert f"numpy {np.__version__}" in found.detail and "Python {}.{}.{}".format(*sys.version_info) in found.detail
    (tmp_path / "numba-0.99.dist-info").mkdir()
    (tmp_path / "numba-0.99.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: numba\nVersion: 0.99\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (wanted,) = (text for text in metadata.requires("mqlearn") or [] if text.startswith("numba"))
    assert surroundings.versions() == checks.Outcome("outside", f"numba 0.99 is outside {wanted.removeprefix('numba')}")


def test_an_altered_number_of_the_reference_data_is_named(tmp_path, monkeypatch):
    planned = plan("figure1", ["tracking=none"])
    planned = replace(planned, cells=planned.cells[:1])
    (one,) = planned.cells
    made = [execute.perform(one.cell, tmp_path / "run", execute.UNTRACKED, quiet=True)]
    compared = surroundings.figure_against_reference(planned, made)
    assert compared.verdict in ("same", "compatible"), compared.difference
    name = f"{one.panel} | {one.label} | band"
    with np.load(make.REFERENCE / "figure1.npz") as stored:
        arrays = {key: stored[key] for key in stored.files}
    arrays[name][1, 50] *= 1.001
    monkeypatch.setattr(make, "REFERENCE", tmp_path)
    np.savez(tmp_path / "figure1.npz", **arrays)  # type: ignore[arg-type]  # names are no flags of savez
    compared = surroundings.figure_against_reference(planned, made)
    assert compared.verdict == "different"
    k = made[0].curves["iteration"][50]
    assert compared.difference.startswith(f"{name}[1, 50]: ") and f"(k = {k}, relative difference 0.001)" in str(
        compared
    )


def test_a_figure_that_is_not_finished_is_not_judged_and_its_command_is_told(tmp_path):
    found = surroundings.of_figure("figure2", tmp_path / "outputs", tmp_path / "new")
    assert found.verdict == "not_checked" and "`mqlearn figure figure2 --check`" in found.detail
    assert not list(tmp_path.iterdir())


def test_no_reference_data_is_no_failure(tmp_path, monkeypatch):
    monkeypatch.setattr(make, "REFERENCE", tmp_path / "paper")
    (check,) = surroundings.of_figures(tmp_path, tmp_path, overridden=False)
    line = carried_out(check)
    assert line.verdict == "not_checked" and line.holds and "in the repository" in line.detail


# --- the verb -------------------------------------------------------------------------------------------------------


def test_a_fault_in_a_check_stops_no_other_and_keeps_its_traceback(capsys, work):
    fault: Any = functools.partial(operator.floordiv, 1, 0)  # in no line of this file, which is no line of ours
    line = carried_out(checks.Check("odd", "1 = 0", "", fault))
    assert (line.verdict, line.holds) == ("failed", False) and "ZeroDivisionError" in line.detail
    assert "Traceback" in capsys.readouterr().err
    with pytest.raises(SettingError):
        carried_out(checks.Check("odd", "", "", lambda: checks.Outcome("same", build({"nothing": 1}).name)))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["n_seeds=4"], "n_seeds=4: must be at least 5"),
        (["iterations=0"], "iterations=0: must be at least 1"),
        (["env=taxi"], "env='taxi': has no effect on `mqlearn doctor`"),
        (["algorithm=q_learnin"], "did you mean 'q_learning'?"),
        (["--json", "no/such/folder.json"], "cannot be written"),
        (["--josn", "x"], "did you mean '--json'?"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(mqlearn, arguments, problem):
    done = mqlearn("doctor", *arguments)
    assert done.code == 2 and problem in done.err and not done.out


@pytest.mark.integration
def test_the_whole_verb_in_small(mqlearn, work, outputs, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")  # never asked
    done = mqlearn("doctor", *TINY, "seed=3", "--json", "found.json")
    lines = json.loads((work / "found.json").read_text())
    assert done.code == 0, done.out + done.err
    assert {line["verdict"] for line in lines} <= {"same", "compatible", "inside", "noted", "not_checked"}
    verdicts = {line["name"]: line["verdict"] for line in lines}
    for case in checks.CASES:
        for way in ("parallel", "fewer seeds", "repeated", "fresh process"):
            assert verdicts[f"{way}, {case}"] == "same"
    assert verdicts["resumed, sweep"] == "same" and verdicts["versions"] == "inside"
    assert verdicts["reference"] == "not_checked"  # settings were overridden
    assert all({"name", "verdict", "holds", "compared", "settings", "detail", "seconds"} == {*line} for line in lines)
    assert all(line["detail"] in done.out for line in lines)
    assert "5 seeds of seed=3, 60 iterations" in done.out
    assert not outputs.exists() and [path.name for path in work.iterdir()] == ["found.json"]


@pytest.mark.integration
def test_the_whole_verb_in_full_reads_finished_runs_and_leaves_nothing(mqlearn, work, outputs):
    mqlearn("figure", "figure2_smoke", "tracking=none")
    before = {path: path.stat().st_mtime_ns for path in outputs.rglob("*")}
    done = mqlearn("doctor", "--json", "found.json")
    assert done.code == 0, done.out + done.err
    verdicts = {line["name"]: line for line in json.loads((work / "found.json").read_text())}
    for name in ("figure1", "figure2_smoke"):
        assert verdicts[f"reference, {name}"]["verdict"] in ("same", "compatible")
    assert "all 16 curves, finished runs: " in verdicts["reference, figure2_smoke"]["detail"]
    assert "finished runs" not in verdicts["reference, figure1"]["detail"]
    assert verdicts["reference, figure2"]["verdict"] == "not_checked"
    assert {path: path.stat().st_mtime_ns for path in outputs.rglob("*")} == before


@pytest.mark.integration
def test_a_faulty_rule_fails_the_whole_verb(mqlearn, faulty):
    done = mqlearn("doctor", *TINY, "--config-dir", "mine", "plugins=[faulty]", "algorithm=ByProcess")
    assert done.code == 1
    last = done.out.splitlines()[-1]
    assert last.startswith("4 of ") and all(f"fresh process, {case}" in last for case in checks.CASES)
    assert "resumed, sweep" in last and "parallel" not in last
    assert not os.path.lexists(faulty.parent / "outputs")
