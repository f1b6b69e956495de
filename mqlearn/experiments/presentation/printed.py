"""A run in lines for the terminal: what is said of it, and what it is when it has ended."""

import shlex
import sys
from collections.abc import Iterable
from typing import Any

from mqlearn.finding import Finding


def warn(findings: Iterable[Finding]) -> None:
    """Findings on standard error, a line each."""
    for found in findings:
        sys.stderr.write(f"warning: {found.text}\n")


def describe(run_done: Any) -> str:
    """What is printed when a run ends."""
    from mqlearn.experiments.settings.override_commands import written

    summary = run_done.summary
    outcome = f", {summary['outcome']}" if "outcome" in summary else ""
    clock = f", {summary['clock']} clock" if "clock" in summary else ""
    lines = [f"{run_done.name}{clock}: {run_done.status}{outcome}, {summary['seconds']:.2f} s of learning"]
    n_seeds = run_done.settings["n_seeds"]
    for metric, final in summary["final"].items():
        if final["mean"] is None:
            continue
        interval = _interval(final)
        left = final["n_finite"]
        fewer = "" if left == n_seeds else f"  of {left} of {n_seeds} seeds"
        lines.append(f"  {metric:14} {final['mean']:.6g}  {interval}{fewer}")
    if summary["final"]:
        gone = len(run_done.diverged)
        every = f"{n_seeds} seed{'s' * (n_seeds != 1)}"
        seeds = f"the {n_seeds - gone} of {every} that did not diverge" if gone else every
        lines.append(f"  at k = {run_done.settings['iterations']}: mean, 95 % interval of the mean, {seeds}")
        lines += _estimated(run_done)
    operator = summary.get("operator") or {}
    if operator and "fixed_point" not in operator:
        lines.append(f"  no model, so no fixed point of {operator['name']} to measure errors from")
    elif operator:
        where = f"{operator['distance_to_q_star']:.4g} from Q*, residual {operator['residual']:.2g}"
        lines.append(f"  errors are from the fixed point of {operator['name']}, {operator['fixed_point']}: {where}")
    if "effective_horizon" in summary:
        discount, horizon = run_done.settings["discount"], f"{summary['effective_horizon']:.4g} whole steps a pair"
        wanted = f"; 1/(1 - discount) = {1 / (1 - discount):.4g}" if discount < 1 else ""
        lines.append(f"  effective horizon of the step sizes: {horizon}{wanted}")
    for seed, step in run_done.diverged.items():
        lines.append(f"  seed {seed} diverged at step {step}")
    lines.append(f"  folder {run_done.folder}")
    if summary["mlflow_run_id"]:
        uri, experiment = (
            run_done.settings[group][key] for group, key in (("tracking", "uri"), ("experiment", "name"))
        )
        named = [f"experiment.name={written(experiment)}", *([f"tracking.uri={uri}"] if uri else [])]
        viewer = shlex.join(["mqlearn", "ui", *named])
        lines.append(f"  MLflow run {summary['mlflow_run_id']}; `{viewer}` shows it")
    return "\n".join(lines)


def _interval(final: dict[str, Any]) -> str:
    """The interval of a mean in words: seeds that all have one value, as without chance, have no spread."""
    low, high = final["low"], final["high"]
    if low is None:
        return "no interval"
    if high - low <= 1e-12 * abs(final["mean"]):
        return f"no spread: the same in all {final['n_finite']} seeds"
    return f"[{low:.4g}, {high:.4g}]"


def _estimated(run_done: Any) -> list[str]:
    """Without a model the expected return is an estimate, of the episodes that are played at each checkpoint."""
    episodes = run_done.settings["evaluation"]["episodes"]
    if "expected_return" not in run_done.summary["final"] or "optimum" in run_done.summary or not episodes:
        return []
    return [f"  expected_return: the mean of {episodes} greedy episodes of each seed, as there is no model"]
