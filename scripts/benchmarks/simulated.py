"""A cluster that is played: slots, nodes that die, a store and a shared disk that answer late, on a clock of its own.

Jobs have nothing in common but files, and none begins before the one that it follows on its slot has ended. So each
is a plain call, on the clock of its slot: what takes time moves that clock, and where it meets the moment at which
its node dies the call ends there, as by kill -9: no handler of the job does anything, and the system lets its locks
go.
"""

import contextlib
import heapq
import os
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_OPERATIONS = ("open", "os.mkdir", "os.rename", "os.remove", "os.listdir", "fcntl.flock")


@dataclass(frozen=True)
class Conditions:
    """Seconds, unless it is said otherwise."""

    slots: int = 1000
    slots_a_node: int = 20
    start: float = 3.0  # of a job: interpreter, imports, the first model and kernel
    disk: float = 0.0005  # an operation on the shared disk
    store: float = 0.0  # an answer of the store; 0: tracking=none
    deaths: int = 0  # of nodes, at moments of the time that the work takes
    requeued: float = 0.5  # share of dead nodes whose jobs the cluster queues again; of the others they have failed
    found_out: float = 30.0  # until a job that is queued again begins
    away: float = 120.0  # until a dead node is back
    seed: int = 0


class NodeDied(RuntimeError):
    """What a launcher tells of a job whose node died."""


class _Dying(BaseException):
    """Ends the call of a job."""


class Cluster:
    """Runs jobs; `launch` has the form of Hydra's launchers.   work: seconds of one slot, in which nodes die."""

    def __init__(self, on: Conditions, folder: str, body: Callable[[], None], work: float) -> None:
        self.on, self._body, self._folder = on, body, folder
        self.now = self.busy = 0.0  # now: of the slot whose turn it is; busy: slot-seconds
        self.ended = 0.0  # the last job
        self.operations = self.killed = 0
        self.dying = False
        nodes = range(on.slots // on.slots_a_node)
        draw = random.Random(on.seed)
        self._deaths: dict[int, list[tuple[float, bool]]] = {node: [] for node in nodes}  # when; jobs queued again
        for _ in range(on.deaths):
            self._deaths[draw.choice(nodes)].append((draw.uniform(on.start, work), draw.random() < on.requeued))
        self._node = -1
        self._free = [(0.0, number, number // on.slots_a_node) for number in range(on.slots)]
        self._counted = False
        self._begun = 0.0
        sys.addaudithook(self._audit)

    # --- what a job meets ---

    def sleep(self, seconds: float) -> None:
        before, self.now = self.now, self.now + seconds
        if any(self._begun < when <= self.now for when, _ in self._deaths.get(self._node, ())):
            self.now = max(before, min(when for when, _ in self._deaths[self._node] if when > self._begun))
            self.dying = True
            raise _Dying

    def disk(self, operations: int = 1) -> None:
        self.operations += operations
        self.now += operations * self.on.disk

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Within this, operations on the disk take their time."""
        self._counted = True
        try:
            yield
        finally:
            self._counted = False

    def _audit(self, event: str, arguments: tuple) -> None:
        """Each operation on the disk that Python tells of: opening counts twice, since its stat is not told."""
        if not self._counted or event not in _OPERATIONS:
            return
        if event == "fcntl.flock" or str(arguments[0]).startswith(self._folder):
            self.disk(2 if event == "open" else 1)

    # --- what a launcher does ---

    def launch(self, jobs: Sequence[Sequence[str]], initial_job_idx: int) -> list[Any]:
        """Carry out all jobs; one result each, whose `_return_value` is an exception if its node died for good."""
        told: dict[int, Any] = dict.fromkeys(range(len(jobs)))
        queue = [(self.ended, number) for number in told]  # when it may begin
        self._free = [(max(when, self.ended), *more) for when, *more in self._free]
        heapq.heapify(self._free)
        while queue:
            ready, number = heapq.heappop(queue)
            free, slot, node = heapq.heappop(self._free)
            begins = max(ready, free)
            died = self._run(jobs[number], begins, node)
            self.busy += self.now - begins
            self.ended = max(self.ended, self.now)
            back = self.on.away if died is not None else 0.0
            heapq.heappush(self._free, (self.now + back, slot, node))
            if died:
                heapq.heappush(queue, (self.now + self.on.found_out, number))
            elif died is not None:
                told[number] = NodeDied("the node of this job died")
        return [type("Returned", (), {"_return_value": told[number]})() for number in range(len(jobs))]

    def _run(self, job: Sequence[str], begins: float, node: int) -> bool | None:
        """One job, from a moment on; whether it is queued again if its node died, else None."""
        passed = [text.removeprefix("hydra.job.env_set.").split("=", 1) for text in job if ".env_set." in text]
        os.environ.update(dict(passed))
        self.now, self._begun, self._node, self.dying = begins, begins, node, False
        try:
            with self.counting():
                self.sleep(self.on.start)
                self._body()
        except _Dying:
            self.killed += 1
            return next(again for when, again in sorted(self._deaths[node]) if when > begins)
        finally:
            self._node, self.dying = -1, False
        return None
