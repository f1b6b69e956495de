"""How often sequential decisions are wrong, and how many seeds they need: the figures of mqlearn/analysis/README.md.

    .venv/bin/python scripts/decisions.py [TRIALS]

Simulated differences stand for those of two rules on common seeds. Of each design the same trials are looked at.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import optimize, stats

import mqlearn as mq
from mqlearn.analysis.decisions import design

BITS = 12  # paths: 4096
LEVEL, MOST = 0.05, 200
OURS = f"n/(n + {design.HALF:g})"
Draw = Callable[[np.random.Generator, int], np.ndarray]
DISTRIBUTIONS: dict[str, Draw] = {
    "normal": lambda random, n: random.standard_normal(n),
    "Student's t, 2 degrees of freedom": lambda random, n: random.standard_t(2, n),
    "-1, 0, 1, of which 80 % are 0": lambda random, n: random.choice([-1.0, 0.0, 1.0], n, p=[0.1, 0.8, 0.1]),
    "errors of 400 runs of SpeedyQ": lambda random, n: -np.diff(random.choice(_errors(), (2, n)), axis=0)[0],
}


@functools.cache
def _errors() -> np.ndarray:
    """(400,): the error of each seed of a real run."""
    run = mq.run(mq.frozen_lake("4x4"), mq.SpeedyQ(), iterations=1000, n_seeds=400, n_checkpoints=2)
    return run.curves["q_error"][:, -1]


# --- designs: the part of the error that is spent by n of at most `most` seeds --------------------------------------

SPENDING: dict[str, Callable[[int, int], float]] = {
    OURS: lambda n, most: design.share(n),
    "AdaStop's, linear": lambda n, most: n / most,
    "Pocock": lambda n, most: float(np.log(1 + (np.e - 1) * n / most)),
    "O'Brien-Fleming": lambda n, most: float(2 * stats.norm.sf(stats.norm.isf(LEVEL / 2) / np.sqrt(n / most)) / LEVEL),
}


def sequential(d: np.ndarray, looks: Sequence[int], spent: Callable[[int, int], float], level: float) -> int | None:
    """The look (in seeds) at which the differences d cross, None for never."""
    test = design.Crossings(np.array([level]), BITS)
    for n in looks:
        sums = design.signs(BITS, looks[-1])[:, :n] @ d[:n]
        if test.look(sums, float(np.abs(d[:n]).sum()), n, spent(n, looks[-1]))[0]:
            return n
    return None


def nominal(looks: Sequence[int], spent: Callable[[int, int], float], level: float) -> np.ndarray:
    """(looks,): the p that a normal statistic has to be below at each look, from simulated Brownian motion."""
    random = np.random.default_rng(1)
    steps = np.sqrt(np.diff([0, *looks]))
    walks = np.cumsum(random.standard_normal((200_000, len(looks))) * steps, axis=1) / np.sqrt(looks)
    walks, alive, bounds = np.abs(walks), np.ones(len(walks), bool), []
    for column, n in enumerate(looks):
        may = int(level * spent(n, looks[-1]) * len(walks)) - int((~alive).sum())
        bound = np.sort(walks[alive, column])[-may] if may > 0 else np.inf
        bounds.append(2 * stats.norm.sf(bound))
        alive &= walks[:, column] < bound
    return np.array(bounds)


def by_p(d: np.ndarray, looks: Sequence[int], bounds: np.ndarray) -> int | None:
    """`sequential` by the p of each look alone, against bounds that hold for normal statistics."""
    for n, bound in zip(looks, bounds, strict=True):
        sums = np.abs(design.signs(BITS, looks[-1])[:, :n] @ d[:n])
        if (sums >= sums[0] * (1 - 1e-11)).mean() <= bound:
            return n
    return None


# --- what is asked ------------------------------------------------------------------------------------------------


def levels(trials: int) -> None:
    """False decisions where two rules do not differ."""
    print(f"\nFalse decisions between equal rules, level {LEVEL}, {trials} trials")
    usual = design.usual_looks(LEVEL, 1, MOST)
    for name, looks in {"every 5 seeds, to 200": usual, "every seed, 10 to 60": tuple(range(10, 61))}.items():
        print(f"  looks {name}")
        bounds = {spent: nominal(looks, SPENDING[spent], LEVEL) for spent in ("Pocock", "O'Brien-Fleming")}
        for kind, draw in DISTRIBUTIONS.items():
            random, found = np.random.default_rng(0), {OURS: 0, **dict.fromkeys(bounds, 0)}
            for _ in range(trials):
                d = draw(random, looks[-1])
                found[OURS] += sequential(d, looks, SPENDING[OURS], LEVEL) is not None
                for spent in bounds:
                    found[spent] += by_p(d, looks, bounds[spent]) is not None
            joint, *normal = (f"{name} {count / trials:.3f}" for name, count in found.items())
            print(f"    {kind:34} joint sign flips, {joint}; p below normal bounds: {', '.join(normal)}")


def by_family(d: np.ndarray, looks: Sequence[int]) -> list[int | None]:
    """The looks at which pairs d (m, n) are decided, by closed Bonferroni tests: what mqlearn does."""
    tests = design.Family(len(d), LEVEL, margins=False)
    found: list[int | None] = [None] * len(d)
    for n in looks:
        left = [i for i, one in enumerate(found) if one is None]
        if not left:
            break
        shown, _ = tests.look(n, {i: d[i, :n] for i in left})
        found = [n if one is None and shown[i] else one for i, one in enumerate(found)]
    return found


def by_maximum(d: np.ndarray, looks: Sequence[int]) -> list[int | None]:
    """The same by the largest statistic of the pairs that are left, as AdaStop does; all pairs flip together."""
    found: list[int | None] = [None] * len(d)
    bits = design.enumerated(LEVEL, len(d))
    left, test = list(range(len(d))), design.Crossings(np.array([LEVEL]), bits)

    def look(n: int) -> np.ndarray:
        sums = np.abs(design.signs(bits, n) @ d[left, :n].T) / np.abs(d[left, :n]).sum(axis=1)
        test.look(sums.max(axis=1), 1.0, n, design.share(n))
        return sums[0]

    for n in looks:
        own = look(n)
        while left and test.crossed[0, 0]:
            gone = left[int(own.argmax())]
            found[gone] = n
            left.remove(gone)
            if left:
                test = design.Crossings(np.array([LEVEL]), bits)
                for earlier in [one for one in looks if one <= n]:
                    own = look(earlier)
        if not left:
            break
    return found


def family(trials: int) -> None:
    """Three rules, all pairs: any false decision, and seeds, by closed tests and by the largest statistic."""
    print(
        f"\nThree rules, all pairs, level {LEVEL}, {trials} trials, at most 100 seeds: any false decision, mean seeds"
    )
    looks = design.usual_looks(LEVEL, 3, 100)
    cases = {"all equal": (0, 0, 0), "the third differs by 1 sd": (0, 0, 1), "all differ by 1/2 sd": (0, 0.5, 1)}
    for name, means in cases.items():
        for kind, decide in (("closed Bonferroni", by_family), ("largest statistic", by_maximum)):
            random, wrong, total = np.random.default_rng(0), 0, 0.0
            for _ in range(trials):
                x = random.standard_normal((3, looks[-1])) + np.array(means)[:, None]
                d = np.array([x[0] - x[1], x[0] - x[2], x[1] - x[2]])
                found = decide(d, looks)
                same = [means[i] == means[j] for i, j in ((0, 1), (0, 2), (1, 2))]
                wrong += any(one is not None for one, equal in zip(found, same, strict=True) if equal)
                total += float(np.mean([looks[-1] if one is None else one for one in found]))
            print(f"  {name:28} {kind:18} {wrong / trials:.3f}  {total / trials:.1f}", flush=True)


def equality(trials: int) -> None:
    """False equality: the means differ by just the margin."""
    print(f"\nMeans that differ by the margin 1.2 are called equal, level {LEVEL}, {trials} trials")
    looks = design.usual_looks(LEVEL, 1, 100)
    for name, draw in {
        "normal": lambda random: np.abs(1 + 0.2 * random.standard_normal((2, 100))),
        "lognormal": lambda random: np.exp(0.4 * random.standard_normal((2, 100)) - 0.08),
    }.items():
        random, wrong = np.random.default_rng(0), 0
        for _ in range(trials):
            a, b = draw(random) * np.array([[1.2], [1.0]])
            tests = design.Family(1, LEVEL, margins=True)
            for n in looks:
                d = np.array([(a - b)[:n], (a - 1.2 * b)[:n], (b - 1.2 * a)[:n]])
                shown, equal = tests.look(n, {0: d})
                wrong += int(equal[0])
                if shown[0] or equal[0]:
                    break
        print(f"  {name:34} {wrong / trials:.3f}")


def asymmetric(trials: int) -> None:
    """Equal means, and means that differ by just the margin, where differences are not symmetric."""
    print(f"\nA lognormal error against a constant one: what is not symmetric, level {LEVEL}, {trials} trials")
    looks, random, found = design.usual_looks(LEVEL, 1, 50), np.random.default_rng(0), np.zeros(3)
    for _ in range(trials):
        d = np.exp(random.standard_normal(50)) - np.exp(0.5)
        sums = [np.abs(design.signs(BITS, 50)[:, :n] @ d[:n]) for n in (10, 50)]
        fixed = [(one >= one[0] * (1 - 1e-11)).mean() <= LEVEL for one in sums]
        found += [sequential(d, looks, SPENDING[OURS], LEVEL) is not None, *fixed]
    shares = found / trials
    print(
        f"  equal means, exp(N(0, 1)): better {shares[0]:.3f}; one look, 10 {shares[1]:.3f}, 50 seeds {shares[2]:.3f}"
    )
    random, wrong = np.random.default_rng(0), 0
    for _ in range(trials):
        a = 1.2 * np.exp(0.5 * random.standard_normal(50) - 0.125)
        tests = design.Family(1, LEVEL, margins=True)
        for n in looks:
            shown, equal = tests.look(n, {0: np.array([a - 1, a - 1.2, 1 - 1.2 * a])[:, :n]})
            if shown[0] or equal[0]:
                wrong += int(equal[0])
                break
    print(f"  means apart by the margin 1.2, exp(N(., 1/4)): equal {wrong / trials:.3f}")


def detectable(n: int, level: float, power: float = 0.8) -> float:
    """The effect, in standard deviations, that a paired t test of n seeds at `level` finds with this power."""
    critical = stats.t.isf(level / 2, n - 1)
    found: Any = optimize.brentq(lambda e: stats.nct.sf(critical, n - 1, e * np.sqrt(n)) - power, 0.01, 5)
    return found


def seeds(trials: int) -> None:
    """Mean seeds of each design beside those of a fixed design."""
    print(f"\nMean seeds over those of the fixed design (and power by {MOST} seeds), {trials} trials, normal")
    for pairs in (1, 3, 10):
        level = LEVEL / pairs
        looks = design.usual_looks(LEVEL, pairs, MOST)
        for n in (20, 50, 100):
            effect = detectable(n, level)
            for times in (2.0, 1.0):
                told = []
                for name, spent in SPENDING.items():
                    random = np.random.default_rng(0)
                    found = [sequential(times * effect + random.standard_normal(MOST), looks, spent, level)
                             for _ in range(trials)]  # fmt: skip
                    mean = np.mean([MOST if one is None else one for one in found])
                    told.append(f"{name} {mean / n:.2f} ({1 - found.count(None) / trials:.2f})")
                print(
                    f"  {pairs:2} pairs, fixed {n:3}, effect {times:g} x {effect:.2f} sd: {'; '.join(told)}", flush=True
                )


if __name__ == "__main__":
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    seeds(max(number // 4, 50))
    levels(number)
    family(max(number // 4, 50))
    equality(number)
    asymmetric(number)
