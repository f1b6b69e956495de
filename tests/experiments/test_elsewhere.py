"""Runs that lie elsewhere: below a folder that Hydra was told of, or on the machine that made them."""

import shutil
from pathlib import Path

from mqlearn.storage import lookup

ASKED = ("iterations=200", "n_checkpoints=5", "n_seeds=3", "experiment.name=shared", "hydra/launcher=basic")


def test_every_verb_finds_runs_below_hydras_own_folder_and_from_the_address_of_the_store_alone(
    mqlearn, stored, outputs, tmp_path, monkeypatch
):
    elsewhere = tmp_path / "elsewhere"
    done = mqlearn("run", "-m", *ASKED, "algorithm=q_learning,nesa", f"hydra.sweep.dir={elsewhere}")
    assert done.code == 0 and not (outputs / "runs").exists()
    tuning = [*ASKED[:2], "seed=1000", "n_seeds=3", "experiment.name=tuning", "hydra/launcher=basic"]
    done = mqlearn("run", "-m", *tuning, "algorithm=q_learning,nesa", f"hydra.sweep.dir={elsewhere}")
    assert done.code == 0, done.err
    here = mqlearn("compare", "experiment.name=shared")
    assert here.code == 0 and "nesa" in here.out

    shutil.rmtree(elsewhere)  # as on a machine that made none: the artifacts are all that is left
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(tmp_path / "another"))
    uri = f"tracking.uri={stored}"
    there = mqlearn("compare", "experiment.name=shared", uri)
    assert (there.code, there.out) == (0, here.out)
    assert "2 experiments: 0 planned, 4 done" in mqlearn("status", uri).out
    tuned = mqlearn("compare", "experiment.name=tuning", "tuned=true", uri)
    assert tuned.code == 0 and "verdicts on seed=0 alone" in tuned.out  # which another experiment has
    page = mqlearn("report", "experiment.name=shared", uri, "tracking=mlflow")
    assert page.code == 0 and Path(page.out.splitlines()[0]).is_file()
    misspelt = mqlearn("compare", "experiment.name=sharde", uri)
    assert misspelt.code == 2 and "(did you mean 'shared'?)" in misspelt.err
    assert "2 skipped" in mqlearn("run", "-m", *ASKED, "algorithm=q_learning,nesa", uri).out
    assert len(lookup.finished(tmp_path / "another", "shared", store=stored)) == 2


def test_compare_and_report_name_a_damaged_folder_and_go_on(mqlearn, outputs, work):
    asked = [*ASKED, "tracking=none", "algorithm=q_learning,nesa,speedy_q"]
    assert mqlearn("run", "-m", *asked).code == 0
    folder = next(outputs.glob("runs/shared/*"))
    content = bytearray((folder / "curves.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (folder / "curves.npz").write_bytes(content)
    compared = mqlearn("compare", "experiment.name=shared")
    assert compared.code == 0 and f"{folder}: curves.npz is damaged" in compared.out
    page = mqlearn("report", "experiment.name=shared", "tracking=none")
    assert page.code == 0
    assert "curves.npz is damaged" in Path(page.out.strip()).read_text(encoding="utf-8")
