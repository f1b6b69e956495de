"""Mistakes in a rule with state of one's own, and rules where they have no meaning, from the command line.

Exit code 2, one line that names setting, file and line, and nothing written.
"""

import pytest

SMALL = ("iterations=40", "n_checkpoints=3", "n_seeds=2", "tracking=none")
MODULE = """
from dataclasses import dataclass
import numpy as np
import mqlearn as mq

@dataclass(frozen=True)
class Sound(mq.Stateful):
    def init(self, q0):
        return {"q": q0}

    def step(self, z, s, c):
        s.move(z.q, s.target(z.q), c.alpha)

"""
STEP = "    def step(self, z, s, c):\n        "
MISTAKES = {
    "UnknownVerb": (STEP + "s.mve(z.q, s.target(z.q), c.alpha)  # here", "no verb mve (did you mean 'move'?)"),
    "UnknownState": (STEP + "s.move(z.p, s.target(z.q), c.alpha)  # here", "there is no p"),
    "UnknownNumber": (STEP + "s.move(z.q, s.target(z.q), c.beta)  # here", "there is no beta"),
    "Replaced": (STEP.replace("\n", "  # here\n") + "z.q = z.q + c.alpha", "change it in place: z.q[:] = ..."),
    "NotFinite": (STEP.replace("\n", "  # here\n") + "z.q[:] = z.q / (0 * c.alpha)", "leaves z.q not finite"),
    "OwnStepSize": (STEP + "s.move(z.q, s.target(z.q), self.step_size(3))  # here", "hand on what depends on k by"),
    "WrongShape": ("    def estimate(self, z):  # here\n        return z.q[:3]", "must return a table of shape (5,)"),
    "PythonObject": ("    def init(self, q0):  # here\n        return {'q': q0, 'seen': {}}", "not dict"),
    "NoArray": ("    def numbers(self, k):  # here\n        return {'alpha': np.ones(3)}", "must be an array like k"),
    "Mixed": (STEP + "z.q[:] += c.alpha * (s.target(z.q) - z.q)  # here", "mixes what a verb gives with a whole table"),
    "NotCompiled": (STEP + "z.q[:] += 0.0 * np.gradient(z.q)  # here", "step() cannot be compiled"),
    "Returns": (STEP + "return z.q  # here", "step() returns nothing: it moves the state"),
}


def refused(mqlearn, outputs, *words: str) -> str:
    """The one line that a command line is refused with."""
    done = mqlearn("run", *SMALL, *words)
    assert done.code == 2, done.err
    assert len(done.err.strip().splitlines()) == 1, done.err
    assert not [one for one in outputs.rglob("*") if one.is_file()]
    return done.err


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_with_file_and_line(name, work, outputs, mqlearn):
    body, said = MISTAKES[name]
    module = f"mistake_{name.lower()}"
    text = f"{MODULE}class {name}(Sound):\n{body}\n"
    (work / f"{module}.py").write_text(text)
    line = next(i for i, one in enumerate(text.splitlines(), 1) if "# here" in one)
    told = refused(mqlearn, outputs, f"plugins=[{module}]", f"algorithm._target_={module}.{name}")
    assert said in told and f"{module}.py, line {line})" in told


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("algorithm=phased", "sampling=markovian"), "algorithm='phased'"),
        (("algorithm=polsa", "sampling=markovian", "sampling.behaviour=epsilon_greedy"), "not defined for PolSA"),
        (("algorithm=movi", "sampling=markovian", "sampling.clock=local"), "sampling.clock='local'"),
        (("algorithm=halpern_direct", "features=one_hot", "sampling=iid"), "algorithm='halpern_direct'"),
        (("algorithm=movi", "sampling=markovian", "sampling.update=rounds"), "sampling.update='rounds'"),
        (
            ("algorithm=movi", "sampling=markovian", "features=aggregation", "linear.previous_gradient=same_sample"),
            "linear.previous_gradient='same_sample'",
        ),
        (("algorithm=zap", "env=frozen_lake_128x128"), "and this machine has"),
        (("algorithm=q_learning", "algorithm.compiled=false"), "is a setting of rules with state of their own"),
    ],
)  # fmt: skip
def test_what_a_rule_does_not_have_is_refused_by_name(words, said, outputs, mqlearn):
    assert said in refused(mqlearn, outputs, *words)
