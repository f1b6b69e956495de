"""A measurement as a row of the table, and the fastest of several turns."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One measurement; ratio: how many times the `against`, a time or, where `faster`, a speed."""

    name: str
    value: float | None
    unit: str
    against: str
    ratio: float | None
    wanted: float  # in the table only
    faster: bool = False

    def record(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key not in ("wanted", "faster")}

    def line(self) -> str:
        if self.value is None or self.ratio is None:
            return f"{self.name:22} {self.against}"
        met = self.ratio >= self.wanted if self.faster else self.ratio <= self.wanted
        bound = f"{'at least' if self.faster else 'at most'} {self.wanted:g}{'' if met else ', MISSED'}"
        return f"{self.name:22} {self.value:7.3g} {self.unit:19} {self.ratio:7.3g} times the {self.against} ({bound})"


def fastest(contenders: Mapping[str, Callable[[], Any]], turns: int = 7) -> dict[str, float]:
    """CPU seconds of each contender's fastest turn; each runs once beforehand."""
    for run in contenders.values():
        run()
    seconds = dict.fromkeys(contenders, math.inf)
    for _ in range(turns):
        for name, run in contenders.items():
            started = time.process_time()
            run()
            seconds[name] = min(seconds[name], time.process_time() - started)
    return seconds
