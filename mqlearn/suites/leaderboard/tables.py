"""The leaderboard as text: 80 columns for a terminal, CSV, and LaTeX."""

import csv
import io
import shlex
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from mqlearn.analysis.comparison.verdict_table import escaped
from mqlearn.suites.definition import CHECKPOINTS
from mqlearn.suites.leaderboard import beside
from mqlearn.suites.leaderboard.board import by_reason, by_setting

_WIDTH = 80
_NAME = 18
_RULE, _EXPONENT, _MODELS = 17, 21, 3  # columns of a rule and of an exponent, and how many of these fit
EXPONENTS = (
    "Exponent of 1/(1-g), g the discount, in the samples to 1 % of the initial error, with its 95 % interval by "
    "bootstrap over seeds. The initial error may itself grow with 1/(1-g). * some discounts are left out, as at "
    "least half of the seeds never got there; –: so at the largest discount, or at all but two. Rules are tuned at "
    "each discount anew."
)
_COLUMNS = (
    "rule", "setting", "score", "low", "high", "rank", "improvement", "improvement_low", "improvement_high",
    "n_problems", "n_ranked", "of_problems", "better_than", "worse_than", "own", "rank_low", "rank_high", "tuned_over",
    "at_end",
)  # fmt: skip
_PER_PROBLEM = ("area", "score", "to_10", "reached_10", "to_1", "reached_1", "last", "over_floor")
_ENDS = ("", "_low", "_high")
_BESIDE = (*(f"over_certainty{end}" for end in _ENDS), "by_sample", "by_cpu", "cost")  # where there are such facts
_BESIDE_EACH = ("over_certainty", "by_cpu", "cost")


def terminal(found: Mapping[str, Any]) -> str:
    """At most 80 columns."""
    total = len(found["problems"])
    head = f"Suite {found['suite']}: {setting(found)}"
    about = (
        f"Score: the error over that of tuned {found['baseline']}, a geometric mean over log samples; interquartile "
        "mean over problems and seeds, 95 % interval by bootstrap over seeds. Less is better. P: how often a seed has "
        f"a smaller error than tuned {found['baseline']}. Won, lost: against how many rivals, over problems, "
        "at 5 % after Holm. * marks yours. n/m: the score is over n of m problems. "
        f"Rank: over {_ranked_over(found)}. "
        f"Tuned: the best of {found['n_settings']} settings, the same search for all rules; intervals do not redo it."
    )
    lines = [*textwrap.wrap(head, _WIDTH), *textwrap.wrap(about, _WIDTH), ""]
    lines.append(
        f"{'tuned':21} {'score':>7} {'95 % interval':>15} {'rank':>5} {'P':>4} {'won':>4} {'lost':>4} {'default':>7}"
    )
    default = {row["rule"]: row for row in by_setting(found, "default")}
    for place, row in enumerate(by_setting(found, "tuned"), 1):
        lines.append(_line(place, row, default[row["rule"]], total))
    lines += [*_beside(found), "", *_said(found), *_growth(found["growth"])]
    return "\n".join(lines)


def _beside(found: Mapping[str, Any]) -> list[str]:
    """A second table of the rules, of what is no part of the score; none without its facts."""
    rows = beside.told_of(found)
    if not rows:
        return []
    lines = ["", *textwrap.wrap(beside.words(found), _WIDTH), ""]
    lines.append(f"{'tuned':21} {'over CE':>8} {'95 % interval':>15} {'by sample':>10} {'by CPU':>8} {'cost':>8}")
    for place, row in enumerate(rows, 1):
        far = beside.far_of(row)
        between = "" if far["low"] is None else f"{_short(far['low']):>7} {_short(far['high']):>7}"
        name = f"{row['rule'][: _NAME - 1]}{'*' if row['own'] else ''}"
        times = f"{_short(row['by_sample']):>10} {_short(row['by_cpu']):>8} {_short(row['cost']):>8}"
        lines.append(f"{place:2} {name:{_NAME}} {_short(far['value']):>8} {between:15} {times}")
    return lines


def setting(found: Mapping[str, Any]) -> str:
    """How many problems and seeds a suite has, and what its problems are run with."""
    return (
        f"{_counted(len(found['problems']), 'problem')}, {_counted(found['n_seeds'], 'seed')}, "
        f"{_of_all(found, 'budget')} samples, {_of_all(found, 'sampling')} sampling{clock(found)}, "
        f"{_of_all(found, 'reward')} reward, {_of_all(found, 'metric')}{_tuning_budget(found)}"
    )


def clock(found: Mapping[str, Any]) -> str:
    """The clock of the step sizes, where the sampling has one."""
    clocks = dict.fromkeys(problem["clock"] for problem in found["problems"] if problem["clock"])
    return f" ({' and '.join(clocks)} clock)" if clocks else ""


def _tuning_budget(found: Mapping[str, Any]) -> str:
    """The samples of a seed that tunes, where they are fewer."""
    fewer = any(problem["tuning_budget"] != problem["budget"] for problem in found["problems"])
    return f"; tuned on {_of_all(found, 'tuning_budget')} samples" if fewer else ""


def _ranked_over(found: Mapping[str, Any]) -> str:
    n = max(row["n_ranked"] for row in found["rules"])
    return f"the {_counted(n, 'problem')} that all ran on, rules that missed more than half apart"


def _of_all(found: Mapping[str, Any], key: str) -> str:
    """The values that the problems of a suite have there, each once."""
    values = dict.fromkeys(problem[key] for problem in found["problems"])
    return " and ".join(f"{value:,}" if isinstance(value, int) else str(value) for value in values)


def _line(place: int, row: Mapping[str, Any], default: Mapping[str, Any], total: int) -> str:
    name = f"{row['rule'][: _NAME - 1]}{'*' if row['own'] else ''}"
    start = f"{place:2} {name:{_NAME}}"
    if row["score"] is None:
        return f"{start} ran on no problem of the baseline's"
    between = "" if row["low"] is None else f"{_short(row['low']):>7} {_short(row['high']):>7}"
    few = "" if row["n_problems"] == total else f" {row['n_problems']}/{total}"
    won, lost = len(row["better_than"]), len(row["worse_than"])
    rank = "–" if row["rank"] is None else f"{row['rank']:.1f}"
    chance = "–" if row["improvement"]["p"] is None else f"{row['improvement']['p']:.2f}"
    return (
        f"{start} {_short(row['score']):>7} {between:15} {rank:>5} {chance:>4} {won:4} {lost:4} "
        f"{_short(default['score']):>7}{few}"
    )


def _said(found: Mapping[str, Any]) -> list[str]:
    total = len(found["problems"])
    texts = [f"note: {note}" for note in found["notes"]]
    if found["conclusive"]:
        texts.append(f"Nobody beats: {', '.join(found['unbeaten'])}.")
    if found["not_run"]:
        texts.append("By kind of problem, of the rules that ran on all:")
    for kind, one in found["kinds"].items():
        text = f"{kind.capitalize()} ({_counted(one['problems'], 'problem')}): first {', '.join(one['order'][:3])}"
        if one["changed"]:
            pairs = [f"{better} before {worse}" for better, worse in one["changed"][:4]]
            more = f" and {len(one['changed']) - 4} more" if len(one["changed"]) > 4 else ""
            text += f"; unlike elsewhere {', '.join(pairs)}{more}"
        texts.append(text + ".")
    texts += [*turned(found), *searched(found)]
    texts += _not_run("Not run", found["not_run"], total)
    texts += _not_run("Not run by default", found["not_run_by_default"], total)
    return [line for text in texts for line in textwrap.wrap(text, _WIDTH, subsequent_indent="  ")]


def turned(found: Mapping[str, Any]) -> list[str]:
    """Pairs whose scores are over different problems and which stand the other way round on those that both ran on."""
    rows = {row["rule"]: (place, row["n_problems"]) for place, row in enumerate(by_setting(found, "tuned"))}
    texts = []
    for pair in found["common"]:
        (first, n_first), (second, n_second) = rows[pair["a"]], rows[pair["b"]]
        a_leads = pair["high"] < 1
        if n_first == n_second or not (a_leads or pair["low"] > 1) or a_leads == (first < second):
            continue
        ahead, behind = (pair["a"], pair["b"]) if a_leads else (pair["b"], pair["a"])
        texts.append(f"{ahead} before {behind} on the {_counted(pair['problems'], 'problem')} that both ran on.")
    return texts


def searched(found: Mapping[str, Any]) -> list[str]:
    """What an own rule was tuned over, and how many choices lie at an end of what was tried, or at a limit of ours."""
    texts = [
        f"{rule} was tuned over {', '.join(found['tuned_over'][rule]) or 'nothing: it ran as it is'}."
        for rule in (row["rule"] for row in by_setting(found, "tuned") if row["own"])
    ]
    ends = found["at_end"]
    if ends["at_end"]:
        rules = ", ".join(f"{rule} {count}" for rule, count in ends["rules"].items())
        count = f"{ends['at_end']} of {ends['choices']} choices"
        texts.append(f"{count} lie at an end of what was tried that no limit sets: {rules}.")
    limit = found["at_limit"]
    if limit["ours"]:
        rules = ", ".join(f"{rule} {count}" for rule, count in limit["rules"].items())
        count = f"{limit['ours']} of {ends['choices']} choices"
        texts.append(f"{count} lie at a limit that we set, which is not of theory: {rules}.")
    return texts


def _growth(growth: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of the exponents, a line a rule and a column a model; none without models at several discounts."""
    told, models = exponents(growth)
    lines = []
    for start in range(0, len(models), _MODELS):
        columns = models[start : start + _MODELS]
        lines += ["", f"{'':{_RULE}}" + "".join(f"{model[: _EXPONENT - 1]:>{_EXPONENT}}" for model in columns)]
        for rule in dict.fromkeys(rule for rule, _ in told):
            cells = [exponent(told.get((rule, model))) for model in columns]
            line = f"{rule[:_RULE]:{_RULE}}" + "".join(f"{cell:>{_EXPONENT}}" for cell in cells)
            lines.append(line.rstrip())
    return ["", *textwrap.wrap(EXPONENTS, _WIDTH), *lines] if told else []


def exponents(growth: Sequence[Mapping[str, Any]]) -> tuple[dict[tuple[str, str], Mapping[str, Any]], list[str]]:
    """The growth of the samples to 1 % by rule and model, and the models."""
    told = {(one["rule"], one["model"]): one for one in growth if one["level"] == 0.01}
    return told, list(dict.fromkeys(model for _, model in told))


def exponent(one: Mapping[str, Any] | None) -> str:
    """The cell of a rule and a model in that table."""
    if one is None or one["exponent"] is None:
        return "–"
    ends = " ".join("–" if one[key] is None else f"{one[key]:.2f}" for key in ("low", "high"))
    return f"{one['exponent']:.2f} [{ends}]{' ' if one['discounts'] == one['of'] else '*'}"


def _not_run(start: str, not_run: Mapping[str, Mapping[str, str]], total: int) -> list[str]:
    """A sentence for all rules that did not run on the same problems for the same reasons."""
    alike: dict[tuple, list[str]] = {}
    for rule, reasons in not_run.items():
        alike.setdefault(tuple(reasons.items()), []).append(rule)
    texts = []
    for reasons, rules in alike.items():
        told = [
            f"{'all problems' if len(problems) == total else ' | '.join(problems)}: {reason}"
            for reason, problems in by_reason(dict(reasons)).items()
        ]
        texts.append(f"{start}, so not in the means of {', '.join(rules)}: {'; '.join(told)}.")
    return texts


def scores_matrix(found: Mapping[str, Any]) -> str:
    """CSV for other statistics packages: a row for each rule, setting and seed, a column for each problem.

    A score is the error over that of the tuned baseline on the same seed; empty where either did not run.
    """
    problems = [one["problem"] for one in found["problems"]]
    rows: dict[tuple[str, str, int], dict[str, Any]] = {}
    for one in found["scores"]:
        rows.setdefault((one["rule"], one["league"], one["seed"]), {})[one["problem"]] = one["score"]
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["rule", "setting", "seed", *problems])
    for key, scores in rows.items():
        writer.writerow([*key, *(scores.get(problem) for problem in problems)])
    return buffer.getvalue()


def comma_separated(found: Mapping[str, Any]) -> str:
    """CSV: the leaderboard, then after an empty line a row for each rule, setting and problem."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    has = bool(beside.told_of(found))
    columns, each = (*_COLUMNS, *_BESIDE * has), (*_PER_PROBLEM, *_BESIDE_EACH * has)
    writer.writerow(columns)
    for row in found["rules"]:
        chance, far = row["improvement"], beside.far_of(row)
        told = {
            **row, "of_problems": len(row["problems"]), "improvement": chance["p"],
            "improvement_low": chance["low"], "improvement_high": chance["high"],
            **{name: " ".join(row[name]) for name in ("better_than", "worse_than")}, "tuned_over": "", "at_end": "",
            **{f"over_certainty{end}": far[key] for end, key in zip(_ENDS, ("value", "low", "high"), strict=True)},
        }  # fmt: skip
        if row["setting"] == "tuned":
            told["tuned_over"] = " ".join(found["tuned_over"][row["rule"]])
            told["at_end"] = found["at_end"]["rules"].get(row["rule"], 0)
        writer.writerow([told[name] for name in columns])
    buffer.write("\n")
    writer.writerow(["rule", "setting", "problem", *each, "overrides", "reason", "at_end"])
    for row in found["rules"]:
        for problem, one in row["problems"].items():
            values = [one.get(name) for name in each]
            overrides = " ".join(one.get("setting", []))
            ends = " ".join(one.get("at_end", []))
            writer.writerow([row["rule"], row["setting"], problem, *values, overrides, one.get("reason"), ends])
    return buffer.getvalue()


def latex(found: Mapping[str, Any]) -> str:
    """A table for a paper; it needs the package booktabs."""
    total = len(found["problems"])
    caption = (
        f"Error relative to tuned {escaped(found['baseline'])} (geometric mean over log samples; interquartile mean "
        f"over {total} problems and {found['n_seeds']} seeds, 95\\,\\% interval), mean rank with its interval (over "
        f"{_ranked_over(found)}), and numbers of rules that it beats and loses to (signed-rank test over problems, "
        f"Holm, 5\\,\\%). Suite {escaped(found['suite'])}, {_of_all(found, 'budget')} samples, "
        f"{_of_all(found, 'sampling')} sampling{clock(found)}; each rule at the best of {found['n_settings']} settings."
    )
    lines = [
        r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", r"\begin{tabular}{lrlrrr}",
        r"\toprule", r"rule & score & interval & rank & beats & loses \\", r"\midrule",
    ]  # fmt: skip
    for row in by_setting(found, "tuned"):
        if row["score"] is None:
            lines.append(rf"{escaped(row['rule'])} & -- & & & & \\")
            continue
        between = "" if row["low"] is None else f"[{_short(row['low'])}, {_short(row['high'])}]"
        beats, loses = len(row["better_than"]), len(row["worse_than"])
        score, rank = _short(row["score"]), ranked(row)
        lines.append(rf"{escaped(row['rule'])} & {score} & {between} & {rank} & {beats} & {loses} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def ranked(row: Mapping[str, Any]) -> str:
    """The mean rank with its interval; a dash for a rule that missed more than half of the problems."""
    if row["rank"] is None:
        return "–"
    return f"{row['rank']:.1f} [{row['rank_low']:.1f}, {row['rank_high']:.1f}]"


def _short(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}" if value >= 0.001 else f"{value:.1e}"


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def command(
    problem: Mapping[str, Any], cell: Mapping[str, Any], seeds: Mapping[str, int], config_dir: str | None
) -> str | None:
    """The command that makes a cell a run of its own; None for a rule that is an object, which no overrides choose."""
    if not cell["rule"]:
        return None
    folder = ["--config-dir", config_dir] if config_dir else []
    length = [f"iterations={cell['iterations']}", f"n_checkpoints={CHECKPOINTS + 1}"]
    seed = [f"seed={seeds['reporting_seed']}", f"n_seeds={seeds['reporting']}"]
    return shlex.join(
        ["mqlearn", "run", *folder, *problem["overrides"], *cell["rule"], *cell["setting"], *length, *seed]
    )
