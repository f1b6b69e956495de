"""Finished runs and `mqlearn compare` on them, for all tests of comparisons."""

import itertools
import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from compared import MADE, SMALL, performed


@pytest.fixture(scope="session")
def made(tmp_path_factory) -> Path:
    """Outputs with the experiments of MADE, and `apart`: q_learning on other seeds than nesa."""
    folder = tmp_path_factory.mktemp("made")
    rest = ("n_seeds=3", "iterations=100")
    apart = [("algorithm=q_learning", "seed=0", *rest), ("algorithm=nesa", "seed=1", *rest)]
    jobs = []
    for name, overrides in [*MADE.items(), *(("apart", one) for one in apart)]:
        keys, values = zip(*(override.split("=", 1) for override in overrides), strict=True)
        for chosen in itertools.product(*(value.split(",") for value in values)):
            words = [f"{key}={value}" for key, value in zip(keys, chosen, strict=True)]
            jobs.append([*words, *SMALL, f"experiment.name={name}"])
    return performed(folder, jobs)


@pytest.fixture
def compare(made, mqlearn, monkeypatch, tmp_path):
    """`compare(...)`: exit code, terminal text, and the rows of --json (None if there is no file)."""
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(made))

    def call(*arguments, outputs=made):
        monkeypatch.setenv("MQLEARN_OUTPUTS", str(outputs))
        file = tmp_path / "verdicts.json"
        file.unlink(missing_ok=True)
        done = mqlearn("compare", *arguments, "--json", file)
        rows = json.loads(file.read_text()) if file.exists() else None
        return SimpleNamespace(code=done.code, out=done.out, err=done.err, rows=rows)

    return call
