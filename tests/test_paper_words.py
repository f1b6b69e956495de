"""What pages say of claims and times is what the stored data say: every count in words, and no time of their own."""

import importlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqlearn.analysis.claims.checks import FAILS, HOLDS, OPEN
from mqlearn.analysis.claims.criteria import interval_within

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "outputs" / "paper"
PAPER = (FOLDER / "README.md").read_text(encoding="utf-8")
CLAIMS = {row["claim"]: row for row in json.loads((FOLDER / "claims.json").read_text(encoding="utf-8"))}


class Checks(list[dict[str, Any]]):
    """Stored checks, narrowed down by conditions: a value, several, or a test of it."""

    def __call__(self, **conditions: Any) -> "Checks":
        def meets(check: dict[str, Any], name: str, wanted: Any) -> bool:
            value = check["conditions"].get(name)
            if callable(wanted):
                return bool(wanted(value))
            return value in wanted if isinstance(wanted, tuple) else value == wanted

        return Checks(one for one in self if all(meets(one, *wanted) for wanted in conditions.items()))

    def number(self, outcome: str) -> int:
        return sum(one["outcome"] == outcome for one in self)

    @property
    def share(self) -> str:
        return f"{self.number(HOLDS)} of {len(self)}"

    @property
    def fails(self) -> int:
        return self.number(FAILS)

    def range(self, name: str, digits: int = 2) -> tuple[str, str]:
        values = [one[name] for one in self]
        return f"{min(values):.{digits}g}", f"{max(values):.{digits}g}"


def of(name: str, **conditions: Any) -> Checks:
    return Checks(CLAIMS[name]["evidence"])(**conditions)


def m_at_most(limit: float) -> Callable[[str], bool]:
    """Rules MomentumQ m=... up to a limit, shifted or not."""
    return lambda rule: float(re.findall(r"m=([\d.]+)", rule)[0]) <= limit


def momentum_vs_q_learning() -> list[str]:
    plain, rescaled = (of("momentum_vs_q_learning", rival=x) for x in ("Q-learning", "Q-learning, rescaled linear"))
    assert all(one["conditions"]["k"] == "955" and one["conditions"]["discount"] == "0.9" for one in plain
               if one["outcome"] != HOLDS)  # fmt: skip
    return [
        f"faster in {plain.share} checks",
        f"k = 955 and discount 0.9 ({plain.fails} the other way)",
        f"faster in {rescaled.share}, and slower in {rescaled.fails}",
    ]


def momentum_vs_speedy_q() -> list[str]:
    azar, printed = (of("momentum_vs_speedy_q", rival=x) for x in ("SpeedyQ", "SpeedyQ, as printed"))
    assert printed(map="8x8", k="955").number(HOLDS) == printed.number(HOLDS)
    return [
        f"faster in {azar.share} checks and slower in {azar.fails}",
        f"faster in {printed.share}, all on 8x8 at k = 955, and slower in {printed.fails}",
    ]


def momentum_vs_nesa() -> list[str]:
    error, spread = (
        of("momentum_vs_nesa", quantity=x) for x in ("error below 1.25 times NeSA's", "spread below NeSA's")
    )
    early, later = ({"k": "955"}, {"k": ("9770", "100000")})
    near, far = (error(discount=x, **early) for x in ("0.9", "0.99"))
    narrow, wide = (spread(discount=x, **early) for x in ("0.9", "0.99"))
    return [
        f"in {far.share} checks at discount 0.99 and in {near.share} at 0.9 ({near.fails} the other way)",
        f"its spread is smaller in {wide.share} and {narrow.share}",
        f"{error(**later).share} in error ({error(**later).fails} the other way) and {spread(**later).share} in spread "
        f"({spread(**later).fails} the other way)",
    ]


def speedy_q_overshoots() -> list[str]:
    initial, peak, less = (
        of("speedy_q_overshoots", quantity=x)
        for x in ("SpeedyQ exceeds the initial error", "SpeedyQ exceeds Q-learning's peak",
                  "MomentumQ overshoots less than SpeedyQ")
    )  # fmt: skip
    printed, azar = {"rule": "SpeedyQ, as printed"}, {"rule": "SpeedyQ"}
    return [
        f"exceeds its initial error in {initial(**printed).share} cases",
        f"and Q-learning's peak in {peak(**printed).share}",
        f"Azar's in {initial(**azar).share} and {peak(**azar).share}",
        f"less than SpeedyQ in {less.share} checks, and more in {less.fails}",
    ]


def any_m_converges() -> list[str]:
    every = of("any_m_converges")
    assert {one["conditions"]["rule"] for one in every if one["outcome"] != HOLDS} == {"MomentumQ m=100 not shifted"}
    return [f"{every.share} checks hold"]


def any_m_accelerates() -> list[str]:
    every = of("any_m_accelerates")

    def m(value: int, after: str = "") -> Checks:
        return every(rule=f"MomentumQ m={value}{after}")

    bare, larger = " not shifted", [m(value) for value in (50, 100, 500, 2000)]
    assert {len(one) for one in larger} == {6}
    holding = [one.number(HOLDS) for one in larger]
    return [
        f"m up to 20 does in {every(rule=m_at_most(20)).share} checks",
        f"m = 50, 100, 500 and 2000 do in {', '.join(map(str, holding[:-1]))} and {holding[-1]} of 6",
        f"m = 50 does in {m(50, bare).share}, and m = 100 in {m(100, bare).share} ({m(100, bare).fails} the other way)",
    ]


def theorem_1() -> list[str]:
    shape, nearer = (
        of("theorem_1", quantity=x) for x in ("exponential rather than a power of k", "a smaller step ends nearer")
    )
    return [f"power of k in {shape.share} cases", f"ends at {' to '.join(nearer.range('ratio'))} of the error"]


def theorem_2() -> list[str]:
    return [f"(slopes {' to '.join(of('theorem_2').range('slope'))}, the theorem has -0.5)"]


def theorem_3() -> list[str]:
    rate = of("theorem_3", quantity="rate")
    bound = of("theorem_3", quantity=("bound as printed", "bound corrected"))
    assert all(one["vacuous"] for one in bound)
    assert 2 * len(rate(rule=m_at_most(10))) == len(rate)
    return [
        f"seen in {rate.share} cases (slopes {' to '.join(rate.range('slope'))}); half of them have shifted steps",
        f"The bound holds in {bound.share}",
        f"at least {bound.range('smallest_bound_over_initial_error')[0]} times the initial error",
    ]


def replay_vs_markovian() -> list[str]:
    every = of("replay_vs_markovian")
    (better,) = (one for one in every if one["outcome"] == HOLDS)
    assert (
        better["metric"] == "theta_error" and better["at"] == 12_000_000 and better["conditions"]["step"] == "constant"
    )
    left = Checks(one for one in every if one["outcome"] == OPEN)
    return [
        f"In {every.share} checks replay is better",
        f"by {100 * (1 - better['ratio']):.0f} %",
        f"In the other {len(left)} no difference is shown (ratios {' to '.join(left.range('ratio'))})",
    ]


def nesa_approximates_polsa() -> list[str]:
    assert all(one["outcome"] == HOLDS for one in of("nesa_approximates_polsa", discount="0.9", k=("9770", "100000")))
    near, far = (of("nesa_approximates_polsa", rule="NeSA", k="955", discount=x) for x in ("0.9", "0.99"))
    assert not of("nesa_approximates_polsa", rule="NeSA", discount="0.99").number(HOLDS)
    return [f"{' to '.join(near.range('ratio'))} times at 0.9 and {' to '.join(far.range('ratio'))} times at 0.99"]


def optimal_covariance() -> list[str]:
    scalar, floor = (
        of("optimal_covariance", quantity=x)
        for x in ("less error than scalar gains", "error below 1.2 times that of the least covariance")
    )
    left = Checks(one for one in floor if one["outcome"] != HOLDS)
    assert {one["conditions"]["discount"] for one in left} == {"0.99"}
    polsa, (zap,) = left(rule="PolSA zeta=0.1"), left(rule="Zap")
    assert len(polsa) + 1 == len(left) and zap["conditions"]["reward"] == "sampled"
    return [
        f"scalar gains in {scalar.share} checks",
        f"least covariance in {floor.share}.",
        f"({' and '.join(polsa.range('ratio_to_floor'))} times, {polsa.fails} the other way)",
        f"({zap['ratio_to_floor']:.2g} times, interval up to {zap['high']:.3g})",
    ]


def linear_momentum_matched() -> list[str]:
    at_all, faster, slower = (
        of("linear_momentum_matched", quantity=x) for x in ("faster at all", "faster by 5 %", "no slower by 5 %")
    )
    gain = at_all(**{"measured by": "theta_error", "sampling": "Markovian"})
    rest = Checks(one for one in at_all if one not in gain)
    assert rest.number(OPEN) == len(rest)
    equal = [a["outcome"] == FAILS and b["outcome"] == HOLDS for a, b in zip(faster, slower, strict=True)]
    (unshown,) = (one for one in faster if one["outcome"] == OPEN)
    assert unshown["conditions"] | {"step": "diminishing", "sampling": "Markovian", "k": "3000000",
                                    "measured by": "return_uniform"} == unshown["conditions"]  # fmt: skip
    return [
        f"faster by at most {100 * (1 - min(one['ratio'] for one in gain)):.1f} %",
        f"Markovian sampling ({gain.share})",
        f"no difference is shown ({rest.number(OPEN)} of {len(rest)})",
        f"no slower by 5 % in {slower.share} checks",
        f"shown not to be faster by 5 % in {faster.fails} of {len(faster)}",
        f"equal within 5 % in {sum(equal)} of {len(equal)}",
        f"{unshown['ratio']:.4g} times the return",
        f"(p = {unshown['p_corrected']:.3g})",
    ]


def linear_momentum_tuned() -> list[str]:
    every = of("linear_momentum_tuned")
    return [f"faster in {every.share} checks, and slower in {every.fails}"]


def root_sa() -> list[str]:
    large, small = (of("root_sa", rule=f"root-SA eta={x}") for x in ("0.5", "0.1"))
    rivals = {"rival": ("MomentumQ m=2", "SpeedyQ")}
    nesa = of("root_sa", rival="NeSA")
    worse = [one for one in small(**rivals) if one["outcome"] == FAILS]
    assert all({"k": "955", "map": "8x8", "discount": "0.99"}.items() <= one["conditions"].items() for one in worse)
    return [
        f"MomentumQ and SpeedyQ in {large(**rivals).share} checks",
        f"in {small(**rivals).share} ({len(worse)} the other way",
        f"mixed at 0.9 ({nesa(discount='0.9').share}) and better at 0.99 ({nesa(discount='0.99').share})",
    ]


def efficiency() -> list[str]:
    def starts(word: str) -> Checks:
        return of("efficiency", quantity=lambda value: value.startswith(word))

    root, scalar, order = (starts(word) for word in ("root-SA against all", "Q-learning against", "order that theory"))
    sup = scalar(quantity="Q-learning against momentum, sup norm", reward="sampled")
    garnet = sup(problem="garnet_fixed", rival="MomentumQ m=2")
    assert garnet.number(HOLDS) == sup(problem="garnet_fixed").number(HOLDS)
    queue, lakes = sup(problem="queue"), sup(problem=lambda name: name.startswith("lake"))
    chosen = order(problem=lambda name: name.startswith("lake"))
    rest = [one for one in order if one["outcome"] != HOLDS]
    assert {one["outcome"] for one in rest} == {OPEN}
    return [
        f"root-SA has the smaller error in {root.share} checks",
        f"in {scalar.share}, and it is the other way round in {scalar.fails}",
        f"river swim and the machine ({sup(problem=('river_swim', 'machine')).share})",
        f"on garnet against MomentumQ alone ({sup(problem='garnet_fixed').share})",
        f"on the queue no difference is shown ({queue.number(OPEN)} of {len(queue)})",
        f"five lakes it has the larger one ({lakes.fails} of {len(lakes)})",
        f"predicts is seen in {order.share} checks",
        f"{chosen.share} of them on three lakes",
        f"in the other {len(rest)} no difference is shown",
    ]


def predicted_error() -> list[str]:
    every = of("predicted_error")
    inside = sum(map(interval_within, every))
    return [
        f"measured one in {every.share} cases",
        f"of the intervals, {inside} of {len(every)} lie wholly within 10 %, and {len(every) - inside} reach beyond",
    ]


def linear_momentum() -> list[str]:
    assert of("linear_momentum").number(HOLDS) == len(of("linear_momentum"))
    return []


COUNTED = (
    momentum_vs_q_learning, momentum_vs_speedy_q, momentum_vs_nesa, speedy_q_overshoots, any_m_converges,
    any_m_accelerates, theorem_1, theorem_2, theorem_3, linear_momentum, replay_vs_markovian, nesa_approximates_polsa,
    optimal_covariance, linear_momentum_matched, linear_momentum_tuned, root_sa, efficiency, predicted_error,
)  # fmt: skip
# What is a count or an effect, if no count of the data has said it.
_COUNT = re.compile(r"\d+ of \d|\d the other way|(?:slower|more|less|faster|round) in \d|the other \d|[\d.]+ times")


def bullet(name: str) -> str:
    """What outputs/paper/README.md says of a claim, in one line."""
    found = re.search(rf"^- `{name}`, .*?(?=^- `|^\S|\Z)", PAPER, re.MULTILINE | re.DOTALL)
    assert found is not None
    return " ".join(found[0].split())


def test_every_claim_is_counted():
    assert sorted(function.__name__ for function in COUNTED) == sorted(CLAIMS)


@pytest.mark.parametrize("function", COUNTED, ids=lambda function: function.__name__)
def test_every_count_in_words_is_that_of_the_stored_checks(function):
    left = bullet(function.__name__)
    for words in function():
        assert words in left, words
        left = left.replace(words, "", 1)
    # A margin of a check is a setting.
    left = re.sub(r"\b1\.2?5? times (?:NeSA's|the other's|that of)", "", left.replace("1.2 times that of", ""))
    assert not _COUNT.findall(left), left


def test_what_else_hangs_on_the_equality_is_said_as_often_as_it_is_shown():
    matched = next(words for words in linear_momentum_matched() if words.startswith("equal within"))
    share = matched.removeprefix("equal within 5 % in ")
    front = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    figure = " ".join(PAPER.split("## Figure 2")[1].split("## Reference data")[0].split())
    assert f"within 5 %, in {share} checks" in front
    assert f"within 5 % in {share} checks" in figure
    assert f"shown in {of('replay_vs_markovian').share} checks" in figure
    (unshown,) = (one for one in of("linear_momentum_matched", quantity="faster by 5 %") if one["outcome"] == OPEN)
    assert f"({unshown['ratio']:.4g} times)" in figure


# --- times --------------------------------------------------------------------------------------------------------

_TIME = re.compile(r"\b(?:[\d.]+|a|an|few|two|six|ten|fourteen) (?:CPU )?(?:s|min|seconds?|minutes?|hours?)\b|of hours")
_COMMANDS = re.compile(r"figure ?[12]|Figure [12]|claims|suite", re.IGNORECASE)


def test_pages_take_times_of_commands_from_the_one_table():
    """No line on a figure, the claims or a suite has a time of its own. The leaderboard's section tells its suites."""
    pages = [ROOT / "README.md", FOLDER / "README.md", *(ROOT / "conf").rglob("*.yaml"), ROOT / "conf" / "README.md"]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if page == FOLDER / "README.md":
            text = re.sub(r"\n## Leaderboard\n.*?(?=\n## )", "", text, flags=re.DOTALL)
        for line in text.splitlines():
            assert not (_TIME.search(line) and _COMMANDS.search(line)), f"{page}: {line}"
    assert "[times.md](times.md)" in PAPER


def test_no_page_has_a_length_in_minutes_of_its_own_and_the_figures_of_two_pages_are_the_same():
    """A time in words is of no machine and no date: it stands in a table, or nowhere. Settings may be in minutes."""
    pages = [*ROOT.glob("*/README.md"), *ROOT.glob("mqlearn/*/README.md"), *ROOT.glob("scripts/docs_site/pages/*.md")]
    pages += [
        ROOT / "README.md",
        *ROOT.glob("mqlearn/cli/new/templates/tutorial/*"),
        ROOT / "mqlearn" / "cli" / "verbs.py",
    ]
    assert len(pages) > 10
    for page in pages:
        text = " ".join(page.read_text(encoding="utf-8").replace("on Slurm 10 minutes", "").split())
        assert not re.search(r"\b(an?|ten|few|half|of|\d+) minutes?\b|\bfew seconds\b", text), page
    problems = (ROOT / "mqlearn" / "problems" / "README.md").read_text(encoding="utf-8")
    for row, words in (
        ("`mqlearn truth` on that lake", "which takes {} CPU seconds"),
        ("(`mqlearn theory`), CPU", "take {} CPU seconds"),
    ):
        (line,) = (line for line in PAPER.splitlines() if line.startswith("|") and row in line)
        assert words.format(line.split("|")[2].strip().removesuffix(" s")) in " ".join(problems.split())


def test_the_table_of_times_is_made_of_its_data(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    times = importlib.import_module("benchmarks.times")
    table = json.loads((FOLDER / "times.json").read_text(encoding="utf-8"))
    assert times.written(table) == (FOLDER / "times.md").read_text(encoding="utf-8")
    for command in ("mqlearn figure figure1", "mqlearn figure figure2"):
        assert (command, "from nothing") in [(row["command"], row["start"]) for row in table["rows"]]
    assert all(row["seconds"] > 0 and row["cpu_seconds"] > 0 for row in table["rows"])
    assert table["machine"] and table["cores"] >= 1 and len(table["commit"]) >= 40 and table["date"]
