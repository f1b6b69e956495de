"""The asymptotic error of rules that are not four numbers a step, each by name.

Some have a known limit: the floor M D M'/N of averaging k^-w and of matrix gains, or the constant of another rule.
The mean of a c/k rule and averaging Q are a linear recursion of two tables z on one clock,

    z_{k+1} = z_k + (A z_k + noise)/k,    (I/2 + A) Sigma + Sigma (I/2 + A)' + Cov(noise) = 0.

All functions take the reward in the target, "mean" or "sampled", and raise SettingError for a model that is too large.
`predicted` chooses among them by the rule.
"""

import numpy as np

from mqlearn.algorithms import (
    AveragingQ,
    CertaintyEquivalence,
    DoubleQ,
    MoVI,
    PolSA,
    QLearning,
    Stateful,
    VarianceReduced,
    Zap,
)
from mqlearn.algorithms.rule import Rule
from mqlearn.algorithms.step_sizes import Constant
from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.theory.asymptotic import (
    Asymptotic,
    answer,
    check_gain,
    covariance,
    floor_of,
    noise_of_step,
    recursion,
    sandwich,
)
from mqlearn.theory.limits import Limit, limit_of, slow_limit_of
from mqlearn.theory.linearisation import Linearisation, linearise, spectrum


def predicted(mdp: FiniteMDP, rule: Rule | Stateful, reward: str = "mean") -> Asymptotic:
    """The asymptotic error of what a rule with its step size is measured by: its table, of an averaged rule the mean.

    Where nothing is known of a rule, or not with its settings, `reason` says so.
    """
    if rule.clip is not None:
        return answer(
            linearise(mdp, reward, rule.batch), reward, None, "nothing is predicted for tables that are clipped"
        )
    if rule.burn_in:
        none = "nothing is predicted for a mean that leaves out the first iterates"
        return answer(linearise(mdp, reward, rule.batch), reward, None, none)
    if isinstance(rule, Rule):
        form = averaged if rule.averaged else covariance
        return form(mdp, rule, reward, rule.batch)
    try:
        return _of_state(mdp, rule.at(mdp.discount), reward)
    except SettingError as error:
        model = linearise(mdp, reward, rule.batch)
        return answer(model, reward, None, str(error))


def _of_state(mdp: FiniteMDP, rule: Stateful, reward: str) -> Asymptotic:
    """A rule with state of its own. Raises SettingError where nothing is known."""
    name, step = type(rule).__name__, rule.step_size
    assert step is not None  # of a rule at a discount

    def unknown(reason: str) -> SettingError:
        return SettingError("algorithm", name, reason)

    if rule.averaged:
        raise unknown("nothing is predicted for the mean of the iterates of a rule with state")
    if isinstance(rule, VarianceReduced):
        raise unknown("at the ends of epochs 4/3 of the floor, a draw of the last batch; in between its table rests")
    if isinstance(rule, CertaintyEquivalence):
        return certainty_equivalence(mdp, reward)
    if isinstance(rule, MoVI):
        if not (isinstance(step, Constant) and step.alpha == 1 and rule.measured == "h"):
            raise unknown("a constant is known for step 1, measured on h")
        return movi(mdp, reward, rule.batch)
    if not isinstance(rule, Zap | PolSA | DoubleQ | AveragingQ):
        raise unknown("nothing is predicted for this rule")
    c = limit_of(QLearning().with_step_size(step)).c
    if isinstance(rule, DoubleQ):
        if rule.clock == "own":
            raise unknown("a constant is known for the global clock")
        return double_q(mdp, rule.factor * c, reward, rule.batch)
    if isinstance(rule, AveragingQ):
        return averaging_q(mdp, c, rule.d, reward, rule.batch)[rule.measured == "b"]
    if abs(c - 1) > 1e-6:
        raise SettingError("step_size", step, "the constant of a matrix gain is known for 1/k alone")
    return zap(mdp, reward, rule.batch)


def averaged(mdp: FiniteMDP, rule: Rule, reward: str = "mean", batch: int = 1) -> Asymptotic:
    """The Polyak-Ruppert mean of the iterates of a four-number rule.

    Of a step like k^-w, 1/2 < w < 1: M Vs M' with the noise of one step, which is the floor when t -> 0. Of a step
    like c/k the mean is worse than the iterate itself: twice its covariance for SpeedyQ, NeSA and root-SA.
    """
    model = linearise(mdp, reward, batch)
    try:
        return answer(model, reward, _mean_of_iterates(model, rule))
    except SettingError as error:
        return answer(model, reward, None, str(error))


def _mean_of_iterates(model: Linearisation, rule: Rule) -> np.ndarray:
    """With A = -c G (I - g P*) the mean has the covariance -(A^-1 Sigma + Sigma A'^-1).

    -A^-1 = M (I - H)/c = (a I + (a g + b) P (I - g C)^-1 Pi)/c, in the terms of `asymptotic.recursion`.
    """
    g = model.discount
    try:
        q, t, c = limit = limit_of(rule)
    except SettingError:
        return sandwich(model, 1.0, -g, noise_of_step(model, slow_limit_of(rule)))
    sigma = recursion(model, limit)
    settled = np.linalg.solve(np.eye(len(model.chain)) - g * model.chain, model.share @ sigma)
    half = ((1 + q) * sigma + ((1 + q) * g + t * g) * model.moves @ settled) / c
    return half + half.T


def zap(mdp: FiniteMDP, reward: str = "mean", batch: int = 1) -> Asymptotic:
    """Zap Q-learning (Devraj and Meyn 2017), step 1/k, whose gain tends to M: the floor. Known; not proven here."""
    model = linearise(mdp, reward, batch)
    return answer(model, reward, floor_of(model))


def polsa(mdp: FiniteMDP, reward: str = "mean", batch: int = 1) -> Asymptotic:
    """PolSA, matrix momentum (Devraj, Busic, Meyn 2019), step 1/k: the floor. Known; not proven here."""
    return zap(mdp, reward, batch)


def certainty_equivalence(mdp: FiniteMDP, reward: str = "mean") -> Asymptotic:
    """The plan on the counts of k draws of each pair: the floor, where no two actions tie.

    Near the model its plan moves by M times the mean of k targets at Q*, minus Q* (the delta method).
    """
    model = linearise(mdp, reward)
    return answer(model, reward, floor_of(model))


def variance_reduced(mdp: FiniteMDP, reward: str = "mean") -> Asymptotic:
    """Variance-reduced Q-learning (Wainwright 2019), batches that grow by 4, per sample: 4/3 of the floor.

    Only the last batch counts, which is three quarters of the draws. Known; not proven here.
    """
    model = linearise(mdp, reward)
    return answer(model, reward, floor_of(model) * 4 / 3)


def double_q(mdp: FiniteMDP, c: float, reward: str = "mean", batch: int = 1) -> Asymptotic:
    """The mean of the two tables of double Q-learning (van Hasselt 2010), step c/k on the common clock.

    Each table is updated half of the time, so it is Q-learning with c/2 (Weng et al. 2020): twice the step is needed.
    """
    return covariance(mdp, Limit(0.0, 0.0, c / 2), reward, batch)


def movi(mdp: FiniteMDP, reward: str = "mean", batch: int = 1) -> Asymptotic:
    """The mean h of the iterates q of momentum value iteration (Vieillard et al. 2019) with step 1: SpeedyQ's constant.

    q itself is an autoregression of the same noise, and never converges.
    """
    return covariance(mdp, Limit(0.0, -1.0, 1.0), reward, batch)


def averaging_q(
    mdp: FiniteMDP, c: float, d: float = 1.0, reward: str = "mean", batch: int = 1
) -> tuple[Asymptotic, Asymptotic]:
    """Tables A and B of averaging Q-learning (Lee and He 2020), step c/k on one clock.

    From old tables a += al (r + g max b(y) - a), b += al d (a - b): A = c [[-I, g P*], [d I, -d I]], noise in a alone.
    The slowest mode of d = 1 is 1 - sqrt(g), so c = 2/(1-g) suits it.
    """
    from scipy.linalg import solve_continuous_lyapunov

    model = linearise(mdp, reward, batch)
    n, identity = len(model.pairs), np.eye(len(model.pairs))
    modes = spectrum(model)
    small = np.zeros((len(modes), 2, 2), complex)
    small[:, 0, 0], small[:, 0, 1], small[:, 1, 0], small[:, 1, 1] = c, -c * model.discount * modes, -c * d, c * d
    try:
        check_gain(c, np.linalg.eigvals(small))
    except SettingError as error:
        reason = str(error)
        return answer(model, reward, None, reason), answer(model, reward, None, reason)
    drift = c * np.block([[-identity, model.discount * model.moves @ model.share], [d * identity, -d * identity]])
    noise = np.diag(np.concatenate([c**2 * model.noise / batch, np.zeros(n)]))
    sigma = solve_continuous_lyapunov(np.eye(2 * n) / 2 + drift, -noise)
    return answer(model, reward, sigma[:n, :n]), answer(model, reward, sigma[n:, n:])
