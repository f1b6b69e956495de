"""One cell has one digest, by whatever path or label it is written; what was recorded before is the same cell still.

tests/data/recorded holds runs of the version before digests had versions.
"""

import itertools
import json
import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import mqlearn as mq
from mqlearn.algorithms import QLearning, q_learning
from mqlearn.analysis.comparison import selection
from mqlearn.experiments.settings import cell, compose, earlier_versions, identity, instantiate, plugins, sections
from mqlearn.experiments.settings.cell import Cell, build
from mqlearn.learning import loop
from mqlearn.paths import CONF
from mqlearn.storage import runs

RECORDED = Path(__file__).parents[1] / "data" / "recorded"
SMALL = ("experiment.name=recorded", "tracking=none", "iterations=200", "n_checkpoints=6", "n_seeds=8")
ONE_SAMPLE = ("sampling=markovian", "sampling.start=uniform", "evaluation.draws=fixed")  # as when they were recorded
TILES = (*ONE_SAMPLE, "features=aggregation", "features.tile=2")
OWN = ("--config-dir", "conf")
DIVERGES = (
    "sampling=markovian", "features=one_hot", "step_size=constant", "step_size.alpha=1.9", "iterations=4000",
    "evaluation.draws=fixed", "algorithm=momentum_q", "algorithm.beta=0.9", "algorithm.lam=0.9999",
)  # fmt: skip
# Digest as recorded -> command lines that mean this run: as it was written then, and others.
MEANT = {
    "f94398f8c9ef9863": [["algorithm=momentum_q"], ["algorithm=momentum_q", "algorithm.shift=off"]],
    "75d673657076eb1f": [["algorithm=momentum_q", "algorithm.m=2"], ["algorithm=momentum_q", "algorithm.name=mine"]],
    "afade6def2f451c4": [["algorithm=q_learning"], ["algorithm._target_=mqlearn.algorithms.QLearning"]],
    "f4511761a53796b8": [["algorithm._target_=mqlearn.SpeedyQ"], ["algorithm=speedy_q"]],
    "d3c11d73ca100294": [
        [*TILES, "algorithm=momentum_q", "algorithm.beta=0.8"],
        [*TILES, "algorithm=momentum_q", "algorithm.beta=0.8", "features._target_=mqlearn.aggregation"],
    ],
    "de4957e05f78c03e": [[*TILES], [*OWN, *ONE_SAMPLE, "features=blocks"]],
    "5027f808282c0b7e": [
        [*OWN, *ONE_SAMPLE, "features=blocks", "algorithm=speedy_q"],
        [*TILES, "algorithm=speedy_q", "features.name=other"],
    ],
    "e853682ea352a2df": [
        [*OWN, "plugins=[damped_rule]", "algorithm=damped"],
        [*OWN, "plugins=[damped_rule]", "algorithm=damped", "+algorithm.gain=0.5"],
    ],
    "3f8a8fbae61b3fb9": [[*DIVERGES], [*DIVERGES, "algorithm.m=null", "algorithm.shift=on"]],
}
_RULE = ("algorithm", "step_size")
ZAP = ("algorithm=zap", "sampling=markovian")
SWEEP = ("run", "-m", "hydra/launcher=basic", "experiment.name=recorded_sweep", "tracking=none", *SMALL[2:])


@pytest.fixture
def recorded(work, outputs, monkeypatch) -> Iterator[Path]:
    """The folder of the recorded runs, in the outputs of a user who has their module and conf."""
    for name in ("runs", "sweeps"):
        shutil.copytree(RECORDED / name, outputs / name)
    for plan in outputs.glob("sweeps/*/plan.json"):
        plan.write_text(plan.read_text().replace("OUTPUTS", str(outputs)))
    shutil.copytree(RECORDED / "conf", work / "conf")
    shutil.copy(RECORDED / "damped_rule.py", work)
    monkeypatch.delitem(sys.modules, "damped_rule", raising=False)
    yield outputs / "runs" / "recorded"
    sys.modules.pop("damped_rule", None)


def cell_of(words) -> Cell:
    own = words[: 2 * (words[0] == OWN[0])]
    return build(compose.compose([*SMALL, *words[len(own) :]], own[1] if own else None))


def digest(*words: str) -> str:
    return cell_of(words).digest


# --- one cell, one digest -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (["algorithm=momentum_q"], ["algorithm=momentum_q", "algorithm.m=2"]),
        (["algorithm=momentum_q", "algorithm.m=20"], ["algorithm=momentum_q", "algorithm.m=20", "algorithm.shift=on"]),
        (["algorithm=speedy_q"], ["algorithm=speedy_q", "~algorithm.form"]),
        (
            ["algorithm=speedy_q_printed", "algorithm.name=speedy_q"],
            ["algorithm=speedy_q", "algorithm.form=printed"],
        ),
        (["step_size=polynomial"], ["step_size=polynomial", "~step_size.scale", "~step_size.exponent"]),
        (["env=frozen_lake_4x4"], ["env=frozen_lake_4x4", "~env.map", "~env.rewards", "~env.slippery"]),
        (
            ["env=frozen_lake_4x4"],
            ["env=frozen_lake_4x4", "env._target_=mqlearn.problems.environments.frozen_lake.frozen_lake"],
        ),
        ([*TILES], [*TILES, "features._target_=mqlearn.aggregation"]),
        (["linear.first_gradient=same"], ["~linear.first_gradient"]),
    ],
)
def test_defaults_and_paths_make_no_other_cell(one, other):
    first, second = cell_of(one), cell_of(other)
    assert first.digest == second.digest and first.name == second.name


def test_a_label_makes_no_other_cell_and_joins_no_two():
    assert digest("algorithm=q_learning") == digest("algorithm=q_learning", "algorithm.name=mine", "env.name=lake")
    assert digest("algorithm=q_learning") != digest("algorithm=q_learning", "algorithm._target_=mqlearn.SpeedyQ")
    assert digest("algorithm=momentum_q", "algorithm.m=5") != digest("algorithm=momentum_q")
    assert digest(*TILES, "algorithm=momentum_q", "algorithm.beta=0.8") != digest(*TILES, "algorithm=momentum_q")


def test_no_digest_knows_where_a_file_lies(monkeypatch):
    choices = {path.parent.name: [] for path in CONF.glob("*/*.yaml")}
    for path in CONF.glob("*/*.yaml"):
        choices[path.parent.name].append(path.stem)
    public: dict[str, set] = {}
    groups = ("env", "algorithm", "step_size", "sampling", "features", "evaluation")
    columns = [sorted(set(choices[group]) - {"own", "speedy_q_printed"}) for group in groups]  # which stand for others
    more = {
        "frozen_lake": ["env.map=4x4"], "gymnasium": ["env.id=FrozenLake-v1"], "file": ["env.path=x"],
        "recorded": ["sampling.path=x"],
    }  # fmt: skip
    rows = [
        [(group, choice) for group, choice in zip(groups, row, strict=True) if choice]
        for row in itertools.zip_longest(*columns)
    ]
    asked = [[word for group, one in row for word in (f"{group}={one}", *more.get(one, []))] for row in rows]
    for row, settings in zip(rows, compose.compose_all(asked), strict=True):  # a choice of each group at a time
        for group, _ in row:
            node = settings[group]
            name = identity.resolved_node(group, node)["_target_"]
            assert name.count(".") == 1
            public.setdefault(name, set()).add(instantiate.locate(group, node["_target_"], {}))
    assert all(len(objects) == 1 for objects in public.values())  # a name says one object
    assert all(getattr(mq, name.partition(".")[2], one) is one for name, (one,) in public.items())
    before = digest("algorithm=q_learning")
    monkeypatch.setattr(QLearning, "__module__", "mqlearn.elsewhere")
    monkeypatch.setitem(earlier_versions.PRESENT, "mqlearn.former.rules", "mqlearn.algorithms")
    assert digest("algorithm=q_learning", "algorithm._target_=mqlearn.former.rules.QLearning") == before


def test_a_setting_that_comes_later_leaves_old_runs_found(recorded, mqlearn, monkeypatch):
    @dataclass(frozen=True)
    class Later(QLearning):
        later: bool = False

        def update(self, k, q, q_prev, target, target_prev):
            return q if self.later else super().update(k, q, q_prev, target, target_prev)

    before = digest("algorithm=q_learning")
    monkeypatch.setattr(q_learning, "QLearning", Later)
    cell._build.cache_clear()
    assert digest("algorithm=q_learning") != before  # unless it is said what stands for the old behaviour
    monkeypatch.setitem(earlier_versions.ADDED, "algorithm.later", False)
    monkeypatch.setitem(earlier_versions.ADDED, "draws", 1)
    monkeypatch.setitem(sections.KINDS, "draws", lambda name, value: 1 if value is None else value)
    cell._build.cache_clear()
    assert digest("algorithm=q_learning") == digest("algorithm=q_learning", "+algorithm.later=false") == before
    assert len({before, digest("+algorithm.later=true"), digest("+draws=2")}) == 3
    assert "finished already" in mqlearn("run", "existing=skip", *SMALL, "algorithm=q_learning").out
    cell._build.cache_clear()


def test_settings_that_came_later_leave_digests_as_they_were():
    """Digests of the version before each of them; another value is another cell."""
    greedy, base = ["sampling=markovian", "sampling.behaviour=epsilon_greedy"], "step_size@step_size.base=polynomial"
    for words, before, later in (
        (["step_size=polynomial"], "1db10b43e8a2a501", "step_size.cap=0.5"),
        (["step_size=matched", base], "d330c8ce3c2337b1", "step_size.base.cap=0.5"),
        (["algorithm=two_step", "sampling=markovian"], "756ed9ef824cca29", "step_size.cap=0.5"),
        ([*greedy, "sampling.epsilon=visits"], "268c6199407b0291", "sampling.power=1"),
        ([*greedy, "sampling.epsilon=log"], "f41cc44ed168b617", "sampling.behaviour=boltzmann"),
        (["sampling=replay", greedy[1]], "b76667d5945c701d", "sampling.temperature=2"),
    ):
        now, other = (build(compose.compose([*words, *more, "tracking=none"])).digest for more in ([], [later]))
        assert now[:16] == before != other[:16], words


def test_runs_of_zap_from_before_its_inverse_are_those_of_a_linear_solve():
    """Records lack `refactor`; digests are those of the version before."""
    for sampling, before, solves in (
        ("synchronous", "f5d1d5dee9a5b771", True), ("markovian", "440fbdf9cdeea675", False),
    ):  # fmt: skip
        now = build(compose.compose(["algorithm=zap", f"sampling={sampling}", "tracking=none"]))
        record = json.loads(json.dumps(now.settings))
        del record["algorithm"]["refactor"]
        again = cell.rebuild(record)
        assert again.digest[:16] == before and again.run_arguments["rule"].refactor == 0
        assert (now.digest == again.digest) == solves
    assert digest(*ZAP) != digest(*ZAP, "algorithm.refactor=64") != digest(*ZAP, "algorithm.refactor=0")
    assert digest(*ZAP, "algorithm.ridge=0.1") == digest(*ZAP, "algorithm.ridge=0.1", "algorithm.refactor=0")


def test_which_numbers_episodes_have_counts_where_there_are_episodes():
    plain, fixed, fresh = "~evaluation.draws", "evaluation.draws=fixed", "evaluation.draws=fresh"
    assert digest(plain) == digest(fixed) == digest(fresh)  # synchronous: no episodes
    some = "evaluation.episodes=3"
    assert digest(some, plain) == digest(some, fixed) != digest(some, fresh)
    sampled = "sampling=markovian"
    assert digest(sampled, plain) == digest(sampled, fixed) != digest(sampled, fresh)
    assert digest(sampled, fixed, "evaluation.episodes=0") == digest(sampled, fresh, "evaluation.episodes=0")


# --- what was recorded before -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MEANT)
def test_a_recorded_run_is_found_and_not_run_again(name, recorded, mqlearn):
    run = runs.load(recorded / name)
    cell_of(MEANT[name][0])
    assert identity.digest_of(run) != run.digest
    for words in MEANT[name]:
        assert identity.digest_of(run) == cell_of(words).digest
    own, words = MEANT[name][0][: 2 * (MEANT[name][0][0] == OWN[0])], MEANT[name][0]
    done = mqlearn("run", *own, "existing=skip", *SMALL, *words[len(own) :])
    assert done.code == 0 and "finished already" in done.out
    assert {path.name for path in recorded.iterdir()} == MEANT.keys()


@pytest.mark.parametrize("name", MEANT)
def test_a_recorded_run_is_repeated_bit_for_bit(name, recorded, mqlearn):
    own = [word for word in MEANT[name][0] if word.startswith("plugins=")]
    done = mqlearn("rerun", recorded / name, *own)
    assert done.code == 0 and "the same numbers, bit for bit but for " in done.out, done.out
    (told,) = done.out.splitlines()[1:]  # that version solved for the values of policies in another order
    names = re.match("(.*) agree to 1e-1[2-6]: they come through .*linear solves", told)
    assert names and {"policy_value", "value_gap"} <= {*names[1].split(", ")}
    assert "the digest is now" not in done.err


@pytest.mark.parametrize("name", MEANT)
def test_which_curves_of_a_recorded_run_must_have_its_bits(name, recorded):
    run, cell_now = runs.load(recorded / name), cell_of(MEANT[name][0])
    numbers = {key.partition(" ")[2] for key in cell.rounded(cell_now) if key.startswith("curve ")}
    powers = name in ("d3c11d73ca100294", "3f8a8fbae61b3fb9")  # of lam
    bits = {"bellman_error", "return_uniform", "return_start", "expected_return", "success_probability"}
    assert {"q_error", "q_error_l2", "policy_value", "value_gap"} <= numbers
    assert bool(numbers & bits) == powers
    assert ("theta_error" in numbers) == ("theta_error" in run.curves)


@pytest.mark.parametrize("name", MEANT)
def test_a_recorded_run_is_comparable_and_paired_with_a_new_one(name, recorded):
    run, numerics = runs.load(recorded / name), loop.NUMERICS_VERSION
    for words in MEANT[name]:
        rival = cell_of([*(one for one in words if not one.lstrip("+").startswith(_RULE)), "algorithm=nesa"]).settings
        for summary in ("error", "return"):
            assert identity.problem_key(run.settings, summary) == identity.problem_key(rival, summary)
        recorded_numerics = run.summary["numerics_version"]
        assert identity.streams_key(run.settings, recorded_numerics) == identity.streams_key(rival, numerics)
        assert identity.rule_key(run.settings) != identity.rule_key(rival)
    assert identity.rule_key(run.settings) == identity.rule_key(cell_of(MEANT[name][0]).settings)


@pytest.mark.parametrize("problem", [(), TILES])
def test_old_and_new_runs_stand_in_one_block(problem, recorded, mqlearn, work):
    spelled = ["features._target_=mqlearn.aggregation"] if problem else []
    assert mqlearn("run", *SMALL, *problem, *spelled, "algorithm=nesa").code == 0
    chosen = ["features=aggregation" if problem else "features=tabular", "algorithm=q_learning,nesa"]
    assert mqlearn("compare", "experiment.name=recorded", *chosen, "against=nesa", "--json", "v.json").code == 0
    rows = json.loads((work / "v.json").read_text())
    assert rows and len({row["group"] for row in rows}) == 1
    assert all(row["paired"] for row in rows)


def test_runs_of_one_rule_are_not_tested_against_each_other(recorded):
    found = selection.find(recorded.parents[1], ["recorded"]).runs
    both = selection.select(found, ["algorithm=momentum_q", "algorithm.m=2", "features=tabular"])
    assert {run.folder.name for run in both} == {"f94398f8c9ef9863", "75d673657076eb1f"}
    stand = selection.latest_runs(both)
    assert len(stand.runs) == 1 and "2 runs of one rule and one length; the newest counts" in stand.notes[0]


def test_recorded_runs_are_drawn_and_reported(recorded, outputs, mqlearn):
    drawn = mqlearn("figure", "recorded", *OWN, "tracking=none")
    assert drawn.code == 0 and "to run" not in drawn.err
    sidecar = json.loads((outputs / "figures" / "recorded.json").read_text())
    assert {Path(row["folder"]).name for row in sidecar["runs"]} <= MEANT.keys()
    assert all(row["digest"].startswith(Path(row["folder"]).name) for row in sidecar["runs"])
    told = mqlearn("explain", outputs / "figures" / "recorded.png", "tracking=none")
    assert told.code == 0 and "no such run" not in told.out
    report = mqlearn("report", "experiment.name=recorded", *OWN, "plugins=[damped_rule]", "tracking=none")
    assert report.code == 0, report.err
    page = (outputs / "reports" / "recorded.html").read_text()
    assert "has changed since these runs" not in page and "MomentumQ" in page


def test_recorded_runs_are_uploaded_once_and_found_in_the_store(stored, recorded, outputs, mqlearn):
    folders = sorted(recorded.iterdir())
    assert mqlearn("upload", *folders).code == 0
    ids = [runs.load(folder).summary["mlflow_run_id"] for folder in folders]
    assert mqlearn("upload", *folders).code == 0
    assert ids == [runs.load(folder).summary["mlflow_run_id"] for folder in folders]
    for name in ("75d673657076eb1f", "d3c11d73ca100294", "3f8a8fbae61b3fb9"):
        done = mqlearn("run", "existing=skip", *SMALL, "tracking=mlflow", *MEANT[name][1])
        assert done.code == 0 and "finished already" in done.out
    shutil.move(recorded, outputs / "moved")  # their artifacts are in the store
    assert "finished already" in mqlearn("run", "existing=skip", *SMALL, "tracking=mlflow", "algorithm=momentum_q").out


def test_an_old_sweep_is_shown_and_resumed(recorded, outputs, mqlearn):
    def counted() -> dict:
        assert mqlearn("status", "experiment.name=recorded_sweep", "--json", "status.json").code == 0
        told = json.loads(Path("status.json").read_text())
        return {key: told[key] for key in ("planned", "done", "missing", "failed")}

    assert counted() == {"planned": 2, "done": 2, "missing": 0, "failed": 0}
    done = mqlearn(*SWEEP, "algorithm=q_learning,speedy_q,nesa")
    assert done.code == 0 and "3 cells, 1 done, 2 skipped" in done.out
    assert "audit: 3 of 3 cells" in done.out
    assert counted() == {"planned": 3, "done": 3, "missing": 0, "failed": 0}
    assert len(list((outputs / "runs" / "recorded_sweep").iterdir())) == 3


def test_runs_on_disk_alone_are_delivered_by_a_sweep_and_not_run_again(stored, recorded, outputs, mqlearn):
    words = [word.replace("tracking=none", "tracking=mlflow") for word in SWEEP]
    done = mqlearn(*words, "algorithm=q_learning,speedy_q")
    assert done.code == 0 and "audit: 2 of 2 cells" in done.out
    assert len(list((outputs / "runs" / "recorded_sweep").iterdir())) == 2


def test_a_run_of_a_module_that_has_changed_is_another_cell(recorded, work):
    module = work / "damped_rule.py"
    module.write_text(module.read_text().replace("1 - a", "1.0 - a"))
    plugins.load(["damped_rule"])
    run = runs.load(recorded / "e853682ea352a2df")
    assert identity.digest_of(run) == run.digest != cell_of(MEANT["e853682ea352a2df"][0]).digest
