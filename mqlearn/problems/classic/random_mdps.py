"""Garnets: models of a given size without further structure (Bhatnagar et al. 2009), drawn, or by a formula.

The seed of a map has nothing to do with the seeds of learning.
"""

import numpy as np

from mqlearn.checks import check_int, choice
from mqlearn.errors import SettingError
from mqlearn.finding import no_effect
from mqlearn.problems.classic.building import Outcomes, checked_size, finite_mdp, uniform_over
from mqlearn.problems.mdp import FiniteMDP

_DIALECTS = ("uniform", "normalised", "stick")


def garnet(
    n_states: int = 20,
    n_actions: int = 3,
    n_successors: int = 3,
    *,
    map_seed: int = 0,
    dialect: str = "uniform",
    n_rewarding: int = 5,
    discount: float = 0.9,
) -> FiniteMDP:
    """A random model: each pair has n_successors different successors, drawn without replacement. It starts in 0.

    uniform (as in the code of the PID papers): equal probabilities; arriving at one of n_rewarding states pays its
    reward, uniform on (0, 1), elsewhere 0.
    normalised (as in jaxdp): probabilities are normalised uniform numbers; each (x, u, y) pays a reward of its own,
    uniform on (0, 1).
    stick (Bhatnagar et al. 2009): probabilities are the gaps between n_successors - 1 sorted uniform numbers; R(x, u)
    is standard normal.
    The same map_seed gives the same arrays. n_rewarding belongs to the dialect uniform alone.
    n_states, n_actions: S and A.   dialect: uniform, normalised or stick.   discount: in (0, 1). Raises SettingError
    for a value that is not admissible.

    >>> mq.garnet(5, 2, 3, map_seed=1).successors.shape
    (5, 2, 3)
    """
    dialect = choice("env.dialect", dialect, _DIALECTS)
    n_states, n_actions, b = _sizes(n_states, n_actions, n_successors)
    map_seed = check_int("env.map_seed", map_seed, 0)
    n_rewarding = check_int("env.n_rewarding", n_rewarding, 0)
    if dialect == "uniform" and n_rewarding > n_states:
        raise SettingError("env.n_rewarding", n_rewarding, f"must be at most the number of states, {n_states}")
    generator = np.random.Generator(np.random.Philox(map_seed))
    arrival = np.zeros(n_states)
    if dialect == "uniform":
        paid = generator.choice(n_states, n_rewarding, replace=False)
        arrival[paid] = generator.random(n_rewarding)
    shape = (n_states, n_actions, b)
    successors, probabilities, rewards = np.empty(shape, np.int32), np.full(shape, 1 / b), np.empty(shape)
    for x, u in np.ndindex(shape[:2]):
        successors[x, u] = generator.choice(n_states, b, replace=False)
        if dialect == "normalised":
            p = 1 - generator.random(b)  # above 0
            probabilities[x, u], rewards[x, u] = p / p.sum(), generator.random(b)
        elif dialect == "stick":
            probabilities[x, u] = np.diff(np.sort(generator.random(b - 1)), prepend=0.0, append=1.0)
            rewards[x, u] = generator.standard_normal()
    if dialect == "uniform":
        rewards = arrival[successors]
    name = f"garnet {dialect} {n_states},{n_actions},{b} map_seed={map_seed}"
    name += f" n_rewarding={n_rewarding}" if dialect == "uniform" else ""
    vain = dialect != "uniform" and n_rewarding != 5
    notes = (no_effect("env.n_rewarding", n_rewarding, f"dialect is {dialect}").text,) if vain else ()
    return FiniteMDP(
        successors=successors,
        probabilities=probabilities,
        rewards=rewards,
        terminal=np.zeros(n_states, bool),
        admissible=np.ones(shape[:2], bool),
        start=uniform_over([0], n_states),
        discount=discount,
        goal=np.zeros(n_states, bool),
        name=name,
        notes=notes,
    )


def garnet_fixed(n_states: int = 20, n_actions: int = 3, n_successors: int = 3, *, discount: float = 0.9) -> FiniteMDP:
    """A garnet by a formula, without random numbers (a definition of this package). It starts in 0.

    Successor j = 0..b-1 of (x, u) is (7x + 11u + 5j^2 + 1) mod S, or the next state (mod S) that is not taken yet;
    its weight is 1 + ((3x + 5u + 7j) mod 4), normalised; R(x, u) = ((x^2 + 3u) mod 11) / 10.
    S=20, A=3, b=3, g=.9: V(0) = 8.4672913367.
    n_states, n_actions, n_successors: S, A and b.   discount: in (0, 1). Raises SettingError for a value that is not
    admissible.
    """
    n_states, n_actions, b = _sizes(n_states, n_actions, n_successors)

    def outcomes(x: int, u: int) -> Outcomes:
        taken: list[int] = []
        for j in range(b):
            y = (7 * x + 11 * u + 5 * j * j + 1) % n_states
            while y in taken:
                y = (y + 1) % n_states
            taken.append(y)
        weights = [1 + (3 * x + 5 * u + 7 * j) % 4 for j in range(b)]
        reward = ((x * x + 3 * u) % 11) / 10
        return [(weight / sum(weights), y, reward) for weight, y in zip(weights, taken, strict=True)]

    return finite_mdp(f"garnet_fixed {n_states},{n_actions},{b}", n_states, n_actions, outcomes, discount=discount)


def _sizes(n_states: int, n_actions: int, n_successors: int) -> tuple[int, int, int]:
    """S, A and b, if they can be, and fit into memory. Raises SettingError."""
    n_states, n_actions = check_int("env.n_states", n_states, 1), check_int("env.n_actions", n_actions, 1)
    b = check_int("env.n_successors", n_successors, 1)
    if b > n_states:
        raise SettingError("env.n_successors", b, f"must be at most the number of states, {n_states}")
    checked_size("env.n_states", n_states, lambda n: n * n_actions * b)
    return n_states, n_actions, b
