"""Every command that is printed composes to the very same cell: wherever it is printed, plugins and own yamls too."""

import json
import re
import shlex
from pathlib import Path

import pytest

from mqlearn.cli import claims
from mqlearn.cli.arguments import CONFIG_DIR, parse
from mqlearn.experiments.plan import plan
from mqlearn.experiments.settings import compose, override_commands
from mqlearn.experiments.settings.cell import build
from mqlearn.experiments.sweep import tuning
from mqlearn.storage import runs

OWN = """
import mqlearn as mq


class Slow(mq.Rule):
    def __init__(self, share=0.5, note="plain"):
        self.share, self.note = share, note

    def update(self, k, q, q_prev, target, target_prev):
        return q + self.share * self.step_size(k) * (target - q)


class Less(mq.MomentumQ):  # without the settings of its parent
    def __init__(self, m=2.0, extra=None):
        super().__init__(m)
        self.extra = extra


def gap(q, mdp):
    return abs(q).max(axis=(1, 2))


def lake(size=4, discount=0.9):
    return mq.frozen_lake(["S" + "F" * (size - 2) + "G"] * 2, discount=discount)
"""


@pytest.fixture
def own(work: Path) -> str:
    """A folder of own yamls, and the module that they name, in the folder where one works."""
    (work / "recipe_rules.py").write_text(OWN)
    for group, name, text in (
        ("algorithm", "slow", "_target_: recipe_rules.Slow\nname: slow\nshare: 0.5\nnote: plain\n"),
        ("env", "lane", "_target_: recipe_rules.lake\nname: lane\nsize: 4\n"),
        ("experiment", "own", "# @package _global_\niterations: 20\nn_seeds: 2\ndiscount: 0.8\nenv: {slippery: false}\n"
         "experiment: {name: own}\ntracking: {name: none}\n"
         "figure:\n  module: mqlearn.analysis.figures.error_curves\n  metric: q_error\n"
         "  curves: {A: [algorithm=q_learning], B: [algorithm=slow]}\n"),
    ):  # fmt: skip
        (work / "conf" / group).mkdir(parents=True, exist_ok=True)
        (work / "conf" / group / f"{name}.yaml").write_text(text)
    return "conf"


def digest_of(command: str) -> str:
    """The digest of the cell that a printed `mqlearn run` composes to."""
    mqlearn, verb, *arguments = shlex.split(command)
    assert (mqlearn, verb) == ("mqlearn", "run")
    options = parse(arguments, flags=("-m",), values=CONFIG_DIR)
    return build(compose.compose(options.overrides, options.config_dir)).digest


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["env=frozen_lake_8x8", "discount=0.95", "seed=3", "reward=sampled", "q0=[0,1]", "iterations=123"],
        ["env=frozen_lake", "env.map=[SFFF,FHFH,FFFH,HFFG]", "env.rewards=[1,-1,-0.01]"],
        ["env=frozen_lake_random", "env.size=5", "env.map_seed=2", "algorithm=momentum_q", "algorithm.m=2.5"],
        ["env=gymnasium", "env.id=CartPole-v1", "features=tile_coding", "sampling=markovian"],
        ["env=gymnasium", "env.id=FrozenLake-v1", "+env.kwargs.map_name=8x8", "n_seeds=2"],
        ["env.name='my own lake, slippery'", "algorithm.name=mine"],
        ["algorithm._target_=mqlearn.SpeedyQ", "algorithm=q_learning"],
        ["step_size=matched", "step_size@step_size.base=inverse_sqrt", "step_size.beta=0.8", "step_size.lam=0.99",
         "step_size.base.alpha=0.1", "features=one_hot", "sampling=replay", "sampling.capacity=50"],
        ["env=frozen_lake_blocks", "env.repeat=1", "features=aggregation", "features.tile=2", "algorithm=momentum_q",
         "algorithm.beta=0.8", "algorithm.lam=0.999", "sampling=replay", "theta0=0.05", "step_size=constant",
         "step_size.alpha=1e-1"],
        ["sampling=markovian", "sampling.behaviour=epsilon_greedy", "sampling.epsilon=[1,0.1,100]",
         "evaluation.episodes=3", "evaluation.start=start", "linear.projection=2.5"],
        ["sampling=replay", "sampling.behaviour=boltzmann", "sampling.temperature=[1,0.1,100]", "sampling.power=0.8",
         "sampling.clock=state", "algorithm=double_q", "step_size=polynomial", "step_size.cap=0.5"],
    ],
)  # fmt: skip
def test_a_recipe_composes_to_the_very_same_cell(words):
    cell = build(compose.compose(words))
    assert digest_of(override_commands.command_of(cell.settings)) == cell.digest


@pytest.mark.parametrize(
    "words",
    [
        ["algorithm=slow"],
        ["algorithm=slow", "algorithm.share=0.25", "algorithm.note='two words, a comma and \\'quotes\\''", "env=lane"],
        ["algorithm=slow", "algorithm.note='null'", "env=lane", "env.size=6", "discount=0.7"],
        ["algorithm=slow", "algorithm.note=null", "~algorithm.note"],
        ["algorithm=slow", "algorithm._target_=recipe_rules.Less", "~algorithm.share", "~algorithm.note"],
        [
            "algorithm=momentum_q",
            "algorithm._target_=recipe_rules.Less",
            "+algorithm.extra=null",
            "algorithm.m=3",
            "~algorithm.beta",
            "~algorithm.shift",
            "~algorithm.lam",
            "~algorithm.phi",
        ],
        ["algorithm=q_learning", "algorithm._target_=recipe_rules.Slow", "+algorithm.share=0.25"],
        ["metrics={gap:recipe_rules.gap}"],
    ],
)
def test_a_recipe_with_plugins_and_own_yamls_composes_to_the_very_same_cell(own, words):
    """Also where the folder of own yamls is not named, as by `mqlearn compare` without it."""
    cell = build(compose.compose(["plugins=[recipe_rules]", *words], own))
    assert digest_of(override_commands.command_of(cell.settings, own)) == cell.digest
    assert digest_of(override_commands.command_of(cell.settings)) == cell.digest


def test_a_setting_at_null_can_be_left_out_and_one_that_there_is_not_cannot(mqlearn):
    left_out = compose.compose(["algorithm=momentum_q", "~algorithm.beta", "~algorithm.phi"])["algorithm"]
    assert "m" in left_out and not {"beta", "phi"} & {*left_out}
    refused = mqlearn("run", "algorithm=momentum_q", "~algorithm.beta", "~algorithm.zeta")
    assert refused.code == 2 and "algorithm.zeta" in refused.err and "algorithm.beta='' " not in refused.err
    of_hydra = mqlearn("run", "-m", "~hydra.output_subdir", "preview=true")  # null too, but not ours to leave out
    assert of_hydra.code == 2 and "hydra.output_subdir" in of_hydra.err


def test_the_command_of_a_failed_cell_composes_to_it(own, mqlearn, outputs):
    sweep = ("--config-dir", own, "plugins=[recipe_rules]", "env=lane", "algorithm=slow", "discount=0.8")
    small = ("iterations=5", "n_seeds=2", "tracking=none", "hydra/launcher=basic")
    assert mqlearn("run", "-m", *sweep, *small, "algorithm.note='a, b','c'").code == 0
    (file,) = (outputs / "sweeps").glob("*/plan.json")
    cells = json.loads(file.read_text())["cells"]
    assert len(cells) == 2 and [digest_of(one["command"]) for one in cells] == [one["digest"] for one in cells]


def test_the_report_of_a_tuning_is_of_the_model_that_was_tuned(own):
    path = Path(own) / "experiment" / "my_tuning.yaml"
    path.write_text(
        "# @package _global_\ndefaults:\n  - override /env: frozen_lake_8x8\nseed: 1000\nn_seeds: 5\ndiscount: 0.95\n"
        "iterations: 500\nexperiment: {name: my_tuning}\n"
        "tuning: {trials: 2, metric: q_error, reporting_seed: 3, spaces: {slow: {}}}\n"
    )
    words = ["experiment=my_tuning", "plugins=[recipe_rules]", "algorithm=slow", "algorithm.share=0.125"]
    wanted = build(compose.compose(words, own)).settings | {"seed": 3, "n_seeds": 20}
    assert digest_of(tuning.report_of(words, own)) == build(wanted).digest


def test_the_runs_that_a_tuned_comparison_lacks_are_of_the_model_that_was_tuned(own, mqlearn, outputs):
    common = ("--config-dir", own, "plugins=[recipe_rules]", "env=lane", "discount=0.8", "iterations=30", "n_seeds=2")
    tried = ("seed=7", "tracking=none", "hydra/launcher=basic", "experiment.name=tuning")
    assert mqlearn("run", "-m", *common, *tried, "algorithm=slow", "algorithm.share=0.25,0.5").code == 0
    done = mqlearn("compare", "--config-dir", own, "experiment.name=tuning", "tuned=true")
    (command,) = re.findall(
        r"^ +(mqlearn run .*-m .*)$", done.err, re.MULTILINE
    )  # vanilla Q-learning must be tuned too
    arguments = shlex.split(command)[1:]
    assert mqlearn(*arguments, "tracking=none", "hydra/launcher=basic").code == 0
    done = mqlearn("compare", "--config-dir", own, "experiment.name=tuning", "tuned=true")
    commands = re.findall(r"^ +(mqlearn run .*)$", done.err, re.MULTILINE)
    assert len(commands) == 2
    for text in commands:
        assert mqlearn(*shlex.split(text)[1:], "tracking=none").code == 0
    assert mqlearn("compare", "--config-dir", own, "experiment.name=tuning", "tuned=true").code == 0


def test_the_command_within_a_figure_draws_the_same_cells(own, mqlearn, outputs):
    words = ("plugins=[recipe_rules]", "env.name='my lake'")
    assert mqlearn("figure", "own", "--config-dir", own, *words).code == 0
    (file,) = (outputs / "figures").glob("*.json")
    record = json.loads(file.read_text())
    _, verb, *arguments = shlex.split(record["command"])
    options = parse(arguments, values=CONFIG_DIR)
    name, *overrides = options.overrides
    again = plan(name, overrides, options.config_dir)
    assert verb == "figure" and {one.digest for one in again.cells} == set(record["digests"].values())


def test_the_commands_within_a_report_make_its_runs_and_itself(own, mqlearn, outputs, work):
    words = ("--config-dir", own, "plugins=[recipe_rules]", "env=lane", "algorithm=slow", "n_seeds=2", "iterations=9")
    assert mqlearn("run", *words, "tracking=none", "experiment.name='two words'").code == 0
    made = ("experiment.name='two words'", "env=lane", "tracking=none", "--output", "a.html")
    assert mqlearn("report", "--config-dir", own, *made).code == 0
    record = json.loads(mqlearn("explain", "a.html", "--json").out)
    first = (work / "a.html").read_bytes()
    assert mqlearn(*shlex.split(record["command"])[1:], "tracking=none").code == 0
    assert (work / "a.html").read_bytes() == first
    (summary,) = (outputs / "runs").glob("*/*/summary.json")
    run = runs.load(summary.parent)
    assert digest_of(run.summary["command"]) == run.digest


def test_the_command_of_claims_asks_the_same(own, tmp_path):
    text = override_commands.command("claims", ["theorem_1", "smoke=true", "plugins=[my rules]"], own)
    _, verb, *arguments = shlex.split(text)
    assert verb == "claims"
    assert claims.read(arguments)[:3] == (["theorem_1"], ["plugins=[my rules]"], True)
    assert claims.read(arguments)[4] == own
