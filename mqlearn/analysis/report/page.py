"""The whole page: sections in order, with style, script and provenance inside it, and nothing from elsewhere."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mqlearn.analysis.figures import reference
from mqlearn.analysis.report import curves, equations, maps, verdicts
from mqlearn.analysis.report.markup import Markup, details, join, number, section, table, tag
from mqlearn.analysis.report.subjects import Subject, by_panel, differing
from mqlearn.experiments.plan import Plan
from mqlearn.experiments.settings import identity
from mqlearn.storage.runs import Run

PROVENANCE = "mqlearn-provenance"  # id of the script element that holds it
_HERE = Path(__file__).resolve().parent


def build(
    name: str,
    some: Sequence[Subject],
    answers: Sequence[Mapping[str, Any]],
    *,
    command: str,
    versions: Mapping[str, str],
    reason: str = "",
    failed: Sequence[Run] = (),
    notes: Sequence[str] = (),
    plan: Plan | None = None,
) -> str:
    """The page on some runs; equal runs and equal answers give equal bytes.

    answers: verdicts as plain dicts (see `verdicts`), or none and the `reason`.   command: what makes this page.
    failed: runs that did not end well, told but not counted.   notes: what else the reader must know of the selection.
    plan: of the experiment, for labels and panels of its figure.
    """
    figures, numbers = curves.of(some, plan)
    varied, shared = differing(some)
    record = {
        "report": name,
        "command": command,
        "settings": shared,
        "digests": {f"{one.panel} | {one.label}": one.run.digest for one in some},
        "data_digest": reference.digest(numbers),
        "versions": dict(versions),
    }
    sections = [
        verdicts.of(answers, reason),
        figures,
        curves.finals(some),
        _troubles(some, failed, notes),
        _settings(some, varied, shared),
        maps.environments(some),
        maps.errors(some),
        maps.visits(some),
        equations.of(some),
        _versions(some),
        _commands(name, some, command),
    ]
    places = (
        ("verdict", "Verdict"), ("figures", "Figures"), ("results", "Last values"), ("troubles", "Diverged and failed"),
        ("settings", "Settings"), ("environments", "Environments"), ("errors", "Error maps"), ("visits", "Visits"),
        ("equations", "Equations"), ("versions", "Versions"), ("reproduce", "Reproduce"),
    )  # fmt: skip
    links = tag(
        "nav", tag("ul", [tag("li", tag("a", text, href=f"#{key}")) for key, text in places]), aria_label="Sections"
    )
    header = tag("header", tag("h1", f"Report: {name}"), tag("p", _lead(some), class_="lead"), links)
    foot = tag(
        "footer",
        f"mqlearn {versions.get('mqlearn', '')}. Digest of the figures' data: ",
        tag("code", record["data_digest"]),
    )
    script, css = ((_HERE / file).read_text(encoding="utf-8") for file in ("script.js", "style.css"))
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Nothing may be loaded, and no script runs but the one of this page, whatever a name in it says.
    policy = f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'"
    head = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("title", f"{name}: mqlearn report"),
        Markup(f"<style>{css}</style>"),
        Markup(f'<script type="application/json" id="{PROVENANCE}">{maps.script_json(record)}</script>'),
    ]
    body = [
        tag("a", "To the verdict", href="#verdict", class_="skip"), header, tag("main", sections), foot,
        Markup(f"<script>{script}</script>"),
    ]  # fmt: skip
    return f"<!DOCTYPE html>\n{tag('html', tag('head', head), tag('body', body), lang='en')}\n"


def _lead(some: Sequence[Subject]) -> str:
    def counted(n: int, what: str) -> str:
        return f"{n} {what}{'s' * (n != 1)}"

    rules = len({identity.public_name(one.run.settings["algorithm"]["_target_"]) for one in some})
    seeds = sorted({one.run.settings["n_seeds"] for one in some})
    many = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    parts = [counted(len(some), "run"), counted(rules, "algorithm"), counted(len(by_panel(some)), "block")]
    return f"{', '.join(parts)} of comparable runs, {many} seed{'s' * (seeds[-1] != 1)} each."


def _troubles(some: Sequence[Subject], failed: Sequence[Run], notes: Sequence[str]) -> Markup:
    rows = [
        [f"{one.panel}: {one.label}", f"{len(one.run.diverged)} of {one.run.settings['n_seeds']} seeds diverged",
         ", ".join(f"seed {seed} at k = {number(k)}" for seed, k in one.run.diverged.items())]
        for one in some
        if one.run.diverged
    ]  # fmt: skip
    rows += [[run.name, run.status, str(run.summary.get("error") or "no reason recorded")] for run in failed]
    warned: dict[str, list[str]] = {}
    for one in some:
        for text in one.run.summary.get("warnings") or []:
            warned.setdefault(str(text), []).append(f"{one.panel}: {one.label}")
    parts: list[Any] = []
    if rows:
        parts.append(table(("run", "what happened", "where"), rows))
        parts.append(tag("p", "A mean is over the finite seeds; the counts say how many these are.", class_="quiet"))
    else:
        parts.append(tag("p", f"None: all {len(some)} runs finished with every seed finite."))
    if warned:
        listed = [[text, "; ".join(labels)] for text, labels in warned.items()]
        parts.append(table(("warning of a run", "runs"), listed))
    parts += [tag("p", note, class_="quiet") for note in notes]
    return section("troubles", "Diverged and failed runs", parts)


def _settings(some: Sequence[Subject], varied: Sequence[str], shared: Mapping[str, str]) -> Markup:
    from mqlearn.analysis.report.subjects import scientific

    flats = [(one, scientific(one.run.settings)) for one in some]
    several = len(by_panel(some)) > 1
    rows = [[one.label, *[one.panel] * several, *[flat.get(name, "–") for name in varied]] for one, flat in flats]
    head = ("run", *["block"] * several, *[name.removesuffix(".name") for name in varied])
    parts = [table(head, rows)] if varied else [tag("p", "No setting differs between these runs.")]
    common = details(
        f"The {len(shared)} settings that all runs that have them share", table(("setting", "value"), shared.items())
    )
    return section("settings", "Settings that differ", parts, common)


def _versions(some: Sequence[Subject]) -> Markup:
    kinds: dict[tuple, list[str]] = {}
    for one in some:
        summary = one.run.summary
        content = dict(summary.get("versions") or {}) | {
            "numerics version": summary.get("numerics_version"),
            "commit": summary.get("git_commit"),
        }
        kinds.setdefault(tuple(content.items()), []).append(f"{one.panel}: {one.label}")
    names = list(dict.fromkeys(name for kind in kinds for name, _ in kind))
    if len(kinds) == 1:
        head: Sequence[Any] = ("", "all runs")
        about = None
    else:
        head = ("", *[f"set {i}" for i in range(1, len(kinds) + 1)])
        about = [tag("p", f"Set {i}: {'; '.join(runs)}.", class_="quiet") for i, runs in enumerate(kinds.values(), 1)]
    rows = [[name, *[str(dict(kind).get(name) or "not recorded") for kind in kinds]] for name in names]
    return section("versions", "Versions", about, table(head, rows))


def _commands(name: str, some: Sequence[Subject], command: str) -> Markup:
    commands: dict[str, int] = {}
    for one in some:
        line = str(one.run.summary.get("command") or "")
        if line:
            commands[line] = commands.get(line, 0) + 1
    made = [f"{line}    # {count} run{'s' * (count != 1)}" for line, count in commands.items()]
    lines = join(["\n".join([*made, command])])
    rows = [[f"{one.panel}: {one.label}", tag("code", one.run.digest)] for one in some]
    each = "Each run again, from its record alone: mqlearn rerun FOLDER, "
    each += "with the folder that the first 16 signs of its digest name."
    return section(
        "reproduce", "Reproduce", tag("pre", tag("code", lines), tabindex=0), tag("p", each, class_="quiet"),
        details(f"Digests of the {len(some)} runs", table(("run", "digest"), rows)),
    )  # fmt: skip
