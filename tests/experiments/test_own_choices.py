"""Choices of a user's own folder: before shipped ones of the same name, which the command line says that they hide."""

import json
from pathlib import Path

import pytest
import yaml

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import compose, own_choices
from mqlearn.experiments.settings.cell import build
from mqlearn.paths import CONF
from mqlearn.suites import definition, rules, trials

SMALL = ("iterations=20", "n_checkpoints=3", "n_seeds=2", "tracking=none")
FIGURE = """# @package _global_
figure:
  module: mqlearn.analysis.figures.error_curves
  band: ci95
  metric: q_error
  curves: {A: [algorithm=momentum_q]}
"""
# A choice of each group, under the name of a shipped one, and a setting by which it is known.
OTHER = {
    "env": ("queue", {"_target_": "mqlearn.queue", "n": 5}, ("n", 5)),
    "algorithm": ("q_learning", {"_target_": "mqlearn.MomentumQ", "m": 7}, ("m", 7)),
    "step_size": ("harmonic", {"_target_": "mqlearn.Constant", "alpha": 0.25}, ("alpha", 0.25)),
    "operator": ("soft", {"_target_": "mqlearn.Mellowmax", "omega": 3}, ("omega", 3)),
    "sampling": ("iid", {"_target_": "mqlearn.Replay", "capacity": 9}, ("capacity", 9)),
    "features": ("aggregation", {"_target_": "mqlearn.one_hot"}, ("_target_", "mqlearn.one_hot")),
    "evaluation": ("episodes", {"_target_": "mqlearn.Evaluation", "episodes": 3}, ("episodes", 3)),
    "tracking": ("mlflow", {"name": "none", "uri": None, "per_seed": False}, ("name", "none")),
}


def put(group: str, name: str, content: dict | str, folder: str = "mine") -> Path:
    path = Path(folder) / group / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path.resolve()


@pytest.mark.parametrize("way", ["--config-dir", "hydra.searchpath"])
@pytest.mark.parametrize("group", OTHER)
def test_an_own_choice_goes_before_the_shipped_one_of_its_name(group, way, work, mqlearn):
    name, content, (key, value) = OTHER[group]
    file = put(group, name, content)
    folder = ["--config-dir", "mine"] if way == "--config-dir" else [f"hydra.searchpath=[file://{work}/mine]"]
    done = mqlearn("run", *folder, "--cfg", "job", f"{group}={name}")  # composed by Hydra's own loader
    assert yaml.safe_load(done.out)[group][key] == value
    assert done.err == f"warning: {group}={name} is {file}, which hides the one of mqlearn\n"
    overrides = [f"{group}={name}", *(folder if way != "--config-dir" else [])]
    composed = compose.compose(overrides, "mine" if way == "--config-dir" else None)  # and by ours
    assert composed[group][key] == value
    assert composed["own_choices"] == {group: {"file": str(file), "hides": True}}


def test_an_own_problem_is_the_one_that_is_solved(work, mqlearn):
    put("env", "queue", {"_target_": "mqlearn.queue", "n": 5})
    own = json.loads(mqlearn("truth", "--config-dir", "mine", "env=queue", "--json").out)
    assert own == json.loads(mqlearn("truth", "env=queue", "env.n=5", "--json").out)
    assert own != json.loads(mqlearn("truth", "env=queue", "--json").out)


def test_an_own_experiment_is_the_one_that_is_swept_and_drawn(outputs, mqlearn):
    file = put("experiment", "coupled", FIGURE)
    own = ("--config-dir", "mine", *SMALL)
    preview = mqlearn("run", "-m", *own, "experiment=coupled", "preview=true")
    assert preview.out.startswith("1 cells")
    assert f"yours: experiment=coupled of {file}\n" in preview.out
    assert f"warning: experiment=coupled is {file}, which hides the one of mqlearn\n" in preview.err
    assert mqlearn("figure", "coupled", *own).code == 0
    told = mqlearn("explain", outputs / "figures" / "coupled_iterations=20_n_checkpoints=3_n_seeds=2.png", *SMALL[3:])
    assert ["own_choices.experiment.file", str(file)] in [line.split() for line in told.out.splitlines()]


def test_the_record_names_the_file_in_every_way_of_running(outputs, mqlearn):
    file = put("algorithm", "q_learning", {"_target_": "mqlearn.MomentumQ", "m": 7})
    own = ("--config-dir", "mine", *SMALL)
    said = f"warning: algorithm=q_learning is {file}, which hides the one of mqlearn\n"
    single = mqlearn("run", *own, "algorithm=q_learning", "seed=1")
    swept = mqlearn("run", "-m", *own, "algorithm=q_learning", "seed=2,3", "hydra/launcher=basic")
    assert (single.code, single.err.count(said), swept.code, swept.err.count(said)) == (0, 1, 0, 1)
    mqlearn("run", *SMALL, "algorithm=momentum_q", "algorithm.m=7", "seed=4")
    records = {}
    for path in outputs.glob("runs/*/*/summary.json"):
        settings = yaml.safe_load((path.parent / "config.yaml").read_text())
        assert "own_choices" not in settings and settings["algorithm"]["m"] == 7
        records[settings["seed"]] = json.loads(path.read_text()).get("own_choices")
    mine = {"algorithm": {"file": str(file), "hides": True}}
    assert records == {1: mine, 2: mine, 3: mine, 4: None}
    folder = next(outputs.glob("runs/*/*/summary.json")).parent
    assert mqlearn("rerun", folder).code == 0  # by its settings, without the user's folder


def test_a_choice_that_hides_nothing_is_recorded_without_a_word(work, mqlearn):
    file = put("env", "short_queue", {"_target_": "mqlearn.queue", "n": 5})
    put("env", "queue", (CONF / "env" / "queue.yaml").read_text())
    done = mqlearn("truth", "--config-dir", "mine", "env=short_queue")
    assert "hides" not in done.err
    assert compose.compose(["env=short_queue"], "mine")["own_choices"]["env"] == {"file": str(file), "hides": False}
    assert not compose.compose(["env=queue"], "mine")["own_choices"]["env"]["hides"]  # of the same content
    assert mqlearn("run", "+own_choices=x").err.startswith("mqlearn: own_choices='x': there is no such setting")


def test_where_a_run_comes_from_is_no_part_of_its_digest(work):
    put("env", "queue", (CONF / "env" / "queue.yaml").read_text())
    assert build(compose.compose(["env=queue"], "mine")).digest == build(compose.compose(["env=queue"])).digest


def test_a_whole_configuration_in_an_own_folder_is_refused(work, mqlearn):
    put("", "config", {"iterations": 7})
    done = mqlearn("run", "--config-dir", "mine", *SMALL)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"mqlearn: --config-dir='mine': has choices of groups alone: {work}/mine/config.yaml is")
    put("", "config", (CONF / "config.yaml").read_text())  # as in a copy of conf/
    assert compose.compose(["iterations=7"], "mine")["iterations"] == 7


def test_hints_know_own_choices(work, mqlearn):
    put("env", "mine", {"_target_": "mqlearn.queue", "n": "???", "special": 1})
    put("env", "asks", "# Say how long it is: env.n=5\n_target_: mqlearn.queue\nn: ???\n")
    assert "is a setting of env=mine" in mqlearn("truth", "--config-dir", "mine", "env.special=2").err
    assert "must be given. Say how long it is: env.n=5" in mqlearn("truth", "--config-dir", "mine", "env=asks").err


def test_a_board_has_the_rules_and_problems_of_mqlearn_whatever_an_own_folder_has(work):
    put("algorithm", "q_learning", {"_target_": "mqlearn.MomentumQ", "m": 7})
    put("step_size", "rescaled_linear", {"_target_": "mqlearn.Constant", "alpha": 0.25})
    put("env", "frozen_lake_4x4", {"_target_": "mqlearn.queue", "n": 5})
    with pytest.raises(SettingError, match=r"is a rule of mqlearn, .* rename yours"):
        rules.entrants(["q_learning"], (), "mine")
    suite = definition.load("paper", "mine")
    assert [one.digest for one in suite.problems] == [one.digest for one in definition.load("paper").problems]
    (contest,) = trials._composed(suite.problems[0], rules.entrants(["q_learning"]), (), {})
    assert type(contest.default) is mq.QLearning


@pytest.mark.parametrize(
    ("verb", "group", "name", "line"),
    [
        (["claims", "theorem_3", "smoke=true"], "claim", "theorem_3", "statement: mine\n"),
        (["bench", "paper"], "suite", "paper", "budget: 100\n"),
        (["papers", "zap_2017"], "paper", "zap_2017", "citation: mine\n"),
    ],
)
def test_an_own_claim_suite_or_paper_that_hides_one_is_said_and_a_fault_in_it_names_the_file(
    verb, group, name, line, work, mqlearn
):
    file = put(group, name, line)
    done = mqlearn(*verb, "--config-dir", "mine")
    warning, error = done.err.splitlines()[:2]
    assert warning == f"warning: {group}={name} is {file}, which hides the one of mqlearn"
    assert (done.code, done.out) == (2, "") and f"in mine/{group}/{name}.yaml" in error


def test_what_editors_leave_and_links_to_nothing_are_no_choices(work, mqlearn):
    for group in ("algorithm", "claim", "suite", "paper", "experiment"):
        put(group, ".#q_learning", "m: [\n")
        Path(f"mine/{group}/.#mine.yaml").symlink_to("me@host.1:2")
        Path(f"mine/{group}/gone.yaml").symlink_to("me@host.1:2")
    own = ("--config-dir", "mine")
    assert compose.compose(["algorithm=momentum_q"], "mine")["algorithm"]["_target_"] == "mqlearn.MomentumQ"
    for verb, setting in (
        (("run", "algorithm=gone"), "algorithm"),
        (("run", "experiment=gone"), "experiment"),
        (("figure", "gone"), "experiment"),
        (("claims", "gone"), "claim"),
        (("papers", "gone"), "paper"),
        (("bench", "gone"), "suite"),
        (("bench", "paper", "algorithm=gone"), "algorithm"),
    ):
        done = mqlearn(*verb, *own)
        expected = (
            f"mqlearn: {setting}='gone': {work}/mine/{setting}/gone.yaml cannot be read: No such file or directory"
        )
        assert (done.code, done.out, done.err) == (2, "", f"{expected}\n")
    swept = [job[0] for job in compose.sweep(["algorithm=glob(*q_learning*)"], "mine")]
    assert "algorithm=q_learning" in swept and not [text for text in swept if "#" in text]
    for group in ("claim", "suite", "paper", "experiment", "algorithm"):
        assert not {".#q_learning", ".#mine", "gone"} & {*own_choices.files(group, "mine")}
