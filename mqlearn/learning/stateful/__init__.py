"""Learning by rules with state of their own (`mqlearn.algorithms.stateful`): plain, and compiled."""
