"""A store in an outputs folder."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqlearn.storage import addresses


@pytest.fixture
def uri(migrated: Path, tmp_path: Path, monkeypatch) -> Iterator[str]:
    """A fresh store in an outputs folder, seen from a directory with an old folder store (ML-12, ML-13)."""
    (tmp_path / "outputs").mkdir()
    shutil.copy(migrated, tmp_path / "outputs" / "mlflow.db")
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "mlruns" / "0").mkdir(parents=True)
    (elsewhere / "mlruns" / "0" / "meta.yaml").write_text("name: Default\n")
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(elsewhere / "mlruns"))
    yield addresses.default_uri(tmp_path / "outputs")
    assert sorted(p.name for p in elsewhere.rglob("*")) == ["0", "meta.yaml", "mlruns"]  # nothing leaked
