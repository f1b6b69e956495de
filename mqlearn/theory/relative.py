"""The asymptotic covariance of relative Q-learning, beside that of Q-learning, with steps c/k and synchronous samples.

Relative Q-learning takes kappa <mu, Q> off the target, mu uniform over the pairs. Near its fixed point the mean of its
target moves by g P* - kappa 1 mu', so that

    (I/2 - c A) Sigma + Sigma (I/2 - c A)' + c^2 D = 0,    A = I - g P* + kappa 1 mu',

kappa = 0 for Q-learning, D the variances of one draw. Constants, of which A is 1 - g + kappa times the same constant,
no longer are the slowest mode: that is 1 - g lambda, lambda the other eigenvalues of P*. Source: Devraj and Meyn 2022.
"""

import numpy as np

from mqlearn.errors import SettingError
from mqlearn.problems.mdp import FiniteMDP
from mqlearn.theory.asymptotic import check_gain
from mqlearn.theory.linearisation import linearise, spectrum


def second_eigenvalue(mdp: FiniteMDP) -> float:
    """The second largest modulus among the eigenvalues of P*, the moves under the optimal policy; 0 if there is none.

    1 less it is the spectral gap. Raises SettingError for a model that is too large.
    """
    moduli = np.sort(np.abs(spectrum(linearise(mdp))))
    return float(moduli[-2]) if len(moduli) > 1 else 0.0


def relative_covariance(mdp: FiniteMDP, gain: float, kappa: float = 0.0, reward: str = "mean") -> np.ndarray:
    """(n, n): what the covariance of sqrt(k) times the error tends to, over the n counted pairs, with steps gain/k.

    The error is that from the fixed point of the rule, Q* - kappa <mu, Q*>/(1 - g + kappa).   reward: in the target,
    "mean" or "sampled". Raises SettingError for a gain at or below the critical one, for another reward, and for a
    model that is too large or has terminal states, where relative Q-learning has another fixed point.
    """
    from scipy.linalg import solve_continuous_lyapunov

    if kappa and mdp.terminal.any():
        raise SettingError("env", mdp.name, "must go on for ever: relative Q-learning has no such theory elsewhere")
    model = linearise(mdp, reward)
    n = len(model.pairs)
    drift = np.eye(n) - model.discount * model.moves @ model.share + kappa / n
    check_gain(gain, gain * np.linalg.eigvals(drift))
    return solve_continuous_lyapunov(0.5 * np.eye(n) - gain * drift, -(gain**2) * np.diag(model.noise))


def up_to_a_constant(sigma: np.ndarray) -> np.ndarray:
    """(n, n): the covariance of the errors less their mean over the pairs, of a covariance (n, n) of errors."""
    centred = sigma - sigma.mean(0)
    return centred - centred.mean(1)[:, None]
