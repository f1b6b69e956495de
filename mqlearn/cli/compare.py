"""`mqlearn compare`: which runs, which pairs, and the answers as tables. It reads finished runs, and makes none."""

import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from mqlearn.checks import check_bool, check_int, choice
from mqlearn.cli.arguments import CONFIG_DIR, check_number, deliver, parse, take_plugins, whole_numbers
from mqlearn.errors import SettingError, nearest
from mqlearn.paths import outputs_folder

_FILES = ("--json", "--csv", "--latex")
_OF_DECISIONS = ("looks", "most")
_OWN = (
    "against", "at", "epsilon", "summary", "metric", "diverged", "level", "interval", "tuned", "tuning_seed", "missing",
    "calibrate", "allow_mixed", "axis", "decide", "margin", *_OF_DECISIONS,
)  # fmt: skip


@dataclass
class Request:
    """A command line, read: overrides select runs, `names` are experiments (empty: all), `files` by flag."""

    names: list[str] = field(default_factory=list)
    overrides: list[str] = field(default_factory=list)
    own: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    config_dir: str | None = None
    tracking: list[str] = field(default_factory=list)
    plugins: list[str] = field(default_factory=list)  # of runs that are to be made


def compare(arguments: Sequence[str]) -> int:
    """`mqlearn compare`: 0, or 1 if calibration finds that the tests are wrong too often."""
    from mqlearn.analysis.comparison import selection
    from mqlearn.analysis.comparison.columns import terminal_width
    from mqlearn.storage import addresses

    request, width = read(arguments), terminal_width()
    question = question_of(request.own)
    outputs = outputs_folder()
    if request.own.get("decide"):
        return _decided(request, question, outputs)
    store = addresses.named(request.tracking, outputs)
    found = selection.find(outputs, request.names or None, store)
    if not found.runs:
        raise selection.nothing(found, arguments, outputs, store)
    with selection.naming_those_left_out(found):
        return _answered(request, question, found, width)


def _answered(request: "Request", question: Any, found: Any, width: int | None) -> int:
    from mqlearn.analysis.comparison import comparison, run_tables, selection, tables, verdict_table
    from mqlearn.analysis.comparison.labels import entries, planned
    from mqlearn.analysis.comparison.pairing import answers, asked, on_axis
    from mqlearn.experiments.progress import Counting
    from mqlearn.storage import addresses

    chosen = selection.select(found.runs, request.overrides, (*_OWN, "experiment.name"))
    curves = planned(request.names[0], request.config_dir) if len(request.names) == 1 else {}
    notes, lead, by_rule = list(found.notes), "", ()
    if request.own.get("tuned"):
        from mqlearn.analysis.comparison import tuned

        outputs = outputs_folder()
        everything = selection.find(outputs, None, addresses.named(request.tracking, outputs)).runs
        if "axis" not in request.own:
            question, lead = on_axis(question, chosen)
        makes = partial(_made, request) if request.own.get("missing") == "run" else None
        answer = tuned.tuned(chosen, everything, question, request.own, request.config_dir, width, makes)
        verdicts, notes, heads = answer.verdicts, [*notes, *answer.notes], answer.heads
        lead = "\n".join(filter(None, (answer.lead, lead)))
    else:
        plan = selection.of_the_plan(chosen, plain(request.names, request.overrides, request.config_dir))
        stand = selection.latest_runs(plan.runs, question.summary)
        once = selection.equal_once(stand.runs)
        notes += [*plan.notes, *stand.notes, *once.notes]
        if "axis" not in request.own:
            question, lead = on_axis(question, once.runs)
        made = entries(once.runs, question.summary, curves)
        if request.own.get("calibrate"):
            return _calibrate(made, question, request, lead, width)
        wanted, told = asked(made, question, request.own.get("against"), mixed=bool(request.own.get("allow_mixed")))
        lead = "\n".join(filter(None, (lead, told)))
        with Counting("compared", 2 * len(wanted), "tests and verdicts") as counting:
            verdicts = answers(wanted, question, counting)
        heads = run_tables.runs(made, question, width)
        by_rule = made if "--latex" in request.files else ()
    rows = [comparison.row(verdict) for verdict in verdicts]
    texts = {
        "--json": lambda: verdict_table.json(rows),
        "--csv": lambda: verdict_table.csv(rows),
        "--latex": lambda: run_tables.latex(by_rule, question, rows) + verdict_table.latex(rows),
    }
    if deliver(request.files, texts):
        print(tables.terminal(verdicts, question, heads=heads, notes=notes, lead=lead, width=width))
    return 0


def _made(request: "Request", settings: Sequence[dict[str, Any]]) -> list[Any]:
    """The runs that report of some settings of records, made here. Raises SettingError."""
    from mqlearn.experiments import run_missing
    from mqlearn.experiments.plan import Plan, PlannedCell
    from mqlearn.experiments.presentation.names import of_problem
    from mqlearn.experiments.settings.cell import rebuild
    from mqlearn.experiments.settings.sections import NOT_TRACKED

    elsewhere = {"tracking": NOT_TRACKED} if "tracking=none" in request.tracking else {}
    cells = []
    for one in settings:
        name = f"{one['experiment']['name']}_reporting"  # not among the runs that tune
        cell = rebuild({**one, "n_workers": None, "experiment": {**one["experiment"], "name": name}, **elsewhere})
        cells.append(PlannedCell.of(cell, of_problem(cell.settings["env"]), cell.name))
    done = run_missing.finished(Plan(cells[0].experiment, cells[0].settings, {}, tuple(cells), ()))
    return [done[cell.digest] for cell in cells]


def _decided(request: "Request", question: Any, outputs: Path) -> int:
    """`decide=true`: runs what the question needs."""
    from mqlearn.analysis.comparison import verdict_table
    from mqlearn.analysis.comparison.columns import terminal_width
    from mqlearn.cli import deciding

    found = deciding.decide(request, question, outputs)
    records = [deciding.record(block, decision) for block, decision, _ in found]
    rows = [{"group": one["group"], "asked": one["asked"], **pair} for one in records for pair in one["pairs"]]
    texts = {"--json": lambda: verdict_table.json(records), "--csv": lambda: verdict_table.csv(rows)}
    if deliver(request.files, texts):
        width = terminal_width() or 120
        for block, decision, path in found:
            kept = f"Kept in {path}{'; with a larger most= it goes on' * bool(decision.undecided)}."
            lines = [f"[{block}]", *str(decision).splitlines(), kept]
            print("\n".join(textwrap.fill(line, width, subsequent_indent="  ") for line in lines))
    return 0


def plain(names: Sequence[str], overrides: Sequence[str], config_dir: str | None) -> dict[str, Any]:
    """What the runs have that a question is about, by its yaml, but for what is selected; empty if there is no yaml."""
    from mqlearn.analysis.comparison.labels import plain_settings

    selected = {text.lstrip("+").partition("=")[0] for text in overrides}
    known = plain_settings(names[0], config_dir) if len(names) == 1 else {}
    return {} if "digest" in selected else {key: value for key, value in known.items() if key not in selected}


# --- the command line ---------------------------------------------------------------------------------------------


def read(arguments: Sequence[str]) -> Request:
    """Raises SettingError for a flag, a setting or a file that cannot be."""

    options = parse(arguments, values=CONFIG_DIR, written=_FILES)
    plugins = [text for text in options.overrides if text.lstrip("+").startswith("plugins=")]
    take_plugins(options)
    request = Request(files=options.files, config_dir=options.config_dir, plugins=plugins)
    for override in options.overrides:
        key, equals, value = override.partition("=")
        key = key.lstrip("+")
        if not equals or not key:
            example = (
                "settings are written name=value, for example experiment.name=figure1 or algorithm=q_learning,nesa"
            )
            raise SettingError("override", override, example + nearest(key, _OWN))
        if key in ("experiment.name", "experiment"):
            request.names += [part.strip(" '\"") for part in value.split(",")]
        elif key.partition(".")[0] == "tracking":
            request.tracking.append(override)
        elif key in _OWN:
            request.own[key] = _own(key, value)
        else:
            request.overrides.append(override)
    if "margin" in request.own and request.own.get("calibrate"):
        raise SettingError("margin", request.own["margin"], "does not go with calibrate=true")
    for other in ("calibrate", "allow_mixed"):
        if request.own.get("tuned") and request.own.get(other):
            raise SettingError(other, "true", "does not go with tuned=true")
    if request.own.get("calibrate") and "--latex" in request.files:
        raise SettingError("--latex", request.files["--latex"], "there is no such table of calibrate=true; use --csv")
    if request.own.get("decide"):
        for other in ("tuned", "calibrate", "allow_mixed", "interval"):
            if request.own.get(other):
                raise SettingError(other, request.own[other], "does not go with decide=true")
        if "--latex" in request.files:
            raise SettingError("--latex", request.files["--latex"], "there is no such table of decide=true; use --csv")
    else:
        for other in _OF_DECISIONS:
            if other in request.own:
                raise SettingError(other, request.own[other], "is a setting of decide=true alone")
    for other in ("tuning_seed", "missing"):
        if other in request.own and not request.own.get("tuned"):
            raise SettingError(other, request.own[other], "is a setting of tuned=true alone")
    return request


def question_of(own: dict[str, Any]) -> Any:
    """The `Question` of settings. Raises SettingError."""
    from mqlearn.analysis.comparison.seed_values import Question

    names = ("summary", "metric", "at", "epsilon", "diverged", "level", "interval", "axis")
    names += () if own.get("decide") else ("margin",)  # a decision has its own tests of it
    return Question(**{name: own[name] for name in names if name in own})


def _own(key: str, value: str) -> Any:
    if key in ("tuned", "calibrate", "allow_mixed", "decide"):
        return check_bool(key, value)
    if key in ("at", "tuning_seed", "most"):
        return check_int(key, value, 0, written=True)
    if key == "missing":
        return choice(key, value, ("run", "print"))
    if key == "looks":
        return whole_numbers(key, value)
    if key in ("epsilon", "level", "margin"):
        return check_number(key, value)
    return value.strip("'\"")


def _calibrate(made: Sequence[Any], question: Any, request: Request, lead: str, width: int | None) -> int:
    from mqlearn.analysis.comparison import calibration, verdict_table

    results = [calibration.calibrate(entry, question) for entry in made]
    rows = [calibration.row(result, question) for result in results]
    if deliver(request.files, {"--json": lambda: verdict_table.json(rows), "--csv": lambda: verdict_table.csv(rows)}):
        print("\n".join([*[lead] * bool(lead), calibration.text(results, question, width)]))
    wrong = [result for result in results if not result.sound]
    if wrong:
        sys.stderr.write("mqlearn: calibration failed: the false-positive rate exceeds the level\n")
    return 1 if wrong else 0
