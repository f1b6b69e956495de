"""The processes of a sweep: none is left behind, none is waited for in vain."""

import contextlib
import functools
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from mqlearn.errors import WorkerDied
from mqlearn.experiments.settings import plugins

SPAWN = multiprocessing.get_context("spawn")  # threads run here already: a fork could hang
_WATCH = 1.0  # seconds between a worker's looks at whether its parent lives
_PATIENCE = 2.0  # seconds that an interrupted sweep has to end by itself: 5 are promised


def descendants(pid: int) -> list[int]:
    """All processes below a process, by /proc; none where there is no /proc."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found, below = [], [pid]
    while below:
        below = [child for parent in below for child in parents.get(parent, ())]
        found += below
    return found


def end_children() -> None:
    """Kill all processes below this one, and theirs; but for Python's trackers, which then clean up and end."""
    for pid in descendants(os.getpid()):
        with contextlib.suppress(OSError):
            if b"resource_tracker" not in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)


def begin(parent: int) -> None:
    """To be called first in a new process: only the one that started it is interrupted, and it ends with that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent(parent)


interruption = threading.Event()  # set from an interruption on, while it ends this process
busy = threading.Lock()  # held by a worker while it is at a cell
orphaned = threading.Event()  # set in a worker whose parent is gone: it begins no other cell


@functools.lru_cache(maxsize=1)
def end_with_parent(parent: int) -> None:
    """Have this worker end within seconds once its parent is gone; if it is at a cell, after that cell.

    It would wait for work for minutes, or for ever. To be called first of all in a new worker: a parent that died
    before is seen as well.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_WATCH)
        orphaned.set()
        with busy:
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def ending_workers() -> Iterator[None]:
    """Within this, joblib starts its workers so that they end with this process, and ends them itself at the end."""
    import joblib
    from joblib._parallel_backends import LokyBackend

    class Ending(LokyBackend):
        def configure(self, *arguments: Any, **named: Any) -> Any:
            return super().configure(*arguments, initializer=end_with_parent, initargs=(os.getpid(),), **named)

    joblib.register_parallel_backend("loky", Ending)
    try:
        yield
    finally:
        joblib.register_parallel_backend("loky", LokyBackend)
        end_workers()


def end_workers() -> None:
    """End joblib's workers, which would wait for minutes for more work."""
    from joblib.externals.loky import reusable_executor

    if reusable_executor._executor is not None:  # asked for, it would be made
        reusable_executor._executor.shutdown(wait=True, kill_workers=True)


@contextlib.contextmanager
def ending_promptly(mark: Callable[[], None]) -> Iterator[None]:
    """SIGINT and SIGTERM end this process and all below it within seconds, whatever they are in the middle of.

    They raise KeyboardInterrupt; so does what then fails for that, as a compiler does. If this has not ended the
    process in time (a kernel runs, a library waits), a thread calls `mark` and ends it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end() -> None:
        end_children()
        with contextlib.suppress(Exception):
            mark()
        sys.stderr.write("mqlearn: interrupted; finished runs are kept\n")
        sys.stderr.flush()
        os._exit(130)

    def interrupted(*_: Any) -> None:
        interruption.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        timer = threading.Timer(_PATIENCE, end)
        timer.daemon = True  # it goes on while the interpreter joins other threads at its end
        timer.start()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupted) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt:
        end_children()
        raise
    except Exception as error:
        if not interruption.is_set():
            raise
        end_children()
        raise KeyboardInterrupt from error
    finally:
        interruption.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def pool(number: int, initializer: Callable[..., None], *arguments: Any) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with this one, and at once when it is interrupted.   initializer: calls `begin`."""
    with ending_promptly(lambda: None):
        told = (plugins.in_memory(), initializer, *arguments)
        made = ProcessPoolExecutor(number, SPAWN, initializer=_with_modules, initargs=told)
        try:
            yield made
        except BrokenProcessPool:
            why = "a worker process was killed, or ended as the memory did"
            raise WorkerDied(f"{why}; what is finished is kept, and the same command does the rest") from None
        finally:
            made.shutdown(wait=False, cancel_futures=True)


def _with_modules(digests: dict[str, str], initializer: Callable[..., None], *arguments: Any) -> None:
    initializer(*arguments)
    plugins.expect(digests)


class Submitted:
    """Jobs handed to submitit. They outlive an error of its launcher, and an interruption."""

    def __init__(self) -> None:
        self.jobs: list[Any] = []

    def wait(self) -> None:
        """Until all have ended, in whatever way."""
        while not all(job.done() for job in self.jobs):
            time.sleep(1.0)

    def cancel(self) -> None:
        for job in self.jobs:
            with contextlib.suppress(Exception):
                job.cancel(check=False)


@contextlib.contextmanager
def submitted(launcher: str) -> Iterator[Submitted]:
    """Remember what a launcher hands to submitit; on interruption it is cancelled, on a cluster too."""
    handed = Submitted()
    if not launcher.startswith("submitit"):
        yield handed
        return
    import submitit  # type: ignore  # of the extra slurm: not installed where types are checked

    original = submitit.AutoExecutor

    class Remembering(original):
        def map_array(self, *arguments: Any, **named: Any) -> Any:
            jobs = super().map_array(*arguments, **named)
            handed.jobs += jobs
            return jobs

    submitit.AutoExecutor = Remembering
    try:
        yield handed
    except BaseException:
        handed.cancel()
        raise
    finally:
        submitit.AutoExecutor = original
