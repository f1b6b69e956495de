"""A run folder may come from anybody: reading it imports, calls and opens nothing that it names, and damage is said.

Each way in lies in a folder beside two good runs; a hook of the interpreter tells what was opened and imported.
"""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from omegaconf import OmegaConf

SMALL = ("iterations=60", "n_checkpoints=4", "n_seeds=3", "tracking=none", "experiment.name=received")
TRAP = "from pathlib import Path\nPath('sprung').touch()\n\n\ndef spring(*_, **__):\n    Path('sprung').touch()\n"
EXPERIMENT = """# @package _global_
experiment: {name: received}
iterations: 60
n_checkpoints: 4
n_seeds: 3
figure:
  module: mqlearn.analysis.figures.error_curves
  band: ci95
  metric: q_error
  grid: {all: [discount=0.9]}
  curves: {Q-learning: [algorithm=q_learning], Speedy Q-learning: [algorithm=speedy_q]}
"""
Settings = dict[str, Any]

_watched: list[str] = []
_seen: list[str] = []


def _watch(event: str, arguments: tuple) -> None:
    if _watched and event in ("open", "import"):
        name = str(arguments[0])
        _seen.extend(one for one in _watched if name == one or name.endswith(f"/{one}"))


sys.addaudithook(_watch)  # for good, and idle without a watched name


class Pickled:
    def __reduce__(self):
        return os.system, ("touch sprung",)


def foreign(setting: str, value: Any, *, plugins: tuple[str, ...] = ()) -> Callable[[Settings, Path], None]:
    """A way in: a value somewhere in the record's settings."""

    def change(settings: Settings, _: Path) -> None:
        *above, last = setting.split(".")
        node = settings
        for key in above:
            node = node[key]
        node[last] = value
        settings["plugins"] = list(plugins)

    return change


def pickled(name: str) -> Callable[[Settings, Path], None]:
    def change(_: Settings, folder: Path) -> None:
        array = np.empty(1, object)
        array[0] = Pickled()
        np.savez(folder / name, iteration=array)

    return change


SPRING = {"_target_": "trap_of_theirs.spring", "name": "frozen_lake_4x4"}
OF_OURS = {"_target_": "mqlearn.problems.model_files.sha256", "path": "ABSOLUTE/private.json"}
WAYS = {
    "a module": foreign("experiment.name", "received", plugins=("trap_of_theirs",)),
    "a function of a module": foreign("env", SPRING, plugins=("trap_of_theirs",)),
    "a function of Python's": foreign(
        "env", {"_target_": "os.system", "name": "x", "command": "touch sprung"}, plugins=("os",)
    ),
    "a function of Python's, no module": foreign("algorithm", {"_target_": "os.system", "command": "touch sprung"}),
    "a function of ours that is no model": foreign("env", OF_OURS),
    "a verb of ours": foreign("env", {"_target_": "mqlearn.cli.main.main", "argv": ["compare", "--json", "sprung"]}),
    "a module of ours as a plugin": foreign("env", OF_OURS, plugins=("mqlearn.problems.model_files",)),
    "a nested node": foreign(
        "step_size", {"_target_": "mqlearn.Matched", "name": "matched", "base": SPRING}, plugins=("trap_of_theirs",)
    ),
    "a nested node of ours": foreign("algorithm.m", OF_OURS),
    "a metric": foreign("metrics", {"theirs": "trap_of_theirs.spring"}, plugins=("trap_of_theirs",)),
    "an interpolation": foreign("env.name", "${spring:}"),
    "an interpolation of a number": foreign("discount", "${spring:}"),
    "an environment of a module": foreign(
        "env", {"_target_": "mqlearn.by_id", "name": "gymnasium", "id": "trap_of_theirs:Trap-v0", "kwargs": {}}
    ),
    "an absolute path of a map": foreign("env.map", "ABSOLUTE/private.txt"),
    "an upward path of a map": foreign("env.map", "../private.txt"),
    "a path of a model": foreign(
        "env", {"_target_": "mqlearn.from_file", "name": "file", "path": "ABSOLUTE/private.json"}
    ),
    "an upward path of a choice": foreign("env.name", "../../../private"),
    "an alias that stands for much": lambda settings, folder: None,
    "pickled curves": pickled("curves.npz"),
    "pickled tables": pickled("tables.npz"),
}  # fmt: skip
READING: dict[str, tuple[str, ...]] = {
    "compare": ("compare", "experiment.name=received", "--json", "v.json", "--csv", "v.csv", "--latex", "v.tex"),
    "compare tuned": ("compare", "experiment.name=received", "tuned=true"),
    "report": ("report", "experiment.name=received", "tracking=none"),
    "figure": ("figure", "received", "--config-dir", "conf", "tracking=none"),
    "status": ("status", "experiment.name=received", "--json", "status.json"),
}
VERBS: dict[str, tuple[str, ...]] = {
    "rerun": ("rerun", "FOLDER"),
    "run": ("run", *SMALL, "existing=skip", "algorithm=nesa"),
    "run -m": ("run", "-m", "hydra/launcher=basic", *SMALL, "algorithm=nesa"),
    "upload": ("upload", "FOLDER"),
}


@pytest.fixture(scope="module")
def received(tmp_path_factory) -> Iterator[Path]:
    """Three runs of one experiment, of which tests make the last one foreign."""
    from mqlearn.cli.main import main

    outputs = tmp_path_factory.mktemp("received")
    before = os.environ.get("MQLEARN_OUTPUTS")
    os.environ["MQLEARN_OUTPUTS"] = str(outputs)
    try:
        for algorithm in ("q_learning", "speedy_q", "nesa"):
            with pytest.raises(SystemExit) as ended:
                main(["run", *SMALL, f"algorithm={algorithm}"])
            assert ended.value.code == 0
    finally:
        os.environ.pop("MQLEARN_OUTPUTS")
        if before is not None:
            os.environ["MQLEARN_OUTPUTS"] = before
    yield outputs


@pytest.fixture
def folder(received, stored, outputs, work) -> Iterator[Path]:
    """The folder of a run among others, and the traps around it."""
    shutil.copytree(received / "runs", outputs / "runs")
    (work / "trap_of_theirs.py").write_text(TRAP)
    (work / "conf" / "experiment").mkdir(parents=True)
    (work / "conf" / "experiment" / "received.yaml").write_text(EXPERIMENT)
    for name in ("private.txt", "private.json", "private.yaml"):
        (work.parent / name).write_text("PRIVATE")
    OmegaConf.register_new_resolver("spring", lambda: Path("sprung").touch(), replace=True)
    for one in (outputs / "runs" / "received").iterdir():
        if yaml.safe_load((one / "config.yaml").read_text())["algorithm"]["name"] == "nesa":
            found = one
    _watched[:] = ["trap_of_theirs", "trap_of_theirs.py", "private.txt", "private.json", "private.yaml"]
    _seen.clear()
    yield found
    _watched.clear()
    OmegaConf.clear_resolver("spring")


def spoil(folder: Path, way: str, work: Path) -> None:
    """Make a run foreign, as one of a version without checksums, and without a digest that is looked up."""
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    summary = json.loads((folder / "summary.json").read_text())
    for entry in ("files", "checksum", "digest_version", "format"):
        summary.pop(entry, None)
    WAYS[way](settings, folder)
    text = yaml.safe_dump(settings).replace("ABSOLUTE", str(work.parent))
    if way == "an alias that stands for much":
        text += "".join(
            f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 9 if i else ['lol'] * 9)}]\n" for i in range(9)
        )  # fmt: skip
    (folder / "config.yaml").write_text(text)
    (folder / "summary.json").write_text(json.dumps(summary))


@pytest.mark.parametrize("verb", READING)
def test_reading_all_folders_runs_and_opens_nothing_that_they_name(verb, folder, outputs, work, mqlearn):
    """All ways at once, each in a run of another rule on the same seeds, so that none stands for another."""
    for i, way in enumerate(WAYS):
        one = shutil.copytree(folder, folder.with_name(f"foreign_{i}"))
        settings = yaml.safe_load((one / "config.yaml").read_text())
        settings["algorithm"]["zeta"] = 0.2 + i / 100
        (one / "config.yaml").write_text(yaml.safe_dump(settings))
        spoil(one, way, work)
        summary = json.loads((one / "summary.json").read_text())
        (one / "summary.json").write_text(json.dumps(summary | {"digest": f"{i:0{len(summary['digest'])}x}"}))
    done = mqlearn(*READING[verb])
    assert not (work / "sprung").exists()
    assert not _seen
    written = [path.read_text(errors="replace") for path in outputs.rglob("*.html")]
    assert "PRIVATE" not in "".join([done.out, done.err, *written])
    if verb in ("compare tuned", "status"):  # refused: there are no other seeds, and no sweep
        assert done.code == 2 and done.err.startswith(("mqlearn: tuned=True: ", "mqlearn: experiment.name="))
    else:
        assert done.code == 0, done.err  # the good runs are there all the same
    if verb == "compare":  # all have been read: five are refused, and the others are compared with the three good runs
        n = len(WAYS) - 5 + 3
        assert done.out.count("not counted: ") == 5 and f" of {n * (n - 1) // 2} comparisons" in done.out


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("way", WAYS)
def test_reading_a_folder_runs_and_opens_nothing_that_it_names(way, verb, folder, outputs, work, mqlearn):
    spoil(folder, way, work)
    done = mqlearn(*(str(folder) if word == "FOLDER" else word for word in VERBS[verb]))
    assert not (work / "sprung").exists()
    assert not _seen
    written = [path.read_text(errors="replace") for path in outputs.rglob("*.html")]
    assert "PRIVATE" not in "".join([done.out, done.err, *written])
    if verb == "rerun":
        assert done.code == 2 or way in ("an upward path of a choice", "a metric", "pickled tables"), done.out
    else:
        assert done.code in (0, 1, 2)
    if done.code == 2:
        assert done.err.startswith("mqlearn: ") and "=" in done.err.partition(":")[2].partition(":")[0]


def test_a_module_of_the_users_is_imported_for_a_record_when_the_user_names_it(folder, work, mqlearn):
    source = "from mqlearn import QLearning\n\n\nclass Mine(QLearning):\n    pass\n"
    (work / "rule_of_mine.py").write_text(source)
    own = ("plugins=[rule_of_mine]", "algorithm._target_=rule_of_mine.Mine", "algorithm.name=mine")
    assert mqlearn("run", *SMALL, *own).code == 0
    runs_of = {path: yaml.safe_load((path / "config.yaml").read_text()) for path in folder.parent.iterdir()}
    (mine,) = (path for path, settings in runs_of.items() if settings["algorithm"]["name"] == "mine")
    refused = mqlearn("rerun", mine)
    assert refused.code == 2 and "plugins='rule_of_mine'" in refused.err and "plugins=[rule_of_mine]" in refused.err
    assert mqlearn("rerun", mine, "plugins=[rule_of_mine]").code == 0
    page = folder.parents[2] / "reports" / "received.html"
    assert mqlearn("report", "experiment.name=received", "tracking=none").code == 0
    assert "imported only if you name it" in page.read_text()
    assert mqlearn("report", "experiment.name=received", "tracking=none", "plugins=[rule_of_mine]").code == 0
    assert "imported only if you name it" not in page.read_text()


NAMES = {
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>",
    "latex": r"\input{private} %$#_&{}~^",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_are_written_as_text_in_pages_and_tables(name, folder, outputs, work, mqlearn):
    settings = yaml.safe_load((folder / "config.yaml").read_text())
    settings["algorithm"]["name"] = settings["env"]["name"] = NAMES[name]
    settings["experiment"]["name"] = NAMES[name]
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    summary = json.loads((folder / "summary.json").read_text())
    for entry in ("files", "checksum", "format"):
        summary.pop(entry, None)
    summary |= {"name": NAMES[name], "command": NAMES[name], "warnings": [NAMES[name]], "versions": {NAMES[name]: "1"}}
    (folder / "summary.json").write_text(json.dumps(summary))
    assert mqlearn("report", "experiment.name=received", "tracking=none").code == 0
    page = (outputs / "reports" / "received.html").read_text()
    assert "<script>alert" not in page and "<img src=x" not in page
    done = mqlearn("compare", "experiment.name=received", "--latex", "v.tex")
    assert done.code == 0
    assert "\\input" not in (work / "v.tex").read_text()


def _curves(**changed: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        with np.load(folder / "curves.npz") as stored:
            arrays = dict(stored)
        np.savez(
            folder / "curves.npz", **{key: value for key, value in (arrays | changed).items() if value is not None}
        )

    return change


def _summary(**changed: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "summary.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changed))

    return change


def _config(**changed: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | changed))

    return change


DAMAGES = {
    "curves.npz: iteration is missing": _curves(iteration=None),
    "curves.npz: iteration of texts": _curves(iteration=np.array(["a", "b", "c", "d"])),
    "curves.npz: iteration of two axes": _curves(iteration=np.zeros((2, 2), int)),
    "curves.npz: q_error of one axis": _curves(q_error=np.zeros(4)),
    "curves.npz: q_error of another length": _curves(q_error=np.zeros((3, 9))),
    "curves.npz: q_error of texts": _curves(q_error=np.full((3, 4), "x")),
    "curves.npz: value_gap of other seeds": _curves(value_gap=np.zeros((2, 4))),
    "summary.json: status": _summary(status=7),
    "summary.json: diverged": _summary(diverged=[1]),
    "summary.json: digest": _summary(digest=3),
    "summary.json: final": _summary(final=[]),
    "summary.json: seconds": _summary(seconds="long"),
    "summary.json: warnings": _summary(warnings={"a": 1}),
    "summary.json: versions": _summary(versions="new"),
    "summary.json: ended": _summary(ended=5),
    "config.yaml: discount": _config(discount="high"),
    "config.yaml: n_seeds": _config(n_seeds=[3]),
    "config.yaml: env": _config(env="lake"),
    "config.yaml: algorithm": _config(algorithm={"name": "q"}),
    "config.yaml: plugins": _config(plugins="os"),
    "config.yaml: experiment": _config(experiment={"name": 3}),
    "config.yaml: metrics": _config(metrics=[1]),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_wrong_shapes_and_types_are_one_message_with_folder_file_and_entry(damage, folder, mqlearn):
    _summary()(folder)
    summary = json.loads((folder / "summary.json").read_text())
    for entry in ("files", "checksum", "format"):
        summary.pop(entry, None)
    (folder / "summary.json").write_text(json.dumps(summary))
    DAMAGES[damage](folder)
    file, entry = damage.split(": ")
    entry = entry.partition(" ")[0]
    compared = mqlearn("compare", "experiment.name=received")
    assert compared.code == 0
    (said,) = (line for line in compared.out.splitlines() if str(folder) in line)
    assert file in said and entry in said
    assert mqlearn("report", "experiment.name=received", "tracking=none").code == 0
    for verb in (("rerun", folder), ("upload", folder, "tracking=mlflow")):
        done = mqlearn(*verb)
        if file != "curves.npz" and done.code != 0:
            assert done.code == 2 and "folder=" in done.err and file in done.err and entry in done.err
