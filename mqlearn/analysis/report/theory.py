"""What theory predicts of the runs of a report, beside what they measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from mqlearn.analysis import predictions
from mqlearn.analysis.cases import case_of, largest_error
from mqlearn.analysis.report import theory_rates
from mqlearn.analysis.report.markup import number, render
from mqlearn.analysis.report.subjects import Subject, by_panel
from mqlearn.errors import SettingError
from mqlearn.theory import tables

_MOST = 40  # runs of a panel
_HEAD = (
    "run", "predicted", "measured", "floor", "predicted/floor", "measured/floor", "covered by", "bound at the end",
)  # fmt: skip


def of(some: Sequence[Subject]) -> Markup:
    """The section: for each block of comparable runs, a row a run with constants, then bounds of theta and slopes."""
    blocks, rates = [], []
    for panel, members in by_panel(some).items():
        if (block := theory_rates.of(panel, members, _MOST)) is not None:
            rates.append(block)
        known = [one for one in members if _has_constants(one)]
        if known:
            found = [(one, *_predicted(one)) for one in known[:_MOST]]
            blocks.append(
                {
                    "rows": [_row(one, row, facts) for one, row, facts in found],
                    "caption": f"{panel}: error times √k at the last checkpoint, root mean square over pairs and seeds",
                    "said": [*_said(found), *_untold(len(known))],
                }
            )
    tables = {"head": _HEAD, "blocks": blocks, "rates_head": theory_rates.HEAD, "rates": rates}
    return render("theory.html", **tables, left=sum(not _has_constants(one) for one in some))


def _has_constants(one: Subject) -> bool:
    return (
        one.mdp is not None
        and one.cell is not None
        and tables.uncovered(case_of(one.cell)) is None
        and "q_error_l2" in one.run.curves
        and 0 < int(one.mdp.counted.sum()) <= theory_rates.LARGEST
        and int(one.run.curves["iteration"][-1]) > 0
    )


def _predicted(one: Subject) -> tuple[dict[str, Any], dict[str, Any]]:
    """The asymptotic row of a run's rule, and what else is known of it: measured error, theorem, bounds."""
    assert one.cell is not None and one.mdp is not None
    case = case_of(one.cell)
    try:
        row = tables.asymptotic_row(case)
    except SettingError as error:
        row = {"reason": str(error)}
    measured = predictions.measured_at_the_end(one.run, int(one.mdp.counted.sum()), case.rule.averaged)
    end = one.run.curves["iteration"][-1:]
    bounds = tables.table_bounds(case, end, largest_error(one.run))
    return row, {"measured": measured, "bounds": bounds, "schedule": tables.schedule(case)}


def _row(one: Subject, row: Mapping[str, Any], facts: Mapping[str, Any]) -> list[Any]:
    root = facts["measured"]["iteration"] ** 0.5
    floor, theory = row.get("floor_rms_sqrt_k"), row.get("rms_sqrt_k")
    seen = facts["measured"]["rms"] * root if "rms" in facts["measured"] else None
    covered = facts["schedule"]
    bounds = "; ".join(
        f"{each.name} {number(float(each.values[-1]))}{' (vacuous)' * bool(each.vacuous[-1])}"
        for each in facts["bounds"]
    )
    approximate = "≈ " if row.get("approximate") and row["reason"] is None else ""
    return [
        one.label,
        approximate + number(theory),
        number(seen),
        number(floor),
        number(theory / floor if theory is not None and floor else None),
        number(seen / floor if seen is not None and floor else None),
        covered.name if covered.verdict == "holds" else "–",
        bounds or "–",
    ]


def _untold(n: int) -> list[str]:
    """What is said of the runs beyond those that a table holds."""
    return [f"The first {_MOST} of {n} runs are told."] * (n > _MOST)


def _said(found: Sequence[tuple[Subject, Mapping[str, Any], Mapping[str, Any]]]) -> list[str]:
    """Why predictions are missing or approximate, each reason once with its runs."""
    reasons: dict[str, list[str]] = {}
    for one, row, _ in found:
        if row["reason"] is not None:
            reasons.setdefault(f"Without a prediction, {row['reason']}", []).append(one.label)
        elif row["approximate"]:
            n = row["tied_states"]
            tied = f"optimal actions tie in {n} state{'s' * (n != 1)} and share equally here"
            reasons.setdefault(f"≈ approximate, as {tied}", []).append(one.label)
    return [f"{reason}: {'; '.join(labels)}." for reason, labels in reasons.items()]
