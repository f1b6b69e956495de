"""The whole page: sections in order, with style, script and provenance inside it, and nothing from elsewhere."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from mqlearn.analysis.figures import reference
from mqlearn.analysis.report import curves, equations, maps, policies, theory, verdicts
from mqlearn.analysis.report.markup import number, render
from mqlearn.analysis.report.subjects import Subject, by_panel, differing, scientific
from mqlearn.experiments.plan import Plan
from mqlearn.experiments.settings import earlier_versions
from mqlearn.storage.runs import Run

PROVENANCE = "mqlearn-provenance"  # id of the script element that holds it
_HERE = Path(__file__).resolve().parent
_PLACES = (
    ("verdict", "Verdict"), ("figures", "Figures"), ("results", "Last values"), ("theory", "Theory"),
    ("troubles", "Diverged and failed"), ("settings", "Settings"), ("environments", "Environments"),
    ("errors", "Error maps"), ("visits", "Visits"), ("policies", "Greedy policies"), ("equations", "Equations"),
    ("versions", "Versions"), ("reproduce", "Reproduce"),
)  # fmt: skip


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
    axis: str = "iterations",
) -> str:
    """The page on some runs; equal runs and equal answers give equal bytes.

    answers: verdicts as plain dicts (see `verdicts`), or none and the `reason`.   command: what makes this page.
    failed: runs that did not end well, told but not counted.   notes: what else the reader must know of the selection.
    plan: of the experiment, for labels and panels of its figure.   axis: of figures and their numbers.
    """
    figures, numbers = curves.of(some, plan, axis)
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
        theory.of(some),
        _troubles(some, failed, notes),
        _settings(some, varied, shared),
        maps.environments(some),
        maps.errors(some),
        maps.visits(some),
        policies.of(some),
        equations.of(some),
        _versions(some),
        _commands(name, some, command),
    ]
    script, css = ((_HERE / file).read_text(encoding="utf-8") for file in ("script.js", "style.css"))
    return render(
        "page.html",
        name=name,
        lead=_lead(some),
        places=_PLACES,
        sections=sections,
        version=versions.get("mqlearn", ""),
        data_digest=record["data_digest"],
        provenance_id=PROVENANCE,
        provenance=Markup(maps.script_json(record)),
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        style=Markup(css),
    )


def _lead(some: Sequence[Subject]) -> str:
    def counted(n: int, what: str) -> str:
        return f"{n} {what}{'s' * (n != 1)}"

    rules = len({earlier_versions.public_name(one.run.settings["algorithm"]["_target_"]) for one in some})
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
        for found in one.run.findings:
            warned.setdefault(found.text, []).append(f"{one.panel}: {one.label}")
    listed = [[text, "; ".join(labels)] for text, labels in warned.items()]
    return render("troubles.html", rows=rows, warned=listed, notes=notes, count=len(some))


def _settings(some: Sequence[Subject], varied: Sequence[str], shared: Mapping[str, str]) -> Markup:
    flats = [(one, scientific(one.run.settings)) for one in some]
    several = len(by_panel(some)) > 1
    rows = [[one.label, *[one.panel] * several, *[flat.get(name, "–") for name in varied]] for one, flat in flats]
    head = ("run", *["block"] * several, *[name.removesuffix(".name") for name in varied]) if varied else ()
    return render("settings.html", head=head, rows=rows, shared=list(shared.items()))


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
    head = ("", "all runs") if len(kinds) == 1 else ("", *[f"set {i}" for i in range(1, len(kinds) + 1)])
    about = [f"Set {i}: {'; '.join(members)}." for i, members in enumerate(kinds.values(), 1)] if len(kinds) > 1 else []
    rows = [[name, *[str(dict(kind).get(name) or "not recorded") for kind in kinds]] for name in names]
    return render("versions.html", about=about, head=head, rows=rows)


def _commands(name: str, some: Sequence[Subject], command: str) -> Markup:
    commands: dict[str, int] = {}
    for one in some:
        line = str(one.run.summary.get("command") or "")
        if line:
            commands[line] = commands.get(line, 0) + 1
    made = [f"{line}    # {count} run{'s' * (count != 1)}" for line, count in commands.items()]
    digests = [(f"{one.panel}: {one.label}", one.run.digest) for one in some]
    return render("commands.html", lines="\n".join([*made, command]), digests=digests)
