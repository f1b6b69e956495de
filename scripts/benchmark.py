#!/usr/bin/env python
"""How fast mqlearn is, as ratios to other ways of doing the same work, all taken in one run.

    scripts/benchmark.py [NAME ...] [--json FILE]
    scripts/benchmark.py times [--claims] [--suites]
    scripts/benchmark.py figures [--against COMMIT] [--turns N] [--only FIGURE]

synchronous           a whole mq.run on FrozenLake 8x8 with 20 seeds, against hand-written AVX-512 C
scaling               the same by number of seeds, by size, for unequal probabilities, in units of that C at 8x8 with
                      20 seeds; of one sample an iteration, in tables and features, by number of seeds; an
                      evaluation; and the memory of 20,000 seeds
synchronous_numpy     the same kernel against vectorised NumPy over all pairs and seeds
asynchronous_table    one visited pair an iteration, against C and against a loop over Gymnasium's step()
asynchronous_one_hot  the same with one-hot features, where momentum moves every parameter
linear_momentum       128x128, 4096 parameters: O(active features) an iteration against the dense update
box_step              CartPole-v1 with tile coding, epsilon-greedy and uniform, against a bare loop over step()
stateful              rules with state of their own, against the kernels of four numbers
figure1               from nothing (11 curves, two maps, tracked), and drawn again from finished runs
figure2               in full; minutes, so only when named
sweep                 what a cell of 0.1 s takes beyond its own run, under joblib; 200 finished cells skipped; the
                      status of 1,000 runs
growth                comparing 100 and 200 runs, in units of what 20 take; status, export, mq.load and the look-up of
                      a digest of 1,000 runs, in units of what 250 take; the status of a sweep under way of 50,000
                      cells, in units of 5,000; what a cell takes of a SQLite store
large                 Q* and policy values of garnets of 1,000 to 100,000 states and of the lake 128x128, against
                      QuantEcon, if that is installed; stationary distributions; covariances of a lake of 24x24
cluster               100,000 cells of 1 s on 1,000 slots, played on a clock of its own: what the sweep costs beside the
                      work; ten minutes, so only when named
times                 stands alone: how long the figures take from nothing, and, if asked, the claims and the suites;
                      makes outputs/paper/times.json and times.md, where all pages take such times from
figures               stands alone: both figures from nothing, in CPU seconds of all processes, in turns with those of
                      another commit (in a temporary worktree, with this Python), and where the seconds go

The contenders take turns, and the fastest of several turns counts; all but the figures are measured in CPU time,
because machines are shared. The C of scripts/yardstick.c must give the kernels' results, bit for bit.
"""

import argparse
import json
from pathlib import Path

from benchmarks import against, times
from benchmarks.all_pairs import synchronous, synchronous_numpy
from benchmarks.cluster import cluster
from benchmarks.commands import figure1, figure2, sweep
from benchmarks.growth import growth
from benchmarks.large import large
from benchmarks.one_sample import asynchronous_one_hot, asynchronous_table, box_step, linear_momentum
from benchmarks.scaling import scaling
from benchmarks.with_state import stateful
from benchmarks.yardstick import Yardstick

BENCHMARKS = {
    function.__name__: function
    for function in (
        synchronous,
        scaling,
        synchronous_numpy,
        asynchronous_table,
        asynchronous_one_hot,
        linear_momentum,
        box_step,
        stateful,
        figure1,
        figure2,
        sweep,
        growth,
        large,
        cluster,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="all but figure2, cluster, times and figures by default"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements as a list of objects")
    parser.add_argument("--claims", action="store_true", help="with times: all claims too")
    parser.add_argument("--suites", action="store_true", help="with times: all suites too")
    parser.add_argument("--against", metavar="COMMIT", help="with figures: also at this commit, in turns")
    parser.add_argument("--turns", type=int, default=1, metavar="N", help="with figures: of which the least counts")
    parser.add_argument("--only", choices=against.FIGURES, help="with figures: one of them")
    arguments = parser.parse_args()
    if arguments.names == ["times"]:
        times.store(times.measure(claims=arguments.claims, suites=arguments.suites))
        return
    if arguments.names == ["figures"]:
        wanted = [arguments.only] if arguments.only else [*against.FIGURES]
        for line in against.compare(arguments.against, wanted, arguments.turns):
            print(line, flush=True)
        return
    unknown = set(arguments.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark is named {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    names = arguments.names or [name for name in BENCHMARKS if name not in ("figure2", "cluster")]
    c, rows = Yardstick(), []
    for name in names:
        for row in BENCHMARKS[name](c):
            rows.append(row.record())
            print(row.line(), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
