"""A reading names all that decides: what the code reads of a check, and its constants, change the words of it."""

import ast
import copy
import inspect
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mqlearn.analysis.claims import checks as claim_checks
from mqlearn.analysis.claims import claim as claim_texts
from mqlearn.analysis.claims import criteria, exponents, pairs, predicted, reported, single_runs
from mqlearn.analysis.claims.answers import stored
from mqlearn.analysis.claims.claim import Claim, places, runs_of
from mqlearn.cli import claims

NAMES = claim_texts.every()
PAPER = Path(__file__).resolve().parents[2] / "outputs" / "paper"
GROWTH = "growth"  # a claim of these tests, of exponents
EVERY_KIND = (
    "theorem_1", "theorem_3", "optimal_covariance", "efficiency", "predicted_error", "momentum_vs_nesa", GROWTH,
    "zap_2017_critical_gain", "learning_rates_2003_linear", "target_truncation_2023_threshold",
)  # fmt: skip
SHAPES = ("of", "a", "b", "summary", "at")  # what is looked at: it is in the words by how many there are


def load(name: str) -> Claim:
    return claims.load(name, str(Path(__file__).parent / GROWTH) if name == GROWTH else None)


class Recorded(dict):
    """The settings of a check, and which of them were read."""

    def __init__(self, check: dict[str, Any]) -> None:
        super().__init__(check)
        self.read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)


@pytest.fixture(scope="module")
def read_of(tmp_path_factory) -> dict[str, set[str]]:
    """By kind of test, the settings that some claim's checks were read for, while all were tested in small."""
    read: dict[str, set[str]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MQLEARN_OUTPUTS", str(tmp_path_factory.mktemp("claims")))
        for name in EVERY_KIND:
            claim = load(name)
            watched = [Recorded(check) for check in claim.spec["checks"]]
            claims.answer([Claim(name, claim.spec | {"checks": watched})], ["tracking=none"], smoke=True)
            for check in watched:
                read.setdefault(dict(check)["test"], set()).update(check.read)
    return read


def unread(check: dict[str, Any], where: Any) -> set[str]:
    """Settings that a check of exponents has no use for, beside its others; `over` could be no other condition, and `x`
    no horizon where a level is no discount."""
    if check["test"] not in ("exponent", "exact_exponent"):
        return set()
    fixed = {"over", *(["x"] if any(float(place[check["over"]]) >= 1 for place in where) else [])}
    if check["test"] == "exact_exponent":
        return fixed
    return fixed | ({"epsilon", "relative", "measure", "count"} if check["measure"] == "error" else {"at"})


def another(key: str, value: Any, where: Any) -> Any:
    """Another value for a setting, of its kind. where: the conditions of its claim."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 0.015625
    if key in SHAPES:
        return [*value, value[0]]
    known = {
        "expect": "a_better" if value == "b_better" else "b_better", "metric": "value_gap",
        "window": [0.25, 0.75], "exponent": -0.75, "quantity": "new",
        "measure": {"peak": "overshoot", "samples": "mean_curve", "mean_curve": "samples"}.get(str(value), "peak"),
        "norm": "rms" if value == "sup" else "sup", "between": [0.5, 9], "minus": "another rule",
        "count": "after_burn_in" if value == "all" else "all",
        "x": "horizon" if value == "value" else "value", "a_in": {"map": "4x4"}, "b_in": {"map": "8x8"},
        "in": {} if value else dict(list(where[0].items())[:1]), "below": 0.5, "above": 0.5,
        "value": "largest_optimal_value", "side": "below" if value == "above" else "above",
        "pooled": next(iter(where[0])) if value is None else None,
        "equals": {factor: dict.fromkeys(levels, 7) for factor, levels in value.items()}
        if key == "equals" and isinstance(value, dict) else None,
    }  # fmt: skip
    return known[key]


def test_each_kind_of_check_was_watched(read_of):
    assert read_of.keys() == criteria.NUMBERS.keys()


@pytest.mark.parametrize("name", [*NAMES, GROWTH])
def test_what_the_code_reads_of_a_check_is_in_its_reading(name, read_of):
    claim = load(name)
    where = places(runs_of(claim))
    before = criteria.reading(claim, where)
    for number, check in enumerate(claim.spec["checks"]):
        kind = check["test"]
        for key in read_of[kind] & check.keys() - {"test", "level"} - unread(check, where):
            changed = copy.deepcopy(claim.spec)
            changed["checks"][number][key] = another(key, check[key], where)
            assert criteria.reading(Claim(name, changed), where) != before, f"{kind}: {key} stands nowhere"


@pytest.mark.parametrize("name", NAMES)
def test_the_level_of_a_claim_is_in_its_reading(name):
    """All its checks have one; values that need no run, bounds and ends of runs are decided without."""
    claim = claims.load(name)
    where = places(runs_of(claim))
    changed = copy.deepcopy(claim.spec)
    for check in changed["checks"]:
        check["level"] = check["level"] / 2
    assert len({check["level"] for check in claim.spec["checks"]}) == 1
    without = all(check["test"] in ("exact", "exact_exponent", "ends", "bound") for check in claim.spec["checks"])
    assert (criteria.reading(Claim(name, changed), where) == criteria.reading(claim, where)) is without


def constants(module: ModuleType) -> dict[str, float]:
    """The numbers at the top of a module that are its own."""
    tree = ast.parse(inspect.getsource(module))
    targets = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return {name: getattr(module, name) for name in names if isinstance(getattr(module, name), int | float)}


@pytest.mark.parametrize(
    "module", [claim_checks, criteria, claim_texts, exponents, pairs, predicted, reported, single_runs]
)
def test_the_constants_of_the_tests_are_in_some_reading(module, monkeypatch):

    def readings():
        every = [claims.load(name) for name in NAMES]
        return [criteria.reading(claim, places(runs_of(claim))) for claim in every]

    before = readings()
    for name, value in constants(module).items():
        with monkeypatch.context() as patch:
            for other in (claim_checks, claim_texts, criteria):
                if hasattr(other, name):
                    patch.setattr(other, name, value + 0.03125)
            assert readings() != before, name


@pytest.mark.parametrize("module", [criteria, exponents, pairs, predicted, reported, single_runs])
def test_no_number_decides_without_a_name(module):
    """Outcomes are decided in `criteria`, from evidence, settings and named constants: no literal but 0, 1 and 2."""
    tree = ast.parse(inspect.getsource(module))
    deciding = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    for node in deciding:
        numbers = [part.value for part in ast.walk(node) if isinstance(part, ast.Constant)]
        assert {x for x in numbers if isinstance(x, int | float) and not isinstance(x, bool)} <= {0, 1, 2}
    if module is not criteria:
        outcomes = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        assert not outcomes & {"HOLDS", "FAILS"}


def test_the_width_that_decides_the_rate_of_theorem_3_is_said():
    """An interval of -.9 to -.4 contains -1/2 and is too wide."""
    claim = claims.load("theorem_3")
    rate = claim.spec["checks"][0]
    assert "contains it and is at most 0.25 wide" in criteria.words(rate, places(runs_of(claim)))
    evidence = {"low": -0.9, "high": -0.4, "exponent": -0.5}
    assert criteria.decide(rate, evidence) == claim_checks.OPEN
    assert criteria.decide(rate, evidence | {"low": -0.65}) == claim_checks.HOLDS


@pytest.mark.parametrize("name", [name for name in NAMES if any(
    check["test"] in ("rate", "shape") for check in claims.load(name).spec["checks"])])  # fmt: skip
def test_what_was_settled_after_a_first_look_is_said(name):
    assert "Settled after a first look at the data:" in " ".join(claims.load(name).spec["reading"].split())


# --- stored answers -----------------------------------------------------------------------------------------------


def test_the_stored_claims_are_those_that_their_numbers_give_by_the_present_criteria():
    """`stored` decides each check again; verdicts, conditions, summaries and readings in the file are what follows."""
    from mqlearn.analysis.claims.tables import json_text, row, table

    found = stored(PAPER / "claims.json")
    assert [one.answer.claim.name for one in found] == claims.known()
    assert json_text([row(one) for one in found]) == (PAPER / "claims.json").read_text(encoding="utf-8")
    assert table(found) == (PAPER / "claims.md").read_text(encoding="utf-8")


def test_stored_claims_are_printed_without_a_run(mqlearn, outputs, tmp_path):
    done = mqlearn("claims", "theorem_3", "--stored", PAPER / "claims.json", "--json", tmp_path / "again.json")
    assert (done.code, done.err) == (0, "")
    assert "theorem_3: reproduced" in done.out and "at most 0.25 wide" in " ".join(done.out.split())
    (again,) = json.loads((tmp_path / "again.json").read_text())
    assert again in json.loads((PAPER / "claims.json").read_text())
    assert not outputs.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda row: row["evidence"][0].update(low=-2, high=0), "was decided by other criteria than theorem_3 has now"),
        (lambda row: row["evidence"][0].update(outcome="open"), "was decided by other criteria"),
        (lambda row: row["evidence"][0].update(aside=True), "was decided by other criteria"),
        (lambda row: row["evidence"][0]["conditions"].update(quantity="speed"), "was decided by other criteria"),
        (lambda row: row.pop("evidence"), "lacks 'evidence'"),
        (lambda row: row.update(claim="theorem_4"), "has no claim theorem_3; it has theorem_4"),
        (None, "none that --json wrote"),
    ],
)
def test_a_stored_file_with_another_outcome_or_none_is_refused(mqlearn, tmp_path, change, said):
    rows = [row for row in json.loads((PAPER / "claims.json").read_text()) if row["claim"] == "theorem_3"]
    file = tmp_path / "claims.json"
    if change:
        change(rows[0])
    file.write_text(json.dumps(rows) if change else "{nothing", encoding="utf-8")
    done = mqlearn("claims", "theorem_3", "--stored", file)
    assert done.code == 2 and said in done.err and "Traceback" not in done.err


def test_settings_have_no_effect_on_stored_claims(mqlearn):
    for override in ("seed=1", "smoke=true"):
        done = mqlearn("claims", "theorem_3", override, "--stored", PAPER / "claims.json")
        assert done.code == 2 and "has no effect beside --stored FILE" in done.err
    assert mqlearn("claims", "--stored", "nowhere.json").code == 2


def test_a_check_beside_the_verdict_is_so_whatever_its_kind(mqlearn, tmp_path):
    """A bound of theorem_3 that stands aside does not decide."""
    import yaml

    spec = yaml.safe_load((claims.path_of("theorem_3")).read_text())
    spec["checks"] = [spec["checks"][0], spec["checks"][1] | {"aside": True}]
    (tmp_path / "conf" / "claim").mkdir(parents=True)
    (tmp_path / "conf" / "claim" / "mine.yaml").write_text(yaml.safe_dump(spec))
    file = tmp_path / "found.json"
    done = mqlearn("claims", "mine", "smoke=true", "tracking=none", "--config-dir", tmp_path / "conf", "--json", file)
    assert done.code == 0, done.err
    (row,) = json.loads(file.read_text())
    assert row["deciding"] == sum("slope" in one for one in row["evidence"]) < len(row["evidence"])
