"""Sampling modes answer the questions of `mq.Sampling`; a mode of the user's own is drawn, or refused by name."""

import ast
import re
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import twins
import yaml

import mqlearn as mq
from mqlearn.algorithms.rule import replaced
from mqlearn.experiments.settings import targets
from mqlearn.paths import CONF, PACKAGE
from mqlearn.sampling.chains import Chain, Samples
from mqlearn.sampling.check import check_sampling
from mqlearn.sampling.modes import stationary
from mqlearn.sampling.protocol import QUESTIONS
from mqlearn.sampling.recorded import RecordedSamples
from mqlearn.sampling.sample_numbers import unpack
from mqlearn.theory.case import mixing_of

MDP = mq.garnet_fixed(n_states=6, discount=0.8)
LAKE = mq.frozen_lake("4x4", discount=0.8)
KINDS = sorted(file.stem for file in (CONF / "sampling").glob("*.yaml"))
RECORD = {"x": np.array([0, 0, 1, 1]), "u": np.array([0, 1, 0, 0]), "r": np.ones(4), "y": np.array([0, 1, 1, 1])}


def class_of(kind: str) -> Any:
    node = yaml.safe_load((CONF / "sampling" / f"{kind}.yaml").read_text())
    return targets.find(targets.shipped("sampling")[node.get("sampling", node)["_target_"].rpartition(".")[2]])


def sampling_of(kind: str) -> Any:
    return class_of(kind)(RECORD) if kind == "recorded" else class_of(kind)()


# --- all modes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_every_mode_answers_every_question(kind):
    sampling = sampling_of(kind)
    assert isinstance(sampling, mq.Sampling) and sampling.name == kind
    for question, expected in QUESTIONS.items():
        answer = getattr(sampling, question)
        assert callable(answer) if expected is None else type(answer) is expected, question
    mu = stationary(sampling, mq.two_state() if kind == "recorded" else MDP)
    assert mu is not None and mu.sum() == pytest.approx(1)


def test_the_answers_are_those_of_the_modes():
    expected = {  # all_pairs independent adaptive consecutive recorded one_seed needs_model capacity
        "synchronous": "xx----x-",
        "markovian": "---x----",
        "replay": "-------x",
        "iid": "-x----x-",
        "pairs": "-x----x-",
        "recorded": "---xxxx-",
    }
    answers = {
        kind: "".join(
            "-x"[bool(getattr(sampling_of(kind), question))] for question in list(QUESTIONS) if QUESTIONS[question]
        )
        for kind in expected
    }
    assert answers == expected
    assert mq.Markovian(behaviour="epsilon_greedy").adaptive
    assert not mq.Recorded(RECORD, resample="bootstrap").one_seed


@pytest.mark.parametrize("kind", KINDS)
def test_every_mode_has_a_twin_that_draws_the_same_pairs(kind):
    sampling, (mdp, n) = sampling_of(kind), (mq.two_state(), 4) if kind == "recorded" else (MDP, 300)
    expected = twins.TWINS[kind](mdp, sampling, n, 3, 5)
    if sampling.all_pairs:
        outcomes = twins.synchronous_outcomes(mdp, 5, np.array([3]), 1)
        learner = twins.learner(mdp, sampling, [3], seed=5)
        drawn = twins.advance(learner, mq.QLearning().with_step_size(mq.Constant(1.0)), 1).q[0]
        q = twins.sampled_operator(mdp, np.zeros((len(mdp.pairs), 1)), outcomes[0], mean_reward=False)[:, 0]
        np.testing.assert_array_equal(drawn[tuple(mdp.pairs.T)] if drawn.ndim == 2 else drawn, q)
        assert (expected == np.arange(len(mdp.pairs))).all()
        return
    lanes = np.array([3], np.uint32)
    source: Any = RecordedSamples(mdp, sampling, lanes, 5, False) if sampling.recorded else None
    source = source or Samples(Chain(mdp, sampling, lanes, 5, False))
    numbers = unpack(source.block(0, n, np.array([0]))[0], source.chain.model.shift)
    np.testing.assert_array_equal(numbers.pair, expected)


def places(tree: ast.AST) -> list[str]:
    """Where a text asks for the class of a sampling mode, or compares its name."""
    classes = set(targets.shipped("sampling"))
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            asked = {name.id for name in ast.walk(node.args[1]) if isinstance(name, ast.Name)}
            asked |= {name.attr for name in ast.walk(node.args[1]) if isinstance(name, ast.Attribute)}
            found += [ast.unparse(node)] * bool(asked & classes)
        if isinstance(node, ast.Compare):
            texts = [ast.unparse(side) for side in (node.left, *node.comparators)]
            named = [re.search(r"sampling(\w*|'\])(\.name|\['name'\])$|facts\['sampling'\]$", text) for text in texts]
            found += [ast.unparse(node)] * any(named)
    return found


def test_nobody_asks_for_the_class_or_the_name_of_a_mode():
    found = {
        str(file.relative_to(PACKAGE)): there
        for file in PACKAGE.rglob("*.py")
        if (there := places(ast.parse(file.read_text(encoding="utf-8"))))
    }
    assert not found


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(sampling, IID)", "isinstance(cell.x, Markovian | mq.Replay)", "sampling.name == 'iid'",
        "run.settings['sampling']['name'] != 'synchronous'", "given['sampling'].name in ('replay',)",
        "facts['sampling'] == 'iid'",
    ],
)  # fmt: skip
def test_one_who_asks_is_found(text):
    assert places(ast.parse(text)) == [text]


# --- of the user's own ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class EachPair(mq.Sampling):
    clock: str = "auto"
    all_pairs: ClassVar[bool] = False
    independent: ClassVar[bool] = True

    def distribution(self, mdp):
        return mdp.learned / mdp.learned.sum()


class LikeIID(EachPair):
    def distribution(self, mdp):
        return stationary(mq.IID(start="uniform", time_limit=20), mdp)


@pytest.mark.parametrize("clock", ["global", "local"])
@pytest.mark.parametrize("rule", [mq.SpeedyQ(), replaced(mq.DoubleQ(), compiled=False)], ids=["four numbers", "state"])
@pytest.mark.parametrize("features", [None, mq.one_hot(LAKE)], ids=["table", "features"])
def test_it_draws_with_its_distribution_as_iid_does_with_that_of_its_chain(rule, features, clock):
    if clock == "local" and (features is not None or isinstance(rule, mq.Stateful)):
        return
    settings = {"iterations": 500, "n_seeds": 3, "step_size": mq.Constant(0.2), "features": features}
    own = mq.run(LAKE, rule, sampling=LikeIID(clock=clock), **settings)
    chain = mq.run(LAKE, rule, sampling=mq.IID(start="uniform", time_limit=20, clock=clock), **settings)
    np.testing.assert_array_equal(own.q, chain.q)
    assert own.samples[-1] == 500 and own.facts["common_random_numbers"] == "samples"


def test_its_pairs_have_the_probabilities_that_it_says():
    class Skewed(EachPair):
        def distribution(self, mdp):
            weights = np.where(mdp.learned, 1.0 + np.arange(mdp.learned.size).reshape(mdp.learned.shape), 0)
            return weights / weights.sum()

    visits = mq.run(LAKE, mq.QLearning(), sampling=Skewed(), iterations=50_000, n_seeds=4).visits
    assert visits is not None
    expected = Skewed().distribution(LAKE) * 200_000
    assert (np.abs(visits - expected) <= 5 * np.sqrt(expected)).all() and visits.sum() == 200_000


def test_theory_knows_that_independent_draws_forget_at_once():
    found: Any = mixing_of(LAKE, EachPair())
    assert found.rho < 1e-9 and found.tau(0.1) == 1


def test_theory_refuses_by_name_what_does_not_say_how_it_mixes():
    class Silent(mq.Sampling):
        independent = False

    with pytest.raises(mq.SettingError, match="sampling='Silent': does not say `trajectory`, the `Walk` of its chain"):
        mixing_of(LAKE, Silent())


def without(part: str) -> Any:
    parts = {"all_pairs": False, "independent": True, "distribution": lambda self, mdp: mdp.learned / mdp.learned.sum()}
    del parts[part]
    return type("Lacking", (mq.Sampling,), parts)()


@pytest.mark.parametrize("part", ["all_pairs", "independent", "distribution"])
def test_what_lacks_a_part_is_refused_with_the_name_of_the_part(part):
    with pytest.raises(mq.SettingError, match=rf"sampling='Lacking': does not say `{part}`, \w"):
        mq.run(LAKE, mq.QLearning(), sampling=without(part), iterations=10, n_seeds=1)


@pytest.mark.parametrize("question", [name for name in QUESTIONS if name not in ("all_pairs", "independent")])
def test_dependent_samples_leave_nothing_to_a_guess(question):
    class Dependent(mq.Sampling):
        all_pairs = independent = False

    with pytest.raises(mq.SettingError, match=f"sampling='Dependent': does not say `{question}`"):
        getattr(Dependent(), question) if question != "walk" else Dependent().walk(LAKE)


def refused(sampling: Any) -> str:
    with pytest.raises(mq.SettingError) as error:
        check_sampling(sampling, LAKE)
    with pytest.raises(mq.SettingError, match=re.escape(str(error.value)[:60])):
        mq.run(LAKE, mq.QLearning(), sampling=sampling, iterations=10, n_seeds=1)
    return str(error.value)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (lambda mdp: np.ones(3) / 3, r"must have the shape \(16, 4\), not \(3,\)"),
        (lambda mdp: np.ones((16, 4)) / 64, "must be probabilities of the learned pairs of .* theirs is 0.6875"),
        (lambda mdp: mdp.learned / 10, "sum to 1; theirs is 4.4"),
        (lambda mdp: mdp.learned * np.nan, "must be probabilities of the learned pairs"),
        (lambda mdp: "uniform", r"must return probabilities \(16, 4\), not 'uniform'"),
        (lambda mdp: None, r"must return probabilities \(S, A\)"),
        (lambda mdp: mdp.lerned, r"raised AttributeError.*test_sampling_protocol.py, line \d+"),
    ],
)
def test_what_is_no_distribution_is_refused(said, words):
    sampling = type("Wrong", (EachPair,), {"distribution": lambda self, mdp: said(mdp)})()
    assert re.search(words, refused(sampling))


def test_what_draws_otherwise_than_it_says_is_refused_with_the_figure():
    class Fickle(EachPair):
        calls: ClassVar[list] = []

        def distribution(self, mdp):
            self.calls.append(1)
            weights = np.where(mdp.learned, 1.0 + 0.1 * (len(self.calls) % 2) * (np.arange(4) == 0), 0)
            return weights / weights.sum()

    class Drifting(EachPair):
        calls: ClassVar[list] = []

        def distribution(self, mdp):
            self.calls.append(1)
            weights = np.where(mdp.learned, 1.0 + 1e-5 * len(self.calls) * (np.arange(4) == 0), 0)
            return weights / weights.sum()

    class Elsewhere(mq.Markovian):
        def distribution(self, mdp):
            return EachPair().distribution(mdp)

    found = re.search(r"chi-square ([\d.]+) on 43 degrees of freedom in 65536 draws", refused(Fickle()))
    assert found and 100 < float(found[1]) < 1000
    assert re.search(r"asked again, it gives other probabilities \(total variation [\d.e-]+\)", refused(Drifting()))
    away = np.abs(EachPair().distribution(LAKE) - stationary(mq.Markovian(), LAKE)).sum() / 2
    assert f"another stationary distribution (total variation {away:.3g})" in refused(Elsewhere())
    check_sampling(EachPair(), LAKE)
    check_sampling(type("Renamed", (mq.Markovian,), {})(), LAKE)


def test_a_simulator_cannot_be_drawn_from():
    cart = mq.simulator("CartPole-v1")
    with pytest.raises(mq.SettingError, match="sampling='EachPair': needs an exact model"):
        mq.run(cart, mq.QLearning(), sampling=EachPair(), features=mq.rbf(cart), iterations=10, n_seeds=1)
