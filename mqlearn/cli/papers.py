"""`mqlearn papers`: what papers of the field report, beside what is measured here."""

import json
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

from mqlearn.cli.arguments import CONFIG_DIR, deliver, parse
from mqlearn.errors import SettingError
from mqlearn.files import write_whole
from mqlearn.paths import outputs_folder

if TYPE_CHECKING:
    from mqlearn.analysis.papers.paper import Paper

_FREE = ("n_workers", "tracking", "plugins")


def papers(arguments: Sequence[str]) -> int:
    """`mqlearn papers`: print the list, or pages; 0, or 1 if --check finds that something differs from what is stored.

    --store runs what is missing, tests the claims, draws, and keeps the results in outputs/paper/field of the outputs
    folder. Raises SettingError.
    """
    from mqlearn.analysis.comparison.columns import terminal_width
    from mqlearn.analysis.papers import pages, results
    from mqlearn.analysis.papers.paper import known, load

    options = parse(arguments, flags=("--store", "--check"), values=CONFIG_DIR, written=("--json",))
    if len(options.given) > 1:
        raise SettingError(
            "flag", "--check", "compares with what is stored, which --store makes anew: give one of them"
        )
    keys = [text for text in options.overrides if "=" not in text]
    overrides = [text for text in options.overrides if "=" in text]
    for text in overrides:
        name, _, value = text.partition("=")
        if name not in _FREE or not options.given:
            raise SettingError(
                name, value, f"has no effect here; beside --store and --check there are {', '.join(_FREE)}"
            )
    chosen = [load(key, options.config_dir) for key in dict.fromkeys(keys or known(options.config_dir))]
    status = 0
    if options.given:
        for paper in chosen:
            if paper.spec["claims"]:
                status |= _run(paper, overrides, options.config_dir, check="--check" in options.given)
        if "--store" in options.given:
            every = [load(key, options.config_dir) for key in known(options.config_dir)]
            text = pages.markdown([(one, results.measured(one, options.config_dir)) for one in every])
            write_whole(results.folder_of(outputs_folder()) / "README.md", text)
    found = [(one, results.measured(one, options.config_dir)) for one in chosen]
    if deliver(options.files, {"--json": lambda: json.dumps([results.row(*one) for one in found], indent=1) + "\n"}):
        width = terminal_width()
        texts = [pages.page(*one, width) for one in found] if keys else [pages.listed(found, width)]
        print("\n\n".join(texts))
    return status


def _run(paper: "Paper", overrides: list[str], config_dir: str | None, *, check: bool) -> int:
    """Test the claims of a paper, and store or compare: 1 if something differs."""
    from mqlearn.analysis.claims import claim, tables
    from mqlearn.analysis.claims.answers import Stored
    from mqlearn.analysis.comparison import selection
    from mqlearn.analysis.papers import results
    from mqlearn.cli.claims import answer
    from mqlearn.cli.figure import draw
    from mqlearn.experiments.provenance import versions
    from mqlearn.experiments.settings.override_commands import command

    names = list(paper.spec["claims"])
    made_by = command("claims", names, config_dir)
    answers = answer([claim.load(name, config_dir) for name in names], overrides, config_dir=config_dir)
    found = [Stored(one, made_by, versions(), smoke=False) for one in answers]
    rows = json.loads(tables.json_text([tables.row(one) for one in found]))
    if check:
        old = results.measured(paper, config_dir)
        stored = json.loads(tables.json_text([tables.row(one) for one in old.claims])) if old else []
        differs = results.difference(stored, rows) if len(stored) == len(rows) else "other claims are stored"
        print(f"{paper.key}: {differs or 'as stored'}")
        return int(differs is not None)
    used = {digest for one in answers for part in one.checks for digest in part.evidence["digests"]}
    seconds = sum(run.summary["seconds"] or 0.0 for run in selection.find(outputs_folder()).runs if run.digest in used)
    folder = results.folder_of(outputs_folder())
    folder.mkdir(parents=True, exist_ok=True)
    for name, file in paper.pictures.items():
        shutil.copyfile(draw(name, overrides, config_dir).files[0], folder / file)
    write_whole(folder / f"{paper.key}.json", results.text_of(paper, found, seconds))
    return 0
