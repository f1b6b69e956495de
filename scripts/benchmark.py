#!/usr/bin/env python
"""How fast mqlearn is, as ratios to other ways of doing the same work, all taken in one run.

    scripts/benchmark.py [NAME ...] [--json FILE]

synchronous           a whole mq.run on FrozenLake 8x8 with 20 seeds, against hand-written AVX-512 C
scaling               the same by number of seeds, by size, for unequal probabilities, in units of that C at 8x8 with
                      20 seeds; an evaluation; and the memory of 20,000 seeds
synchronous_numpy     the same kernel against vectorised NumPy over all pairs and seeds
asynchronous_table    one visited pair an iteration, against C and against a loop over Gymnasium's step()
asynchronous_one_hot  the same with one-hot features, where momentum moves every parameter
linear_momentum       128x128, 4096 parameters: O(active features) an iteration against the dense update
box_step              CartPole-v1 with tile coding, epsilon-greedy and uniform, against a bare loop over step()
figure1               from nothing (11 curves, two maps, tracked), and drawn again from finished runs
figure2               in full; minutes, so only when named
sweep                 what a cell of 0.1 s takes beyond its own run, under joblib; 200 finished cells skipped; the
                      status of 1,000 runs

The contenders take turns, and the fastest of several turns counts; all but the figures are measured in CPU time,
because machines are shared. The C of scripts/yardstick.c must give the kernels' results, bit for bit.
"""

import argparse
import contextlib
import ctypes
import json
import math
import os
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import mqlearn as mq
from mqlearn.algorithms.four_numbers import FourNumbers
from mqlearn.experiments.settings import compose
from mqlearn.experiments.settings.cell import build, run_cells
from mqlearn.learning import kernels, learners
from mqlearn.learning.chains import Chain, Samples, copied
from mqlearn.learning.learners.synchronous import synchronous_model
from mqlearn.learning.metrics import Measure
from mqlearn.learning.record import Recorder
from mqlearn.learning.simulation import SimulatedLearner
from mqlearn.problems.encodings import tile_coding
from mqlearn.problems.features import aggregation, one_hot
from mqlearn.problems.solvers import optimal

SEEDS = np.arange(20, dtype=np.uint32)
SCRIPTS = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Row:
    """One measurement; ratio: how many times the `against`, a time or, where `faster`, a speed."""

    name: str
    value: float | None
    unit: str
    against: str
    ratio: float | None
    wanted: float  # in the table only
    faster: bool = False

    def record(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if key not in ("wanted", "faster")}

    def line(self) -> str:
        if self.value is None or self.ratio is None:
            return f"{self.name:22} {self.against}"
        met = self.ratio >= self.wanted if self.faster else self.ratio <= self.wanted
        bound = f"{'at least' if self.faster else 'at most'} {self.wanted:g}{'' if met else ', MISSED'}"
        return f"{self.name:22} {self.value:7.3g} {self.unit:19} {self.ratio:7.3g} times the {self.against} ({bound})"


def fastest(contenders: Mapping[str, Callable[[], Any]], turns: int = 7) -> dict[str, float]:
    """CPU seconds of each contender's fastest turn; each runs once beforehand."""
    for run in contenders.values():
        run()
    seconds = dict.fromkeys(contenders, math.inf)
    for _ in range(turns):
        for name, run in contenders.items():
            started = time.process_time()
            run()
            seconds[name] = min(seconds[name], time.process_time() - started)
    return seconds


# --- the yardsticks in C -----------------------------------------------------------------------------------------


class _Model(ctypes.Structure):
    _fields_ = [
        ("offsets", ctypes.c_void_p),
        ("successors", ctypes.c_void_p),
        ("rewards", ctypes.c_void_p),
        ("thresholds", ctypes.c_void_p),
        ("outcomes", ctypes.c_long),
        ("starts", ctypes.c_void_p),
        ("n_starts", ctypes.c_long),
        ("keep", ctypes.c_void_p),
        ("alias", ctypes.c_void_p),
        ("goal", ctypes.c_void_p),
    ]


class Yardstick:
    """scripts/yardstick.c, compiled for this processor; `missing` says why there is none."""

    def __init__(self) -> None:
        self.library: Any = None
        self.missing = ""
        compiler = next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)
        if compiler is None:
            self.missing = "skipped: no C compiler"
            return
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "yardstick.so"
            flags = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(target)]
            source = str(SCRIPTS / "yardstick.c")
            done = subprocess.run([compiler, *flags, source, "-lm"], capture_output=True, text=True)
            if done.returncode:
                self.missing = f"skipped: {compiler} failed: {done.stderr.strip()[:200]}"
                return
            self.library = ctypes.CDLL(str(target))

    @property
    def missing_avx512(self) -> str:
        return self.missing or ("" if self.library.has_avx512() else "skipped: no AVX-512")

    def call(self, function: str, *arguments: Any) -> None:
        """Arrays and structures go as pointers, whole numbers as long, np.uint32 as such."""
        getattr(self.library, function)(*map(_argument, arguments))


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    if isinstance(value, ctypes.Structure):
        return ctypes.byref(value)
    if type(value) is np.uint32:
        return ctypes.c_uint32(int(value))
    return ctypes.c_long(value) if isinstance(value, int) else ctypes.c_double(value)


def _chain_arguments(chain: Chain) -> tuple[ctypes.Structure, list[np.ndarray]]:
    """The chain's model and episode starts for C, and the arrays that must stay alive meanwhile."""
    offsets, successors, rewards, thresholds, _ = chain.model
    starts, keep, alias, goal = chain.tables.starts, chain.tables.keep, chain.tables.alias, chain.tables.goal
    arrays = [offsets, successors, rewards, thresholds, starts, keep, alias, goal]
    p = [array.ctypes.data for array in arrays]
    return _Model(*p[:4], thresholds.shape[1], p[4], len(starts), *p[5:]), arrays


def _aligned(shape: tuple[int, int]) -> np.ndarray:
    """Zeros that begin at a multiple of 64 bytes."""
    raw = np.zeros(math.prod(shape) + 8)
    first = -raw.ctypes.data // 8 % 8
    return raw[first : first + math.prod(shape)].reshape(shape)


def _same(name: str, *pairs: tuple[np.ndarray, np.ndarray]) -> None:
    for ours, theirs in pairs:
        if not np.array_equal(ours, theirs):
            raise SystemExit(f"{name}: C and kernel differ, by up to {np.abs(ours - theirs).max()}")


# --- all pairs an iteration --------------------------------------------------------------------------------------


def synchronous(c: Yardstick) -> Iterator[Row]:
    mdp, rule, iterations = mq.frozen_lake("8x8", discount=0.9), mq.MomentumQ(m=2), 100_000
    if c.missing_avx512:
        yield Row("synchronous", None, "", c.missing_avx512, None, 2)
        return
    results, tables = [], []

    def ours() -> None:
        results[:] = [mq.run(mdp, rule, iterations=iterations, n_seeds=len(SEEDS), n_workers=1)]

    def theirs() -> None:
        tables[:] = [_synchronous_in_c(c, mdp, rule, iterations)]

    seconds = fastest({"ours": ours, "theirs": theirs}, turns=3)
    x, u = mdp.pairs.T
    _same("synchronous", (results[0].q[:, x, u].T, tables[0]))
    each = seconds["ours"] / (iterations * len(mdp.pairs) * len(SEEDS)) * 1e9
    ratio = seconds["ours"] / seconds["theirs"]
    yield Row("synchronous", each, "ns a pair and seed", "time of AVX-512 C", ratio, 2)


def _synchronous_in_c(c: Yardstick, mdp: mq.FiniteMDP, rule: mq.Rule, iterations: int) -> np.ndarray:
    """(pairs, 20): the last tables of 20 seeds, as the C computes them."""
    offsets, successors, rewards, _, reuse, _ = synchronous_model(mdp, mean_reward=True)
    padded = -(-len(SEEDS) // 8) * 8
    q, q_prev = _aligned((len(mdp.pairs), padded)), _aligned((len(mdp.pairs), padded))
    c.call(
        "synchronous", q, q_prev, len(mdp.pairs), mdp.n_states, padded, offsets.astype(np.int64), successors, rewards,
        reuse, rule.weights(0, iterations), iterations, mdp.discount, np.uint32(0),
        np.uint32(kernels.STREAMS["synchronous"]),
    )  # fmt: skip
    return q[:, : len(SEEDS)]


def scaling(c: Yardstick) -> Iterator[Row]:
    """Runs with one evaluation in 500 iterations, as by default with 100,000."""
    lake, rule = mq.frozen_lake("8x8", discount=0.9), mq.MomentumQ(m=2)
    if c.missing_avx512:
        yield Row("scaling", None, "", c.missing_avx512, None, 2)
        return

    def run(mdp: mq.FiniteMDP, n_seeds: int, iterations: int) -> None:
        n_checkpoints = iterations // 500
        mq.run(mdp, rule, iterations=iterations, n_seeds=n_seeds, n_workers=1, n_checkpoints=n_checkpoints)

    def large(side: int) -> mq.FiniteMDP:
        return mq.frozen_lake_blocks(side // 8, discount=0.9, success_rate=1 / 3)

    cases = [(f"scaling_{n}_seeds", lake, n, 2.0 if n == 20 else 2.6) for n in (20, 200, 2_000, 20_000)]
    cases += [(f"scaling_{side}x{side}", large(side), 20, 3.4) for side in (16, 32, 64)]
    cases += [("scaling_unequal", mq.frozen_lake("8x8", discount=0.9, success_rate=0.8), 20, 5.0)]
    for name, mdp, n_seeds, wanted in cases:
        fewest = 4_000 if n_seeds == 20 else 1_000  # few iterations on a large map would measure its exact solutions
        iterations = max(fewest, 40_000 * 20 * len(lake.pairs) // (n_seeds * len(mdp.pairs)))
        ours = partial(run, mdp, n_seeds, iterations)
        theirs = partial(_synchronous_in_c, c, lake, rule, 40_000)
        seconds = fastest({"ours": ours, "theirs": theirs}, turns=1 if n_seeds > 2_000 else 3)
        each = seconds["ours"] / (iterations * len(mdp.pairs) * n_seeds) * 1e9
        unit = seconds["theirs"] / (40_000 * len(lake.pairs) * len(SEEDS)) * 1e9
        yield Row(name, each, "ns a pair and seed", "time of AVX-512 C at 8x8", each / unit, wanted)
    learner, recorder = _learner(lake, mq.Synchronous(), None), Recorder(lake, optimal(lake).q, np.arange(200), 20)
    measure = Measure(lake, optimal(lake))
    learner.advance(0, 1_000, rule.weights(0, 1_000))
    seconds = fastest({"ours": lambda: [recorder.record(k, [learner], [measure(k, learner)]) for k in range(200)]})
    each = seconds["ours"] / (200 * 20) * 1e6
    yield Row("scaling_evaluation", each, "us a seed", "wanted 10 us", each / 10, 1)
    peak, beyond = _memory(20_000)
    against = f"wanted 100 MB beyond curves and tables, with a peak of {peak:.0f} MB"
    yield Row("scaling_memory", beyond, "MB", against, beyond / 100, 1)


def _memory(n_seeds: int) -> tuple[float, float]:
    """MB of a process at most, and what `n_seeds` have added to it beyond their curves and last tables."""
    code = f"""
from pathlib import Path
import mqlearn as mq
def run(n_seeds):
    return mq.run(mq.frozen_lake("8x8", discount=0.9), mq.MomentumQ(m=2), iterations=1000, n_seeds=n_seeds)
def peak():
    status = Path("/proc/self/status").read_text()  # of this program; ru_maxrss begins with that of its parent
    return int(status.split("VmHWM:")[1].split()[0]) / 1024
run(20)
before, result = peak(), run({n_seeds})
kept = sum(curve.nbytes for curve in result.curves.values()) + result.q.nbytes
print(peak(), peak() - before - kept / 2**20)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    peak, beyond = map(float, done.stdout.split())
    return peak, beyond


def synchronous_numpy(_: Yardstick) -> Iterator[Row]:
    """Two rivals: the equation of the rule on arrays, as it is written; and in this package's own form of it."""
    mdp, rule, iterations, few = mq.frozen_lake("8x8", discount=0.9), mq.MomentumQ(m=2), 2_000, 100
    weights = rule.weights(0, iterations)
    x, u = mdp.pairs.T
    successors, rewards = mdp.successors[x, u], mdp.mean_rewards[x, u][:, None]
    open_states, rows, lanes = np.flatnonzero(~mdp.terminal), np.arange(len(x))[:, None], np.arange(len(SEEDS))
    learner = _learner(mdp, mq.Synchronous(), None)

    def largest(q: np.ndarray, v: np.ndarray) -> np.ndarray:
        v = v.copy()
        v[open_states] = q.reshape(len(open_states), mdp.n_actions, -1).max(axis=1)
        return v

    def equation() -> None:
        rng = np.random.default_rng(0)
        q = np.zeros((len(x), len(SEEDS)))
        q_prev, v = q.copy(), np.zeros((mdp.n_states, len(SEEDS)))
        for k in range(few):
            v_prev, v = v, largest(q, v)
            y = successors[rows, rng.integers(mdp.n_successors, size=q.shape)]
            target, target_prev = rewards + mdp.discount * v[y, lanes], rewards + mdp.discount * v_prev[y, lanes]
            q, q_prev = rule.update(np.array(float(k)), q, q_prev, target, target_prev), q

    def one_look_up() -> None:
        rng = np.random.default_rng(0)
        q = np.zeros((len(x), len(SEEDS)))
        q_prev, v = q.copy(), np.zeros((mdp.n_states, len(SEEDS)))
        for now, prev, s, t in weights[:few]:
            v_prev, v = v, largest(q, v)
            w = mdp.discount * (s * v + t * v_prev)
            y = successors[rows, rng.integers(mdp.n_successors, size=q.shape)]
            q, q_prev = now * q + prev * q_prev + (s + t) * rewards + w[y, lanes], q

    rivals = {"NumPy, the rule as written": equation, "NumPy, one look-up a sample": one_look_up}
    seconds = fastest({"ours": lambda: learner.advance(0, iterations, weights), **rivals})
    each = seconds["ours"] / (iterations * len(x) * len(SEEDS)) * 1e9
    for rival in rivals:
        ratio = seconds[rival] / few / (seconds["ours"] / iterations)
        yield Row("synchronous_numpy", each, "ns a pair and seed", f"speed of {rival}", ratio, 30, faster=True)


# --- one sample an iteration -------------------------------------------------------------------------------------


def _learner(mdp: mq.FiniteMDP, sampling: Any, features: Any, linear: mq.Linear | None = None, n: int = 20) -> Any:
    initial, mean_reward = 0.0 if features is None else 0.05, isinstance(sampling, mq.Synchronous)
    return learners.start(mdp, sampling, features, linear or mq.Linear(), 0, initial, mean_reward, SEEDS[:n])


def _restart(learner: Any, fresh: Any) -> None:
    vars(learner).update(vars(fresh.copy()))
    if hasattr(fresh, "samples"):  # of its own, to be drawn anew
        learner.samples = Samples(copied(fresh.samples.chain))


def asynchronous_table(c: Yardstick) -> Iterator[Row]:
    mdp, rule, iterations = mq.frozen_lake("8x8", discount=0.9), mq.MomentumQ(m=2), 50_000
    weights = rule.weights(0, iterations)
    fresh, ours, theirs = (_learner(mdp, mq.Markovian(start="uniform"), None) for _ in range(3))

    def in_c() -> None:
        _restart(theirs, fresh)
        chain = theirs.chain
        model, _alive = _chain_arguments(chain)
        c.call(
            "asynchronous_table", theirs.q, theirs.last, len(mdp.pairs), model, chain.states,
            chain.visits, theirs.counts, weights, mdp.discount, iterations, len(SEEDS), chain.seed, chain.streams.moves,
        )  # fmt: skip

    def compiled() -> None:
        _restart(ours, fresh)
        ours.advance(0, iterations, weights)

    yield from _steps("asynchronous_table", c, compiled, in_c, lambda: _gymnasium(mdp, weights, False), iterations)
    if not c.missing:
        _same("asynchronous_table", (ours.q, theirs.q), (ours.counts, theirs.counts), *_chains(ours, theirs))


def asynchronous_one_hot(c: Yardstick) -> Iterator[Row]:
    mdp, iterations = mq.frozen_lake("8x8", discount=0.9), 50_000
    weights = mq.MomentumQLinear(beta=0.8, lam=1 - 1e-6).with_step_size(mq.Constant(0.1)).weights(0, iterations)
    features = one_hot(mdp)
    fresh, ours, theirs = (_learner(mdp, mq.Markovian(start="uniform"), features) for _ in range(3))

    def in_c() -> None:
        _restart(theirs, fresh)
        chain = theirs.chain
        model, _alive = _chain_arguments(chain)
        c.call(
            "one_hot_momentum", theirs.theta, theirs.v, theirs.sums, theirs.last, len(mdp.pairs), features.n_features,
            model, features.active, chain.states, chain.visits, weights, mdp.discount,
            iterations, len(SEEDS), chain.seed, chain.streams.moves,
        )  # fmt: skip

    def compiled() -> None:
        _restart(ours, fresh)
        ours.advance(0, iterations, weights)

    yield from _steps("asynchronous_one_hot", c, compiled, in_c, lambda: _gymnasium(mdp, weights, True), iterations)
    if not c.missing:
        _same("asynchronous_one_hot", (ours.theta, theirs.theta), (ours.sums, theirs.sums), *_chains(ours, theirs))


def _chains(ours: Any, theirs: Any) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(ours.chain.states, theirs.chain.states), (ours.chain.visits, theirs.chain.visits)]


def _steps(
    name: str,
    c: Yardstick,
    compiled: Callable[[], None],
    in_c: Callable[[], None],
    gymnasium: Callable[[], int],
    iterations: int,
) -> Iterator[Row]:
    contenders: dict[str, Callable[[], Any]] = {"ours": compiled, "gymnasium": gymnasium}
    if not c.missing:
        contenders["c"] = in_c
    seconds = fastest(contenders)
    each, slow = seconds["ours"] / (iterations * len(SEEDS)) * 1e9, seconds["gymnasium"] / gymnasium() * 1e9
    if c.missing:
        yield Row(name, None, "", c.missing, None, 1.3)
    else:
        yield Row(name, each, "ns an iteration", "time of C", seconds["ours"] / seconds["c"], 1.3)
    yield Row(name, each, "ns an iteration", "speed of a loop over Gymnasium's step()", slow / each, 500, faster=True)


def _gymnasium(mdp: mq.FiniteMDP, weights: np.ndarray, one_hot_features: bool) -> int:
    """The same rule for one seed on Gymnasium's environment, in Python with NumPy; returns the iterations."""
    import gymnasium

    env = gymnasium.make("FrozenLake-v1", map_name="8x8", max_episode_steps=10**9)
    n, n_actions, discount = 5_000, mdp.n_actions, mdp.discount
    actions = np.random.default_rng(0).integers(n_actions, size=n).tolist()
    q = np.zeros((mdp.n_states, n_actions))
    q_prev, total = q.copy(), q.copy()
    last, last_difference = (0, 0), 0.0
    x, _ = env.reset(seed=0)
    for (now, prev, s, t), u in zip(weights[:n].tolist(), actions, strict=True):
        y, reward, terminated, _, _ = env.step(u)
        pair, ahead = (x, u), 0.0 if terminated else q[y].max()
        if one_hot_features:
            difference = q[pair] - float(reward) - discount * ahead
            v = -(prev + t) * (q - q_prev)
            v[last] -= t * last_difference
            v[pair] -= s * difference
            q_prev, q = q, q + v
            total += q
            last_difference = difference
        else:
            target = (s + t) * float(reward) + discount * (s * ahead + t * (0.0 if terminated else q_prev[y].max()))
            value, value_prev = q[pair], q_prev[pair]
            q_prev[last] = q[last]
            q_prev[pair] = value
            q[pair] = now * value + prev * value_prev + target
        last = pair
        x = env.reset()[0] if terminated else y
    return n


def linear_momentum(_: Yardstick) -> Iterator[Row]:
    mdp, iterations, few = mq.frozen_lake_blocks(16, success_rate=0.8, discount=0.99), 200_000, 2_000
    features = aggregation(mdp, tile=4)
    weights = mq.MomentumQLinear(beta=0.8, lam=1 - 2.5e-7).with_step_size(mq.Constant(0.1)).weights(0, iterations)
    sampling = mq.Markovian(start="uniform")
    lazy = _learner(mdp, sampling, features, n=2)
    dense = _learner(mdp, sampling, features, mq.Linear(projection=math.inf), n=2)
    ours, theirs = lazy.copy(), dense.copy()

    def in_few_features() -> None:
        _restart(ours, lazy)
        ours.advance(0, iterations, weights)

    def in_all() -> None:
        _restart(theirs, dense)
        theirs.advance(0, few, weights[:few])

    seconds = fastest({"ours": in_few_features, "theirs": in_all}, turns=5)
    each, other = seconds["ours"] / (2 * iterations) * 1e9, seconds["theirs"] / (2 * few) * 1e9
    _restart(ours, lazy)
    ours.advance(0, few, weights[:few])
    if not np.allclose(ours.theta, theirs.theta, rtol=1e-12, atol=0):
        raise SystemExit("linear_momentum: the two forms differ")
    against = f"speed of the dense update of {features.n_features} parameters"
    yield Row("linear_momentum", each, "ns an iteration", against, other / each, 40, faster=True)


def box_step(_: Yardstick) -> Iterator[Row]:
    env, iterations = mq.simulator("CartPole-v1", discount=0.99), 20_000
    features = tile_coding(env)
    weights = mq.MomentumQLinear(beta=0.8, lam=1 - 2.5e-7).with_step_size(mq.Constant(0.1)).weights(0, iterations)

    def ours(behaviour: str) -> None:
        sampling = mq.Markovian(behaviour=behaviour)
        SimulatedLearner(env, sampling, features, mq.Linear(), SEEDS[:1], 0, 0.0).advance(0, iterations, weights)

    def bare() -> None:
        walk = env.make()
        walk.action_space.seed(0)
        walk.reset(seed=0)
        for _ in range(iterations):
            _, _, terminated, truncated, _ = walk.step(walk.action_space.sample())
            if terminated or truncated:
                walk.reset()

    behaviours = ("epsilon_greedy", "uniform")
    seconds = fastest({"bare": bare, **{name: partial(ours, name) for name in behaviours}})
    for name in behaviours:
        each, ratio = seconds[name] / iterations * 1e6, seconds[name] / seconds["bare"]
        yield Row(f"box_step_{name}", each, "us an iteration", "time of a bare loop over Gymnasium's step()", ratio, 2)


# --- figures -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _StatefulQ(mq.Stateful):
    """Q-learning as a rule with state."""

    def init(self, q0):
        return {"q": q0}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha)


def stateful(c: Yardstick) -> Iterator[Row]:
    """Rules with state against the kernels of four numbers on Q-learning, 20 seeds; shared: samples drawn before.

    The bounds of the synchronous ones were set as ratios when that kernel took 2.4 times as long as the C. Since then
    it has come close to the C, so they hold in units of the C, where there is one; both ratios are printed.
    """
    lake, small = mq.frozen_lake("8x8", discount=0.9), mq.six_state(discount=0.9)
    momentum = FourNumbers(mq.MomentumQ())
    ways = (
        ("synchronous", mq.Synchronous(), lake, ((_StatefulQ(), 2.0), (mq.DoubleQ(), 3.0), (momentum, 4.0))),
        ("asynchronous", mq.Markovian(), lake, ((_StatefulQ(), 1.0), (mq.DoubleQ(), 1.2), (momentum, 2.0))),
        ("asynchronous", mq.Markovian(), small, ((mq.Zap(), 45.0),)),
    )
    for way, sampling, mdp, rules in ways:
        n = 2000 if way == "synchronous" else 20_000
        four = mq.QLearning()
        contenders = {"four": _advancing(mdp, sampling, four, n)}
        in_c = way == "synchronous" and not c.missing_avx512
        if in_c:
            contenders["c"] = partial(_synchronous_in_c, c, mdp, four, 10 * n)
        for rule, _wanted in rules:
            contenders[_rule_name(rule)] = _advancing(mdp, sampling, rule.with_step_size(mq.Harmonic()).at(0.9), n)
        if way == "asynchronous" and mdp is lake:
            samples = Samples(Chain(mdp, sampling, SEEDS[:20], 0, False))
            samples.draw(n)
            rule = _StatefulQ().with_step_size(mq.Harmonic()).at(0.9)
            contenders["shared"] = _advancing(mdp, sampling, rule, n, samples)
            rules = (*rules, ("shared", 0.3))
        seconds = fastest(contenders)
        for rule, wanted in rules:
            name = rule if isinstance(rule, str) else _rule_name(rule)
            time_ns, ratio = seconds[name] / (20 * n) * 1e9, seconds[name] / seconds["four"]
            against = "four numbers"
            if in_c:
                against = f"time of AVX-512 C, {ratio:.3g} times the four numbers"
                ratio, wanted = 10 * seconds[name] / seconds["c"], 2.4 * wanted
            yield Row(f"{way[:5]} {name}", time_ns, "ns an iteration", against, ratio, wanted)


def _rule_name(rule: Any) -> str:
    return {"_StatefulQ": "Q-learning", "FourNumbers": "MomentumQ"}.get(type(rule).__name__, type(rule).__name__)


def _advancing(mdp: Any, sampling: Any, rule: Any, n: int, samples: Samples | None = None) -> Callable[[], Any]:
    """n iterations of 20 seeds of a rule, again and again from where they are."""
    weights = rule.weights(0, n)
    common = mdp, sampling, None, mq.Linear(), 0, 0.0, isinstance(sampling, mq.Synchronous), SEEDS[:20]
    learner = learners.start(*common, samples, rule)
    return lambda: learner.advance(0, n, weights)


def figure1(_: Yardstick) -> Iterator[Row]:
    yield from _figure("figure1", {"": 30, "_redrawn": 6})


def figure2(_: Yardstick) -> Iterator[Row]:
    yield from _figure("figure2", {"": 240})
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024**2
    yield Row("figure2_memory", used, "GB", "wanted 1 GB", used, 1)


def _figure(name: str, wanted: dict[str, float]) -> Iterator[Row]:
    """Wall time of the command in a fresh outputs folder; what it runs has been compiled before."""
    with tempfile.TemporaryDirectory() as outputs:
        for suffix, limit in wanted.items():
            started = time.perf_counter()
            cpu = _cpu(outputs, "figure", name)
            seconds = time.perf_counter() - started
            yield Row(name + suffix, seconds, "s", f"wanted {limit:g} s, with {cpu:.3g} CPU s", seconds / limit, 1)


# --- sweeps ------------------------------------------------------------------------------------------------------


def sweep(_: Yardstick) -> Iterator[Row]:
    """CPU time of the commands with all their workers. What each sweep spends once falls out of a difference."""
    with tempfile.TemporaryDirectory() as outputs:

        def cpu(*arguments: str) -> float:
            return _cpu(outputs, *arguments)

        settings = ("n_checkpoints=20", "iterations=30000", "n_workers=1")

        def cells(first: int, last: int) -> float:
            launcher = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
            return cpu("run", "-m", f"seed=range({first},{last})", *settings, *launcher)

        cells(0, 4)  # makes the store
        few, many = cells(4, 24), cells(24, 84)
        cell = build(compose.compose(settings))
        own = fastest({"cell": lambda: run_cells([cell])})["cell"]
        each = (many - few) / 40 - own
        yield Row("sweep_cell", each, "CPU s a cell", f"wanted 0.25 s beyond its run of {own:.2g} s", each / 0.25, 1)
        cells(84, 200)
        skipped = cells(0, 200)
        yield Row("sweep_skip", skipped, "CPU s", "wanted 20 s for 200 finished cells", skipped / 20, 1)
        _copy_runs(Path(outputs) / "mlflow.db", copies=4)
        shown = cpu("status", "experiment.name=default", "--json", f"{outputs}/status.json")
        counted = json.loads((Path(outputs) / "status.json").read_text())["done"]
        if counted != 1000:
            raise SystemExit(f"status counts {counted} runs instead of 1,000")
        yield Row("sweep_status", shown, "CPU s", "wanted 2 s for 1,000 runs", shown / 2, 1)


def _cpu(outputs: str, *arguments: str) -> float:
    """CPU seconds of a command line and of all processes that it started, waited for or not."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans become ours
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, "MQLEARN_OUTPUTS": outputs}
    environment.pop("MLFLOW_TRACKING_URI", None)
    command = [Path(sys.executable).parent / "mqlearn", *arguments]
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _copy_runs(database: Path, copies: int) -> None:
    """Each run of a store again, with a digest of its own."""
    with contextlib.closing(sqlite3.connect(database)) as store, store:
        for table in ("runs", "tags"):
            columns = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
            kept = [column for column in columns if column != "run_uuid"]
            read = [
                "CASE key WHEN 'digest' THEN ? || substr(value, 2) ELSE value END" if column == "value" else column
                for column in kept
            ]
            rows = f"SELECT ? || substr(run_uuid, 2), {', '.join(read)} FROM {table} WHERE run_uuid NOT GLOB '[g-p]*'"
            for copy in range(copies):
                mark = "ghijklmnop"[copy]  # no digest and no run has these letters
                marks = (mark,) * (1 + ("value" in kept))
                store.execute(f"INSERT INTO {table} (run_uuid, {', '.join(kept)}) {rows}", marks)


BENCHMARKS = {
    function.__name__: function
    for function in (
        synchronous,
        scaling,
        synchronous_numpy,
        asynchronous_table,
        asynchronous_one_hot,
        linear_momentum,
        box_step,
        stateful,
        figure1,
        figure2,
        sweep,
    )
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="all but figure2 by default")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the measurements as a list of objects")
    arguments = parser.parse_args()
    unknown = set(arguments.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"no benchmark is named {', '.join(sorted(unknown))}; there are {', '.join(BENCHMARKS)}")
    names = arguments.names or [name for name in BENCHMARKS if name != "figure2"]
    c, rows = Yardstick(), []
    for name in names:
        for row in BENCHMARKS[name](c):
            rows.append(row.record())
            print(row.line(), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
