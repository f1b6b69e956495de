"""`mqlearn bench`: run what a suite lacks, and rank the rules."""

import json
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqlearn.checks import check_int
from mqlearn.cli.arguments import (
    CONFIG_DIR,
    Options,
    check_number,
    deliver,
    only,
    parse,
    take,
    take_existing,
    take_switch,
    whole_numbers,
)
from mqlearn.errors import SettingError
from mqlearn.files import write_whole
from mqlearn.paths import outputs_folder

if TYPE_CHECKING:
    from mqlearn.suites.run_suite import Wanted

_SUITE = "classic"
_WRITTEN = ("--json", "--csv", "--latex", "--html", "--figure", "--critical", "--scores")
_PICTURES = ("--figure", "--critical")
_FREE = ("algorithm", "plugins", "existing", "n_workers", "tracking")


def bench(arguments: Sequence[str]) -> int:
    """`mqlearn bench`: print the leaderboard, write what flags ask for; returns 0. Raises SettingError."""
    from mqlearn.suites import definition, run_suite
    from mqlearn.suites.leaderboard import figure, tables
    from mqlearn.suites.leaderboard.board import board

    options = parse(arguments, flags=("--store",), values=CONFIG_DIR, written=_WRITTEN)
    for flag in _PICTURES:
        if flag in options.files:
            figure.kind_of(options.files[flag], flag)
    named = [text for text in options.overrides if "=" not in text]
    if len(named) > 1:
        raise SettingError("suite", " ".join(named), "must be one suite")
    options.overrides = [text for text in options.overrides if text not in named]
    suite = definition.load(named[0] if named else _SUITE, options.config_dir)
    n_workers = check_int("n_workers", take(options, "n_workers"), 1, null="a process a core", written=True)
    asked = _asked(options)
    track = _tracking(options, suite.name)
    wanted = _wanted(options)
    every, made = run_suite.of_suite(suite, wanted, n_workers)
    found = board(suite.name, every, [one.name for one in wanted.rules if one.own], options.config_dir)
    found["command"] = shlex.join(["mqlearn", "bench", *arguments])
    if asked is not None:
        return _decided(found, asked, options.files)
    if "--store" in options.given:
        _store(suite.name, every, found)
    if made:
        _track(track, suite.name, found)
    for flag in _PICTURES:
        if (picture := options.files.pop(flag, None)) is not None:
            figure.save(found, picture, flag)
    if deliver(options.files, _texts(found)):
        print(tables.terminal(found))
    return 0


def _asked(options: Options) -> dict[str, Any] | None:
    """What `decide=true` is asked with; None without it. Raises SettingError."""
    asks = take_switch(options, "decide")
    own = {name: value for name in ("against", "margin", "looks") if (value := take(options, name)) is not None}
    if not asks:
        for name, value in own.items():
            raise SettingError(name, value, "is a setting of decide=true alone")
        return None
    for flag in ("--store", *options.files):
        if flag in options.given or flag in ("--latex", "--html", "--scores", *_PICTURES):
            raise SettingError(flag, options.files.get(flag, True), "does not go with decide=true; --json and --csv do")
    margin, looks = own.get("margin"), own.get("looks")
    return {
        "against": own.get("against"),
        "margin": None if margin is None else check_number("margin", margin),
        "looks": None if looks is None else whole_numbers("looks", looks),
    }


def _decided(found: dict[str, Any], asked: dict[str, Any], files: dict[str, Path]) -> int:
    """`decide=true`: at how many reporting seeds each pair is decided, in place of the leaderboard; returns 0."""
    from mqlearn.suites.leaderboard import sequential

    decision = sequential.decide(found, **asked)
    texts = {
        "--json": lambda: json.dumps(decision | {"command": found["command"]}, indent=1, ensure_ascii=False) + "\n",
        "--csv": lambda: sequential.comma_separated(decision),
    }
    if deliver(files, texts):
        print(sequential.terminal(decision))
    return 0


def _wanted(options: Options) -> "Wanted":
    """The rules that are run, and those that they are ranked against. Raises SettingError."""
    from mqlearn.suites import rules
    from mqlearn.suites.definition import BASELINE
    from mqlearn.suites.run_suite import Wanted

    existing, modules = take_existing(options) or "skip", _listed(take(options, "plugins"))
    if existing == "error":
        raise SettingError("existing", existing, "must be skip or rerun: what is there is not run again")
    asked = _listed(take(options, "algorithm"))
    only("bench", options.overrides, _FREE)
    asked_for = rules.entrants(asked or rules.names(), modules, options.config_dir)
    if BASELINE not in asked and asked:
        asked_for += rules.entrants([BASELINE])
    with_rivals = any(one.own for one in asked_for)
    others = [name for name in rules.names() if name not in {one.name for one in asked_for}] if with_rivals else []
    fresh = "--store" in options.given
    if fresh and asked:
        raise SettingError("--store", ",".join(asked), "takes all rules of the package: leave algorithm= out")
    rivals = tuple(rules.entrants(others)) if others else ()
    return Wanted(tuple(asked_for), rivals, tuple(modules), again=existing == "rerun", fresh=fresh)


def _listed(written: str | None) -> list[str]:
    """a,b or [a,b] as a list, each once."""
    inner = (written or "").strip("'\"").removeprefix("[").removesuffix("]")
    return list(dict.fromkeys(name for name in map(str.strip, inner.split(",")) if name))


# --- what is written ----------------------------------------------------------------------------------------------


def _texts(found: dict[str, Any]) -> dict[str, Any]:
    from mqlearn.suites.leaderboard import page, tables

    return {
        "--json": lambda: json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n",
        "--csv": lambda: tables.comma_separated(found),
        "--latex": lambda: tables.latex(found),
        "--html": lambda: page.build(found),
        "--scores": lambda: tables.scores_matrix(found),
    }


def _store(suite: str, every: Sequence[Any], found: dict[str, Any]) -> None:
    """Make these results the committed ones, with the tables, the figure and the page."""
    from mqlearn.suites import results
    from mqlearn.suites.leaderboard import figure

    folder = outputs_folder() / "paper"
    results.write(folder / f"bench_{suite}.npz", every)
    found = {**found, "command": f"scripts/reproduce bench {suite}"}
    for flag, ending in (("--csv", "csv"), ("--latex", "tex"), ("--html", "html")):
        write_whole(folder / f"bench_{suite}.{ending}", _texts(found)[flag]())
    figure.save(found, folder / f"bench_{suite}.png")


def _tracking(options: Options, suite: str) -> Any:
    """Where the leaderboard is tracked. Raises SettingError."""
    from mqlearn.experiments.execute import tracker
    from mqlearn.experiments.settings import compose

    given = [text for text in options.overrides if text.startswith("tracking")]
    options.overrides = [text for text in options.overrides if text not in given]
    return tracker(compose.compose([*given, f"experiment.name=bench_{suite}"], options.config_dir))


def _track(track: Any, suite: str, found: dict[str, Any]) -> None:
    """The leaderboard as a run of its own in the store; a store that fails costs a message."""
    if track.uri is None:
        return
    from mqlearn.analysis.report.publish import publish
    from mqlearn.storage.connection import TrackingError, say_untracked

    text = _texts(found)["--html"]()
    path = outputs_folder() / "bench" / suite / "leaderboard.html"
    write_whole(path, text)
    try:
        publish(path, track.uri, track.experiment, text, kind="leaderboard")
    except TrackingError as error:
        say_untracked(f"not tracked: {error}")
