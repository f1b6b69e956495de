"""What is in memory is what runs, and what a digest covers, whatever the files say by now."""

import hashlib
import importlib
import os
import py_compile
import subprocess
import sys
from itertools import count
from pathlib import Path

import pytest

import mqlearn as mq
from mqlearn import source_text
from mqlearn.algorithms import source
from mqlearn.errors import SettingError
from mqlearn.experiments import processes
from mqlearn.experiments.settings import compose, plugins
from mqlearn.experiments.settings.cell import build

LAKE = mq.frozen_lake("4x4", discount=0.9)
STATEFUL = """import mqlearn as mq
class Mine(mq.Stateful):
    compiled = {compiled}
    def init(self, q0): return {{"q": q0}}
    def step(self, z, s, c): s.move(z.q, s.target(z.q), c.alpha * {share})
"""
ABOVE = """import mqlearn as mq
class Other(mq.Stateful):
    def init(self, q0): return {"q": q0}
    def step(self, z, s, c): s.move(z.q, 5.0, c.alpha)
"""
WHOLE, HALF = STATEFUL.format(compiled=True, share=1.0), STATEFUL.format(compiled=True, share=0.5)
_numbers = count()


@pytest.fixture
def written(work, monkeypatch):
    """`written(text)` writes a module of the user's that nobody has imported, and returns its file."""
    monkeypatch.syspath_prepend(str(work))
    before = set(sys.modules)

    def write(text: str, stem: str = "text_of_user") -> Path:
        file = work / f"{stem}_{next(_numbers)}.py"
        file.write_text(text)
        importlib.invalidate_caches()
        return file

    yield write
    for name in set(sys.modules) - before:
        if str(work) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def run(rule, **settings):
    return mq.run(LAKE, rule, iterations=200, n_seeds=2, **settings)


def error(rule) -> float:
    return float(run(rule).curves["q_error"][:, -1].mean())


def plain(share: float) -> float:
    """The error of Q-learning with a share of the step size: the right value of the rules above."""
    return error(mq.QLearning().with_step_size(lambda k: share / (k + 1)))


EDITS = {
    "another share": HALF,
    "a class above": ABOVE + WHOLE,
    "half edited": WHOLE.replace("1.0)", "("),
    "empty": "",
    "deleted": None,
}


@pytest.mark.parametrize("edit", EDITS)
def test_a_file_that_is_edited_after_its_import_changes_nothing_and_is_named(edit, written):
    file = written(WHOLE)
    rule = importlib.import_module(file.stem).Mine()
    text = EDITS[edit]
    file.unlink() if text is None else file.write_text(text)
    result = run(rule)
    assert result.curves["q_error"][:, -1].mean() == pytest.approx(plain(1.0), rel=1e-9)
    assert [str(file) in one and "what was imported counts" in one for one in result.warnings] == [True]
    assert "c.alpha * 1.0" in "".join(source.equation(type(rule)))


def test_an_unchanged_file_is_not_mentioned(written):
    rule = importlib.import_module(written(WHOLE).stem).Mine()
    assert not run(rule).warnings


def test_after_a_reload_each_class_runs_its_own_text(written):
    file = written(WHOLE)
    module = importlib.import_module(file.stem)
    first = module.Mine
    file.write_text(ABOVE + HALF)
    importlib.reload(module)
    assert error(module.Mine()) == pytest.approx(plain(0.5), rel=1e-9)
    assert error(first()) == pytest.approx(plain(1.0), rel=1e-9)
    assert ["* 0.5" in source.text(one) for one in (module.Mine, first)] == [True, False]


def test_a_reload_that_fails_leaves_what_was_there(written):
    file = written(WHOLE)
    module = importlib.import_module(file.stem)
    digest = plugins.source_digest(module)
    file.write_text(HALF + "(")
    with pytest.raises(SyntaxError):
        importlib.reload(module)
    assert plugins.source_digest(module) == digest
    assert error(module.Mine()) == pytest.approx(plain(1.0), rel=1e-9)


def test_a_helper_in_another_module_is_that_of_memory(written):
    helper = written("SHARE = 0.5\ndef share(x):\n    return SHARE * x\n", "helper_of_user")
    call = WHOLE.replace("c.alpha * 1.0", "share(c.alpha)")
    rule = importlib.import_module(written(f"from {helper.stem} import share\n{call}").stem).Mine()
    helper.write_text("SHARE = 1.0\ndef share(x):\n    return 7.0\n")
    result = run(rule)
    assert result.curves["q_error"][:, -1].mean() == pytest.approx(plain(0.5), rel=1e-9)
    assert str(helper) in " ".join(result.warnings)


USERS_FUNCTIONS = {
    "step_size": {"step_size": "gain"},
    "metric": {"metrics": "mine"},
    "behaviour": {"sampling": "behaviour"},
}


@pytest.mark.parametrize("kind", USERS_FUNCTIONS)
def test_any_object_of_a_file_that_has_changed_is_named(kind, written):
    file = written("""import numpy as np
def gain(k): return 1 / (k + 1)
def mine(tables, mdp): return np.zeros(len(tables))
def behaviour(mdp): return mdp.admissible / mdp.admissible.sum(1, keepdims=True)
""")
    module = importlib.import_module(file.stem)
    given = {
        "step_size": {"step_size": module.gain},
        "metric": {"metrics": {"mine": module.mine}},
        "behaviour": {"sampling": mq.Markovian(behaviour=module.behaviour)},
    }[kind]
    assert not any(str(file) in one for one in run(mq.QLearning(), **given).warnings)
    file.write_text("")
    assert sum(str(file) in one for one in run(mq.QLearning(), **given).warnings) == 1


# --- digests ------------------------------------------------------------------------------------------------------


def of_files(*files: Path) -> str:
    texts = [hashlib.sha256(file.read_bytes()).digest() for file in sorted(files)]
    return hashlib.sha256(b"".join(texts)).hexdigest()


def test_the_digest_is_of_the_text_that_was_imported(written):
    helper = written("SHARE = 0.5\n", "helper_of_user")
    file = written(f"import {helper.stem}\n{WHOLE}")
    module = plugins.load([file.stem])[file.stem]
    before = of_files(file, helper)
    assert plugins.source_digest(module) == before
    helper.write_text("SHARE = 1.0\n")
    file.write_text(HALF)
    assert plugins.source_digest(module) == before
    importlib.reload(module)
    assert plugins.source_digest(module) == of_files(file)


def test_a_cell_is_that_of_memory_until_its_module_is_imported_anew(written, mqlearn):
    text = "import mqlearn as mq\ndef lake(discount): return mq.frozen_lake('4x4', discount=discount)\n" + WHOLE
    file = written(text)
    settings = (f"plugins=[{file.stem}]", f"algorithm._target_={file.stem}.Mine", "iterations=40", "n_seeds=2")
    own = ("~env", f"+env._target_={file.stem}.lake", "+env.name=mine", "tracking=none")
    first = build(compose.compose([*settings, *own]))
    file.write_text(text.replace("4x4", "8x8"))
    done = mqlearn("run", *settings, *own)
    assert done.code == 0 and "what was imported counts" in done.err
    assert build(compose.compose([*settings, *own])).digest == first.digest
    importlib.reload(sys.modules[file.stem])
    second = build(compose.compose([*settings, *own]))
    assert second.digest != first.digest and second.mdp.digest() != first.mdp.digest()


def test_compiled_files_of_python_are_not_believed(written):
    """A .pyc counts as fresh if size and second of its source are the same."""
    file = written(WHOLE)
    os.utime(file, (1e9, 1e9))
    py_compile.compile(str(file), doraise=True)
    file.write_text(WHOLE.replace("1.0", "0.5"))
    os.utime(file, (1e9, 1e9))
    module = plugins.load([file.stem])[file.stem]
    assert plugins.source_digest(module) == of_files(file)
    assert error(module.Mine()) == pytest.approx(plain(0.5), rel=1e-9)


def test_text_that_cannot_be_shown_to_be_in_memory_is_refused_by_name(written):
    """As of a module that another import hook has made from something else than its file."""
    file = written(HALF)
    module = type(sys)(file.stem)
    module.__file__ = str(file)
    sys.modules[file.stem] = module
    file.unlink()
    exec(compile(WHOLE, str(file), "exec"), vars(module))
    file.write_text(HALF)
    with pytest.raises(SettingError, match=rf"{file}.*cannot be shown to be what is in memory"):
        run(module.Mine())
    with pytest.raises(SettingError, match=rf"{file}.*cannot be shown to be what is in memory"):
        plugins.source_digest(module)
    assert str(file) in source.text(module.Mine)


# --- elsewhere than in modules ------------------------------------------------------------------------------------


def test_a_script_and_what_it_imports_before_mqlearn(work):
    (work / "early.py").write_text("def share(x):\n    return 0.5 * x\n")
    script = work / "script.py"
    script.write_text(
        "import early, sys, pathlib\n" + WHOLE.replace("c.alpha * 1.0", "early.share(c.alpha)") + "def error():\n"
        "    r = mq.run(mq.frozen_lake('4x4', discount=.9), Mine(), iterations=200, n_seeds=2)\n"
        "    print(float(r.curves['q_error'][:, -1].mean()), len(r.warnings))\n"
        "here = pathlib.Path(__file__)\n"
        "here.write_text('# a line above\\n' + here.read_text().replace('c.alpha)', '0.0)'))\n"
        "here.with_name('early.py').write_text('def share(x):\\n    return 0.0\\n')\n"
        "error()\n"
    )
    done = subprocess.run([sys.executable, "script.py"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    value, warned = done.stdout.split()
    assert float(value) == pytest.approx(plain(0.5), rel=1e-9) and int(warned) == 2


def test_a_cell_of_a_notebook_that_is_run_again(work):
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell()  # not the one of the process, if there is one
    shell.history_manager.enabled = False  # type: ignore  # it has one

    def cell(text: str) -> None:
        shell.run_cell(text, store_history=True).raise_error()

    helper = "def share(x):\n    return {} * x\n"
    cell(helper.format(0.5))
    cell(WHOLE.replace("c.alpha * 1.0", "share(c.alpha)"))
    first = shell.user_ns["Mine"]
    assert error(first()) == pytest.approx(plain(0.5), rel=1e-9)
    cell(helper.format(1.0))
    assert error(first()) == pytest.approx(plain(1.0), rel=1e-9)  # its name means another function now
    cell(HALF)
    assert error(shell.user_ns["Mine"]()) == pytest.approx(plain(0.5), rel=1e-9)
    assert error(first()) == pytest.approx(plain(1.0), rel=1e-9)
    assert "share(c.alpha)" in "".join(source.equation(first))


def _loaded(name: str) -> str:
    return plugins.source_digest(plugins.load([name])[name])


def test_a_worker_that_imports_another_text_than_its_parent_refuses_it_by_name(written):
    file, same = written(STATEFUL.format(compiled=False, share=1.0)), written(WHOLE)
    plugins.forget()
    plugins.search(None)
    before = [_loaded(one.stem) for one in (file, same)][1]
    file.write_text(HALF)
    with processes.pool(1, processes.begin, os.getpid()) as pool:
        with pytest.raises(SettingError, match=f"plugins='{file.stem}': has changed since the command began"):
            pool.submit(_loaded, file.stem).result()
        assert pool.submit(_loaded, same.stem).result() == before


def test_libraries_are_left_to_python():
    assert not source_text._is_users(os.__file__) and not source_text._is_users(pytest.__file__)
    assert not source_text._is_users(mq.__file__) and source_text._is_users(__file__)
