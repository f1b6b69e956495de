"""Where the CPU seconds of a command go, part by part, over all of its processes.

`measured` starts the command with a `sitecustomize` that calls `install` in each process before anything is imported.
That wraps the functions of `PARTS` as their modules are loaded. A thread is in one part at a time, the innermost; what
a wrapped function waits for is not counted. What is in no part is the rest: threads of libraries, and Python between.
"""

import atexit
import importlib.machinery
import json
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

# Part -> module -> functions, those of classes after their class.
PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "kernels": {"mqlearn.learning.lockstep": ("SeedBatch.advance",)},
    "draws": {"mqlearn.sampling.chains": ("Samples.draw", "Samples.chain_state")},
    "evaluation": {"mqlearn.learning.metrics": ("Measure.__call__",), "mqlearn.learning.record": ("Recorder.record",)},
    "exact values": {
        "mqlearn.learning.metrics": ("Measure.exact_values", "Measure.expected_returns", "Measure.success"),
        "mqlearn.problems.solvers": ("optimal", "policy_value", "success_probability"),
        "mqlearn.learning.diagnostics": ("fixed_point",),
        "mqlearn.analysis.figures.exact_lines": ("lines",),
    },
    "compile": {"mqlearn.jit": ("_compile_once", "_Cache.load_overload")},
    "Hydra": {"mqlearn.experiments.settings.compose": ("compose", "compose_all")},
    "store": {
        "mqlearn.experiments.execute": ("Tracker.prepare", "Tracker.deliver"),
        "mqlearn.storage.runs": ("write",),
    },
    "drawing": {"mqlearn.analysis.figures.make": ("Drawing.draw",)},
    "imports": {},
}
_FOLDER = "MQLEARN_PARTS"


def measured(run: Callable[[dict[str, str]], float]) -> dict[str, float]:
    """CPU seconds by part; `run` starts a command with more variables and returns all that it took."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(__file__).resolve().parents[1]
        text = f"import sys\nsys.path.append({str(here)!r})\nfrom benchmarks import parts\nparts.install()\n"
        (Path(folder) / "sitecustomize.py").write_text(text, encoding="utf-8")
        total = run({_FOLDER: folder, "PYTHONPATH": folder})
        seconds = dict.fromkeys(PARTS, 0.0)
        for path in Path(folder).glob("*.json"):
            for part, some in json.loads(path.read_text()).items():
                seconds[part] += some
    return {**seconds, "rest": total - sum(seconds.values()), "all": total}


def install() -> None:
    """Measure this process, and write what it took when it ends."""
    clock = _Clock()
    wanted: dict[str, list[tuple[str, str]]] = {}
    for part, modules in PARTS.items():
        for module, names in modules.items():
            wanted.setdefault(module, []).extend((part, name) for name in names)
    for loader in (importlib.machinery.SourceFileLoader, importlib.machinery.ExtensionFileLoader):
        loader.exec_module = _loading(loader.exec_module, clock, wanted)
    atexit.register(clock.write)


def _loading(load: Callable, clock: "_Clock", wanted: dict[str, list[tuple[str, str]]]) -> Any:
    timed = clock.timed("imports", load)

    def exec_module(self: Any, module: Any) -> None:
        timed(self, module)
        for part, name in wanted.get(module.__name__, ()):
            *owners, last = name.split(".")
            owner = module
            for one in owners:
                owner = getattr(owner, one)
            setattr(owner, last, clock.timed(part, vars(owner)[last]))

    return exec_module


class _Clock:
    """CPU seconds of the threads of this process by part."""

    def __init__(self) -> None:
        self.lock, self.of_thread = threading.Lock(), threading.local()
        self.seconds = dict.fromkeys(PARTS, 0.0)
        self.written = 0.0

    def timed(self, part: str, function: Callable) -> Callable:
        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            within = vars(self.of_thread).setdefault("within", [])
            self.count(within)
            within.append(part)
            try:
                return function(*arguments, **named)
            finally:
                self.count(within)
                within.pop()
                if not within and time.monotonic() > self.written + 1:
                    self.write()  # a process of a pool may be ended before it could

        return call

    def count(self, within: list[str]) -> None:
        now = time.thread_time()
        if within:
            with self.lock:
                self.seconds[within[-1]] += now - self.of_thread.last
        self.of_thread.last = now

    def write(self) -> None:
        self.written = time.monotonic()
        path = Path(os.environ[_FOLDER]) / f"{os.getpid()}.json"
        new = path.with_suffix(f".{threading.get_ident()}")
        try:
            new.write_text(json.dumps(self.seconds), encoding="utf-8")
            new.replace(path)
        except OSError:
            sys.stderr.write("the seconds of a process could not be written\n")
