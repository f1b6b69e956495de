"""The verbs of `mqlearn`: one table of their names, summaries and usage texts. Imports nothing: help is at once.

The module of a verb, `mqlearn.cli.NAME`, has a function of the same name that takes its arguments and returns an exit
code. Words in braces are filled in from conf/ by `mqlearn.cli.main`.
"""

from typing import NamedTuple


class Verb(NamedTuple):
    """summary: its line in `mqlearn --help`; usage: the text of `mqlearn VERB --help`."""

    summary: str
    usage: str


VERBS = {
    "run": Verb(
        "run one configuration, or with -m a sweep of them",
        """mqlearn run [-m] [overrides]

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
    ),
    "figure": Verb(
        "run what is missing for a figure, then draw it",
        """mqlearn figure NAME [--check] [band=ci95|std] [figure.axis=iterations|samples]
  [figure.width=two_columns|one_column|INCHES] [existing=skip|rerun|error] [overrides]

  mqlearn figure figure1                  runs what is missing, then draws outputs/figures/figure1.{png,pdf,svg}
  mqlearn figure figure1 discount=0.99    a variant, with a file name of its own
  mqlearn figure figure1 --check          also compares with the committed reference data (exit code 1: different)
  mqlearn figure figure1 --store          makes these numbers and this picture the reference data, outputs/paper

Figures: {figures}""",
    ),
    "compare": Verb(
        "which of two rules is faster, over finished runs",
        """mqlearn compare [experiment.name=NAME] [overrides that select] [settings] [--json|--csv|--latex FILE]

  mqlearn compare experiment.name=figure1                        every pair within a block
  mqlearn compare experiment.name=figure1 against=Q-learning     every rule against one; at=1e4: at iteration 10000
  mqlearn compare experiment.name=family axis=samples at=1e6     each rule at its last checkpoint up to 10^6 samples
  mqlearn compare experiment.name=figure1 summary=time epsilon=0.01 env=frozen_lake_4x4
  mqlearn compare algorithm=momentum_q,q_learning discount=0.99  a selection over all experiments
  mqlearn compare decide=true algorithm=momentum_q,speedy_q env=frozen_lake_8x8    runs as many seeds as are needed

Reads the finished runs in outputs/runs and those that the store alone has (tracking.uri=URI, or tracking=none: not). A
block shares model, discount, reward, Q_0, features and sampling.
Settings: against=LABEL|DIGEST|best|all (one run; the best of each block, picked on half of the seeds and compared on
  the others; every pair, which must be said for more than 200 runs of a block; only pairs that are asked are corrected)
  axis=iterations|samples (samples where rules take different numbers of them an iteration)
  at=N (on the axis; last)  epsilon=E  summary=error|area|time|return  metric=NAME  level=0.05
  diverged=worst|censored|excluded (how diverged seeds enter)  interval=bca|percentile|t
  margin=FACTOR (equal is a verdict too: the mean of neither is so many times that of the other, two one-sided tests)
  allow_mixed=true (pairs across blocks)  calibrate=true (each run against itself: how often the tests are wrong)
  tuned=true [tuning_seed=S] [missing=run] (the best of equally many settings of each algorithm, on seeds that did not
  choose it; missing=run makes the runs that report, where there are none)
  decide=true [most=200] [margin=FACTOR] [looks=10,15,20] (group-sequential: runs seeds until every pair is decided, is
  equal within the margin, or has most= seeds; the cells are those of `run -m`, or of the runs of experiment.name=NAME;
  the same command with a larger most= goes on)""",
    ),
    "bench": Verb(
        "where a rule stands among all others, on a suite of problems",
        """mqlearn bench [SUITE] [algorithm=a,b] [plugins=[my_rules]] [existing=skip|rerun] [--json|--csv|--latex FILE]

  mqlearn bench                                          the leaderboard of the suite classic, all rules
  mqlearn bench classic plugins=[my_rules] algorithm=my_rule        your own rule among them: runs yours alone
  mqlearn bench paper algorithm=root_sa,speedy_q         these two, and tuned Q-learning
  mqlearn bench classic --figure board.png --html board.html        the figure, and a page with a curve for each cell
  mqlearn bench classic --critical critical.png          critical differences of mean ranks (Friedman, Nemenyi)
  mqlearn bench classic --scores scores.csv              rule and seed by problem, for other statistics packages
  mqlearn bench classic decide=true against=zap          at how many seeds each pair of rules is decided

Runs what is missing, each rule with the default of its source and with the best of 15 settings of its step size and of
the numbers under `tuning:` in its yaml, by one search for all, on seeds that do not report. Kept in outputs/bench, one
file a problem; results that come with mqlearn are not run again. --json FILE has everything (- is the standard output).
decide=true [against=RULE] [margin=FACTOR] [looks=15,20]: group-sequential tests over the reporting seeds, in place of
the leaderboard: your rule against each rival, one rule against all others, or all pairs; no run is made for it.
Settings: n_workers (processes), tracking; --config-dir DIR adds your own suites, DIR/suite/NAME.yaml, and rules,
DIR/algorithm/NAME.yaml. --store makes these results the committed ones, outputs/paper.
Suites: {suites}""",
    ),
    "report": Verb(
        "one HTML page on the runs of an experiment, to hand on",
        """mqlearn report experiment.name=NAME [overrides that select] [axis=iterations|samples] [--output FILE.html]
  [--verdicts FILE]

  mqlearn report experiment.name=figure1 --output figure1.html
  mqlearn report experiment.name=figure1 env=frozen_lake_4x4 algorithm=q_learning,momentum_q

One self-contained page: verdicts, figures with their numbers, settings, environments, maps of Q* and of the error over
the checkpoints, equations as the code has them, diverged and failed runs, versions, commands. Reads the finished runs
in outputs/runs; by default it is outputs/reports/NAME.html. A copy goes to the tracking store (tracking=none: not).
--verdicts FILE takes the verdicts of `mqlearn compare ... --json FILE`; else all pairs, by the last error.""",
    ),
    "export": Verb(
        "finished runs as a tidy table for other programs: CSV, Parquet or JSON",
        """mqlearn export [experiment.name=NAME] [overrides that select] [metric=NAME,...] [at=K|last]
  [--format csv|parquet|json] [--output FILE]

  mqlearn export experiment.name=figure1 --format parquet --output figure1.parquet
  mqlearn export experiment.name=figure1 algorithm=momentum_q,nesa --output momentum.csv
  mqlearn export experiment.name=figure1 metric=q_error at=last > figure1.csv

One row for each run, metric, seed and checkpoint. Columns: experiment, run, digest, env, algorithm; the settings in
which the runs differ, by their names (settings.seed: the setting seed); metric; seed (from 0 within a run); iteration;
samples (transitions that a seed had learned from); value, empty or null where it is not finite. Without --format the
name of the file says the format (else csv); without --output it goes to standard output. metric= keeps some curves,
at= one value a seed: at the last checkpoint up to iteration K, or of each run. A large table says its size first.""",
    ),
    "explain": Verb(
        "what a figure or a report says of its own origin",
        """mqlearn explain FILE.png|.pdf|.svg|.html [--json|--methods|--bibtex] [tracking.uri=URI]

  mqlearn explain outputs/figures/figure1.png
  mqlearn explain outputs/reports/figure1.html --methods     a paragraph for a paper: what was run, measured and tested
  mqlearn explain outputs/figures/figure1.pdf --bibtex       sources of its rules, step sizes, operators, problems

Prints command, settings, versions and digests that a figure or report carries within itself, and where the runs with
these digests are on this machine: MLflow run ids and folders. --methods and --bibtex read the records of its runs.""",
    ),
    "status": Verb(
        "what sweeps planned, and what has become of it",
        """mqlearn status [experiment.name=NAME] [tracking.uri=URI|tracking=none] [--json FILE]

  mqlearn status                          all experiments that sweeps have planned
  mqlearn status experiment.name=figure1 --json status.json

Cells planned, done, running, failed, killed, missing, damaged, diverged, and not uploaded, from the store and the
plans in outputs/sweeps (a plan that is no longer wanted: delete its folder). tracking=none asks no store, and then no
cell counts as not uploaded. Exit code 1 if a cell has failed.""",
    ),
    "claims": Verb(
        "which claims of the paper hold: runs what is missing, then tests them",
        """mqlearn claims [NAME ...] [smoke=true] [overrides] [--json FILE] [--table FILE.md] [--stored FILE]

  mqlearn claims                               every claim; runs what is missing first (with linear features: long)
  mqlearn claims momentum_vs_speedy_q          one claim
  mqlearn claims smoke=true                    all of them in small, in seconds: a trial of the tests, not of the paper
  mqlearn claims theorem_3 seed=1              the same question on other seeds
  mqlearn claims --stored outputs/paper/claims.json     what a --json FILE says; nothing is run
  mqlearn claims --paper zap_2017              those of a paper of the field, see mqlearn papers

Verdicts: reproduced, not_reproduced, or conditional: it holds under the conditions that are listed.
Overrides: seed, n_seeds, n_workers, tracking, plugins; --config-dir DIR adds your own claims, DIR/claim/NAME.yaml.
Claims: {claims}""",
    ),
    "papers": Verb(
        "what papers of the field report, beside what is measured here",
        """mqlearn papers [KEY ...] [--json FILE] [--store | --check] [overrides]

  mqlearn papers                      each paper with its verdict
  mqlearn papers zap_2017             its settings, known and unknown, what it reports beside what is measured, commands
  mqlearn papers zap_2017 --check     runs what is missing, and compares with what is stored (exit code 1: different)
  mqlearn papers zap_2017 --store     runs what is missing, and stores results and picture in outputs/paper/field

Verdicts: reproduced, conditional, not reproduced, undecided (the runs could not have shown it), under our settings
(settings or numbers are unknown), not testable. Only what was read decides, and no question of ours.
Overrides, where something is run: n_workers, tracking, plugins; --config-dir DIR adds your own, DIR/paper/KEY.yaml.
Papers: {papers}""",
    ),
    "truth": Verb(
        "the exact optimum of an environment, with its certified error",
        """mqlearn truth [overrides] [--json]

  mqlearn truth env=frozen_lake_8x8 discount=0.99
  mqlearn truth env=frozen_lake_random env.size=16 env.map_seed=3 --json

Prints states, counted pairs, certified error, value at the start (mean over the start distribution), best success
probability, shortest path, number of optimal actions; whether the problem is ergodic under the uniform policy,
absorbing, deterministic, has ties; its rewards; known values, usual discount and source of a test problem.""",
    ),
    "theory": Verb(
        "what theorems predict for one configuration, beside what was measured",
        """mqlearn theory [overrides] [--json FILE]

  mqlearn theory env=garnet_fixed algorithm=speedy_q discount=0.9
  mqlearn theory features=one_hot sampling=markovian algorithm=momentum_q_linear step_size=constant discount=0.4

Computes from the model: Assumptions 1 to 5 with their numbers (holds, fails, not checkable); the error times sqrt(k)
for large k of this rule and of the paper's rules, beside the floor, which is what the least asymptotic covariance
gives (at a finite k an error may lie below it), under the reward and the norm that are named; the exact error at some
k; the bounds of Theorems 1 to 3 and of SpeedyQ, vacuous ones named. Beside them the errors of a finished run with the
same settings; without one, the command that makes it.""",
    ),
    "problems": Verb(
        "the test problems: states, pairs, usual discount, kind",
        """mqlearn problems [--json]

  mqlearn problems                        then, say, mqlearn run env=river_swim env.dialect=strehl discount=0.95

Lists the problems that need no further setting, at their defaults: env=NAME, states, pairs that count, the discount
that is usual for them (a run takes it from discount=), and their kind: episodic (it ends), ergodic (under the uniform
policy) or continuing; absorbing states; deterministic or random moves; states with several optimal actions.""",
    ),
    "new": Verb(
        "a working example to start from: rule, problem, metric, figure, notebook",
        """mqlearn new rule|stateful|problem|operator|sampling|features|metric|figure|claim|paper|suite NAME
mqlearn new tutorial [NAME]

  mqlearn new rule heavy_ball             heavy_ball.py, my_conf/algorithm/heavy_ball.yaml, test_heavy_ball.py
  mqlearn new tutorial                    tutorial.ipynb, a notebook

Writes the example into the current folder, its yaml into my_conf, and prints the command that runs it. It works as it
stands; nothing is overwritten. rule: a rule of four numbers, one equation; stateful: a rule with a state of its own;
problem: a model from arrays; operator: what is learned towards; sampling: which pairs are drawn; features: linear
features; metric: a number at every checkpoint; figure: an experiment with a drawing of its own; claim: a statement with
the checks that decide it; suite: problems to rank rules on.""",
    ),
    "doctor": Verb(
        "whether this machine repeats its numbers, and those of the figures",
        """mqlearn doctor [overrides] [--json FILE]

  mqlearn doctor                          everything, on one core
  mqlearn doctor --config-dir my_conf plugins=[my_rules] algorithm=heavy_ball     a rule of your own

Runs small settings in several ways and compares every number, bit by bit: one thread and several, fewer seeds, twice,
in a fresh process, in a sweep that is killed and continued; kernels with their equations; interpreter and packages with
the tested range; figures with the reference data of the repository. Each line ends with what was compared, and names
the first difference. Verdicts: same, compatible (equal but for rounding), inside, noted, not_checked; and different,
outside, failed, with exit code 1. Nothing is left in the outputs folder or in the store.
Overrides: algorithm, step_size, discount, iterations, n_seeds, seed, plugins; figures are then left out.""",
    ),
    "rerun": Verb(
        "repeat a run from its record and compare the numbers",
        """mqlearn rerun FOLDER|RUN_ID [plugins=[my_module]] [n_workers=N] [tracking.uri=URI]

Repeats a run from its record and says whether the numbers are the same (exit code 1 if not). A record is data: modules
of your own that the run was made with are named again, with plugins=[...].""",
    ),
    "upload": Verb(
        "deliver a run folder to the tracking store",
        """mqlearn upload FOLDER [FOLDER ...] [tracking.uri=URI]

Delivers run folders to the tracking store, each once. Exit code 3 if the store took one of them not.""",
    ),
    "delete": Verb(
        "delete runs: their folders and their records, after a look",
        """mqlearn delete [experiment.name=NAME] [overrides that select] [yes=true] [tracking.uri=URI|tracking=none]

  mqlearn delete experiment.name=trial                    lists what it would delete, and asks
  mqlearn delete digest=037df06ab4a70645 yes=true         does not ask

Selects among finished, failed and killed runs as `mqlearn compare` does, and lists them with their size and with the
figures and reports in the outputs folder that show them. Without yes=true it asks, and where nobody can be asked it
deletes nothing. The store keeps the records as deleted until `mlflow gc`. A run that a process is at is left, with exit
code 1. Runs that were deleted in the MLflow UI alone still count, as long as their folders are here: compare and status
say so, and no sweep tracks them again.""",
    ),
    "ui": Verb(
        "open the MLflow UI on the tracking store",
        """mqlearn ui [experiment.name=NAME] [host=127.0.0.1] [port=5000] [tracking.uri=URI]

Shows the runs of an experiment as charts in the MLflow UI, on this machine only: prints the address, and opens it in
the browser, if there is one, as soon as the server is up. Stays until it is stopped with Ctrl-C. From a machine far
away: `ssh -L 5000:localhost:5000 THAT_MACHINE`, then http://localhost:5000 here. host=0.0.0.0 shows them to all that
reach the machine, and asks nobody for a password.""",
    ),
}
