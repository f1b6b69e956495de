"""The loop: checkpoints -> blocks -> advance -> metrics -> curves. No rule or sampler has a loop of its own."""

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from mqlearn.learning.diagnostics import after_run
from mqlearn.learning.lockstep import advance, learners_of
from mqlearn.learning.record import Origin, Result
from mqlearn.learning.run_state import RunState, build_run
from mqlearn.learning.setup import (
    AnyRule,
    Environment,
    Setup,
    checked_rules,
    keywords_of,
    samples_an_iteration,
    validated,
)

# Raised by hand whenever the same settings give other numbers; part of every digest.
NUMERICS_VERSION = 1


@keywords_of(validated)
def run(mdp: Environment, rule: AnyRule, **settings: Any) -> Result:
    """Run a rule on all seeds and measure it against the exact optimum.

    The curves are the same bits for any `n_workers` and on every repeat; seed i of a run does not depend on
    `n_seeds`, and runs with different `seed` share no random stream.

    iterations: T >= 0.   step_size: alpha_k, by default the rule's own (harmonic).   sampling: Synchronous (default),
    Markovian, Replay, IID or Recorded.   features: `Features` of the MDP, a `BoxMap` of a simulator; None for tables.
    linear: a `Linear`, how features are learned.   operator: of the targets, such as `Relaxed(1.1)`, None for
    Bellman's; errors are measured against its fixed point.   evaluation: an `Evaluation`, what episodes are played.
    checkpoints: "log" or "linear", `n_checkpoints` of them at most; for asynchronous sampling T/4 and T/2
    are always checkpoints.
    n_workers: threads, by default one a core, or fewer.   reward: "mean" R(x, u) or "sampled" r(x, u, y) in the
    target; "auto" is mean for synchronous sampling, else sampled.   q0, theta0: a constant, a range (low, high) of
    uniform values, an array (S, A), (d,) with features, or one for each seed, (n_seeds, S, A), (n_seeds, d); a Result,
    of which seed i goes on from the last finite table of seed i, k beginning at 0 again (give another `seed`: with the
    same one iteration k draws what the result has learned from already); q0 also a function of (state, action), asked
    once for each pair. Two numbers in a list are a range, also where theta has d = 2; in an array they are theta.
    metrics: name -> function of (tables (n, S, A), mdp) that returns (n,).   progress: True for a bar
    (tqdm), or a function called with (k, mean q_error) at every checkpoint, and with a model on long ways between them
    with the error of the last one.
    mdp: a FiniteMDP, or a Simulator.   rule: what learns.   n_seeds: independent repeats, of the seed `seed`;
    by default 1 with recorded transitions that are not resampled.
    Raises SettingError for a value that is not admissible.

    >>> result = mq.run(mq.frozen_lake("4x4"), mq.MomentumQ(m=2), iterations=1000, n_seeds=20)
    >>> result.curves["q_error"].shape == (20, len(result.iteration))
    True
    >>> bool(result.curves["q_error"][:, -1].max() < 0.1 * result.curves["q_error"][0, 0])
    True
    """
    return run_together(mdp, [rule], **settings)[0]


@keywords_of(validated)
def run_together(mdp: Environment, rules: Iterable[AnyRule], **settings: Any) -> list[Result]:
    """`run` for several rules: the results of each alone, in the order of the rules.

    Under a non-adaptive behaviour and without a projection, their samples are drawn once for all, which saves time.
    `step_size` replaces that of every rule, None leaves each its own; `progress` receives the error of the first.
    Raises SettingError for a value that is not admissible.

    >>> both = mq.run_together(mq.two_state(), [mq.QLearning(), mq.SpeedyQ()], iterations=100, n_seeds=5)
    >>> [result.q.shape for result in both]
    [(5, 2, 2), (5, 2, 2)]
    """
    wanted = checked_rules(rules)
    if not wanted:
        return []
    setup = validated(mdp, **settings)
    of_each = [setup.of_rule(rule) for rule in wanted]
    apart = list(dict.fromkeys(one.operator.operator for one in of_each))
    if len(apart) > 1:  # each is measured against the fixed point of its own operator
        return _apart(mdp, wanted, [apart.index(one.operator.operator) for one in of_each], settings)
    setup = of_each[0]
    ready = [setup.ready(rule) for rule in wanted]
    made = build_run(setup, ready)
    compile_all(made)
    walk(setup, made)
    return [result_of(setup, made, number, rule) for number, rule in enumerate(ready)]


def _apart(mdp: Environment, rules: list[AnyRule], group: list[int], settings: dict[str, Any]) -> list[Result]:
    """`run_together` of each group of rules, in their order."""
    found: dict[int, Result] = {}
    for number in dict.fromkeys(group):
        some = [i for i, one in enumerate(group) if one == number]
        found |= dict(zip(some, run_together(mdp, [rules[i] for i in some], **settings), strict=True))
    return [found[i] for i in range(len(rules))]


def compile_all(made: RunState) -> None:
    """Call every kernel for no iterations: compiling is not learning time."""
    rules = [course.rule for course in made.courses]
    for part in made.parts:
        part.compile(rules)


def walk(setup: Setup, made: RunState) -> None:
    """Advance all learners from checkpoint to checkpoint, and record what is measured there."""
    first = made.courses[0].recorder  # whose error is told
    with ThreadPoolExecutor(made.workers) as pool:
        previous = 0
        for column, k in enumerate(setup.iteration.tolist()):
            for begin in range(previous, k, made.block):
                advance(pool, made.parts, made.courses, begin, min(made.block, k - begin))
                if setup.progress is not None and begin + made.block < k:
                    setup.progress(begin + made.block, first.mean_error(column - 1) if column else math.nan)
            for number, course in enumerate(made.courses):
                left = learners_of(made.parts, number)
                course.recorder.record(column, left, list(pool.map(partial(made.measure, column), left)))
            if setup.progress is not None:
                setup.progress(k, first.mean_error(column))
            previous = k


def result_of(setup: Setup, made: RunState, number: int, rule: AnyRule) -> Result:
    """What a rule leaves, with what is known of it after the run."""
    course, left = made.courses[number], learners_of(made.parts, number)
    facts, found = after_run(setup, rule, left, course.recorder)
    each = samples_an_iteration(rule, setup.mdp, setup.sampling_of(rule))
    findings = [*course.findings, *found]
    origin = Origin(setup.mdp, rule, replace(setup, progress=None))
    return course.recorder.result(each, left, course.seconds, made.facts | facts, findings, setup.reward, origin)
