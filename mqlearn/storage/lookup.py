"""Where finished runs are found: in a store, or on disk."""

from collections.abc import Collection, Iterator
from pathlib import Path

from mqlearn.storage import runs
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
        found = {}
        for stored, run in _stored(stores.finished(store, experiment), store, outputs, digests):
            found.setdefault(digest_of(run), Run(run.folder, run.summary | {"mlflow_run_id": stored.run_id}))
            if digests is not None and found.keys() >= {*digests}:
                break
    order = sorted(found) if digests is None else digests
    return {digest: found[digest] for digest in order if digest in found}


def _stored(
    some: Collection[stores.Stored], uri: str, outputs: Path, digests: Collection[str] | None
) -> Iterator[tuple[stores.Stored, Run]]:
    """The runs that may be meant, with their files: those with these digests, then earlier versions'; latest first."""
    latest = {stored.digest: stored for stored in sorted(some, key=lambda one: (one.ended, one.run_id))}
    direct = {digest for digest in latest if digests is None or digest in digests}
    earlier = {digest for digest, stored in latest.items() if not stored.digest_version} - direct
    for group in (direct, earlier):
        for stored in reversed(latest.values()):
            if stored.digest in group:
                places = stores.places(stored, uri, outputs / "downloads")
                run = next((run for place in places if (run := runs.complete(place, stored.digest))), None)
                if run is not None:
                    yield stored, run
