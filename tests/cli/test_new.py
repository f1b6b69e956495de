"""`mqlearn new`: what it writes works as it stands, under whatever name; nothing of the user's is overwritten."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from mqlearn.cli.new.command import KINDS, OWN

SMALL = ("tracking=none", "n_seeds=6")
PROGRAMS = {"PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])}


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def printed(out: str, before: str) -> list[str]:
    """The command that was printed after some words."""
    (line,) = [line for line in out.splitlines() if line.startswith(before)]
    return shlex.split(line.removeprefix(before))


def test_every_kind_is_written_and_its_command_runs(mqlearn, work, outputs):
    for kind, (group, _) in KINDS.items():
        name = f"own_{kind}"
        done = mqlearn("new", kind, name)
        assert done.code == 0, done.err
        here = files(work)
        module = {f"{name}.py"} if kind not in ("claim", "paper", "suite") else set()
        more = (
            {"experiment/own_paper", "claim/own_paper_speedy_q", "claim/own_paper_rescaled"}
            if kind == "paper"
            else set()
        )
        assert {name for name in here if kind in name} == {
            *module, f"test_{name}.py", f"{OWN}/{group}/{name}.yaml", *(f"{OWN}/{one}.yaml" for one in more),
        }  # fmt: skip
        assert set(done.out.splitlines()) >= {file for file in here if kind in file}
        assert not any(word in text for text in here.values() for word in (b"my_" + kind.encode(), b"My"))
        program, *arguments = printed(done.out, "Run it:")
        assert program == "mqlearn"
        more = {
            "claim": SMALL[:1],
            "paper": SMALL[:1],
            "suite": (*SMALL[:1], "algorithm=q_learning,speedy_q", "n_workers=1"),
        }.get(kind, SMALL)
        ran = mqlearn(*arguments, *more)
        assert ran.code == 0, ran.err


@pytest.mark.integration  # half a minute: a process of its own that compiles
def test_the_tests_that_are_written_pass_and_can_fail(mqlearn, work):
    for kind in KINDS:
        assert mqlearn("new", kind, f"own_{kind}").code == 0
    assert mqlearn("new", "problem", "broken").code == 0
    text = (work / "broken.py").read_text()
    (work / "broken.py").write_text(text.replace("R[new, 0] = 1\n", "R[new, 0] = 1.1\n"))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", "--rootdir", str(work)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=work)
    assert re.search(r"^1 failed, 2\d passed in", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert "FAILED test_broken.py::test_the_optimum_is_that_of_the_equations" in done.stdout
    rules = ["--isolated", "--select", "E,F,B,W", "--line-length", "120"]
    subprocess.run([sys.executable, "-m", "ruff", "check", "-q", *rules, "."], check=True, cwd=work)


@pytest.mark.parametrize(
    ("arguments", "named", "words"),
    [
        ([], "new=''", "must be rule, stateful"),
        (["rul", "heavy_ball"], "new='rul'", "did you mean 'rule'?"),
        (["rule"], "name=''", "mqlearn new rule my_rule"),
        (["rule", "heavy", "ball"], "name='heavy ball'", "must be one name"),
        (["rule", "HeavyBall"], "name='HeavyBall'", "letters from a to z"),
        (["rule", "heavy-ball"], "name='heavy-ball'", "letters from a to z"),
        (["rule", "2fast"], "name='2fast'", "a letter first"),
        (["rule", "../elsewhere"], "name='../elsewhere'", "letters from a to z"),
        (["rule", "lambda"], "name='lambda'", "letters from a to z"),
        (["rule", "numpy"], "name='numpy'", "installed"),
        (["rule", "queue"], "name='queue'", "module of Python's"),
        (["rule", "momentum_q"], "name='momentum_q'", "algorithm=momentum_q comes with mqlearn"),
        (["problem", "river_swim"], "name='river_swim'", "env=river_swim comes with mqlearn"),
        (["features", "row"], "name='row'", "a name within the example itself"),
        (["rule", "--force"], "flag='--force'", "no flags"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_what_cannot_be_is_one_message(mqlearn, work, arguments, named, words):
    done = mqlearn("new", *arguments)
    assert done.code == 2 and done.err.startswith(f"mqlearn: {named}") and words in done.err, done.err
    assert len(done.err.splitlines()) == 1 and not done.out
    assert not list(work.iterdir())


@pytest.mark.parametrize("there", ["own.py", "test_own.py", f"{OWN}/algorithm/own.yaml"])
def test_nothing_is_overwritten_and_nothing_half_written(mqlearn, work, there):
    (work / there).parent.mkdir(parents=True, exist_ok=True)
    (work / there).write_text("mine\n")
    done = mqlearn("new", "rule", "own")
    assert done.code == 2 and done.err == f"mqlearn: name='own': would overwrite {there}; nothing was written\n"
    assert files(work) == {there: b"mine\n"}


def test_two_kinds_share_the_folder_of_yamls(mqlearn, work):
    assert mqlearn("new", "rule", "one").code == mqlearn("new", "rule", "two").code == 0
    assert [path.name for path in sorted((work / OWN / "algorithm").iterdir())] == ["one.yaml", "two.yaml"]


# --- the notebook -----------------------------------------------------------------------------------------------------


@pytest.mark.integration  # half a minute: a kernel, a sweep, and all cells
def test_the_notebook_runs_from_top_to_bottom(mqlearn, work, outputs, monkeypatch):
    monkeypatch.setenv("PATH", PROGRAMS["PATH"])
    done = mqlearn("new", "tutorial")
    assert done.code == 0 and "tutorial.ipynb" in done.out.splitlines()
    notebook = nbformat.read(work / "tutorial.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(work)}}).execute()
    said = json.dumps(notebook.cells)
    assert '"output_type": "error"' not in said and "Warning" not in said
    assert "image/png" in said and "SpeedyQ is better than Q-learning (" in said
    assert [path.name for path in (outputs / "runs").iterdir()] == ["tutorial"]


def test_what_runs_a_notebook_is_said_or_what_to_install(mqlearn, work, monkeypatch):
    monkeypatch.setenv("PATH", PROGRAMS["PATH"])
    assert "Run it:   jupyter execute --inplace one.ipynb" in (said := mqlearn("new", "tutorial", "one").out)
    assert "pip install" not in said
    monkeypatch.setenv("PATH", str(work))
    assert "pip install '.[notebook]'" in mqlearn("new", "tutorial", "two").out


def test_a_notebook_is_a_valid_one_and_may_have_another_name(mqlearn, work):
    assert mqlearn("new", "tutorial", "first_steps").code == 0
    notebook = nbformat.read(work / "first_steps.ipynb", as_version=4)
    nbformat.validate(notebook)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code" and not cell.source.startswith("!")]
    compile("\n".join(code), "first_steps.ipynb", "exec")
    assert [path.name for path in work.iterdir()] == ["first_steps.ipynb"]
    assert mqlearn("new", "tutorial", "first_steps").code == 2
