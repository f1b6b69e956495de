"""`mqlearn VERB [overrides]`. Nothing heavy is imported before a verb needs it."""

import importlib
import os
import sys

from mqlearn.cli import streams
from mqlearn.paths import CONF

VERBS = {
    "run": "run one configuration, or with -m a sweep of them",
    "figure": "run what is missing for a figure, then draw it",
    "compare": "which of two rules is faster, over finished runs",
    "report": "one HTML page on the runs of an experiment, to hand on",
    "explain": "what a figure or a report says of its own origin",
    "status": "what sweeps planned, and what has become of it",
    "claims": "which claims of the paper hold: runs what is missing, then tests them",
    "truth": "the exact optimum of an environment, with its certified error",
    "doctor": "whether this machine repeats its numbers, and those of the figures",
    "rerun": "repeat a run from its record alone and compare the numbers",
    "upload": "deliver a run folder to the tracking store",
    "ui": "open the MLflow UI on the tracking store",
}

# Of verbs that do not lie in mqlearn.cli.commands.
MODULES = {
    "compare": "compare",
    "claims": "claims",
    "doctor": "doctor.command",
    "report": "report",
    "explain": "explain",
    "status": "status",
}

USAGE = {
    "run": """mqlearn run [-m] [overrides]

  mqlearn run algorithm=momentum_q algorithm.m=5 env=frozen_lake_8x8 discount=0.99
  mqlearn run -m algorithm=q_learning,speedy_q,momentum_q env=frozen_lake_4x4,frozen_lake_8x8

Groups (one choice each, its settings as group.setting=value):
{groups}
Settings (with their defaults):
{settings}
Spelling: iterations=1e5   'env.map=[SFFF,FHFH,FFFH,HFFG]' or env.map=FILE.txt   q0=[-1,1] in quotes
  a sweep over values: algorithm.m=2,5,10   a free text: "experiment.name='two words'"
Sweeps (-m) also take preview=true, which creates nothing, and existing=skip|rerun|error for cells that are finished
  (skip; a single run: rerun); hydra/launcher=joblib|basic|submitit_local|submitit_slurm|ray, hydra.launcher.n_jobs=4.
  experiment=NAME with curves in its yaml stands for all its cells.
Own files: --config-dir DIR adds a folder of config groups, plugins=[my_module] your Python module.
Hydra's: --cfg job prints the composed settings, --info what was found where; hydra.run.dir=DIR chooses the run
  folder (by default outputs/runs/EXPERIMENT/DIGEST); eval "$(mqlearn -sc install=bash)" completes in the shell.""",
    "figure": """mqlearn figure NAME [--check] [band=ci95|std] [existing=skip|rerun|error] [overrides]

  mqlearn figure figure1                  runs what is missing, then draws outputs/figures/figure1.{png,pdf,svg}
  mqlearn figure figure1 discount=0.99    a variant, with a file name of its own
  mqlearn figure figure1 --check          also compares with the committed reference data (exit code 1: different)
  mqlearn figure figure1 --store          makes these numbers and this picture the reference data, outputs/paper

Figures: {figures}""",
    "compare": """mqlearn compare [experiment.name=NAME] [overrides that select] [settings] [--json|--csv|--latex FILE]

  mqlearn compare experiment.name=figure1                        every pair within a block
  mqlearn compare experiment.name=figure1 against=Q-learning     every rule against one; at=1e4: at iteration 10000
  mqlearn compare experiment.name=figure1 summary=time epsilon=0.01 env=frozen_lake_4x4
  mqlearn compare algorithm=momentum_q,q_learning discount=0.99  a selection over all experiments

Reads the finished runs in outputs/runs and those that the store alone has (tracking.uri=URI, or tracking=none: not). A
block shares model, discount, reward, Q_0, features and sampling.
Settings: against=LABEL  at=K (last)  epsilon=E  summary=error|area|time|return  metric=NAME  level=0.05
  diverged=worst|censored|excluded (how diverged seeds enter)  interval=bca|percentile|t
  allow_mixed=true (pairs across blocks)  calibrate=true (each run against itself: how often the tests are wrong)
  tuned=true [tuning_seed=S] (the best of equally many settings of each algorithm, on seeds that did not choose it)""",
    "report": """mqlearn report experiment.name=NAME [overrides that select] [--output FILE.html] [--verdicts FILE]

  mqlearn report experiment.name=figure1 --output figure1.html
  mqlearn report experiment.name=figure1 env=frozen_lake_4x4 algorithm=q_learning,momentum_q

One self-contained page: verdicts, figures with their numbers, settings, environments, maps of Q* and of the error over
the checkpoints, equations as the code has them, diverged and failed runs, versions, commands. Reads the finished runs
in outputs/runs; by default it is outputs/reports/NAME.html. A copy goes to the tracking store (tracking=none: not).
--verdicts FILE takes the verdicts of `mqlearn compare ... --json FILE`; else all pairs, by the last error.""",
    "explain": """mqlearn explain FILE.png|.pdf|.svg|.html [--json] [tracking.uri=URI]

Prints command, settings, versions and digests that a figure or report carries within itself, and where the runs with
these digests are on this machine: MLflow run ids and folders.""",
    "status": """mqlearn status [experiment.name=NAME] [tracking.uri=URI] [--json FILE]

  mqlearn status                          all experiments that sweeps have planned
  mqlearn status experiment.name=figure1 --json status.json

Cells planned, done, running, failed, killed, missing, damaged, diverged, and not uploaded, from the store and the
plans in outputs/sweeps (a plan that is no longer wanted: delete its folder). Exit code 1 if a cell has failed.""",
    "claims": """mqlearn claims [NAME ...] [smoke=true] [overrides] [--json FILE] [--table FILE.md]

  mqlearn claims                               every claim; runs what is missing first (with linear features: long)
  mqlearn claims momentum_vs_speedy_q          one claim
  mqlearn claims smoke=true                    all of them in small, in seconds: a trial of the tests, not of the paper
  mqlearn claims theorem_3 seed=1              the same question on other seeds

Verdicts: reproduced, not_reproduced, or conditional: it holds under the conditions that are listed.
Overrides: seed, n_seeds, n_workers, tracking, plugins; --config-dir DIR adds your own claims, DIR/claim/NAME.yaml.
Claims: {claims}""",
    "truth": """mqlearn truth [overrides] [--json]

  mqlearn truth env=frozen_lake_8x8 discount=0.99
  mqlearn truth env=frozen_lake_random env.size=16 env.map_seed=3 --json

Prints states, counted pairs, certified error, value at the start (mean over the start distribution), best success
probability, shortest path and number of optimal actions.""",
    "doctor": """mqlearn doctor [overrides] [--json FILE]

  mqlearn doctor                          everything, in about a minute of one core
  mqlearn doctor --config-dir my_conf plugins=[my_rules] algorithm=heavy_ball     a rule of your own

Runs small settings in several ways and compares every number, bit by bit: one thread and several, fewer seeds, twice,
in a fresh process, in a sweep that is killed and continued; kernels with their equations; interpreter and packages with
the tested range; figures with the reference data of the repository. Each line ends with what was compared, and names
the first difference. Verdicts: same, compatible (equal but for rounding), inside, noted, not_checked; and different,
outside, failed, with exit code 1. Nothing is left in the outputs folder or in the store.
Overrides: algorithm, step_size, discount, iterations, n_seeds, seed, plugins; figures are then left out.""",
    "rerun": """mqlearn rerun FOLDER|RUN_ID [n_workers=N] [tracking.uri=URI]

Repeats a run from its record alone and says whether the numbers are the same (exit code 1 if not).""",
    "upload": """mqlearn upload FOLDER [FOLDER ...] [tracking.uri=URI]

Delivers run folders to the tracking store, each once.""",
    "ui": """mqlearn ui [port=5000] [tracking.uri=URI]

Opens the MLflow UI on the tracking store, on this machine only.""",
}


def main(argv: list[str] | None = None) -> None:
    """The console script: exits with 0, 1 (a difference or a failed run) or 2 (a setting that is not admissible)."""
    streams.unbroken()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print("usage: mqlearn VERB [overrides]      (mqlearn VERB --help explains)\n")
        print("\n".join(f"  {verb:8} {text}" for verb, text in VERBS.items()))
        return
    verb, *rest = arguments
    if verb == "--version":
        from importlib.metadata import version

        print(f"mqlearn {version('mqlearn')}")
        return
    if verb in VERBS and ("-h" in rest or "--help" in rest):
        print(_help(verb))
        return
    from mqlearn.errors import SettingError, nearest

    # Runs use the cores side by side themselves, and threads of BLAS would only wait beside them. Set before NumPy is
    # loaded, inherited by all workers; what a user has set stays.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    given, sys.argv = sys.argv, ["mqlearn", *arguments]  # recorded as the command
    try:
        if {"-sc", "--shell-completion"} & {*arguments}:
            code = _complete([argument for argument in arguments if argument not in VERBS])
        elif verb in VERBS:
            module = importlib.import_module(f"mqlearn.cli.{MODULES.get(verb, 'commands')}")
            code = getattr(module, verb)(rest)
        else:
            raise SettingError("verb", verb, f"must be one of {', '.join(VERBS)}{nearest(verb, VERBS)}")
        sys.stdout.flush()
    except SettingError as error:
        sys.stderr.write(f"mqlearn: {error}\n")
        code = 2
    except RuntimeError as error:
        from mqlearn.storage.store import TrackingError

        if not isinstance(error, TrackingError):  # a store that is down is no fault of ours
            raise
        sys.stderr.write(f"mqlearn: {error}\n")
        code = 1
    except KeyboardInterrupt:
        sys.stderr.write("mqlearn: interrupted; finished runs are kept\n")
        code = 130
    finally:
        sys.argv = given
    sys.exit(code)


def _help(verb: str) -> str:
    groups = ""
    for folder in sorted(path for path in CONF.iterdir() if path.is_dir() and path.name not in ("hydra", "claim")):
        options = sorted(path.stem for path in folder.glob("*.yaml"))
        groups += f"  {folder.name:11} {' | '.join(options)}\n"
    lines = (CONF / "config.yaml").read_text(encoding="utf-8").split("\n\n")
    settings = "".join(
        f"  {line}\n" for block in lines[1:] if not block.startswith("hydra") for line in block.splitlines()
    )
    text = USAGE[verb].replace("{groups}", groups).replace("{settings}", settings)
    claims = ", ".join(sorted(path.stem for path in (CONF / "claim").glob("*.yaml")))
    return text.replace("{figures}", ", ".join(_figures())).replace("{claims}", claims)


def _complete(arguments: list[str]) -> int:
    """Hydra's own shell completion, on the command line without its verb."""
    from mqlearn.errors import SettingError

    commands = ("install", "uninstall", "query")
    if not any(argument.partition("=")[0] in commands for argument in arguments):
        value = " ".join(arguments[1:])
        raise SettingError(arguments[0], value, f"must be {', '.join(commands)} with a shell, as in install=bash")
    words = os.environ.get("COMP_LINE", "").split(" ")
    if any(argument.startswith("query=") for argument in arguments):
        names = [*VERBS] if len(words) <= 2 else _figures() if words[1] == "figure" and len(words) == 3 else []
        if names:
            print(" ".join(name for name in names if name.startswith(words[-1])))
            return 0
        os.environ["COMP_LINE"] = " ".join([words[0], *words[2:]])
    from mqlearn.experiments.jobs import hydra_main

    return hydra_main(arguments)


def _figures() -> list[str]:
    return sorted(path.stem for path in (CONF / "experiment").glob("figure*.yaml"))
