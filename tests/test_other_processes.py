"""Runs in processes of their own: without MLflow, with code of the user, killed, without a place to write."""

import re
import shutil
import signal
import stat

import numpy as np
import pytest
from whole_ways import MODULE, SMALL, found

from mqlearn.paths import CONF, PACKAGE
from mqlearn.storage import lookup

NO_MLFLOW = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("mlflow", "sqlalchemy"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
"""


def test_without_mlflow(process, outputs, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))  # where no empty store is kept, to be copied
    run = process("run", "-m", "hydra/launcher=basic", *SMALL, "tracking=none", "seed=1,2", before=NO_MLFLOW)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0 and "mqlearn:" not in err, err
    assert [one.status for one in found(outputs)] == ["finished", "finished"]
    run = process("run", *SMALL, "seed=3", before=NO_MLFLOW)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 3  # whole, but not tracked
    assert "tracking=none works without it" in err
    assert "mqlearn upload" in err
    assert "finished" in out
    assert len(found(outputs)) == 3


def test_rule_and_environment_of_the_user(process, outputs, work):
    """From the current directory, with a configuration folder; an edited rule is run again."""
    (work / "mine" / "algorithm").mkdir(parents=True)
    (work / "mine" / "env").mkdir()
    (work / "mine" / "algorithm" / "wild.yaml").write_text("_target_: my_rules.Wild\nname: wild\ngain: 0.5\n")
    (work / "mine" / "env" / "chain.yaml").write_text("_target_: my_rules.chain\nname: chain\nlength: 5\n")
    arguments = ("run", *SMALL, "--config-dir", "mine", "plugins=[my_rules]", "env=chain", "algorithm=wild",
                 "env.length=7", "tracking=none")  # fmt: skip
    for edit in ("", "# edited"):
        (work / "my_rules.py").write_text(MODULE + edit)
        run = process(*arguments)
        out, err = run.communicate(timeout=120)
        assert (run.returncode, err) == (0, ""), err
        assert "my chain" in out
    first, second = found(outputs)
    assert first.digest != second.digest
    assert first.tables["q"].shape == (3, 7, 2)
    assert np.array_equal(first.curves["q_error"], second.curves["q_error"])
    assert first.name.startswith("wild gain=0.5")


def test_nothing_half_written_counts(process, mqlearn, outputs):
    """Two long runs, one interrupted and one killed in the middle."""
    long = ("run", "iterations=1e10", "tracking=none", "n_workers=1")
    ends = {signal.SIGINT: 130, signal.SIGKILL: -9}
    started = [(process(*long, f"seed={number}"), number) for number in ends]
    for run, number in started:
        assert run.stderr is not None
        line = run.stderr.readline()
        assert re.search(r"^about [2-9] hours of learning on this machine, besides compiling", line), line
        line = run.stderr.readline()  # the first line of progress, after two seconds
        assert re.search(r"of 10,000,000,000 iterations, (.* left, )?error [\d.e-]+$", line), line
        run.send_signal(number)
    for run, number in started:
        out, err = run.communicate(timeout=120)
        assert run.returncode == ends[number]
        assert "Traceback" not in err
        assert not out.count("finished")
    assert not [path for path in outputs.rglob("*") if path.is_file() and path.parent != outputs / "locks"]
    assert lookup.finished(outputs, "default", store=None) == {}
    assert mqlearn("run", *SMALL, "tracking=none").code == 0
    assert len(lookup.finished(outputs, "default", store=None)) == 1


def test_read_only_package_and_no_home(process, outputs, work):
    """No cache can be written, neither beside the package nor at home."""
    copy = work / "package"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, copy / "mqlearn", ignore=ignore)
    shutil.copytree(CONF, copy / "mqlearn" / "conf", dirs_exist_ok=True)
    places = [copy, *copy.rglob("*")]
    for place in places:
        place.chmod(place.stat().st_mode & ~(stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH))
    env = {"PYTHONPATH": str(copy), "HOME": str(work / "nowhere"), "XDG_CACHE_HOME": "", "NUMBA_CACHE_DIR": ""}
    before = (
        "import os, mqlearn\n"
        f"assert mqlearn.__file__.startswith({str(copy)!r})\n"
        f"if os.access({str(copy / 'mqlearn')!r}, os.W_OK): raise SystemExit(77)"
    )
    small = (*SMALL, "tracking=none", "evaluation.episodes=0")  # each kernel is compiled anew here
    run = process("run", *small, before=before, env=env, preexec_fn=_obey_permissions)
    _, err = run.communicate(timeout=300)
    for place in places:
        place.chmod(place.stat().st_mode | stat.S_IWUSR)
    if run.returncode == 77:
        pytest.skip("this user writes to read-only folders")
    assert run.returncode == 0, err
    assert found(outputs)[0].status == "finished"


def _obey_permissions() -> None:
    """Take from root the capabilities that let it write anywhere; without effect on other users."""
    import ctypes

    for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP
