"""A user's rule, for the tests of the theory."""

from mqlearn import Rule


class RootSA(Rule):
    """p = 2 - a - eta, q = -(1-a)(1-eta), s = eta, t = -eta(1-a)."""

    def __init__(self, eta):
        self.eta = eta

    def update(self, k, q, q_prev, target, target_prev):
        a, eta = self.step_size(k), self.eta
        return (2 - a - eta) * q - (1 - a) * (1 - eta) * q_prev + eta * target - eta * (1 - a) * target_prev
