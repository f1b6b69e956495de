"""Claims of a user's own: true and false ones, and slips in them or in the command."""

import json
from pathlib import Path

import pytest
import yaml

OWN = {
    "statement": "A rule is faster than the other.",
    "place": "Section 5.1",
    "reading": "In small.",
    "runs": {
        "base": ["experiment.name=own", "iterations=1000", "n_checkpoints=10", "n_seeds=8"],
        "conditions": {"map": {"4x4": ["env=frozen_lake_4x4"]}},
        "curves": {"vanilla": ["algorithm=q_learning"], "speedy": ["algorithm=speedy_q"]},
    },
}


def own(folder: Path, name: str, **changes) -> Path:
    (folder / "claim").mkdir(parents=True, exist_ok=True)
    (folder / "claim" / f"{name}.yaml").write_text(yaml.safe_dump({**OWN, **changes}))
    return folder


def test_own_claims_true_and_false(mqlearn, tmp_path):
    for name, a, b in (("true", "speedy", "vanilla"), ("false", "vanilla", "speedy")):
        own(tmp_path / "conf", f"own_{name}", checks=[{"test": "pairs", "a": [a], "b": [b]}])
    both = [{"test": "pairs", "a": ["speedy", "vanilla"], "b": ["speedy", "vanilla"]}]
    own(tmp_path / "conf", "own_both", checks=both, by=["rule"])
    file = tmp_path / "own.json"
    arguments = ("--config-dir", tmp_path / "conf", "tracking=none", "--json", file)
    done = mqlearn("claims", "own_true", "own_false", "own_both", *arguments)
    assert done.code == 0, done.err
    rows = json.loads(file.read_text())
    assert [row["verdict"] for row in rows] == ["reproduced", "not_reproduced", "conditional"]
    assert "not reproduced" in done.out
    assert "2 of 2 runs" not in done.err and "own: 0 of 2 runs are finished, 2 to run" in done.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["momentum_vs_speedq"], "momentum_vs_speedy_q"),
        (["theorem_3", "theorem_4"], "theorem_"),
        (["theorem_3", "discount=0.5"], "what a claim needs is written in its yaml"),
        (["theorem_3", "smok=true"], "smoke"),
        (["theorem_3", "smoke=maybe"], "true or false"),
        (["theorem_3", "--jsn"], "--json"),
        (["theorem_3", "--table"], "must be followed by the name of a file"),
        (["momentum_vs_speedy_q", "smoke=true", "n_seeds=3"], "must be at least"),
        (["theorem_3", "smoke=true", "n_seeds=none"], "n_seeds"),
    ],
)
def test_a_slip_is_one_message(mqlearn, outputs, arguments, said):
    done = mqlearn("claims", *arguments, "tracking=none")
    assert done.code == 2 and done.out == ""
    assert done.err.startswith("mqlearn: ") and said in done.err and "Traceback" not in done.err
    assert not outputs.exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"checks": []}, "checks"),
        ({"checks": [{"test": "pair", "a": ["speedy"], "b": ["vanilla"]}]}, "pairs"),
        ({"checks": [{"test": "pairs", "a": ["speedy"]}]}, "checks.b"),
        ({"checks": [{"test": "pairs", "a": ["speedi"], "b": ["vanilla"]}]}, "speedy"),
        ({"checks": [{"test": "pairs", "a": ["speedy"], "b": ["vanilla"], "b_in": {"map": "9x9"}}]}, "9x9"),
        ({"checks": [{"test": "pairs", "a": ["speedy"], "b": ["vanilla"]}], "plase": "x"}, "place"),
        ({"checks": [{"test": "pairs", "a": ["speedy"], "b": ["vanilla"]}], "place": ""}, "place"),
    ],
)
def test_a_claim_with_a_slip_is_refused_before_anything_runs(mqlearn, outputs, tmp_path, changes, said):
    folder = own(tmp_path / "conf", "mine", **changes)
    done = mqlearn("claims", "mine", "--config-dir", folder, "tracking=none")
    assert done.code == 2 and said in done.err and "Traceback" not in done.err
    assert not outputs.exists()
