"""Overrides drawn at random, for every verb: an answer, or one message that names a setting; never a traceback.

Verbs that work long stop where their work begins: after validation, before anything is made.
"""

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mqlearn.cli.doctor import command as doctor
from mqlearn.cli.verbs import VERBS
from mqlearn.experiments import run_missing
from mqlearn.experiments.plan import GROUPS
from mqlearn.experiments.settings import compose
from mqlearn.paths import CONF
from mqlearn.storage import tracking

SMALL = ("iterations=20", "n_checkpoints=3", "n_seeds=2", "tracking=none", "experiment.name=there")
NUMBERS = (
    "0", "-1", "1", "2", "3.5", "0.5", "-0.0", "nan", "inf", "-inf", ".inf", "1e308", "-1e309", "1e-320", "1e5",
    "1_0", "9" * 40, "0x10", "007", "1e", "1,2", "2**63",
)  # fmt: skip
TEXTS = (
    "", " ", "''", '""', "x", "null", "None", "~", "true", "False", "on", "ünïcödé", "日本", "\u202e", "a b",
    "a=b", "=", "\\", "'", "${discount}", "${nix}", "${oc.env:HOME}", "${", "$", "mqlearn.QLearning",
    "mqlearn.cli.main.main", "os.system", "../..", "/etc/hostname", "map.txt", "%s", "{}", "[]", "\x7f",
    "x" * 300, "-", "--", "@", ":", "frozen_lake", "q_learning",
)  # fmt: skip
NESTED = (
    "{a:1}", "{a:{b:{c:[1]}}}", "[1,2]", "[[1],[2,3]]", "[a,{b:1}]", "{_target_:os.system}",
    "{_target_:mqlearn.QLearning}", "{_target_:mqlearn.Constant,alpha:0.1}", "{_target_:1}", "{name:x}",
    "[SFFG]", "[SF,FG]", "[S,G]", "{'':1}", "choice(1,2)", "range(1,4)", "glob(*)", "interval(0,1)",
    "shuffle(1,2)", "int(3)", "str(3)", "bool(1)",
)  # fmt: skip
HYDRA = (
    "hydra.run.dir", "hydra.sweep.dir", "hydra.sweep.subdir", "hydra.verbose", "hydra.mode", "hydra.searchpath",
    "hydra.job.name", "hydra.job.num", "hydra.launcher.n_jobs", "hydra.launcher.verbose",
    "hydra.sweeper.params", "hydra.output_subdir", "hydra/launcher", "hydra/sweeper", "hydra/job_logging",
    "hydra.callbacks", "hydra.nix", "hydra", "hydra/nix",
)  # fmt: skip
OWN = (
    "preview", "existing", "against", "at", "epsilon", "summary", "metric", "diverged", "level", "interval",
    "tuned", "tuning_seed", "calibrate", "allow_mixed", "smoke", "band", "port", "figure.metric", "plugins",
    "tuning.trials", "linear.projection",
)  # fmt: skip
UNKNOWN = (
    "nix", "env.nix", "a.b.c", "", ".", "env.", ".env", "en v", "ünï", "_target_", "env@env2", "env@", "@x",
    "step_size@step_size.base", "algorithm._target_", "env._target_", "env.name", "experiment.nix", "n-seeds",
)  # fmt: skip
FLAGS = (
    "-m", "--multirun", "--json", "--csv", "--latex", "--output", "--verdicts", "--table", "--check", "--nix",
    "-x", "--cfg", "--info", "--config-dir", "-cd", "-cn", "--resolve", "--", "-",
)  # fmt: skip
PAGES = ("page.html", "picture.png", "picture.svg", "picture.pdf")
KINDS = (
    "rule",
    "stateful",
    "problem",
    "operator",
    "features",
    "metric",
    "figure",
    "claim",
    "suite",
    "tutorial",
    "nix",
    "",
)
FIXED = {  # what a verb is about, with the right word most of the time
    "figure": ("figure2_smoke", "figure2_smoke", "figure1", "nix", "tuning", ""),
    "claims": ("momentum_vs_q_learning", "nix", ""),
    "bench": ("paper", "classic", "nix", "../..", ""),
    "new": KINDS,
    "rerun": ("FOLDER", "FOLDER", "DAMAGED", "nix", "0" * 32, "/", ""),
    "upload": ("DAMAGED", "DAMAGED", "nix", "/", ""),
    "explain": (*(f"DAMAGED/{name}" for name in PAGES), "nix.png", "/", ""),
}
WEIGHTS = {"run": 12, "compare": 4, "truth": 3, "figure": 2, "report": 2, "rerun": 2}


class Stopped(Exception):
    """A verb has come to its work."""


def stop(*_: Any, **__: Any) -> Any:
    raise Stopped


@pytest.fixture
def stopping(monkeypatch):
    """Verbs that work long stop where their work begins."""
    monkeypatch.setattr(run_missing, "finished", stop)
    monkeypatch.setattr("mqlearn.cli.figure.finished", stop)
    monkeypatch.setattr("mqlearn.cli.rerun.perform", stop)
    monkeypatch.setattr("mqlearn.suites.run_suite.of_suite", stop)
    monkeypatch.setattr("mqlearn.cli.ui.open_ui", stop)
    monkeypatch.setattr(tracking, "upload", stop)
    monkeypatch.setattr(tracking, "prepare", stop)
    monkeypatch.setattr(doctor, "_carried_out", stop)


@pytest.fixture
def folders(work, outputs, mqlearn) -> dict[str, Path]:
    """A finished run, and a folder whose files are damaged anew for each line."""
    assert mqlearn("run", *SMALL).code == 0
    (folder,) = (outputs / "runs" / "there").iterdir()
    return {"FOLDER": folder, "DAMAGED": work / "damaged"}


def names() -> list[str]:
    def flat(node: dict[str, Any], above: str = "") -> list[str]:
        return [f"{above}{key}" for key in node] + [
            name for key, value in node.items() if isinstance(value, dict) for name in flat(value, f"{above}{key}.")
        ]

    return flat(compose.compose([]))


def drawn(draw: random.Random, verb: str, known: list[str]) -> list[str]:
    """A command line of a verb."""

    def value(key: str) -> str:
        if key in GROUPS and draw.random() < 0.7:
            return draw.choice([path.stem for path in sorted((CONF / key).glob("*.yaml")) if "128" not in path.stem])
        return draw.choice(draw.choice((NUMBERS, TEXTS, NESTED)))

    def override() -> str:
        key = draw.choice(draw.choice((known, known, GROUPS, HYDRA, OWN, UNKNOWN)))
        sign = draw.choice(("", "", "", "", "+", "++", "~"))
        form = draw.random()
        return f"{sign}{key}" if form < (0.7 if sign == "~" else 0.03) else f"{sign}{key}={value(key)}"

    words = [draw.choice(FIXED[verb])] if verb in FIXED and draw.random() < 0.95 else []
    if verb == "new":
        words.append(draw.choice(("mine", *TEXTS)))
    if verb == "run":
        words += ["-m"] if draw.random() < 0.5 else []
    words += [draw.choice(FLAGS) for _ in range(draw.random() < 0.15)]
    words += [override() for _ in range(draw.choice((0, 1, 1, 1, 2, 2, 3, 5)))]
    if verb == "compare" and draw.random() < 0.5:
        words.append("experiment.name=there")
    return [*words, "preview=true"] if verb == "run" else words


def damage(draw: random.Random, folder: Path, damaged: Path) -> None:
    """A copy of a run folder, in which a file is cut, flipped, emptied, or something else."""
    shutil.rmtree(damaged, ignore_errors=True)
    shutil.copytree(folder, damaged)
    page = '<script id="mqlearn-provenance" type="application/json">{"digests": 1}</script>'
    starts = ("", page, "%PDF-1.4", "<svg><metadata>{</metadata></svg>", "\x89PNG\r\n")
    for name in PAGES:
        (damaged / name).write_text(draw.choice(starts))
    path = draw.choice(sorted(damaged.iterdir()))
    content = bytearray(path.read_bytes()) or bytearray(b"x")
    how = draw.randrange(6)
    if how == 0:
        content = content[: draw.randrange(len(content))]
    elif how == 1:
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    elif how == 2:
        content = bytearray(draw.randbytes(draw.randrange(200)))
    elif how == 3:
        value = draw.choice((None, [], {}, 3, "x", {"digest": 1}, {"digest": "x", "name": 1}))
        content = bytearray(json.dumps(value).encode())
    elif how == 4 and path.suffix == ".npz":
        np.savez(path, iteration=np.arange(draw.randrange(4)), q_error=np.zeros((draw.randrange(3), 2)), q=np.zeros(2))
        return
    elif how == 5:
        path.unlink()
        return
    path.write_bytes(bytes(content))


def check(number: int, seed: int, folders: dict[str, Path], mqlearn: Callable, outputs: Path, work: Path) -> None:
    """Each line ends well; all that do not are told at once."""
    draw, known, wrong = random.Random(seed), names(), []
    verbs = [verb for verb in VERBS for _ in range(WEIGHTS.get(verb, 1))]
    before = state(outputs, work)
    for _ in range(number):
        verb = draw.choice(verbs)
        words = drawn(draw, verb, known)
        damage(draw, folders["FOLDER"], folders["DAMAGED"])
        for name, folder in folders.items():
            words = [str(folder) + word.removeprefix(name) if word.startswith(name) else word for word in words]
        try:
            done = mqlearn(verb, *words)
        except Stopped:
            continue
        except Exception as error:
            wrong.append(f"{verb} {words}: {type(error).__name__}: {str(error)[:300]}")
            continue
        if done.code not in (0, 1, 2, 3) or "Traceback" in done.err:
            wrong.append(f"{verb} {words}: exit {done.code}\n{done.err[-500:]}")
        elif done.code == 2 and not re.search(r"^mqlearn: [^=\n]+=", done.err, re.MULTILINE):
            wrong.append(f"{verb} {words}: names no setting: {done.err[-300:]}")
        elif done.code == 2 and re.search(r"^(mqlearn: )?(settings)?=", done.err, re.MULTILINE):
            wrong.append(f"{verb} {words}: an empty name: {done.err[-300:]}")
        if (after := state(outputs, work)) != before:
            if done.code not in (0, 3):
                wrong.append(f"{verb} {words}: exit {done.code}, left {sorted(after ^ before)[:5]}")
            before = after
    assert not wrong, f"{len(wrong)} of {number}:\n" + "\n".join(wrong)


def state(outputs: Path, work: Path) -> set[str]:
    files = {str(path) for top in (outputs, work) for path in top.rglob("*")}
    return {name for name in files if "/damaged" not in name and "/compiled" not in name}


@pytest.mark.parametrize("seed", range(3))
def test_inputs_drawn_at_random_are_answered(seed, folders, stopping, mqlearn, outputs, work):
    check(50, seed, folders, mqlearn, outputs, work)


@pytest.mark.integration
@pytest.mark.parametrize("seed", [3, 4, 5, *range(103, 120)])
def test_many_inputs_drawn_at_random_are_answered(seed, folders, stopping, mqlearn, outputs, work):
    check(100, seed, folders, mqlearn, outputs, work)
