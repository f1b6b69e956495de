"""How often the tool's own tests are wrong: a run against itself, and against itself with a planted speed-up."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mqlearn.analysis.comparison.labels import Entry
from mqlearn.analysis.comparison.seed_values import Question, common_checkpoint, gone_by, metric_of, summarise
from mqlearn.analysis.statistics import significance
from mqlearn.analysis.statistics.intervals import generator

TRIALS = 200
SPEED_UPS = (1.1, 1.5, 2.0)


@dataclass(frozen=True)
class Calibration:
    """Of one run. Its finite seeds are split at random, `half` against `half`, again and again.

    yes_paired, yes_unpaired: splits of `trials` in which a test at `level` says that the halves differ, which is
    always false.   planted: speed-up s -> (paired, unpaired) share of splits in which one half, given the errors that
    it has at iteration s k already at k, is found to be better.   sound: the false answers are no more than chance
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
    at = common_checkpoint(question, metric, run)
    finite = ~gone_by(run, at)
    iteration = run.curves["iteration"]
    measured = np.isfinite(run.curves[metric][finite]).all(axis=0) & (iteration <= at)
    iteration, curves = iteration[measured].astype(np.float64), run.curves[metric][finite][:, measured]
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

    values = summarise(question, iteration, curves, at) if len(curves) else np.empty(0)
    paired, unpaired = found(values, values)
    planted = {}
    for speed_up in SPEED_UPS:
        earlier = iteration / speed_up
        behind = np.array([np.interp(earlier, iteration, curve) for curve in curves]).reshape(curves.shape)
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
    return {"a": label, "b": label, "group": group, "summary": question.summary, "verdict": verdict, **plain}


def text(results: list[Calibration], question: Question) -> str:
    """The rates as a table."""
    lines = [
        f"The tests on what is known: each run split into halves by seed, {TRIALS} times; {question.summary}, level "
        f"{question.level:g}, no correction.",
        "false: splits in which the halves are said to differ, paired / unpaired test; 1.1x, ...: share of splits in "
        "which a half is found that arrives so much earlier.",
    ]
    header = ["run", "halves", "false", "rate", *(f"{s:g}x" for s in SPEED_UPS)]
    for group in dict.fromkeys(result.group for result in results):
        own = [result for result in results if result.group == group]
        table = [header]
        for r in own:
            cells = [r.label, f"{r.half} | {r.half}", f"{r.yes_paired} / {r.yes_unpaired} of {r.trials}"]
            cells.append(f"{r.yes_paired / r.trials:.3f} / {r.yes_unpaired / r.trials:.3f}")
            cells += [f"{p:.2f} / {u:.2f}" for p, u in r.planted.values()]
            table.append([*cells[:4], *cells[4:]])
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        at = sorted({(r.metric, r.at) for r in own})
        lines += ["", f"[{group}]  {'; '.join(f'{metric} at k = {k}' for metric, k in at)}"]
        lines += ["  " + "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip() for cells in table]
        if any(_impossible(r) for r in own):
            lines.append("  * halves this small cannot say yes at all: every rate is 0 by force")
    yes = [sum(r.yes_paired for r in results), sum(r.yes_unpaired for r in results)]
    total = sum(r.trials for r in results)
    verdict = "sound" if all(result.sound for result in results) else "NOT SOUND"
    lines += ["", f"false in all: {yes[0]} / {yes[1]} of {total}; {verdict}"]
    return "\n".join(lines)


def _impossible(result: Calibration) -> bool:
    return significance.smallest_p(result.half, paired=True) > result.level
