"""A small run for tests of storage, and what a store says of it."""

import sqlite3
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from mqlearn.storage import connection, runs

SETTINGS = {
    "env": {"name": "frozen_lake", "map": ["SF", "FG"], "slippery": True},
    "algorithm": {"name": "momentum_q", "m": 2.0},
    "step_size": {"name": "harmonic", "offset": 0},
    "sampling": {"name": "synchronous"},
    "discount": 0.9,
    "q0": None,
    "iterations": 100,
    "tracking": {"name": "mlflow", "uri": "postgresql://me:secret@host/db", "per_seed": False},
    "experiment": {"name": "trial"},
}


@dataclass(frozen=True)
class Outcome:
    """The attributes of a result that a run folder takes."""

    iteration: object = field(default_factory=lambda: np.array([1, 10, 100]))
    curves: dict = field(
        default_factory=lambda: {
            "q_error": np.array([[1.0, 0.5, 0.25], [2.0, 1.5, 0.75], [3.0, 1.0, 0.5]]),
            "value_gap": np.array([[0.3, 0.2, 0.0], [0.1, 0.1, 0.0], [0.2, 0.0, 0.0]]),
        }
    )
    q: object = field(default_factory=lambda: np.zeros((3, 4, 2)))
    error_iteration: object = field(default_factory=lambda: np.array([1, 100]))
    error_tables: object = field(default_factory=lambda: np.ones((2, 4, 2)))
    diverged: dict = field(default_factory=dict)
    seconds: float = 1.5


def write(folder: Path, digest="d1", result: Outcome | None = Outcome(), settings=SETTINGS, **extra):
    return runs.write(folder, settings=settings, digest=digest, name="MomentumQ m=2", result=result, extra=extra)


def history(uri: str, run_id: str, metric: str) -> list[tuple[int, float]]:
    return [(m.step, m.value) for m in connection.connect(uri).get_metric_history(run_id, metric)]


def tamper(uri: str, statement: str) -> None:
    database = connection.sqlite_path(uri)
    assert database is not None
    opened = sqlite3.connect(database)
    opened.execute(statement)
    opened.commit()
    opened.close()
