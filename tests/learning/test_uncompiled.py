"""NUMBA_DISABLE_JIT=1, which people set to debug a rule: kernels run as plain Python, and give the same numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mqlearn as mq

LAKE = mq.frozen_lake("4x4", rewards=(1, -0.5, -0.01))
RUNS: dict[str, dict[str, Any]] = {
    "synchronous": {"rule": mq.MomentumQ(m=2)},
    "markovian": {"rule": mq.SpeedyQ(), "sampling": mq.Markovian(clock="local")},
    "replay": {"rule": mq.QLearning(), "sampling": mq.Replay(capacity=16, warm_up=5)},
    "stateful": {"rule": mq.HalpernDirect()},
    "features": {
        "rule": mq.QLearning().with_step_size(mq.Constant(0.125)),
        "sampling": mq.Markovian(),
        "features": mq.aggregation(LAKE, tile=2),
    },
}
SMALL: dict[str, Any] = {"iterations": 30, "n_seeds": 3, "n_checkpoints": 3, "n_workers": 1}


def numbers(name: str) -> dict[str, list]:
    """Curves and tables, as JSON gives them back: floats whole."""
    settings = {**RUNS[name], **SMALL}
    result = mq.run(LAKE, settings.pop("rule"), **settings, evaluation=mq.Evaluation(episodes=1, time_limit=10))
    return {**{key: curve.tolist() for key, curve in result.curves.items()}, "q": np.asarray(result.q).tolist()}


@pytest.fixture(scope="module")
def uncompiled() -> dict[str, dict[str, list]]:
    """All runs in a process that compiles nothing."""
    code = "import json, test_uncompiled as t; print(json.dumps({name: t.numbers(name) for name in t.RUNS}))"
    here = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": here}
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", RUNS)
def test_what_is_not_compiled_gives_the_same_numbers(name, uncompiled):
    compiled = numbers(name)
    assert len(compiled["q_error"]) == SMALL["n_seeds"]
    assert json.dumps(uncompiled[name]) == json.dumps(compiled)  # as text: NaN is NaN, and no bit is lost


def test_the_command_line_runs_uncompiled(process, outputs):
    small = ("iterations=20", "n_seeds=2", "n_checkpoints=2", "tracking=none")
    started = process("run", "algorithm=speedy_q", *small, env={"NUMBA_DISABLE_JIT": "1"})
    said, errors = started.communicate()
    assert started.returncode == 0, errors
    assert "Traceback" not in errors and "q_error" in said
    (folder,) = (outputs / "runs").glob("*/*/summary.json")
    assert json.loads(folder.read_text())["status"] == "finished"
