"""The stored leaderboards: a page each, and what each says of one rule and of one problem."""

import csv
import functools
import io
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from docs_site import markdown
from docs_site.readmes import ROOT, copied, relative
from mqlearn.paths import CONF

PAPER = ROOT / "outputs" / "paper"
_COLUMNS = 7  # rules beside each other: a sheet of paper has no more room
ORDER = ("classic", "paper", "discount", "markovian", "linear")
TITLES = {
    "classic": "Problems of the literature",
    "paper": "Problems of the paper",
    "discount": "Growing discounts",
    "markovian": "One trajectory",
    "linear": "Linear features",
}


class Board(NamedTuple):
    """A stored leaderboard: its suite's yaml; `rules` and `cells`, of rules by problems, are the rows of its CSV."""

    suite: str
    about: str
    content: dict[str, Any]
    rules: list[dict[str, str]]
    cells: list[dict[str, str]]

    def of(self, rule: str, setting: str = "tuned") -> dict[str, str] | None:
        return next((row for row in self.rules if (row["rule"], row["setting"]) == (rule, setting)), None)

    def place(self, rule: str, setting: str = "tuned") -> int:
        """The place of a rule by its score, 1 for the best."""
        ranked = [row["rule"] for row in self.rules if row["setting"] == setting and row["score"]]
        return ranked.index(rule) + 1 if rule in ranked else 0

    def problems(self) -> list[str]:
        return [*dict.fromkeys(cell["problem"] for cell in self.cells)]

    def on(self, problem: str, setting: str = "tuned") -> list[dict[str, str]]:
        """The cells of a problem that were run, best first."""
        some = [c for c in self.cells if (c["problem"], c["setting"]) == (problem, setting) and c["area"]]
        return sorted(some, key=lambda cell: float(cell["area"]))


@functools.cache
def boards() -> tuple[Board, ...]:
    """All that are stored. Raises FileNotFoundError for a suite without one."""
    names = [file.stem for file in (CONF / "suite").glob("*.yaml")]
    return tuple(_read(name) for name in sorted(names, key=lambda n: ORDER.index(n) if n in ORDER else len(ORDER)))


def _read(suite: str) -> Board:
    text = (CONF / "suite" / f"{suite}.yaml").read_text(encoding="utf-8")
    about = " ".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    above, _, below = (PAPER / f"bench_{suite}.csv").read_text(encoding="utf-8").partition("\n\n")
    rows = [[*csv.DictReader(io.StringIO(part))] for part in (above, below)]
    return Board(suite, about, yaml.safe_load(text), *rows)


def of_rule(rule: str) -> list[list[str]]:
    """A row for each board: board, place, score, interval, mean rank, problems."""
    rows = []
    for board in boards():
        link = f"[{board.suite}](../boards/{board.suite}.md)"
        row = board.of(rule)
        if row is None:
            rows.append([link, "not in it", "", "", "", ""])
        elif not row["score"]:
            rows.append([link, "did not run", "–", "–", "–", f"0 of {row['of_problems']}"])
        else:
            n = sum(1 for one in board.rules if one["setting"] == "tuned" and one["score"])
            ran = f"{row['n_problems']} of {row['of_problems']}"
            rows.append([link, f"{board.place(rule)} of {n}", *_score(row), _rank(row), ran])
    return rows


def of_problem(name: str) -> list[tuple[Board, str]]:
    """The boards that have a problem of conf/env, with its name there."""
    chosen = f"env={name}"
    return [(b, problem) for b in boards() for problem, over in b.content["problems"].items() if chosen in over]


def pages(to: Path, rules: set[str], environments: set[str]) -> dict[str, str]:
    """Page -> text. rules, environments: those that have a page."""
    made = {f"boards/{board.suite}.md": _page(board, to, rules, environments) for board in boards()}
    rows = []
    for board in boards():
        first = [row["rule"] for row in board.rules if row["setting"] == "tuned"][:3]
        content = board.content
        rows.append([f"[{board.suite}]({board.suite}.md)", TITLES.get(board.suite, ""), len(content["problems"]),
                     ", ".join(_rule(one, rules) for one in first)])  # fmt: skip
    made["boards/index.md"] = "\n".join([
        "# Leaderboards\n",
        "A suite runs every rule on many problems. The numbers of each rule are tuned on seeds of their own and "
        "reported on others. These are stored with mqlearn, so that a rule of yours is ranked among them by running "
        "it alone: [suites and the leaderboard](../guide/analysis.md#suites-and-the-leaderboard).\n",
        markdown.table(["board", "what it asks", "problems", "best three, tuned"], rows, left=4),
        markdown.toctree(board.suite for board in boards()),
    ])  # fmt: skip
    return made


def _page(board: Board, to: Path, rules: set[str], environments: set[str]) -> str:
    content, suite = board.content, board.suite
    here = f"boards/{suite}.md"
    files = {
        end: relative(here, copied(f"outputs/paper/bench_{suite}.{end}", to)) for end in ("html", "csv", "tex", "png")
    }
    seeds = content["seeds"]
    parts = [
        f"# {TITLES.get(suite, suite)}\n\nThe suite `{suite}`.\n",
        markdown.text(board.about) + "\n",
        f"Every rule is tuned on {seeds['tuning']} seeds and reported on {seeds['reporting']} others. The score is "
        "the error relative to tuned `q_learning`, a geometric mean over log samples: the interquartile mean over "
        "problems and seeds, with its 95 % interval by bootstrap over seeds. Below 1 is better. Beats and loses count "
        "the rules that differ by a signed-rank test over problems (Holm, 5 %). The mean rank is over the problems "
        "that all rules ran on, but those that missed more than half.\n",
        f"Made by `scripts/reproduce bench {suite}`. More: [the whole leaderboard, with the settings that were chosen "
        f"and the commands]({files['html']}), as [CSV]({files['csv']}) and as [LaTeX]({files['tex']}).\n",
        f"![Performance profiles, and errors of rules by problems, of the suite {suite}]({files['png']})\n",
        "## Tuned\n",
        _standing(board, "tuned", rules),
        "## With the settings of its source\n",
        _standing(board, "default", rules),
        "## By problem\n",
        "The error of each tuned rule relative to tuned `q_learning`; a dash: it did not run there.\n",
        _by_problem(board, rules, environments),
    ]
    return "\n".join(parts)


def _standing(board: Board, setting: str, rules: set[str]) -> str:
    rows = [
        [_rule(row["rule"], rules), *_score(row), _rank(row), f"{row['n_problems']} of {row['of_problems']}",
         len(row["better_than"].split()), len(row["worse_than"].split())]
        for row in board.rules if row["setting"] == setting
    ]  # fmt: skip
    return markdown.table(["rule", "score", "95 % interval", "mean rank", "problems", "beats", "loses"], rows)


def _by_problem(board: Board, rules: set[str], environments: set[str]) -> str:
    names = [row["rule"] for row in board.rules if row["setting"] == "tuned"]
    told = {(c["problem"], c["rule"]): c["score"] for c in board.cells if c["setting"] == "tuned"}
    links = {}
    for problem in board.problems():
        env = environment(board, problem)
        links[problem] = f"[{problem}](../problems/{env}.md)" if env in environments else problem
    tables = []
    for start in range(0, len(names), _COLUMNS):
        some = names[start : start + _COLUMNS]
        rows = [[link, *[_short(told.get((problem, name), "")) for name in some]] for problem, link in links.items()]
        tables.append(markdown.table(["problem", *[_rule(name, rules) for name in some]], rows))
    return "\n".join(tables)


def environment(board: Board, problem: str) -> str:
    """The problem's choice of conf/env."""
    given = [*board.content.get("base", []), *board.content["problems"].get(problem, [])]
    return next((one.partition("=")[2] for one in reversed(given) if one.startswith("env=")), "frozen_lake_4x4")


def _rule(name: str, rules: set[str]) -> str:
    return f"[`{name}`](../rules/{name}.md)" if name in rules else f"`{name}`"


def _score(row: dict[str, str]) -> tuple[str, str]:
    interval = f"[{_short(row['low'])}, {_short(row['high'])}]" if row["low"] else "–"
    return _short(row["score"]), interval


def _rank(row: dict[str, str]) -> str:
    return f"{float(row['rank']):.1f}" if row["rank"] else "–"


def _short(value: str) -> str:
    if not value:
        return "–"
    return f"{float(value):.3g}" if float(value) >= 0.001 else f"{float(value):.1e}"
