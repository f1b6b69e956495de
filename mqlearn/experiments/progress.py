"""Progress of a long run: one live line on a terminal, plain lines elsewhere."""

import contextlib
import math
import shutil
import sys
import time

_QUIET = 2.0  # seconds: shorter runs say nothing
_WORTH = 10.0  # seconds left, for which a first line is worth it
_LIVE = 0.2  # between refreshes of a terminal's line
_PLAIN = 10.0  # between lines in a log
_FORESEEN = 0.05  # of the iterations, before which most checkpoints lie close together: measuring is most of the time


_UNITS = (("year", 365.25 * 86400), ("day", 86400.0), ("hour", 3600.0), ("minute", 60.0))
_COMPILES = "compiling, up to a minute, once after an installation"
COMPILING = f"besides {_COMPILES}"


def duration(seconds: float) -> str:
    """A time in words, as people say it: 40 s, 12 minutes, 3 hours, 20 days, 4 years."""
    for unit, length in _UNITS:
        if seconds >= 2 * length:
            return f"{round(seconds / length):,} {unit}s"
    return f"{max(1, round(seconds))} s"


class Progress:
    """Called now and then with the iteration and the current error; use as a context manager.

    The rate is of iterations alone: its clock starts after the first of them, and anew when something was compiled. On
    a terminal compiling is said, unless it is quiet.
    """

    def __init__(self, label: str, iterations: int, *, quiet: bool = False) -> None:
        self.label = label
        self.iterations = iterations
        self.quiet = quiet
        self.live = sys.stderr.isatty() and not quiet
        self.told = contextlib.ExitStack()
        self.started: float | None = None  # at iteration `first`
        self.first: int | None = None
        self.shown = -math.inf

    def __enter__(self) -> "Progress":
        if not self.quiet:
            from mqlearn.kernels import telling

            self.told.enter_context(telling(self.compiling))
        return self

    def __exit__(self, *_: object) -> None:
        self.told.close()
        if self.live and self.shown > 0:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def compiling(self) -> None:
        """Stop the clock until the next iterations are done, and say why in place of the last line."""
        self.started = None
        if not self.live:
            return
        self.shown = time.monotonic()
        sys.stderr.write(f"\r\033[K{self.label[: max(8, shutil.get_terminal_size().columns - 64)]}: {_COMPILES}")
        sys.stderr.flush()

    def __call__(self, k: int, error: float) -> None:
        now = time.monotonic()
        if self.first is None:
            self.first = k
        if self.started is None:
            if k > self.first:  # before the first iterations are done, what they call may have to be compiled
                self.started, self.first = now, k
            return
        elapsed = now - self.started
        if k == self.first or elapsed < _QUIET or now - self.shown < (_LIVE if self.live else _PLAIN):
            return
        self.shown: float = now
        rate = (k - self.first) / elapsed
        left = (self.iterations - k) / rate
        done = f"{k:,} of {self.iterations:,} iterations"
        known = "" if math.isnan(error) else f", error {error:.3g}"
        settled = elapsed >= _PLAIN or k - self.first >= _FORESEEN * self.iterations
        forecast = f", {rate:,.0f}/s, {duration(left)} left" if settled else ""
        text = f": {done}{forecast}{known}"
        if self.live:
            room = max(8, shutil.get_terminal_size().columns - 1 - len(text))
            sys.stderr.write(f"\r\033[K{self.label[:room]}{text}")
        else:
            sys.stderr.write(f"{self.label}{text}\n")
        sys.stderr.flush()


class Counting:
    """Progress of work that consists of things of one kind: called with how many more are done.

    A line at a time on stderr, the first after 2 seconds if at least 10 more are foreseen. A context manager, as
    Progress is.
    """

    def __init__(self, done: str, total: int, things: str) -> None:
        self.words: str = f"{done} {{:,}} of {total:,} {things}"
        self.total, self.count = total, 0
        self.live = sys.stderr.isatty()
        self.started: float = time.monotonic()
        self.shown = -math.inf

    def __enter__(self) -> "Counting":
        return self

    def __exit__(self, *_: object) -> None:
        if self.live and self.shown > 0:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()

    def __call__(self, more: int) -> None:
        self.count += more
        now = time.monotonic()
        elapsed = now - self.started
        left = elapsed / max(1, self.count) * (self.total - self.count)
        if (
            elapsed < _QUIET
            or (left < _WORTH and self.shown < 0)
            or now - self.shown < (_LIVE if self.live else _PLAIN)
        ):
            return
        self.shown: float = now
        text = f"{self.words.format(self.count)}, {duration(left)} left"
        sys.stderr.write(f"\r\033[K{text}" if self.live else f"{text}\n")
        sys.stderr.flush()
