"""`mqlearn explain`: what a picture or a report says of its own origin, and which runs of this store it shows."""

import json
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from html.parser import HTMLParser
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from mqlearn.analysis.comparison.selection import flat, shown
from mqlearn.analysis.figures import style
from mqlearn.analysis.report.page import PROVENANCE
from mqlearn.errors import SettingError
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.sections import tracking_section
from mqlearn.files import is_there
from mqlearn.paths import outputs_folder
from mqlearn.storage import runs

KINDS = (".png", ".pdf", ".svg", ".html", ".htm")


class Known(NamedTuple):
    """A run of this machine with a digest that was asked for."""

    run_id: str
    folder: str


def explain(arguments: Sequence[str]) -> int:
    """`mqlearn explain FILE`: returns 0. Raises SettingError for a file that does not say where it is from."""
    from mqlearn.cli.arguments import only, parse, take_plugins

    options = parse(arguments, flags=("--json", "--methods", "--bibtex"))
    take_plugins(options)
    if not options.overrides or ("=" in options.overrides[0] and not is_there(options.overrides[0])):
        raise SettingError("explain", " ".join(arguments), "must name a file first: a picture or a report of mqlearn's")
    name, *overrides = options.overrides
    only("explain", overrides, ("tracking",))
    record = provenance(Path(name))
    settings = compose.compose(overrides)
    known, problem = _known(settings, list(record["digests"].values()))
    if {"--methods", "--bibtex"} & options.given:
        if "--json" in options.given:
            raise SettingError("--json", "", "goes with neither --methods nor --bibtex")
        print("\n".join(_written(Path(name).name, record, known, options.given)))
    elif "--json" in options.given:
        found = {digest: [one._asdict() for one in some] for digest, some in known.items()}
        print(json.dumps({**record, "runs": found}, indent=2, sort_keys=True))
    else:
        print(_told(Path(name).name, record, known, problem))
    return 0


def _written(
    file: str, record: dict[str, Any], known: Mapping[str, Sequence[Known]], flags: Collection[str]
) -> list[str]:
    """The paragraph on methods, and the BibTeX, of what a file shows. Raises SettingError if it has no run here."""
    from mqlearn.analysis.comparison import labels
    from mqlearn.analysis.writing import bibtex, methods
    from mqlearn.cli.report import verdicts_of

    folders = {digest: [Path(one.folder) for one in some] for digest, some in known.items()}
    kept = {digest: [runs.complete(folder, digest) for folder in some] for digest, some in folders.items()}
    found = [next(run for run in some if run is not None) for some in kept.values() if any(some)]
    if "suite" in record:
        raise SettingError("file", file, "is of a leaderboard; `mqlearn bench SUITE --html FILE` says how it was made")
    if not found:
        raise SettingError("file", file, "none of its runs is here, and what they were stands in their records alone")
    if len(found) < len(kept):
        sys.stderr.write(f"note: {len(kept) - len(found)} of its {len(kept)} runs are not here, and are left out\n")
    texts = []
    if "--methods" in flags:
        verdicts = verdicts_of(labels.entries(found))[0] if "report" in record else []
        texts.append(methods.paragraph(found, record, verdicts))
    if "--bibtex" in flags:
        names = [name for run in found for name in bibtex.choices(run.settings)]
        texts.append(bibtex.cited(names, version("mqlearn")))
    return texts


def provenance(path: Path) -> dict[str, Any]:
    """What mqlearn put into a picture or a page, from the file alone. Raises SettingError for any other file."""
    problem = SettingError(
        "file", str(path), f"holds no record of mqlearn's; it must be one of its {', '.join(KINDS)} files"
    )
    if not is_there(str(path)) or not path.is_file():
        raise SettingError("file", str(path), "is a folder" if is_there(str(path)) else "there is no such file")
    if path.suffix.lower() not in KINDS:
        raise problem
    try:
        pages = path.suffix.lower() in (".html", ".htm")
        record = _from_html(path) if pages else style.read_provenance(path)
    except (SettingError, ValueError, OSError) as error:
        raise problem from error
    if isinstance(record, dict) and "suite" in record:  # of a leaderboard, whose runs a suite keeps together
        record.setdefault("digests", {})
    if not isinstance(record, dict) or not isinstance(record.get("digests"), dict) or "command" not in record:
        raise problem
    if not all(isinstance(digest, str) for digest in record["digests"].values()):
        raise problem
    return record


def _from_html(path: Path) -> Any:
    found: list[str] = []

    class Reader(HTMLParser):
        inside = False

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            self.inside = tag == "script" and ("id", PROVENANCE) in attrs

        def handle_data(self, data: str) -> None:
            if self.inside:
                found.append(data)

        def handle_endtag(self, tag: str) -> None:
            self.inside = False

    Reader().feed(path.read_text(encoding="utf-8"))
    return json.loads("".join(found))


def _known(settings: dict[str, Any], digests: Sequence[str]) -> tuple[dict[str, list[Known]], str]:
    """Runs of the store and of the outputs folder by digest; and why the store could not be asked, if so."""
    from mqlearn.storage.connection import TrackingError
    from mqlearn.storage.store import with_digests

    known: dict[str, list[Known]] = {digest: [] for digest in digests}
    problem = ""
    uri = None
    if settings["tracking"]["name"] != "none":
        from mqlearn.storage import addresses

        node = tracking_section(settings["tracking"])
        uri = addresses.resolve_uri(node["uri"], os.environ.get("MLFLOW_TRACKING_URI"), outputs_folder())
        try:
            for stored in with_digests(uri, digests):
                known[stored.digest].append(Known(stored.run_id, stored.folder))
        except TrackingError as error:
            problem = str(error)
    for folder in sorted((outputs_folder() / "runs").glob("*/*")):
        for digest in known:
            there = {Path(one.folder) for one in known[digest]}
            if folder.name == digest[:16] and folder not in there and runs.is_complete(folder, digest):
                known[digest].append(Known("", str(folder)))
    return known, problem


def _told(file: str, record: Mapping[str, Any], known: Mapping[str, Sequence[Known]], problem: str) -> str:
    kind = next((name for name in ("report", "suite") if name in record), "figure")
    lines = [f"{file}: {kind} {record.get(kind, '')}", f"command      {record['command']}"]
    if record.get("data_digest"):
        lines.append(f"data digest  {record['data_digest']}")
    # A page lists what differs beside it; of the rest a rule may have no such setting.
    shared = f"settings that all runs {'that have them ' * (kind == 'report')}share"
    for name, what in (("versions", "versions"), ("settings", shared)):
        lines += [what, *_pairs(record[name])] if name in record else []
    lines += ["runs"] * bool(record["digests"])
    for label, digest in record["digests"].items():
        lines.append(f"  {label}\n    digest  {digest}")
        for one in known[digest]:
            lines.append("    " + (f"MLflow run {one.run_id}  " if one.run_id else "") + one.folder)
        if not known[digest]:
            lines.append("    no such run in this store")
    if problem:
        lines.append(f"the store could not be asked: {problem}")
    return "\n".join(lines)


def _pairs(node: Any) -> list[str]:
    leaves = flat(node) if isinstance(node, dict) else {}
    width = max(map(len, leaves), default=0)
    return [f"  {name:{width}}  {shown(value)}" for name, value in leaves.items() if not name.endswith("_target_")]
