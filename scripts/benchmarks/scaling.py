"""What more seeds, larger maps and unequal probabilities cost, and the memory of 20,000 seeds."""

import math
import subprocess
import sys
from collections.abc import Iterator
from functools import partial

import numpy as np

import mqlearn as mq
from mqlearn.learning.metrics import Measure
from mqlearn.learning.record import Recorder
from mqlearn.problems.solvers import optimal

from .all_pairs import synchronous_in_c
from .measuring import Row, fastest
from .starting import SEEDS, start
from .yardstick import Yardstick


def scaling(c: Yardstick) -> Iterator[Row]:
    """Runs with one evaluation in 500 iterations, as by default with 100,000."""
    lake, rule = mq.frozen_lake("8x8", discount=0.9), mq.MomentumQ(m=2)
    if c.missing_avx512:
        yield Row("scaling", None, "", c.missing_avx512, None, 2)
        return

    def run(mdp: mq.FiniteMDP, n_seeds: int, iterations: int) -> None:
        n_checkpoints = iterations // 500
        mq.run(mdp, rule, iterations=iterations, n_seeds=n_seeds, n_workers=1, n_checkpoints=n_checkpoints)

    def large(side: int) -> mq.FiniteMDP:
        return mq.frozen_lake_blocks(side // 8, discount=0.9, success_rate=1 / 3)

    cases = [(f"scaling_{n}_seeds", lake, n, 2.0 if n == 20 else 2.6) for n in (20, 200, 2_000, 20_000)]
    cases += [(f"scaling_{side}x{side}", large(side), 20, 3.4) for side in (16, 32, 64)]
    cases += [("scaling_unequal", mq.frozen_lake("8x8", discount=0.9, success_rate=0.8), 20, 5.0)]
    for name, mdp, n_seeds, wanted in cases:
        fewest = 4_000 if n_seeds == 20 else 1_000  # few iterations on a large map would measure its exact solutions
        iterations = max(fewest, 40_000 * 20 * len(lake.pairs) // (n_seeds * len(mdp.pairs)))
        ours = partial(run, mdp, n_seeds, iterations)
        theirs = partial(synchronous_in_c, c, lake, rule, 40_000)
        contenders = {"ours": ours, "theirs": theirs}
        if mdp is not lake and name != "scaling_unequal":  # what the C takes there itself, whose tables lie alike
            contenders["there"] = partial(synchronous_in_c, c, mdp, rule, iterations)
        seconds = fastest(contenders, turns=1 if n_seeds > 2_000 else 3)
        each = seconds["ours"] / (iterations * len(mdp.pairs) * n_seeds) * 1e9
        unit = seconds["theirs"] / (40_000 * len(lake.pairs) * len(SEEDS)) * 1e9
        yield Row(name, each, "ns a pair and seed", "time of AVX-512 C at 8x8", each / unit, wanted)
        if "there" in seconds:
            own = seconds["there"] / (iterations * len(mdp.pairs) * n_seeds) * 1e9
            yield Row(f"{name}, the C", own, "ns a pair and seed", "time of AVX-512 C at 8x8", own / unit, wanted)
    yield from _one_sample(lake)
    learner, recorder = start(lake, mq.Synchronous(), None), Recorder(lake, optimal(lake).q, np.arange(200), 20)
    measure = Measure(lake, optimal(lake))
    learner.advance(0, 1_000, rule.weights(0, 1_000))
    seconds = fastest({"ours": lambda: [recorder.record(k, [learner], [measure(k, learner)]) for k in range(200)]})
    each = seconds["ours"] / (200 * 20) * 1e6
    yield Row("scaling_evaluation", each, "us a seed", "wanted 10 us", each / 10, 1)
    peak, beyond = _memory(20_000)
    against = f"wanted 100 MB beyond curves and tables, with a peak of {peak:.0f} MB"
    yield Row("scaling_memory", beyond, "MB", against, beyond / 100, 1)


def _one_sample(lake: mq.FiniteMDP) -> Iterator[Row]:
    """One transition an iteration, by number of seeds, in units of what 20 seeds cost: tables, and tile coding.

    What a run takes before its first iteration and at its checkpoints falls out of a difference.
    """
    linear = mq.MomentumQLinear(beta=0.8, lam=1 - 1e-6).with_step_size(mq.Constant(0.1))
    for name, rule, features in (("table", mq.MomentumQ(m=2), None), ("features", linear, mq.tile_coding(lake))):
        of_twenty = math.nan
        for n_seeds in (20, 200, 2_000, 20_000):
            iterations = max(1_024, 8_000_000 // n_seeds)

            def run(times: int, rule=rule, features=features, n_seeds=n_seeds, iterations=iterations) -> None:
                settings = {"sampling": mq.Markovian(start="uniform"), "features": features, "n_checkpoints": 2}
                once = {"evaluation": mq.Evaluation(episodes=0), "n_seeds": n_seeds, "n_workers": 1}
                mq.run(lake, rule, iterations=times * iterations, **settings, **once)

            seconds = fastest({"short": partial(run, 1), "long": partial(run, 3)}, turns=3)
            each = (seconds["long"] - seconds["short"]) / (2 * iterations * n_seeds) * 1e9
            of_twenty = each if n_seeds == 20 else of_twenty
            against = "cost with 20 seeds"
            yield Row(f"scaling_{name}_{n_seeds}", each, "ns a step and seed", against, each / of_twenty, 1.33)


def _memory(n_seeds: int) -> tuple[float, float]:
    """MB of a process at most, and what `n_seeds` have added to it beyond their curves and last tables."""
    code = f"""
from pathlib import Path
import mqlearn as mq
def run(n_seeds):
    return mq.run(mq.frozen_lake("8x8", discount=0.9), mq.MomentumQ(m=2), iterations=1000, n_seeds=n_seeds)
def peak():
    status = Path("/proc/self/status").read_text()  # of this program; ru_maxrss begins with that of its parent
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
run(20)
before, result = peak(), run({n_seeds})
kept = sum(curve.nbytes for curve in result.curves.values()) + result.q.nbytes
print(peak(), peak() - before - kept / 2**20)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    peak, beyond = map(float, done.stdout.split())
    return peak, beyond
