"""A directory in which sweeps are started, with a rule that waits, raises or kills its process."""

import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mqlearn.cli.main import main
from mqlearn.experiments.sweep import journal
from mqlearn.storage import lookup

SMALL = ["tracking=none", "iterations=200", "n_checkpoints=5", "n_seeds=2"]
TRAP = '''
import os, signal, time
from dataclasses import dataclass
from pathlib import Path
import mqlearn as mq

@dataclass(frozen=True)
class Trap(mq.Rule):
    """Q-learning in a job that waits, raises or kills its process. flag: a file, with which it does so once only."""
    kind: str = "none"
    i: int = 0
    flag: str = ""

    def update(self, k, q, q_prev, target, target_prev):
        if "MQLEARN_JOB" in os.environ:
            once = not self.flag or not Path(self.flag).exists()
            if self.flag:
                Path(self.flag).touch()
            if self.kind == "raise":
                raise ArithmeticError(f"trap {self.i}\\nmore")
            if self.kind == "kill" and once:
                os.kill(os.getpid(), signal.SIGKILL)
            if self.kind == "wait":
                time.sleep(0.3)
        a = self.step_size(k)
        return (1 - a) * q + a * target
'''


class Place:
    """A directory with a plugin, and an outputs folder that all its commands use."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.outputs = folder, folder / "out puts"
        (folder / "conf" / "algorithm").mkdir(parents=True)
        (folder / "traps.py").write_text(TRAP)
        text = "_target_: traps.Trap\nname: trap\nkind: none\ni: 0\nflag: ''\n"
        (folder / "conf" / "algorithm" / "trap.yaml").write_text(text)

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", "from mqlearn.cli.main import main; main()", *arguments]
        private = {key: value for key, value in os.environ.items() if not key.startswith(("MQLEARN_", "MLFLOW_"))}
        private |= {"MQLEARN_OUTPUTS": str(self.outputs)} | environment
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self.folder, env=private, text=True, start_new_session=True, stdout=pipe, stderr=pipe
        )

    def run(self, *arguments: str, code: int = 0, **environment: str) -> str:
        process = self.start(*arguments, **environment)
        output, errors = process.communicate(timeout=200)
        assert process.returncode == code, output + errors
        assert "Traceback" not in output + errors
        return output + errors

    def here(self, *arguments: str, code: int = 0) -> str:
        """As `run`, in this process: for what no other process has to do with."""
        printed = io.StringIO()
        streams = contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed)
        with pytest.MonkeyPatch.context() as patch, streams[0], streams[1], pytest.raises(SystemExit) as end:
            patch.chdir(self.folder)
            patch.setenv("MQLEARN_OUTPUTS", str(self.outputs))
            for variable in ("MLFLOW_TRACKING_URI", "COLUMNS"):
                patch.delenv(variable, raising=False)
            main(list(arguments))
        assert end.value.code == code, printed.getvalue()
        return printed.getvalue()

    def sweep(self, *arguments: str, **more) -> str:
        return self.run("run", "-m", *self.traps(*arguments), **more)

    def traps(self, *arguments: str) -> list[str]:
        return ["--config-dir", "conf", "plugins=[traps]", "algorithm=trap", *SMALL, *arguments]

    @property
    def states(self) -> list[dict]:
        """Of the newest sweep, in order of number."""
        newest = max(journal.sweeps(self.outputs).glob("2*"), key=lambda path: path.stat().st_mtime)
        return [state for _, state in sorted(journal.states(newest).items())]

    @property
    def curves(self) -> dict[str, dict[str, np.ndarray]]:
        return {
            digest: dict(run.curves) for digest, run in lookup.finished(self.outputs, "default", store=None).items()
        }


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)
