"""From settings to a cell: what is the same cell, what is another one, and what user modules may add."""

import importlib
import pickle
import re
import sys
from pathlib import Path

import hydra
import numpy as np
import pytest
from omegaconf import OmegaConf

from mqlearn import paths
from mqlearn.errors import SettingError, SettingErrors
from mqlearn.experiments.plan import GROUPS
from mqlearn.experiments.settings import cell, compose, plugins
from mqlearn.experiments.settings.cell import build, run_cells
from mqlearn.learning import loop
from mqlearn.paths import CONF, PACKAGE, outputs_folder
from mqlearn.storage import runs

SMALL = ("iterations=100", "n_seeds=2")


def digest(*overrides: str, config_dir: str | None = None) -> str:
    return build(compose.compose([*SMALL, *overrides], config_dir)).digest


def test_many_lists_are_composed_as_hydra_composes_each_alone():
    lists = [
        ["algorithm=momentum_q", "algorithm.m=5", "seed=1"],
        ["algorithm.m=7", "algorithm=momentum_q", "hydra.sweep.subdir=${hydra.job.override_dirname}"],
        ["algorithm=momentum_q", "algorithm.m=7", "experiment.name='two words'"],
        ["algorithm=momentum_q", "algorithm={m:3}", "linear={projection:2}", "~env.slippery"],
        ["algorithm=q_learning", "step_size=constant", "seed=1"],
        ["hydra.sweep.subdir=${hydra.job.override_dirname}/a", "seed=1"],
        [],
    ]
    with compose._hydra(None) as one:
        together = [one(overrides) for overrides in [*lists, *lists]]
    for number, config_of in enumerate(together):
        with hydra.initialize_config_dir(str(CONF), version_base=compose.VERSION_BASE, job_name="mqlearn"):
            alone = hydra.compose("config", lists[number % len(lists)], return_hydra_config=True)
        assert config_of == alone
        assert compose.plain(config_of) == compose.plain(alone)
        for key in ("hydra.overrides.task", "hydra.job.override_dirname", "hydra.sweep.subdir"):
            assert OmegaConf.select(config_of, key) == OmegaConf.select(alone, key)
    assert compose.plain(together[1])["algorithm"]["m"] == 7
    assert "hydra.sweep.subdir" not in OmegaConf.select(together[1], "hydra.sweep.subdir")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("q0=1", "q0=1.0"),
        ("iterations=100000", "iterations=1e5"),
        ("n_seeds=2", "n_seeds=2.0"),
        ("env.rewards=[1,0,0]", "env.rewards=[1.0,0.0,-0.0]"),
        ("env.slippery=on", "env.slippery=true"),
        ("env.slippery=off", "env.slippery=False"),
        ("env.slippery=no", "env.slippery=false"),
        ("reward=auto", "reward=mean"),
        ("n_workers=1", "n_workers=2"),
        ("tracking=none", "tracking=mlflow"),
        ("tracking.uri=http://a.b", "tracking.per_seed=true"),
        ("experiment.name=one", "experiment.name=two"),
        ("plugins=[]", "metrics=null"),
        ("hydra.run.dir=elsewhere", "hydra.job.chdir=true"),
    ],
)
def test_two_spellings_of_one_cell(one, other):
    assert digest(one) == digest(other)


def test_whole_numbers_and_switches_of_a_rule():
    rule = "algorithm=momentum_q"
    assert digest(rule, "algorithm.m=5") == digest(rule, "algorithm.m=5.0")
    on = {digest(rule, "algorithm.m=5", f"algorithm.shift={word}") for word in ("on", "true", "yes", "ON")}
    off = {digest(rule, "algorithm.m=5", f"algorithm.shift={word}") for word in ("off", "false", "no")}
    assert len(on) == len(off) == len(on | off) - 1 == 1
    random = "env=frozen_lake_random"
    assert digest(random, "env.size=1e1") == digest(random, "env.size=10")


@pytest.mark.parametrize(
    "change",
    [
        ["discount=0.8"],
        ["q0=1"],
        ["seed=1"],
        ["n_seeds=3"],
        ["iterations=101"],
        ["n_checkpoints=100"],
        ["checkpoints=linear"],
        ["reward=sampled"],
        ["algorithm=speedy_q"],
        ["step_size=polynomial"],
        ["step_size.offset=1"],
        ["env=frozen_lake_8x8"],
        ["env.rewards=[1,0,-0.1]"],
        ["env.slippery=false"],
        ["env.success_rate=0.5"],
    ],
    ids=" ".join,
)
def test_what_changes_a_number_is_another_cell(change):
    assert digest(*change) != digest()


def test_a_map_counts_by_its_tiles_wherever_they_are_written(tmp_path):
    lake, file = "env=frozen_lake", tmp_path / "map.txt"
    file.write_text("SFF\nFHF\nFFG\n")
    written = digest(lake, f"env.map={file}")
    assert written == digest(lake, "env.map=[SFF,FHF,FFG]")
    changed = tmp_path / "changed.txt"
    changed.write_text("SFF\nFFF\nFFG\n")
    assert written != digest(lake, f"env.map={changed}")
    cell = build(compose.compose([lake, f"env.map={file}"]))
    assert cell.settings["env"]["map"] == ["SFF", "FHF", "FFG"]  # the file is not needed again
    assert build(cell.settings).digest == cell.digest


def test_another_numerics_version_is_another_cell(monkeypatch):
    before = digest()
    monkeypatch.setattr(loop, "NUMERICS_VERSION", loop.NUMERICS_VERSION + 1)
    cell._build.cache_clear()
    assert digest() != before
    cell._build.cache_clear()


def test_a_cell_is_built_again_from_what_it_records(tmp_path):
    """The settings in config.yaml lead to the same cell, as `mqlearn rerun` needs it."""
    cell = build(compose.compose([*SMALL, "algorithm=momentum_q", "algorithm.shift=on", "q0=[-1,1]"]))
    [result] = run_cells([cell])
    run = runs.write(tmp_path / "run", settings=cell.settings, digest=cell.digest, name=cell.name, result=result)
    again = build(run.settings)
    assert again.digest == cell.digest
    assert again.settings == cell.settings


# --- every file of conf/ ------------------------------------------------------------------------------------------

NEEDED = {
    "env=frozen_lake": ["env.map=4x4"],
    "env=gymnasium": ["env.id=Taxi-v4"],
    "step_size=matched": ["sampling=markovian"],
    "operator=relative": ["env=garnet_fixed"],
    # What they learn from is one pair at a time, in a row.
    **{
        f"algorithm={name}": ["sampling=markovian", "env=garnet_fixed"]
        for name in ("expected_sarsa", "sarsa", "two_step", "weighted_q")
    },
}
CHOICES = sorted(
    f"{path.parent.name}={path.stem}"
    for path in CONF.glob("*/*.yaml")
    if path.parent.name in {*GROUPS} - {"experiment"} and path != CONF / "step_size" / "own.yaml"
)


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_of_every_group_makes_a_cell(choice, tmp_path):
    more = NEEDED.get(choice, [])
    if choice == "env=file":
        (tmp_path / "model.json").write_text('{"P": [[[1]]], "R": [[1]]}', encoding="utf-8")
        more = [f"env.path={tmp_path / 'model.json'}"]
    if choice == "sampling=recorded":
        seen = {"x": np.zeros(100, int), "u": np.zeros(100, int), "r": np.zeros(100), "y": np.zeros(100, int)}
        np.savez(tmp_path / "seen.npz", **seen)
        more = ["env=two_state", "n_seeds=1", f"sampling.path={tmp_path / 'seen.npz'}"]
    if choice.startswith("features=") and choice != "features=tabular":
        more = ["sampling=markovian"]
    if choice == "env=frozen_lake_128x128" or choice == "env=frozen_lake_blocks":
        more = ["iterations=0"]
    cell = build(compose.compose([*SMALL, choice, *more]))
    group, _, name = choice.partition("=")
    assert cell.settings[group]["name"] == name
    file = CONF / group / f"{name}.yaml"
    if group in ("algorithm", "env", "step_size"):
        assert ("model" if file.stem == "file" else file.stem) in cell.name  # a model's file gives the name


def built(*overrides):
    return build(compose.compose([*SMALL, *overrides]))


def test_the_step_size_of_its_own_is_recorded_as_what_it_stands_for():
    """So old runs of the harmonic step, the own one of the rules of four numbers, are found."""
    own, harmonic = built("step_size=own"), built("step_size=harmonic")
    assert own.settings == built().settings == harmonic.settings
    assert own.digest == harmonic.digest and own.name == harmonic.name
    assert own.settings["step_size"] == {"_target_": "mqlearn.Harmonic", "name": "harmonic", "offset": 0}
    double = built("algorithm=double_q", "discount=0.95").settings["step_size"]
    assert double == {"_target_": "mqlearn.RescaledLinear", "name": "rescaled_linear", "discount": 0.95}
    adam = built("algorithm=adam", "step_size.alpha=0.3").settings["step_size"]
    assert adam == {"_target_": "mqlearn.InverseSqrt", "name": "inverse_sqrt", "alpha": 0.3, "h": 1}
    with pytest.raises(SettingError, match=r"step_size\.alpha=0\.3: is no setting of step_size=harmonic, the own step"):
        built("step_size.alpha=0.3")


def test_an_own_step_size_that_no_settings_describe_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("half_rule.py").write_text(
        "import mqlearn as mq\nclass Half(mq.QLearning):\n    step_size = lambda self, k: 0.5 + 0 * k\n"
    )
    words = ["plugins=[half_rule]", "algorithm._target_=half_rule.Half"]
    with pytest.raises(SettingError, match="step_size='own': must be chosen"):
        built(*words)
    assert built(*words, "step_size=constant").settings["step_size"]["name"] == "constant"


# --- user modules and folders -------------------------------------------------------------------------------------

RULE = """
import mqlearn as mq
from {helper} import GAIN

class Scaled(mq.Rule):
    def __init__(self, gain: float = GAIN):
        self.gain = gain

    def update(self, k, q, q_prev, target, target_prev):
        a = self.gain * self.step_size(k)
        return (1 - a) * q + a * target
"""


def test_the_source_text_of_user_modules_is_part_of_the_cell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("gain_of_rule.py").write_text("GAIN = 1.0\n")
    Path("scaled_rule.py").write_text(RULE.format(helper="gain_of_rule"))
    Path("unrelated.py").write_text("x = 1\n")
    (module,) = plugins.load(["scaled_rule"]).values()
    digests = [plugins.source_digest(module)]
    Path("unrelated.py").write_text("x = 2\n")
    importlib.reload(importlib.import_module("unrelated"))
    assert plugins.source_digest(module) == digests[0]
    Path("gain_of_rule.py").write_text("GAIN = 0.5\n")  # a module that the plugin imports
    importlib.reload(sys.modules["gain_of_rule"])
    digests.append(plugins.source_digest(module))
    Path("scaled_rule.py").write_text(RULE.format(helper="gain_of_rule") + "# edited\n")
    importlib.reload(module)
    digests.append(plugins.source_digest(module))
    assert len(set(digests)) == 3

    overrides = ("plugins=[scaled_rule]", "algorithm._target_=scaled_rule.Scaled", "+algorithm.gain=0.5")
    cell = build(compose.compose([*SMALL, *overrides]))
    assert cell.run_arguments["rule"].gain == 0.5
    assert "gain=0.5" in cell.name


def test_a_package_as_a_plugin(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "rules_of_mine"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .inner import rule\n")
    (folder / "inner.py").write_text("import numpy\nfrom . import deep\nrule = 1\n")
    (folder / "deep.py").write_text("x = 1\n")
    (module,) = plugins.load(["rules_of_mine"]).values()
    before = plugins.source_digest(module)
    (folder / "deep.py").write_text("x = 2\n")
    assert plugins.source_digest(module) == before  # of what was imported
    importlib.reload(sys.modules["rules_of_mine.deep"])
    assert plugins.source_digest(module) != before
    assert not plugins.is_own("rules_of_mine_too", ["rules_of_mine"])
    assert plugins.is_own("rules_of_mine.inner", ["rules_of_mine"])


def test_a_configuration_folder_of_the_user(tmp_path):
    """YAML reads on and off as truth values, and a folder may have blanks and commas in its name."""
    folder = tmp_path / "my conf, really"
    (folder / "env").mkdir(parents=True)
    text = (CONF / "env" / "frozen_lake_4x4.yaml").read_text()
    (folder / "env" / "smooth.yaml").write_text(text.replace("slippery: true", "slippery: off"))
    made = build(compose.compose([*SMALL, "env=smooth"], str(folder)))
    assert made.settings["env"]["slippery"] is False
    assert made.digest == digest("env.slippery=false")
    with pytest.raises(SettingError, match="smooth"):
        compose.compose(["env=smoth"], str(folder))


def test_nothing_composed_before_outlives_a_change(tmp_path, monkeypatch):
    """One process composes a choice of groups once, until a file of it changes; the folders are those of today."""
    mine, more, elsewhere = (tmp_path / name for name in ("mine", "more", "elsewhere"))
    for folder in (mine, more):
        (folder / "env").mkdir(parents=True)
    elsewhere.mkdir()

    def write(folder: Path, rate: float) -> None:
        text = (CONF / "env" / "frozen_lake_4x4.yaml").read_text()
        changed = re.sub("success_rate: .*", f"success_rate: {rate}", text)
        (folder / "env" / f"{folder.name}.yaml").write_text(changed)

    def rate(*overrides: str) -> float:
        return compose.compose([*SMALL, *overrides], str(mine))["env"]["success_rate"]

    with pytest.raises(SettingError, match="mine"):
        rate("env=mine")
    for value in (0.5, 0.75):
        write(mine, value)
        assert rate("env=mine") == rate("env=mine", "seed=3") == value
    with pytest.raises(SettingError, match="mine"):
        compose.compose([*SMALL, "env=mine"])
    for value in (0.5, 0.75):  # in a folder that an override names
        write(more, value)
        assert rate(f"hydra.searchpath=[file://{more}]", "env=more") == value
    for place in (tmp_path, elsewhere):
        monkeypatch.chdir(place)
        (job,) = compose.jobs([[*SMALL, "hydra.run.dir=${hydra.runtime.cwd}/here"]], None, multirun=False)
        assert job.folder == place / "here"


def test_a_user_environment_takes_the_discount_of_the_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    source = "import mqlearn as mq\n\ndef lake(slippery: bool = True):\n    return mq.frozen_lake(slippery=slippery)\n"
    Path("my_lake.py").write_text(source)
    overrides = ["plugins=[my_lake]", "~env", "+env._target_=my_lake.lake", "discount=0.7"]
    cell = build(compose.compose([*SMALL, *overrides]))
    assert cell.mdp.discount == 0.7
    with pytest.raises(SettingError, match=r"env\.slippery=2: must be true or false"):
        build(compose.compose([*overrides, "+env.slippery=2"]))


def test_errors_survive_a_worker():
    """Workers send exceptions by pickle."""
    errors = SettingErrors([SettingError("a", 1, "first"), SettingError("b", "x", "second")])
    copy = pickle.loads(pickle.dumps(errors))
    assert str(copy) == "a=1: first\nb='x': second"
    assert [error.setting for error in copy.errors] == ["a", "b"]


def test_outputs_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("MQLEARN_OUTPUTS", "relative/place")
    monkeypatch.chdir(tmp_path)
    assert outputs_folder() == tmp_path / "relative" / "place"
    monkeypatch.delenv("MQLEARN_OUTPUTS")
    assert outputs_folder() == PACKAGE.parent / "outputs"  # of the clone
    monkeypatch.setattr(paths, "PACKAGE", tmp_path / "site-packages" / "mqlearn")
    assert outputs_folder() == tmp_path / "outputs"
