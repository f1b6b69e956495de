"""How much a leaderboard hangs on the seeds that tune: the scores with those of the suite, and with others.

    .venv/bin/python scripts/tuning_seeds.py [SUITE] [TUNING_SEED] [--store]

Tunes and runs every rule of the suite again (classic: minutes), on the same reporting seeds; prints a table as CSV.
--store writes it to outputs/paper/bench_SUITE_tuning_seeds.csv.
"""

import csv
import io
import os
import sys
import tempfile
from pathlib import Path

from mqlearn.experiments.settings import yamls
from mqlearn.files import write_whole
from mqlearn.paths import CONF
from mqlearn.suites import definition, results, rules, run_suite
from mqlearn.suites.leaderboard.board import board, by_setting

PAPER = Path(__file__).parents[1] / "outputs" / "paper"
_SHOWN = ("score", "low", "high", "rank")


def other(suite: str, tuning_seed: int) -> definition.Suite:
    """The suite, but for the seeds that tune."""
    content = dict(yamls.read("suite", CONF / "suite" / f"{suite}.yaml"))
    content["seeds"] = {**content["seeds"], "tuning_seed": tuning_seed}
    return definition.made(f"{suite}_{tuning_seed}", content)


def table(suite: str, tuning_seed: int) -> str:
    """CSV, a row for each rule by its stored score: score, interval and rank with either tuning seeds."""
    own = definition.load(suite)
    everyone = rules.entrants(rules.names())
    stored = results.committed_of(own)
    kept = [stored[problem.name].of({one.name: one.digest for one in everyone}) for problem in own.problems]
    again, _ = run_suite.of_suite(other(suite, tuning_seed), run_suite.Wanted(tuple(everyone), fresh=True))
    seeds = (own.problems[0].seeds.tuning_seed, tuning_seed)
    boards = [{row["rule"]: row for row in by_setting(board(suite, every), "tuned")} for every in (kept, again)]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["rule", *(f"{name}_{seed}" for seed in seeds for name in _SHOWN)])
    for rule in boards[0]:
        writer.writerow([rule, *(one[rule][name] for one in boards for name in _SHOWN)])
    return out.getvalue()


def main(arguments: list[str]) -> None:
    words = [text for text in arguments if text != "--store"]
    suite, tuning_seed = [*words, *("classic", "2000")[len(words) :]][:2]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["MQLEARN_OUTPUTS"] = folder  # what is run here is no result of `mqlearn bench`
        text = table(suite, int(tuning_seed))
    sys.stdout.write(text)
    if "--store" in arguments:
        write_whole(PAPER / f"bench_{suite}_tuning_seeds.csv", text)


if __name__ == "__main__":
    main(sys.argv[1:])
