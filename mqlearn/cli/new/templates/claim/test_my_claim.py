"""The claim, tried in small: its yaml can be read, its runs can be made, and its checks decide."""

import json
import subprocess
import sys
from pathlib import Path


def test_the_claim_is_decided(tmp_path, monkeypatch):
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path))
    conf = Path(__file__).parent / "my_conf"
    command = ["mqlearn", "claims", "--config-dir", conf, "my_claim", "smoke=true", "tracking=none"]
    subprocess.run([sys.executable, "-m", *command, "--json", tmp_path / "found.json"], check=True)
    (claim,) = json.loads((tmp_path / "found.json").read_text())
    assert claim["claim"] == "my_claim"
    assert claim["verdict"] == "reproduced"
