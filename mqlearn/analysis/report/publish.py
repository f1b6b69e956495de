"""A report in the store: an MLflow run of its own, which no selection takes for a run of an algorithm."""

import hashlib
from contextlib import suppress
from pathlib import Path

from mqlearn.paths import outputs_folder
from mqlearn.storage import tracking
from mqlearn.storage.connection import connect, failures
from mqlearn.storage.store import REPORTS


def publish(path: Path, uri: str, experiment: str, text: str, kind: str = "report") -> str:
    """Log the page at `path`, whose text is `text`, as an artifact; the id of its run. The same page is logged once.

    The run is in an experiment that reports alone are in, named by its `kind` ("report",
    "leaderboard") and its experiment. It has no digest, by which runs are found. Raises TrackingError.
    """
    content = hashlib.sha256(text.encode()).hexdigest()
    with failures(f"recording a {kind}", uri):
        about = "Pages that mqlearn made, one a run; the tag mqlearn.experiment says what each is on."
        place = tracking.prepare(uri, REPORTS, outputs=outputs_folder(), about=about)
        client = connect(uri)
        condition = f"attributes.status = 'FINISHED' AND tags.kind = '{kind}' AND tags.sha256 = '{content}'"
        there = client.search_runs([place], condition, max_results=1)
        if there:
            return there[0].info.run_id
        tags = {"kind": kind, "sha256": content, "mqlearn.experiment": experiment}
        run_id = client.create_run(place, tags=tags, run_name=f"{kind} on {experiment}"[:250]).info.run_id
        try:
            client.log_artifact(run_id, str(path))
            client.set_terminated(run_id, "FINISHED")
        except BaseException:
            with suppress(Exception):
                client.set_terminated(run_id, "FAILED")
            raise
    return run_id
