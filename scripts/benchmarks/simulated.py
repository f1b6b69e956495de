"""A cluster that is played: slots, nodes that die, a store and a shared disk that answer late, on a clock of its own.

A job is a thread, of which one runs at a time; what takes time puts it to sleep on the simulated clock. A thread on a node
that dies is never woken again, and its locks are let go as the system would; no handler of its runs, as after kill -9.
"""

import contextlib
import heapq
import itertools
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Conditions:
    """Seconds, unless it is said otherwise."""

    slots: int = 1000
    slots_a_node: int = 20
    start: float = 3.0  # of a process: interpreter, imports, its place in the queue
    disk: float = 0.0005  # an operation on the shared disk
    store: float = 0.0  # an answer of the store; 0: tracking=none
    store_at_once: int = 8  # answers that the store works at
    deaths: int = 0  # of nodes, one after the other while the sweep runs
    requeued: float = 0.5  # share of dead nodes whose jobs the cluster queues again; of the others they have failed
    away: float = 300.0  # until a dead node is back
    seed: int = 0


class NodeDied(RuntimeError):
    """What a launcher tells of a job whose node died."""


@dataclass(eq=False)
class Task:
    """A job on a slot."""

    node: int
    begun: float
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    held: set[int] = field(default_factory=set)  # descriptors of its locks
    debt: float = 0.0  # of disk operations, slept before it does something else
    dead: bool = False


class Cluster:
    """Runs jobs; `launch` has the form of Hydra's launchers."""

    def __init__(self, conditions: Conditions, folder: str, body: Callable[[], None]) -> None:
        self.on, self.body, self._folder = conditions, body, folder
        self.now = self.busy = 0.0  # busy: slot-seconds
        self.operations = self.died = 0
        self._random = random.Random(conditions.seed)
        self._events: list[tuple[float, int, Any]] = []
        self._order = itertools.count()
        self._turn = threading.Semaphore(0)
        self._current: Task | None = None
        self._store_free = [0.0] * conditions.store_at_once
        self._running: dict[Task, Any] = {}
        self._back: dict[int, float] = {}  # nodes that are away, until when
        self._free = {node: conditions.slots_a_node for node in range(conditions.slots // conditions.slots_a_node)}
        self._counting = False
        sys.addaudithook(self._audit)

    # --- what a job meets ---

    def sleep(self, seconds: float) -> None:
        """Of the job that runs; the head of the sweep pays for the disk too."""
        task = self._current
        if task is None:
            self.now += seconds
            return
        self._at(self.now + seconds + task.debt, task)
        task.debt = 0.0
        self._turn.release()
        task.go.acquire()

    def ask_store(self) -> None:
        """One request: it waits for its turn, then for its answer."""
        begins = max(self.now, self._store_free[0])
        heapq.heapreplace(self._store_free, begins + self.on.store)
        self.sleep(begins + self.on.store - self.now)

    def hold(self, descriptor: int) -> None:
        if self._current is not None:
            self._current.held.add(descriptor)

    def let_go(self, descriptor: int) -> None:
        if self._current is not None:
            self._current.held.discard(descriptor)

    def disk(self, operations: int = 1) -> None:
        self.operations += operations
        if self._current is None:
            self.now += operations * self.on.disk
        else:
            self._current.debt += operations * self.on.disk

    @contextlib.contextmanager
    def counting(self) -> Iterator[None]:
        """Within this, operations on the disk take their time."""
        self._counting = True
        try:
            yield
        finally:
            self._counting = False

    def _audit(self, event: str, arguments: tuple) -> None:
        """Each operation on the disk that Python tells of: opening counts twice, since its stat is not told."""
        if self._counting and event in ("open", "os.mkdir", "os.rename", "os.remove", "os.listdir", "fcntl.flock"):
            first = arguments[0]
            if event == "fcntl.flock" or (isinstance(first, str) and first.startswith(self._folder)):
                self.disk(2 if event == "open" else 1)

    # --- what a launcher does ---

    def launch(self, jobs: Sequence[Sequence[str]], initial_job_idx: int) -> list[Any]:
        """Carry out all jobs; one result each, whose `_return_value` is an exception if its node died for good."""
        told: dict[int, Any] = dict.fromkeys(range(len(jobs)))
        queue = list(range(len(jobs)))[::-1]
        environments = [
            dict(text.removeprefix("hydra.job.env_set.").split("=", 1) for text in job if ".env_set." in text)
            for job in jobs
        ]
        if self.on.deaths > self.died:
            self._at(self.now + self._random.uniform(5, 30), "death")
        with self.counting():
            while queue or self._running:
                while queue and (node := self._place()) is not None:
                    self._begin(queue.pop(), node, environments)
                self.now, _, what = heapq.heappop(self._events)
                if what == "death":
                    self._kill(queue, told)
                elif isinstance(what, Task) and not what.dead:
                    self._resume(what)
        self._events.clear()
        return [type("Returned", (), {"_return_value": told[number]})() for number in range(len(jobs))]

    def _at(self, when: float, what: Any) -> None:
        heapq.heappush(self._events, (when, next(self._order), what))

    def _place(self) -> int | None:
        for node in [node for node, until in self._back.items() if until <= self.now]:
            del self._back[node]
        return next((node for node, free in self._free.items() if free and node not in self._back), None)

    def _begin(self, number: int, node: int, environments: Sequence[dict[str, str]]) -> None:
        task = Task(node, self.now)
        self._free[node] -= 1
        self._running[task] = number

        def run() -> None:
            task.go.acquire()
            os.environ.update(environments[number])  # which a job reads before it first waits
            self.body()
            self.sleep(0.0)  # for what it owes the disk
            self._end(task)
            self._turn.release()

        threading.Thread(target=run, daemon=True).start()
        self._at(self.now + self.on.start, task)

    def _resume(self, task: Task) -> None:
        self._current = task
        task.go.release()
        self._turn.acquire()
        self._current = None

    def _end(self, task: Task) -> None:
        self.busy += self.now - task.begun
        self._free[task.node] += 1
        del self._running[task]

    def _kill(self, queue: list[int], told: dict[int, Any]) -> None:
        """A node that has jobs dies with all of them."""
        self.died += 1
        node = self._random.choice(sorted({task.node for task in self._running}))
        again = self._random.random() < self.on.requeued
        for task, number in [pair for pair in self._running.items() if pair[0].node == node]:
            task.dead = True
            for descriptor in task.held:
                with contextlib.suppress(OSError):
                    os.close(descriptor)
            self._end(task)
            if again:
                queue.insert(0, number)
            else:
                told[number] = NodeDied("the node of this job died")
        self._back[node] = self.now + self.on.away
        self._at(self._back[node], "back")
        if self.died < self.on.deaths:
            self._at(self.now + self._random.uniform(5, 30), "death")
