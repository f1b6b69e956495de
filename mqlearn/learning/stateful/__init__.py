"""Learning by rules with state of their own (`mqlearn.algorithms.stateful`): plain, and compiled.

check                             what a rule must be and where it can be run, found out before a run
plain                             the verbs of a sample in Python
source, text, expressions, values  the text of a step, and how it becomes lines of a loop
verbs, sweep_verbs, point_verbs, written  what the verbs become in it
loops, module                     the module that is generated for a rule, and compiled
learners, sweeps                  what is remembered of each seed, and how samples reach the step
simulated                         the same on simulators of Gymnasium, by the plain form
"""
