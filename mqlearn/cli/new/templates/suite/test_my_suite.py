"""The suite, tried with two rules: its yaml can be read, its cells can be run, and both rules are ranked."""

import json
import subprocess
import sys
from pathlib import Path


def test_two_rules_are_ranked_on_every_problem(tmp_path, monkeypatch):
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path))
    conf = Path(__file__).parent / "my_conf"
    command = ["mqlearn", "bench", "my_suite", "--config-dir", conf, "algorithm=q_learning,speedy_q", "tracking=none"]
    subprocess.run([sys.executable, "-m", *command, "--json", tmp_path / "found.json"], check=True)
    found = json.loads((tmp_path / "found.json").read_text())
    assert {line["rule"] for line in found["rules"]} == {"q_learning", "speedy_q"}
    assert len(found["problems"]) == 3
