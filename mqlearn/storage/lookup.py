"""Where runs are found: in the outputs folder, and in a store, on whatever machine they were made."""

import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from mqlearn.storage import connection, runs
from mqlearn.storage import store as stores
from mqlearn.storage.runs import DigestOf, Run, recorded_digest


def finished(
    outputs: str | Path,
    experiment: str,
    *,
    store: str | None,
    digests: Collection[str] | None = None,
    digest_of: DigestOf = recorded_digest,
) -> dict[str, Run]:
    """Finished runs of an experiment by digest, in the order of `digests` or sorted.

    With a store: the FINISHED runs of that MLflow experiment, the latest of each digest, read from their
    folder if that is complete on this disk, else from their artifacts. A run whose files are nowhere does not
    count. summary["mlflow_run_id"] is the id in that store. Raises TrackingError if the store cannot be read.
    Without a store: the complete folders under outputs/runs/<slug of the experiment>.
    digest_of: the digest that a run counts under, where records of earlier versions have others.
    """
    outputs = Path(outputs).absolute()
    if store is None:
        parent = outputs / "runs" / runs.slug(experiment)
        folders = sorted(f for f in parent.iterdir() if not f.name.startswith(".")) if parent.is_dir() else []
        found = {digest_of(run): run for run in map(runs.complete, folders) if run is not None}
    else:
        found, wanted = {}, None if digests is None else {*digests}
        for run in _stored(store, experiment, outputs, digests, digest_of):
            found.setdefault(digest_of(run), run)
            if wanted is not None and len(found) >= len(wanted) and found.keys() >= wanted:
                break
    order = sorted(found) if digests is None else digests
    return {digest: found[digest] for digest in order if digest in found}


def finished_or_on_disk(
    outputs: Path, experiment: str, *, store: str | None, digests: Collection[str], digest_of: DigestOf
) -> dict[str, Run]:
    """`finished`; a store that cannot be read is told of, and the folders alone are asked."""
    try:
        return finished(outputs, experiment, store=store, digests=digests, digest_of=digest_of)
    except connection.TrackingError as error:
        connection.say_untracked(f"{error}; finished runs are looked for on disk alone")
        return finished(outputs, experiment, store=None, digests=digests, digest_of=digest_of)


def _stored(
    uri: str, experiment: str, outputs: Path, digests: Collection[str] | None, digest_of: DigestOf
) -> Iterator[Run]:
    """The runs that may be meant, with their files: those with these digests, then earlier versions'; latest first."""
    for stored in _latest_of_each(stores.finished(uri, experiment, digests)):
        if run := _fetched(stored, uri, experiment, outputs):
            yield run
    if digests is not None and digest_of is not recorded_digest:
        for stored in _latest_of_each(stores.unversioned(uri, experiment)):
            if stored.digest not in digests and (run := _fetched(stored, uri, experiment, outputs)):
                yield run


def _latest_of_each(some: Collection[stores.Stored]) -> list[stores.Stored]:
    """The last run of each digest, latest first."""
    return list({stored.digest: stored for stored in reversed(_latest_first(some))}.values())[::-1]


def _latest_first(some: Collection[stores.Stored]) -> list[stores.Stored]:
    return sorted(some, key=lambda stored: (stored.ended, stored.run_id), reverse=True)


class Held(NamedTuple):
    """A run folder: its run if that is finished and whole; else what is wrong with it, if it is damaged."""

    folder: Path
    run: Run | None
    damage: str = ""


def experiments(outputs: Path, store: str | None) -> dict[str, str]:
    """The experiments that have runs in an outputs folder or in a store: name by folder name."""
    parent = outputs / "runs"
    folders = [path for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else []
    known = {path.name: path.name for path in folders if not path.name.startswith(".")}
    return dict(sorted((known | {runs.slug(name): name for name in _names(store)}).items()))


def everywhere(outputs: Path, names: Sequence[str] | None, store: str | None) -> Iterator[Held]:
    """The run folders of some experiments, or of all: those in an outputs folder, then those that a store alone has.

    A store's runs are read from the folder that they were written to, if that is on this disk; else their artifacts
    are fetched, once, into a cache in the outputs folder. A store that cannot be read is told of, and passed over.
    """
    outputs, there = outputs.absolute(), set()
    for slug in experiments(outputs, None) if names is None else map(runs.slug, names):
        parent = outputs / "runs" / slug
        for folder in sorted(parent.iterdir()) if parent.is_dir() else ():
            if not folder.name.startswith(".") and folder.is_dir():
                run, damage = runs.look(folder)
                there |= {run.digest} if run is not None else set()
                yield Held(folder, run, damage)
    for name in _names(store) if names is None else names:
        for stored in _told(store, name):
            if stored.digest not in there and store is not None:
                run = _fetched(stored, store, name, outputs)
                if run is not None:
                    there.add(run.digest)
                    yield Held(run.folder, run)


def with_digests(outputs: Path, digests: Collection[str], store: str | None) -> dict[str, Run]:
    """The whole finished runs with some digests, of whatever experiment, that a store knows of."""
    try:
        known = [] if store is None or not digests else stores.with_digests(store, digests)
    except connection.TrackingError as error:
        sys.stderr.write(f"mqlearn: {error}; only runs on this disk are found\n")
        return {}
    found: dict[str, Run] = {}
    for stored in _latest_first(known):
        if stored.digest not in found and (run := _fetched(stored, store or "", "", outputs)):
            found[stored.digest] = run
    return found


def _fetched(stored: stores.Stored, store: str, experiment: str, outputs: Path) -> Run | None:
    """The whole run of a store from the first place that has it, with its id in that store."""
    own = outputs / "runs" / runs.slug(experiment) / runs.slug(stored.digest[:16])  # also after this was moved
    for place in stores.places(stored, store, outputs / "downloads", own):
        if run := runs.complete(place, stored.digest):
            return Run(run.folder, run.summary | {"mlflow_run_id": stored.run_id})
    return None


def _names(store: str | None) -> list[str]:
    try:
        return [] if store is None else stores.experiments(store)
    except connection.TrackingError as error:
        sys.stderr.write(f"mqlearn: {error}; only runs on this disk are found\n")
        return []


def _told(store: str | None, experiment: str) -> list[stores.Stored]:
    """The finished runs of an experiment in a store, the latest of a digest first."""
    try:
        found = [] if store is None else stores.finished(store, experiment)
    except connection.TrackingError as error:
        sys.stderr.write(f"mqlearn: {error}; only runs on this disk are found\n")
        return []
    return _latest_first(found)
