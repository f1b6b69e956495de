"""Where finished runs are found: in a store, or on disk."""

from collections.abc import Collection
from pathlib import Path

from mqlearn.storage import runs
from mqlearn.storage import store as stores
from mqlearn.storage.runs import Run


def finished(
    outputs: str | Path, experiment: str, *, store: str | None, digests: Collection[str] | None = None
) -> dict[str, Run]:
    """Finished runs of an experiment by digest, in the order of `digests` or sorted.

    With a store: the FINISHED runs of that MLflow experiment, the latest of each digest, read from their
    folder if that is complete on this disk, else from their artifacts. A run whose files are nowhere does not
    count. summary["mlflow_run_id"] is the id in that store. Raises TrackingError if the store cannot be read.
    Without a store: the complete folders under outputs/runs/<slug of the experiment>.
    """
    outputs = Path(outputs).absolute()
    if store is None:
        parent = outputs / "runs" / runs.slug(experiment)
        folders = sorted(f for f in parent.iterdir() if not f.name.startswith(".")) if parent.is_dir() else []
        found = {run.digest: run for run in map(runs.complete, folders) if run is not None}
    else:
        found = {}
        stored_runs = sorted(stores.finished(store, experiment), key=lambda s: (s.ended, s.run_id))
        latest = {stored.digest: stored for stored in stored_runs}
        for stored in latest.values():
            if digests is None or stored.digest in digests:
                places = stores.places(stored, store, outputs / "downloads")
                run = next((run for place in places if (run := runs.complete(place, stored.digest))), None)
                if run is not None:
                    summary = run.summary | {"mlflow_run_id": stored.run_id}
                    found[stored.digest] = Run(run.folder, summary)
    order = sorted(found) if digests is None else digests
    return {digest: found[digest] for digest in order if digest in found}
