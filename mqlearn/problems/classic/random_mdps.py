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


def dense_random(
    n_states: int = 4, n_actions: int = 3, *, map_seed: int = 3154, dialect: str = "averaged", discount: float = 0.9
) -> FiniteMDP:
    """A random model in which every state can follow every pair, as the code of a paper draws it with NumPy's old
    generator (`RandomState`): the very models of these papers. It starts in 0.

    averaged (Li, Yang, Liang, Zhang, Jordan 2023, Averaged Q-learning): rows of P are normalised uniform numbers,
    R(x, u) is uniform on (0, 1). The defaults are theirs: Q*(0, 0) = 1.726979 at discount .6, 6.913550 at .9.
    sor (Kamanchi, Diddigi, Bhatnagar 2019, SOR Q-learning): the same rows with 5 on the diagonal, normalised, and R(x,
    u, y) uniform on (-1, 1). Theirs are n_states=10, n_actions=5, map_seed=100, 200, ..., 10000, discount .6.
    n_states, n_actions: S and A.   map_seed: of the generator.   dialect: averaged or sor.   discount: in (0, 1).
    Raises SettingError for a value that is not admissible.

    >>> mq.optimal(mq.dense_random(discount=0.6)).q[0, 0].round(6).item()
    1.726979
    """
    dialect = choice("env.dialect", dialect, ("averaged", "sor"))
    n_states, n_actions, _ = _sizes(n_states, n_actions, 1)
    checked_size("env.n_states", n_states, lambda n: n * n * n_actions)
    generator = np.random.RandomState(check_int("env.map_seed", map_seed, 0, 2**32 - 1))
    if dialect == "averaged":
        p, r = _averaged_draws(generator, n_states, n_actions)
    else:
        p, r = _sor_draws(generator, n_states, n_actions)

    def outcomes(x: int, u: int) -> Outcomes:
        return np.column_stack([p[x, u] / p[x, u].sum(), np.arange(n_states), np.broadcast_to(r[x, u], n_states)])

    name = f"dense_random {dialect} {n_states},{n_actions} map_seed={map_seed}"
    return finite_mdp(name, n_states, n_actions, outcomes, discount=discount)


def _averaged_draws(generator: np.random.RandomState, n_states: int, n_actions: int) -> tuple[np.ndarray, np.ndarray]:
    """P (S, A, S), not normalised, and R (S, A, 1). A mask that leaves out nothing is drawn first."""
    generator.binomial(1, 1.0, size=(n_states * n_actions, n_states))
    p = generator.uniform(0, 5, size=(n_states, n_actions, n_states))
    return p, generator.uniform(0, 1, size=(n_states, n_actions, 1))


def _sor_draws(generator: np.random.RandomState, n_states: int, n_actions: int) -> tuple[np.ndarray, np.ndarray]:
    """P, not normalised, and R, both (S, A, S). A mask is drawn for each pair, which is not used."""
    p, r = np.empty((2, n_states, n_actions, n_states))
    for u in range(n_actions):
        for x in range(n_states):
            mask, edge = generator.random_sample(n_states), generator.random_sample()
            if not (mask > edge).any():
                generator.randint(0, n_states)
            p[x, u] = generator.random_sample(n_states)
            p[x, u, x] = 5.0
            r[x, u] = 2 * generator.random_sample(n_states) - 1
    return p, r


def _sizes(n_states: int, n_actions: int, n_successors: int) -> tuple[int, int, int]:
    """S, A and b, if they can be, and fit into memory. Raises SettingError."""
    n_states, n_actions = check_int("env.n_states", n_states, 1), check_int("env.n_actions", n_actions, 1)
    b = check_int("env.n_successors", n_successors, 1)
    if b > n_states:
        raise SettingError("env.n_successors", b, f"must be at most the number of states, {n_states}")
    checked_size("env.n_states", n_states, lambda n: n * n_actions * b)
    return n_states, n_actions, b
