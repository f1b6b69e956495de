"""Rules with state of their own: tables, gains and moments beside Q, written once for one seed.

A rule of this kind says what it remembers (`init`), what depends on the iteration alone (`numbers`), and how one
sample moves what it remembers (`step`):

    class DoubleQ(Stateful):
        draws_own = True

        def init(self, q0: np.ndarray) -> dict[str, Any]:
            return {"a": q0, "b": q0.copy()}

        def step(self, z: Any, s: Any, c: Any) -> None:
            a, b = (z.a, z.b) if s.uniform[0] < 0.5 else (z.b, z.a)
            s.move(a, s.target(b, a), c.alpha)

        def estimate(self, z: Any) -> Any:
            return (z.a + z.b) / 2

The same text serves every sampling mode. In an asynchronous mode (Markovian, replay, i.i.d.) the sample `s` is one
transition (x, u, r, y), and its verbs give numbers. In synchronous mode it is one transition of every state-action
pair, and they give arrays over the pairs. With linear features Phi they give numbers too, and what they move is a
parameter theta, along the features of the pair. In all of them

    value(q)              Q(x, u)
    best(q, by=None)      Q(y, v*), v* greedy in the table `by` (in `q` itself, if not given); 0 if y is terminal
    target(q, by=None)    r + discount best(q, by)
    add(q, change)        Q(x, u) += change                                   (theta += change Phi(x, u))
    move(q, to, share)    Q(x, u) += share (to - Q(x, u))
    add_best(q, change, by=None)    Q(y, v*) += change, nothing if y is terminal
    follow(later, q)      `later` becomes what `q` is now, in O(1) where `q` is moved by verbs alone
    add_jacobian(m, q, w) M += w psi (discount psi(y, v*) - psi)', psi the unit vector (the features) of the pair,
                          v* greedy in `q`; synchronously the mean matrix of all pairs, M += w (discount P_k S - I);
                          with another operator than Bellman's, the derivative of its target for discount psi(y, v*)
    add_gradient(q, w, d, by=None)    Q += w d times the derivative of the target in Q, taken at `by`: for Bellman's
                          operator Q(y, v*) += w discount d, v* greedy in `by`, nothing if y is terminal
    again                 the same verbs with a second successor, independent given (x, u); the reward is the first's
    uniform               four numbers in [0, 1) of the iteration, one set a seed, if the rule says `draws_own = True`
    discount              the discount
    single                whether the sample is one transition: False in synchronous mode; an `if` of it is decided
                          before the run, so that a mode can have a way of its own

and the tables are those before the step where a verb reads, as far as the step has not moved them yet.
`mqlearn.solve(a, b)` and `mqlearn.times(a, b)` are a linear solve and a product whose bits no library's threads change.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np

from mqlearn import source_text
from mqlearn.algorithms.rule import replaced
from mqlearn.algorithms.step_sizes import Harmonic, StepSize, own_of
from mqlearn.checks import PlainNumbers

MODES = ("synchronous", "asynchronous", "linear")
NEEDS = ("consecutive", "unbroken")


class Stateful(PlainNumbers):
    """Base of rules with state of their own. A new one defines `init` and `step`; see the module's text.

    step_size: alpha_k, what `numbers` hands on by default.   draws_own: whether `step` reads `s.uniform`.
    compiled: False runs `step` as Python, for what Numba does not know; the same bits, or to 1e-12 where a step has
    powers, exp, sums and the like.   modes: the sampling modes that it has.
    needs: ("consecutive",) for a rule whose traces follow a chain, each sample from the state where the last one led;
    "unbroken" beside it for one that cannot bear an episode that ends elsewhere than in a terminal state.
    acts: whether a behaviour that sees what is learned may follow `acting`.   discount: of the problem, as a run has
    set it, for `init` and `numbers`.   rounds_ties: whether the rounding of a step decides which of two tied actions is
    greedy; a run from a Q_0 that ties says so.   plans: of `CertaintyEquivalence` alone, which counts samples in place
    of a step, and has no state of this kind.   needs_discount: whether it has no meaning at a discount of 1.   batch,
    averaged, burn_in, clip: see `mqlearn.minibatch`, `averaged` and `clipped`.

    A run raises SettingError for a rule that does not keep to its contract.

    >>> class Plain(mq.Stateful):
    ...     compiled = False  # as a rule that is typed at the prompt must be: its text is in no file
    ...     def init(self, q0: np.ndarray) -> dict[str, Any]:
    ...         return {"q": q0}
    ...     def step(self, z: Any, s: Any, c: Any) -> None:
    ...         s.move(z.q, s.target(z.q), c.alpha)
    >>> ours, theirs = mq.run_together(mq.two_state(), [Plain(), mq.QLearning()], iterations=50, n_seeds=2)
    >>> bool(np.allclose(ours.q, theirs.q))
    True
    """

    step_size: StepSize | None = None  # None: its own, see `own_step_size`
    discount: ClassVar[float] = 0.9
    draws_own: ClassVar[bool] = False
    compiled: ClassVar[bool] = True
    modes: ClassVar[tuple[str, ...]] = MODES
    needs: ClassVar[tuple[str, ...]] = ()
    acts: ClassVar[bool] = True
    plans: ClassVar[bool] = False
    rounds_ties: ClassVar[bool] = False
    needs_discount: ClassVar[bool] = False
    batch: ClassVar[int] = 1
    averaged: ClassVar[bool] = False
    burn_in: ClassVar[float] = 0.0
    clip: ClassVar[tuple[float, float] | None] = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        source_text.keep(cls)

    def init(self, q0: np.ndarray) -> Mapping[str, np.ndarray]:
        """The state of one seed before iteration 0: name -> float64 array, later changed in place only.

        q0: (n,) the initial table over the state-action pairs, or the initial parameter (d,); a copy of its own.
        """
        raise NotImplementedError

    def numbers(self, k: np.ndarray) -> Mapping[str, Any]:
        """What `step` reads as c.NAME in iteration k: name -> array like k (float64, the iterations of a block)."""
        return {"alpha": self.alpha(k)}

    def step(self, z: Any, s: Any, c: Any) -> None:
        """Move the state z of one seed by the sample s of iteration k; c: the numbers of this k."""
        raise NotImplementedError

    def estimate(self, z: Any) -> np.ndarray:
        """The table (or parameter) that is compared with Q*; by default the first array of the state."""
        return next(iter(vars(z).values()))

    def acting(self, z: Any) -> np.ndarray:
        """The table that acts: a behaviour that sees it and the greedy evaluation follow it. By default `estimate`."""
        return self.estimate(z)

    @property
    def samples_per_iteration(self) -> int:
        """Transitions that one iteration takes for each pair that it learns from: 2 for a rule that reads `s.again`."""
        return 1

    def own_step_size(self, discount: float) -> StepSize:
        """The step size of the rule's source at this discount, taken where none is given."""
        return Harmonic()

    def own_operator(self, sampling: Any) -> Any:
        """The `Operator` that follows from the behaviour of a sampling, for rules that learn its values; else None."""
        return None

    def warnings(self, discount: float) -> list[str]:
        """Reasons why this rule lies outside its theory, or does not converge; shown and recorded, never fatal."""
        return []

    def effective(self, discount: float) -> dict[str, Any]:
        """What is used where a parameter is null or auto: name -> value; it is recorded beside the settings."""
        return {}

    def alpha(self, k: np.ndarray) -> np.ndarray:
        """alpha_k of the step size in use."""
        assert self.step_size is not None, "a run gives a rule its step size before it asks for numbers"
        return self.step_size(k)

    def with_step_size(self, step_size: StepSize) -> Self:
        """The same rule with another step size."""
        return replaced(self, step_size=step_size)

    def at(self, discount: float) -> Self:
        """The same rule on a problem of this discount, with a step size: its own, if none was given."""
        own = self.step_size or own_of(self, discount)
        return replaced(self, discount=discount, step_size=own)

    @property
    def number_names(self) -> tuple[str, ...]:
        """The names of `numbers`, in the order of the columns of `weights`."""
        return tuple(self.numbers(np.zeros(1)))

    def weights(self, first: int, stop: int) -> np.ndarray:
        """(stop - first, m): the m numbers of iterations first .. stop - 1."""
        numbers = self.numbers(np.arange(first, stop, dtype=np.float64))
        table = np.empty((stop - first, len(numbers)))
        for column, values in enumerate(numbers.values()):
            table[:, column] = values
        return table
