"""No README promises what does not work: Python runs, commands run (in small), links lead somewhere.

A page is read as a session: its commands are typed one after the other in one folder.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mqlearn.cli.main import main
from mqlearn.cli.verbs import VERBS
from mqlearn.experiments.plan import GROUPS
from mqlearn.paths import CONF

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for folder in (ROOT, ROOT / "conf", ROOT / "mqlearn", *(ROOT / "mqlearn").iterdir(), ROOT / "outputs" / "paper",
                   ROOT / "tests")
    for path in folder.glob("README.md")
}  # fmt: skip
PAPER = PAGES["outputs/paper/README.md"]

FEW = ("iterations=50", "n_seeds=2", "n_checkpoints=5", "tracking=none")
# Commands that take minutes, or wait for a browser or a server. Checked by their names here, and run in other tests.
LONG = {
    "mqlearn ui": "serves until it is stopped",
    "mqlearn upload FOLDER": "makes a store; in tests/storage",
    "mqlearn doctor": "a minute; in tests/cli/test_doctor.py",
    "mqlearn doctor --config-dir my_conf plugins=[my_rules] algorithm=heavy_ball": "likewise",
    "mqlearn claims smoke=true": "half a minute; in tests/analysis/test_claims.py",
    "mqlearn claims momentum_vs_speedy_q": "a minute; likewise",
    "mqlearn claims --paper zap_2017": "minutes; in small in tests/analysis/test_claim_readings.py",
    "mqlearn bench classic --config-dir my_conf plugins=[heavy_ball] algorithm=heavy_ball": "a minute; in small in "
    "tests/suites/test_suite.py",
    "mqlearn bench paper algorithm=root_sa,speedy_q": "minutes; likewise",
    "mqlearn run -m experiment=fair_tuning": "30 cells; in small in the fixture `finished`",
    "mqlearn figure figure1 --check": "compares whole runs; in tests/test_end_to_end.py",
    "mqlearn figure figure2": "minutes, and a model of 16384 states",
    "mqlearn compare experiment.name=figure2 summary=return metric=return_uniform at=3000000": "needs these runs",
    "mqlearn compare experiment.name=figure2 metric=theta_error": "likewise",
}


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGES[page], re.DOTALL)


def commands(page: str) -> list[str]:
    lines = "".join(blocks(page, "sh")).replace("\\\n", "").splitlines()
    lines = [" ".join(re.sub(r"\s+#.*", "", line).split()) for line in lines]
    return [line for line in lines if line]


def test_the_front_page_is_short_and_all_pages_are_found():
    assert PAGES["README.md"].count("\n") <= 150
    assert {"README.md", "conf/README.md", "mqlearn/README.md", "tests/README.md"} <= PAGES.keys()
    assert sum(len(commands(page)) for page in PAGES) > 60


# --- what is typed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")])
def test_python_runs_from_top_to_bottom(page, capsys):
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, page, "exec"), names)
    printed = capsys.readouterr().out.splitlines()
    if page == "README.md":
        assert [line for line in printed if line.startswith("SpeedyQ is better than Q-learning (")]
        assert [line for line in printed if line.startswith("MomentumQ is better than Q-learning (")]


def typed(*arguments: str) -> int:
    """The exit code of `mqlearn ARGUMENTS`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.argv", ["mqlearn", *arguments])
        try:
            main([*arguments])
        except SystemExit as done:
            return done.code if isinstance(done.code, int) else 1
    return 0


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Iterator[Path]:
    """Outputs with the experiments that commands ask about, in small: figure1, and fair_tuning on two seeds."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("MQLEARN_OUTPUTS", str(folder))
        small = ("n_seeds=6", "n_checkpoints=20", "tracking=none")
        sweep = ("hydra/launcher=basic", "experiment.name=fair_tuning", "iterations=300", *small)
        rules = ("algorithm=q_learning,speedy_q", "step_size=harmonic")
        assert typed("figure", "figure1", "iterations=10000", *small) == 0
        assert typed("run", "-m", *rules, "step_size.offset=0,1,2", "seed=0", *sweep) == 0
        assert typed("run", "-m", *rules, "step_size.offset=0,2", "seed=1", *sweep) == 0
    yield folder


def of_the_user(page: str) -> None:
    """The files that a page speaks of without writing them, in the current folder."""
    np.savez("FILE.npz", x=[0, 0, 1], u=[0, 1, 0], r=[5.0, 10.0, -1.0], y=[0, 1, 1])
    Path("FILE.txt").write_text("SFF\nFHF\nFFG\n", encoding="utf-8")
    if any("my_rules" in line for line in commands(page)):
        rules, yaml = "mqlearn/algorithms/README.md", Path("my_conf", "algorithm", "heavy_ball.yaml")
        module = next(block for block in blocks(rules, "python") if "HeavyBall(mq.Rule)" in block)
        Path("my_rules.py").write_text(module, encoding="utf-8")
        yaml.parent.mkdir(parents=True)
        yaml.write_text(blocks(rules, "yaml")[0], encoding="utf-8")


def made_small(line: str, outputs: Path) -> list[str]:
    """The arguments of a command with fewer iterations, seeds and states, and without MLflow."""
    verb, *rest = shlex.split(line)[1:]
    rest = [str(next(outputs.glob("runs/fair_tuning/*"))) if word == "FOLDER" else word for word in rest]
    rest = [word.replace("env.n_states=100000", "env.n_states=2000") for word in rest]
    if verb in ("run", "figure") and not {"--help", "--cfg"} & {*rest}:
        few = FEW[2:] if "sampling=recorded" in rest else FEW  # it has its own numbers of iterations and seeds
        rest += [*few, *(["hydra/launcher=basic"] if "-m" in rest else [])]
    elif verb in ("compare", "report", "export", "delete"):
        rest += ["tracking=none"]
    return [verb, *rest]


SESSIONS = [  # those of half a minute among the integration tests
    pytest.param(page, marks=pytest.mark.integration if page in ("README.md", "mqlearn/analysis/README.md") else ())
    for page in PAGES
    if commands(page)
]


@pytest.mark.parametrize("page", SESSIONS)
def test_commands_run_one_after_the_other(page, finished, work, outputs, capsys):
    shutil.copytree(finished, outputs)
    of_the_user(page)
    for line in commands(page):
        program, *arguments = shlex.split(line)
        if program != "mqlearn":
            check_script(line)
        elif line in LONG:
            assert arguments[0] in VERBS
        else:
            assert typed(*made_small(line, outputs)) == 0, f"{line}\n{capsys.readouterr().err}"


def check_script(line: str) -> None:
    """A script is there, and so is what it is asked for."""
    if line == "source .venv/bin/activate":
        return
    program, *arguments = shlex.split(line.removeprefix(".venv/bin/python "))
    assert os.access(ROOT / program, os.X_OK) or (program.endswith(".py") and (ROOT / program).is_file()), line
    figures = [path.stem for path in (CONF / "experiment").glob("figure?.yaml")]
    if program == "scripts/reproduce" and arguments:
        assert arguments[0] in ("bench", "claims", "papers", "all", *figures), line
        assert set(arguments[1:]) <= {"--check"}, line
    if program == "scripts/test" and arguments:
        assert (ROOT / arguments[0]).exists(), line


def test_what_is_long_is_still_said():
    every = {line for page in PAGES for line in commands(page)}
    assert LONG.keys() <= every


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "bash")])
def test_what_a_cluster_is_told_can_be_read(page, work, outputs):
    """Without the launcher, which tests marked integration use on a real Slurm."""
    for block in blocks(page, "bash"):
        subprocess.run(["bash", "-n"], input=block, text=True, check=True)
        for line in block.replace("\\\n", " ").splitlines():
            if line.startswith("mqlearn run"):
                words = [word for word in shlex.split(line)[2:] if not word.startswith("hydra")]
                assert typed("run", *words, "hydra/launcher=basic", "preview=true", *FEW) == 0


@pytest.mark.parametrize("page", PAGES)
def test_verbs_and_choices_in_the_text_are_those_that_there_are(page):
    prose = re.sub(r"```.*?```", "", PAGES[page], flags=re.DOTALL)
    code = re.findall(r"`([^`\n]+)`", prose)
    for verb in (match[1] for text in code for match in re.finditer(r"\bmqlearn ([a-z]+)", text)):
        assert verb in VERBS, verb
    own = {"heavy_ball"}
    for group, choices in re.findall(rf"\b({'|'.join(GROUPS)})=([a-z0-9_,]+)", " ".join(code)):
        for choice in choices.split(","):
            assert (CONF / group / f"{choice}.yaml").is_file() or choice in own, f"{group}={choice}"


# --- where it leads -----------------------------------------------------------------------------------------------


def anchors(text: str) -> list[str]:
    """What the headings of the second level are called in links."""
    headings = re.findall(r"^##+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings]


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_files_and_headings_that_there_are(page):
    links = re.findall(r"\]\(([^)\s#]*)(?:#([^)\s]*))?\)", PAGES[page])
    assert links
    for file, heading in links:
        if re.match(r"[a-z]+:", file):
            continue
        target = (ROOT / page).parent / file if file else ROOT / page
        assert target.exists(), file
        if heading:
            assert heading in anchors(target.read_text(encoding="utf-8")), heading


@pytest.mark.parametrize("page", PAGES)
def test_a_page_begins_with_its_contents(page):
    contents = re.search(r"^Contents:.*?\n\n", PAGES[page], re.MULTILINE | re.DOTALL)
    assert contents is not None
    assert re.findall(r"\(#([^)]*)\)", contents[0]) == anchors(PAGES[page])
    assert PAGES[page].index("Contents:") < PAGES[page].index("\n## ")


# --- what it says was measured ------------------------------------------------------------------------------------


def rows(heading: str) -> list[list[str]]:
    """The table below a heading of outputs/paper/README.md, without its head."""
    section = PAPER.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def stored(data: dict[str, np.ndarray], name: str, k: int) -> float:
    """The mean over the seeds at the last checkpoint up to k."""
    column = np.searchsorted(data[f"{name} | iteration"], k, side="right") - 1
    return float(data[f"{name} | band"][0, column])


def short(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".removeprefix("0")


def test_the_table_of_figure_1_is_that_of_the_reference_data():
    labels = {
        "Q-learning, 1/(k+1)": "Q-learning",
        "Q-learning, 1/(1+(1-g)(k+1))": "Q-learning, rescaled linear",
        "SpeedyQ (Azar)": "SpeedyQ",
        "SpeedyQ (as printed in the paper)": "SpeedyQ, as printed",
        "NeSA, zeta = 0.1": r"NeSA $\zeta=0.1$",
    } | {f"MomentumQ, m = {m}": f"MomentumQ $m={m}$" for m in (2, 10, 100)}
    with np.load(ROOT / "outputs" / "paper" / "figure1.npz") as data:
        shown = rows("Figure 1")
        assert [rule for rule, *_ in shown] == list(labels)
        for rule, *cells in shown:
            maps = [f"FrozenLake {size} | {labels[rule]}" for size in ("4×4", "8×8")]
            assert cells == [short(stored(data, name, k), 4) for name in maps for k in (10**3, 10**4, 10**5)], rule


def test_the_table_of_figure_2_is_that_of_the_reference_data():
    rules = ("Q-learning", "Q-learning, twice the step", "Q-learning, matched step", "MomentumQ")
    end = 12_000_000
    with np.load(ROOT / "outputs" / "paper" / "figure2.npz") as data:
        shown = rows("Figure 2")
        assert [setting for setting, *_ in shown] == [
            f"{step} step, {sampling}" for step in ("constant", "diminishing") for sampling in ("replay", "Markovian")
        ]
        for setting, *cells in shown:
            for rule, cell in zip(rules, cells, strict=True):
                returns = [stored(data, f"{setting} | return_uniform | {rule}", k) for k in (end // 4, end // 2, end)]
                error = short(stored(data, f"{setting} | theta_error | {rule}", end), 2)
                assert cell == f"{' / '.join(f'{value:.0f}' for value in returns)}, {error}", (setting, rule)


def test_the_verdicts_in_words_are_those_of_the_stored_claims():
    claims = json.loads((ROOT / "outputs" / "paper" / "claims.json").read_text(encoding="utf-8"))
    said = dict(re.findall(r"^- `(\w+)`, \*([a-z ]+)\*\.", PAPER, re.MULTILINE))
    assert said == {claim["claim"]: claim["verdict"].replace("_", " ") for claim in claims}
