"""A report in the store: an MLflow run of its own, which no selection takes for a run of an algorithm."""

import hashlib
from contextlib import suppress
from pathlib import Path

from mqlearn.storage import tracking
from mqlearn.storage.store import connect, failures


def publish(path: Path, uri: str, experiment: str, text: str, kind: str = "report") -> str:
    """Log the page at `path`, whose text is `text`, as an artifact; the id of its run. The same page is logged once.

    The run is named by its `kind`, "report" or "leaderboard", and tagged with it. It has no digest, by which runs are
    found. Raises TrackingError.
    """
    content = hashlib.sha256(text.encode()).hexdigest()
    with failures(f"recording a {kind}", uri):
        place = tracking.prepare(uri, experiment)
        client = connect(uri)
        condition = f"attributes.status = 'FINISHED' AND tags.kind = '{kind}' AND tags.sha256 = '{content}'"
        there = client.search_runs([place], condition, max_results=1)
        if there:
            return there[0].info.run_id
        tags = {"kind": kind, "sha256": content, "mqlearn.experiment": experiment}
        run_id = client.create_run(place, tags=tags, run_name=kind).info.run_id
        try:
            client.log_artifact(run_id, str(path))
            client.set_terminated(run_id, "FINISHED")
        except BaseException:
            with suppress(Exception):
                client.set_terminated(run_id, "FAILED")
            raise
    return run_id
