"""`mqlearn delete`: runs that one wants gone, folder and record together, once they are listed and confirmed."""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mqlearn.analysis.comparison import selection
from mqlearn.cli.arguments import parse, selection_words, take_plugins, take_switch
from mqlearn.cli.explain import KINDS, provenance
from mqlearn.errors import SettingError
from mqlearn.experiments import execute
from mqlearn.paths import outputs_folder
from mqlearn.storage import addresses, deletion, locks, lookup, runs
from mqlearn.storage.runs import Run

_MOST = 40  # runs that a preview lists


class _Chosen(NamedTuple):
    """A run folder of an experiment, with the ids of its records in the store."""

    experiment: str
    run: Run
    records: list[str]

    @property
    def line(self) -> str:
        where = [str(self.run.folder), *(f"MLflow run {run_id}" for run_id in self.records)]
        return f"  {self.experiment}: {self.run.name}  {self.run.digest[:16]}\n    {', '.join(where)}"


def delete(arguments: Sequence[str]) -> int:
    """`mqlearn delete`: 0; 1 if a run is being made just now, and was left. Raises SettingError if no run matches."""
    options = parse(arguments)
    take_plugins(options)
    sure = take_switch(options, "yes")
    names, overrides, stores = selection_words(options.overrides)
    if not names and not overrides:
        expected = "must say which runs: experiment.name=NAME, or settings that select, such as algorithm=q_learning"
        raise SettingError("selection", " ".join(arguments), expected)
    outputs = outputs_folder()
    store = addresses.named(stores, outputs)
    chosen = _chosen(outputs, names, overrides, store)
    print(_preview(chosen, outputs))
    if store is None:
        print(
            "Only their folders: tracking=none leaves the records of a store, from which finished runs are found again."
        )
    if not (sure or _confirmed(len(chosen))):
        print("Nothing was deleted. Add yes=true to delete them.")
        return 0
    told = [(one, _gone(one, store, outputs)) for one in chosen]
    left = [(one, problem) for one, problem in told if problem]
    print(f"deleted: {len(chosen) - len(left)} of {len(chosen)} runs")
    if store is not None and any(one.records for one in chosen):
        print(f"MLflow keeps their records as deleted: `mlflow gc --backend-store-uri {store}` ends them for good")
    for one, problem in left:
        sys.stderr.write(f"mqlearn: {one.experiment}: {one.run.name}: {problem}\n")
    return 1 if left else 0


def _chosen(outputs: Path, names: Sequence[str], overrides: Sequence[str], store: str | None) -> list[_Chosen]:
    """The runs that are meant, in each experiment: finished ones, and others whose settings can be read.

    Raises SettingError, also for a folder that is a link; TrackingError if the store cannot be read.
    """
    if store is not None:
        deletion.records(store, [])  # one that cannot be read is no reason to delete folders alone
    selection.refuse_unknown(outputs, names, store)
    every = {(_experiment(run), run.folder): run for run in _runs(outputs, names, store)}
    if not every:
        raise selection.nothing(selection.Found(()), [*names, *overrides], outputs, store)
    some = selection.select([*every.values()], overrides, ("experiment.name", "yes"))
    for run in some:
        if run.folder.is_symlink():
            raise SettingError("selection", str(run.folder), "is a link: delete it, or what it leads to, yourself")
    known = {} if store is None else deletion.records(store, [run.digest for run in some])
    return [_Chosen(_experiment(run), run, known.pop((_experiment(run), run.digest), [])) for run in some]


def _experiment(run: Run) -> str:
    try:
        return str(run.settings["experiment"]["name"])
    except (KeyError, TypeError):
        return ""


def _runs(outputs: Path, names: Sequence[str], store: str | None) -> Iterator[Run]:
    for held in lookup.everywhere(outputs, names or None, store):
        if held.run is not None:
            yield held.run
        else:
            with contextlib.suppress(SettingError):
                run = runs.load(held.folder)
                runs.recorded_settings(run)
                yield run


def _preview(chosen: Sequence[_Chosen], outputs: Path) -> str:
    size = sum(deletion.size(one.run.folder) for one in chosen)
    lines = [f"{len(chosen)} run{'s' * (len(chosen) != 1)}, {size / 1e6:.1f} MB:"]
    lines += [one.line for one in chosen[:_MOST]]
    lines += [f"  and {len(chosen) - _MOST} more"] * (len(chosen) > _MOST)
    shown = _shown_in(outputs, {one.run.digest for one in chosen})
    if shown:
        lines.append("These show some of them, and cannot be drawn again without running them anew:")
        lines += [f"  {path} ({count} run{'s' * (count != 1)})" for path, count in shown]
    return "\n".join(lines)


def _shown_in(outputs: Path, digests: set[str]) -> list[tuple[Path, int]]:
    """The figures and reports that were made from runs with these digests, and from how many of them."""
    found = []
    for path in sorted(path for place in ("figures", "reports") for path in (outputs / place).rglob("*")):
        if path.suffix.lower() in KINDS and path.is_file():
            with contextlib.suppress(SettingError):
                count = len(digests & {*provenance(path)["digests"].values()})
                found += [(path, count)] * bool(count)
    return found


def _confirmed(count: int) -> bool:
    """What a person at the terminal says; nobody else is asked."""
    if not sys.stdin.isatty():
        return False
    return input(f"Delete {'it' if count == 1 else f'these {count} runs'}? [yes/no] ").strip().lower() == "yes"


def _gone(one: _Chosen, store: Any, outputs: Path) -> str:
    """Delete a run, unless a process is at its cell; what was in the way, if anything."""
    with locks.at_once(locks.folder(outputs), *execute.claim(one.experiment, one.run.digest)) as held:
        if not held:
            return "is being run just now, and was left"
        try:
            deletion.delete(one.run.folder, store, one.records, outputs / "downloads")
        except OSError as error:
            return f"was not deleted whole: {error}"
    return ""
