"""One cell: run it, write its folder, have it tracked, and say what came of it."""

import contextlib
import functools
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mqlearn.errors import SettingError
from mqlearn.experiments import forecast, provenance
from mqlearn.experiments.settings import identity, own_choices
from mqlearn.experiments.settings import plugins as user_modules
from mqlearn.experiments.settings.cell import Cell, run_cells
from mqlearn.experiments.settings.sections import tracking_section
from mqlearn.finding import Finding, each_once, unused
from mqlearn.paths import outputs_folder


@dataclass(frozen=True)
class Tracker:
    """Where finished runs are tracked; uri None: nowhere."""

    uri: str | None
    experiment: str
    per_seed: bool
    named: bool = False  # by the setting tracking.uri

    @property
    def store(self) -> dict[str, str]:
        """The setting that names the store in commands; empty for the one of the outputs folder."""
        from mqlearn.storage import addresses

        usual = self.uri in (None, addresses.default_uri(outputs_folder()))
        return {} if usual else {"tracking.uri": str(self.uri)}

    def check(self) -> None:
        """Raise SettingError where the password of the store is left out, and not known."""
        if self.uri is not None:
            from mqlearn.storage.passwords import Address

            _ = Address(self.uri).whole

    def check_format(self) -> None:
        """Raise OtherVersion if a newer version has written to the experiment."""
        if self.uri is not None:
            from mqlearn.storage import store

            store.check_format(self.uri, self.experiment)

    def prepare(self) -> None:
        if self.uri is None:
            return
        from mqlearn.experiments.presentation import note
        from mqlearn.storage import tracking

        about = note.of_experiment(self.experiment, self.store)
        tracking.prepare(self.uri, self.experiment, outputs=outputs_folder(), about=about)

    def log(self, run_done: Any, *, again: bool = False, tags: dict[str, str] | None = None) -> Any:
        """The run with its id in the store; if the store fails, as it was, and a message says what to do.

        What was deleted there stays so, and has no id: that is no failure, and a note says so.
        """
        from mqlearn.storage import connection, deletion, runs

        try:
            return self._recorded(run_done, again, tags)
        except deletion.Deleted:
            sys.stderr.write(f"note: {deletion.note({run_done.digest: run_done.folder})}\n")
            left = runs.load(run_done.folder)
            return replace(left, summary={**left.summary, "mlflow_run_id": None})
        except (connection.TrackingError, SettingError) as error:
            uri = f" tracking.uri={shlex.quote(self.uri or '')}" if self.named else ""
            connection.say_untracked(
                f"not tracked: {error}\nThe run is complete in {run_done.folder}; deliver it with\n"
                f"  mqlearn upload {shlex.quote(str(run_done.folder))}{uri}"
            )
            return runs.load(run_done.folder)

    def deliver(
        self, run_done: Any, *, again: bool = False, tags: dict[str, str] | None = None
    ) -> tuple[Any, str | None]:
        """`log` without the message: the run, and why it is not tracked."""
        from mqlearn.storage import connection, runs

        try:
            return self._recorded(run_done, again, tags), None
        except (connection.TrackingError, SettingError) as error:
            return runs.load(run_done.folder), str(error)

    def _recorded(self, run_done: Any, again: bool, tags: dict[str, str] | None) -> Any:
        """The run, recorded once for each digest, unless it was to run again. `tags` go before those of its summary."""
        if self.uri is None:
            return run_done
        from mqlearn.experiments.presentation.mlflow_view import shows
        from mqlearn.storage import runs, tracking

        record, show = tracking.log if again else tracking.record, shows(self.store)
        record(run_done, self.uri, self.experiment, self.per_seed, tags=tags, show=show)
        return runs.load(run_done.folder)


UNTRACKED = Tracker(None, "", False)


def tracker(settings: dict[str, Any]) -> Tracker:
    """The tracker that some settings name. Raises SettingError for an address that is no store's."""
    node, name = tracking_section(settings["tracking"]), settings["experiment"]["name"]
    if node["name"] == "none":
        return Tracker(None, name, False)
    from mqlearn.storage import addresses

    if name == "Default":
        raise SettingError("experiment.name", name, "is MLflow's own, where stray runs land: choose another name")
    named = node["uri"] or os.environ.get("MLFLOW_TRACKING_URI")
    uri = addresses.resolve_uri(node["uri"], named, outputs_folder()) if named else _default(outputs_folder())
    return Tracker(uri, name, node["per_seed"], node["uri"] is not None)


@functools.lru_cache(maxsize=4)
def _default(outputs: Path) -> str:
    """The store of an outputs folder, which is asked for with each cell of a plan."""
    from mqlearn.storage import addresses

    return addresses.resolve_uri(None, None, outputs)


def store_of(settings: dict[str, Any]) -> tuple[Tracker, str]:
    """The tracker of what cannot do without a store, and the store's address. Raises SettingError for none."""
    track = tracker(settings)
    if track.uri is None:
        expected = "this command needs a tracking store; leave it out, or tracking.uri=URI"
        raise SettingError("tracking", "none", expected)
    return track, track.uri


def claim(experiment: str, digest: str) -> tuple[str, str, str]:
    """The words that a cell is claimed by, in `locks.folder(outputs)`, by whoever runs it."""
    return "cell", experiment, digest


@contextlib.contextmanager
def claimed(cells: Sequence[Cell]) -> Iterator[bool]:
    """Hold cells, so that no other process runs them meanwhile; yields whether they had to be waited for."""
    from mqlearn.storage import locks

    names = [claim(cell.settings["experiment"]["name"], cell.digest) for cell in cells]
    with locks.many(locks.folder(outputs_folder()), names) as waited:
        yield waited


def finished(folder: Path, digest: str, track: Tracker) -> Any:
    """The whole finished run of a cell, in its folder or else in the store; None if it is to be run.

    To be asked by the holder of its claim: records of earlier versions, whose digests are others, were looked for when
    it was planned. A damaged folder is made again, whatever the store has.
    """
    from mqlearn.storage import lookup, runs
    from mqlearn.storage.connection import TrackingError

    run, damaged = runs.look(folder, digest, identity.digest_of)
    if run is None and not damaged and track.uri is not None:
        with contextlib.suppress(TrackingError):  # met again, and reported, when the run is logged
            run = lookup.finished(outputs_folder(), track.experiment, store=track.uri, digests=[digest]).get(digest)
    return run


def perform_missing(
    some: Sequence[tuple[Cell, Path]], *, again: bool, quiet: bool = False, progress: Callable[[int, float], None]
) -> list[Any]:
    """The runs of cells of one `Cell.samples_key`: claimed, and run unless they are finished by now. Not tracked.

    again: run them even so. The store was looked into when the cells were planned, and is not again: that would import
    MLflow into every process, which takes longer than most cells.
    """
    with claimed([cell for cell, _ in some]):
        done = {cell.digest: None if again else finished(folder, cell.digest, UNTRACKED) for cell, folder in some}
        left = [(cell, folder) for cell, folder in some if done[cell.digest] is None]
        made = perform_together(left, UNTRACKED, quiet=quiet, progress=progress) if left else []
        done |= {run.digest: run for run in made}
    return [done[cell.digest] for cell, _ in some]


def perform(
    cell: Cell,
    folder: Path,
    track: Tracker,
    label: str | None = None,
    known: dict[str, Any] | None = None,
    findings: Sequence[Finding] = (),
    *,
    quiet: bool = False,
) -> Any:
    """Run a cell and write its folder; the store is opened while the kernels run, the caller logs the run.

    known, findings: join the summary, before what the run finds; these findings have been shown. A quiet run shows
    neither progress nor findings.
    """
    return perform_together([(cell, folder)], track, label or cell.name, known, findings, quiet=quiet)[0]


@user_modules.own_code()
def perform_together(
    some: Sequence[tuple[Cell, Path]],
    track: Tracker,
    label: str = "",
    known: dict[str, Any] | None = None,
    findings: Sequence[Finding] = (),
    *,
    quiet: bool = False,
    progress: Callable[[int, float], None] | None = None,
) -> list[Any]:
    """`perform` for cells of the same `Cell.samples_key`, with their folders.   progress: instead of the one shown."""
    from mqlearn.experiments.presentation import printed
    from mqlearn.experiments.progress import Progress
    from mqlearn.storage import runs

    for cell, folder in some:
        runs.clear(folder)
        runs.check_target(folder, cell.digest, identity.digest_of)
    # Shown when MLflow is imported beside another thread that handles warnings; no proxy is used here.
    warnings.filterwarnings("ignore", "SOCKS support in urllib3")
    with ThreadPoolExecutor(1) as pool:
        ready = pool.submit(quietly, track.prepare)
        with Progress(label, some[0][0].settings["iterations"], quiet=quiet) as shown:
            results = run_cells([cell for cell, _ in some], progress or (None if quiet else shown))
        if not quiet:
            before = {found.text for found in findings}
            of_results = each_once(found for result in results for found in result.findings)
            printed.warn(found for found in of_results if found.text not in before)
        written = [
            write(cell, folder, result, known, findings) for (cell, folder), result in zip(some, results, strict=True)
        ]
        ready.result()
    return written


def write(
    cell: Cell, folder: Path, result: Any, known: dict[str, Any] | None = None, findings: Sequence[Finding] = ()
) -> Any:
    """The run of a cell, whole, in its folder; known and findings as in `perform`."""
    from mqlearn.storage import runs

    extra = _circumstances(result, known or {}, findings) | {"made_of": cell.made_of, "effective": cell.effective}
    return runs.write(
        folder,
        settings=cell.settings,
        digest=cell.digest,
        name=cell.name,
        result=result,
        extra=extra | _own_choices(cell),
        digest_of=identity.digest_of,
    )


def estimated_seconds(cell: Cell) -> float:
    """About how long a cell learns and is evaluated on one core, to a factor of a few."""
    return _learning(cell) + forecast.of_cell(cell).seconds


def _learning(cell: Cell) -> float:
    settings = cell.settings
    steps = settings["iterations"] * settings["n_seeds"]
    if cell.run_arguments["sampling"].all_pairs:
        return steps * (len(getattr(cell.mdp, "pairs", ())) or 1) / 5e8 + settings["n_checkpoints"] / 400
    return steps / 1e7


def of_problem(cell: Cell) -> tuple[dict[str, Any], list[Finding]]:
    """What can be reached at best in a cell's environment, for its summary, and findings on it; of a model alone."""
    from mqlearn.learning import run_warnings
    from mqlearn.problems.attainable_values import attainable_values
    from mqlearn.problems.mdp import FiniteMDP

    if not isinstance(cell.mdp, FiniteMDP):
        return {}, []
    forecast.tell(forecast.of_cell(cell), cell.mdp)
    best = attainable_values(cell.mdp)
    return {"optimum": best}, run_warnings.of_problem(cell.mdp, best)


def before_run(cell: Cell) -> list[Finding]:
    """What is said of a cell before it runs; what the learning loop says of it before comes again with its result."""
    from mqlearn.learning import run_warnings

    found = run_warnings.changed_sources([*user_modules.load(cell.settings["plugins"]).values()])
    found += [*run_warnings.before_run(cell.setup, cell.rule), *cell.without_effect]
    if cell.settings["tracking"]["name"] == "none":
        found += unused("tracking", cell.settings["tracking"], {"uri": None, "per_seed": False}, "tracking=none")
    if not cell.setup.evaluation.episodes:
        found += unused("evaluation", cell.settings["evaluation"], {"draws": "fresh"}, "no episodes are played")
    return each_once(found)


def quietly(prepare: Callable[[], None]) -> None:
    """A store that cannot be opened is met again, and reported, when the run is logged."""
    from mqlearn.storage.connection import TrackingError

    with contextlib.suppress(TrackingError, SettingError):
        prepare()


def _own_choices(cell: Cell) -> dict[str, Any]:
    return {own_choices.KEY: cell.own_choices} if cell.own_choices else {}


def _circumstances(result: Any, known: dict[str, Any], findings: Sequence[Finding]) -> dict[str, Any]:
    """What the summary records beside the numbers."""
    from mqlearn.learning.loop import NUMERICS_VERSION

    findings = each_once([*findings, *result.findings])
    return {
        "reward": result.reward,
        **known,
        **result.facts,
        "warnings": [found.text for found in findings],
        "findings": [found.record() for found in findings],
        "numerics_version": NUMERICS_VERSION,
        "digest_version": identity.DIGEST_VERSION,
        "versions": provenance.versions(),
        "git_commit": provenance.git_commit(),
        "command": provenance.command(),
    }
