"""What a rule with state needs of a run: consecutive samples, and a step size or none."""

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.errors import SettingError
from mqlearn.stateful.step_size import uses_step_size


class Base(mq.Stateful):
    compiled = False

    def init(self, q0):
        return {"q": q0}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha)


class Traces(Base):
    needs = ("consecutive",)


def run(rule, **settings):
    return mq.run(mq.two_state(), rule, iterations=20, n_seeds=2, **settings)


@pytest.mark.parametrize("sampling", [mq.Synchronous(), mq.Replay(), mq.IID(restart_probability=0.1)])
def test_traces_are_refused_where_samples_are_not_consecutive(sampling):
    with pytest.raises(SettingError, match=rf"sampling='{sampling.name}': has no consecutive samples, which Traces"):
        run(Traces(), sampling=sampling)
    run(Base(), sampling=sampling)


def test_traces_follow_a_chain():
    run(Traces(), sampling=mq.Markovian())


def test_traces_are_refused_on_the_command_line(work, mqlearn):
    (work / "traces.py").write_text(
        "import mqlearn as mq\nclass Mine(mq.Stateful):\n    needs = ('consecutive',)\n"
        "    def init(self, q0): return {'q': q0}\n    def step(self, z, s, c): s.move(z.q, s.target(z.q), c.alpha)\n"
    )
    done = mqlearn("run", "plugins=[traces]", "algorithm._target_=traces.Mine", "sampling=replay", "tracking=none")
    assert done.code == 2 and "sampling='replay': has no consecutive samples" in done.err


def test_an_unknown_need_is_refused_with_the_nearest():
    class Wrong(Base):
        needs = ("consecutve",)

    with pytest.raises(SettingError, match=r"needs=\('consecutve',\).*did you mean 'consecutive'"):
        run(Wrong())


class Own(Base):
    def numbers(self, k):
        return {"share": 1 / (k + 1)}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.share)


class Unread(Base):
    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), 0.1)


class Through(Own):
    def numbers(self, k):
        return {"share": 0.5 * self.alpha(k), "other": 1.0}


class ByName(Own):
    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), getattr(c, "alpha", 0.1))

    def numbers(self, k):
        return {"alpha": self.alpha(k)}


class Beside(Own):
    def init(self, q0):
        return {"q": q0 + self.alpha(np.zeros(1))}


USED = {
    Base: True,
    Own: False,
    Unread: False,
    Through: True,
    ByName: True,
    Beside: True,
    mq.Phased: False,
    mq.Zap: True,
}


@pytest.mark.parametrize("kind", USED, ids=lambda kind: kind.__name__)
def test_whether_a_step_size_is_used_is_seen_and_right(kind):
    used = uses_step_size(kind())
    assert used == USED[kind]
    others = [run(kind(), step_size=mq.Constant(alpha)).q for alpha in (0.1, 0.2)]
    assert used or (others[0] == others[1]).all()
    results = run(kind(), step_size=mq.Constant(0.1)), run(kind())
    said = "step_size=Constant(alpha=0.1) has no effect"
    assert [sum(said in one for one in result.warnings) for result in results] == [int(not used), 0]
    assert [result.facts.get("step_size_used", True) for result in results] == [used, used]


def test_the_run_says_that_its_step_size_is_not_used(work, mqlearn):
    small = ("algorithm=phased", "env=two_state", "iterations=20", "n_seeds=2", "tracking=none")
    done = mqlearn("run", *small)
    assert "step size not used" in done.out and "harmonic" not in done.out and "has no effect" not in done.err
    done = mqlearn("run", *small, "step_size=constant", "step_size.alpha=0.3")
    assert "step_size=Constant(alpha=0.3) has no effect" in done.err
