"""Rules with state of their own (`mqlearn.algorithms.stateful`) as loops: plain, and compiled.

check                             what a rule must be and where it can be run, found out before a run
reference, pairs                  the verbs of a sample in Python, and what they need of a model
source, text, expressions, values, helpers  the text of a step, and how it becomes lines of a loop
verbs, sweep_verbs, point_verbs, written  what the verbs become in it
loops, module                     the module that is generated for a rule, and compiled
step_size                         whether a rule uses its step size

What is remembered of each seed, and how samples reach the step, is in `mqlearn.learners`.

Why the step is rewritten line by line: verbs as Numba's overloads on named tuples, chosen by type, with the user's text
as it stands in a generated module, were tried on numba 0.68. What ran (features, minibatches, Jacobians, second
successors) had the same bits, and came from disk in a second process. What failed: with inline="always" numba drops
what a verb writes to an array of a named tuple, silently. With forceinline DoubleQ takes 3 times as long by one
transition and 1.1 by all pairs, MomentumQ 1.7 and 1.9, where 1.1 was wanted: arrays that are chosen at run time are
counted, and those that verbs return allocated, where lines share one loop. A first compilation takes 1.3 to 6 times as
long. All tables have one type, so that neither `follow` in O(1) nor the mean of the iterates goes without reading the
text; and a table mixed with what a verb gives, another rule in another mode, compiles without a word.
"""
