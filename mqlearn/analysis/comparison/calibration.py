"""How often the tool's own tests are wrong: a run against itself, and against itself with a planted speed-up."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mqlearn.analysis import axis as axes
from mqlearn.analysis.comparison.columns import aligned, wrapped
from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.seed_values import Question, gone_by, horizon, metric_of, summarise
from mqlearn.analysis.statistics import significance
from mqlearn.analysis.statistics.intervals import generator

TRIALS = 200
SPEED_UPS = (1.1, 1.5, 2.0)


@dataclass(frozen=True)
class Calibration:
    """Of one run. Its finite seeds are split at random, `half` against `half`, again and again.

    yes_paired, yes_unpaired: splits of `trials` in which a test at `level` says that the halves differ, which is
    always false.   planted: speed-up s -> (paired, unpaired) share of splits in which one half, given the errors that
    it has at s k already at k, is found to be better.   sound: the false answers are no more than chance
    allows (binomial, 1 in 1000).
    """

    label: str
    group: str
    metric: str
    at: int
    half: int
    trials: int
    level: float
    yes_paired: int
    yes_unpaired: int
    planted: dict[float, tuple[float, float]]
    sound: bool


def calibrate(entry: Entry, question: Question, trials: int = TRIALS) -> Calibration:
    """Split the seeds of a run `trials` times. Raises SettingError if the run cannot answer the question."""
    from scipy import stats

    run = entry.run
    metric = metric_of(question, run)
    at = horizon(question, metric, run)
    finite = ~gone_by(run, at, question.axis)
    position = axes.positions(run, question.axis)
    measured = np.isfinite(run.curves[metric][finite]).all(axis=0) & (position <= at)
    position, curves = position[measured].astype(np.float64), run.curves[metric][finite][:, measured]
    half = len(curves) // 2
    random = generator("calibration", run.digest, trials)
    splits = [random.permutation(len(curves)) for _ in range(trials)]

    def found(fast: np.ndarray, slow: np.ndarray) -> tuple[int, int]:
        """Splits in which the paired and the unpaired test say yes."""
        yes = [0, 0]
        for split in splits if half else ():
            a, b = fast[split[:half]], slow[split[half : 2 * half]]
            paired = significance.sign_flip(a - b, resamples=999)
            unpaired = significance.permutation(a, b, resamples=999, exact=1000)
            yes[0] += paired.p <= question.level
            yes[1] += unpaired.p <= question.level
        return yes[0], yes[1]

    values = summarise(question, position, curves, at) if len(curves) else np.empty(0)
    paired, unpaired = found(values, values)
    planted = {}
    for speed_up in SPEED_UPS:
        earlier = position / speed_up
        behind = np.array([np.interp(earlier, position, curve) for curve in curves]).reshape(curves.shape)
        fast, slow = (summarise(question, earlier, one, at) if len(curves) else values for one in (curves, behind))
        planted[speed_up] = tuple(count / trials for count in found(fast, slow))
    sound = all(stats.binom.sf(yes - 1, trials, question.level) > 0.001 for yes in (paired, unpaired))
    return Calibration(
        entry.label, entry.block, metric, at, half, trials, question.level, paired, unpaired, planted, sound
    )


def row(result: Calibration, question: Question) -> dict[str, Any]:
    """As plain data, with the names of a verdict: a and b are the same run."""
    plain = asdict(result)
    label = plain.pop("label")
    verdict = "impossible" if _impossible(result) else "no_difference" if result.sound else "a_better"
    group = plain.pop("group")
    asked = {"summary": question.summary, "axis": question.axis}
    return {"a": label, "b": label, "group": group, **asked, "verdict": verdict, **plain}


def text(results: list[Calibration], question: Question, width: int | None = None) -> str:
    """The rates as tables that fit `width`; what they say comes first."""
    yes = [sum(r.yes_paired for r in results), sum(r.yes_unpaired for r in results)]
    verdict = "sound" if all(result.sound for result in results) else "NOT SOUND"
    told = [
        f"false in all: {yes[0]} / {yes[1]} of {sum(r.trials for r in results)}; {verdict}",
        f"The tests on what is known: each run split into halves by seed, {TRIALS} times; {question.summary}, level "
        f"{question.level:g}, no correction.",
        "false: splits in which the halves are said to differ, paired / unpaired test; 1.1x, ...: share of splits in "
        "which a half is found that arrives so much earlier.",
    ]
    lines = [line for one in told for line in wrapped(one, width)]
    left: list[str] = []
    for group in dict.fromkeys(result.group for result in results):
        own = [result for result in results if result.group == group]
        at = sorted({(r.metric, axes.words(question.axis, r.at)) for r in own})
        lines += ["", *wrapped(f"[{group}]  {'; '.join(f'{metric} at {k}' for metric, k in at)}", width)]
        table, dropped = aligned([_HEAD, *map(_cells, own)], width, _DROP, ("run",))
        lines += table
        left += [name for name in dropped if name not in left]
        if any(_impossible(r) for r in own):
            lines.append("  * halves this small cannot say yes at all: every rate is 0 by force")
    if left:
        lines += wrapped(f"Left out to fit {width} columns: {', '.join(left)}; --csv and --json have all.", width)
    return "\n".join(lines)


_HEAD = ["run", "halves", "false", "rate", *(f"{speed_up:g}x" for speed_up in SPEED_UPS)]
# What a narrow terminal leaves out, first to last.
_DROP = ("rate", "1.1x", "halves", "1.5x")


def _cells(r: Calibration) -> list[str]:
    counts = f"{r.yes_paired} / {r.yes_unpaired} of {r.trials}"
    rates = f"{r.yes_paired / r.trials:.3f} / {r.yes_unpaired / r.trials:.3f}"
    return [r.label, f"{r.half} | {r.half}", counts, rates, *(f"{p:.2f} / {u:.2f}" for p, u in r.planted.values())]


def _impossible(result: Calibration) -> bool:
    return significance.smallest_p(result.half, paired=True) > result.level
