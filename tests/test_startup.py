"""What the library and the command line's help may import, and how many threads NumPy finds when it is loaded."""

import ast
import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import mqlearn as mq
from mqlearn.experiments.settings import targets
from mqlearn.paths import PACKAGE

HEAVY = {"gymnasium", "matplotlib", "mlflow", "numba", "pandas", "scipy.sparse", "sqlalchemy"}
LINES = {
    "script": [str(Path(sys.executable).parent / "mqlearn")],
    "module": [sys.executable, "-m", "mqlearn"],
}


def imports(code: str) -> tuple[set[str], str]:
    """The modules that a new interpreter imports while it runs `code`, and what it prints."""
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}, done.stdout


def test_a_heavy_import_would_be_seen():
    modules, _ = imports("import scipy.sparse")
    assert "scipy.sparse" in modules


def test_library_starts_light():
    modules, _ = imports("import mqlearn; mqlearn.run, mqlearn.MomentumQ, mqlearn.frozen_lake, mqlearn.load")
    assert {"mqlearn", "mqlearn.learning.record", "mqlearn.storage.runs"} <= modules
    assert not modules & (HEAVY | {"hydra", "omegaconf"})


def test_the_package_alone_starts_without_numpy():
    modules, printed = imports("import mqlearn; print(mqlearn.SettingError.__name__, 'run' in dir(mqlearn))")
    assert printed == "SettingError True\n"
    assert not modules & (HEAVY | {"hydra", "omegaconf", "numpy", "mqlearn.learning", "mqlearn.algorithms"})


def test_type_checkers_are_told_the_public_names_and_where_they_are():
    seen = {
        alias.name: node.module
        for node in ast.walk(ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("mqlearn.")
        for alias in node.names
        if node.module != "mqlearn.experiments.settings"
    }
    assert sorted(seen) == sorted(mq.__all__)
    assert mq._PLACES.items() <= seen.items() and seen.keys() <= mq._PLACES.keys() | targets.names()
    for name, module in seen.items():
        assert getattr(mq, name) is getattr(importlib.import_module(module), name)


def test_public_names_are_those_of_their_modules_and_can_be_pickled():
    for name in {*mq.__all__, *targets.names()}:
        found = getattr(mq, name)
        assert pickle.loads(pickle.dumps(found)) is found
    with pytest.raises(AttributeError, match="'mqlearn' has no attribute 'nothing'"):
        mq.nothing  # type: ignore[attr-defined]  # noqa: B018  # wrong on purpose
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        from mqlearn import nothing  # type: ignore[attr-defined]  # noqa: F401  # wrong on purpose


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"]])
def test_help_starts_light(arguments):
    code = f"import sys; sys.argv[1:] = {arguments}; from mqlearn.cli.main import main; sys.exit(main())"
    modules, printed = imports(code)
    assert "run" in printed
    assert not modules & HEAVY


def test_no_verb_is_asked_for_before_numpy_can_be_told_its_threads():
    modules, _ = imports("import mqlearn.cli.main")
    assert "mqlearn.cli.verbs" in modules
    assert "numpy" not in modules


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("given", [None, "2"])
def test_numpy_has_one_thread_unless_the_user_says_otherwise(line, given, tmp_path):
    """Its library starts its threads as it is loaded: nothing else of this command has any by then."""
    if not Path("/proc/self/task").is_dir() or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("threads cannot be told apart here")
    (tmp_path / "seen.py").write_text(
        "import os, sys\nimport numpy\nprint('threads', len(os.listdir('/proc/self/task')), file=sys.stderr)\n"
    )
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    environment |= {"MQLEARN_OUTPUTS": str(tmp_path / "outputs")} | (
        {} if given is None else {"OPENBLAS_NUM_THREADS": given}
    )
    words = ["truth", "env=two_state", "discount=0.9", "plugins=[seen]"]
    done = subprocess.run([*LINES[line], *words], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"threads {given or 1}\n" in done.stderr
