# ruff: noqa: B018, E402
# pyright: reportMissingImports=false, reportUnusedExpression=false
# %% [markdown]
# # mqlearn in ten minutes
#
# Is a rule faster than another, and by how much? This notebook asks that of two known rules and of one of your own:
# the truth, a run, a picture, a comparison, a rule, a verdict. Each cell takes a few seconds.

# %%
import mqlearn as mq

# %% [markdown]
# ## The truth
#
# A problem is a finite Markov decision process whose model is known. So the optimal table Q* is known too, with a
# certified error, and every rule is measured against it.

# %%
lake = mq.frozen_lake("4x4", discount=0.9)
best = mq.optimal(lake)
lake, best

# %% [markdown]
# ## A run
#
# A run is one rule on one problem with many seeds. A seed is one stream of random transitions: all rules see the same
# ones. `q_error` is the largest error of the table Q_k against Q*, over the state-action pairs that count.

# %%
plain = mq.run(lake, mq.QLearning(), iterations=10_000, n_seeds=20)
speedy = mq.run(lake, mq.SpeedyQ(), iterations=10_000, n_seeds=20)
plain, speedy

# %% [markdown]
# ## A picture, and the numbers
#
# The line is the mean over the seeds, the band its 95 % interval. `frame()` is a pandas table.

# %%
speedy.plot("q_error")

# %%
speedy.frame().tail(3)

# %% [markdown]
# ## A comparison
#
# Runs that the command line makes are kept on disk, each known by its settings: what is finished is never run again.
# This sweep is three rules on one map.

# %%
# !mqlearn run -m algorithm=q_learning,speedy_q,momentum_q experiment.name=tutorial tracking=none

# %% [markdown]
# `mq.compare` gives the verdict on each pair of rules. The unit is the seed: seeds that met the same samples are
# paired, and p is corrected over all pairs. `no_difference` means that none was shown.

# %%
for pair in mq.compare(mq.load("tutorial")):
    print(f"{pair['a']} or {pair['b']}: {pair['verdict']}, p = {pair['p_corrected']:.2g}")

# %% [markdown]
# ## A rule of your own
#
# A rule is its equation. This one is Q-learning plus a tenth of the last move. `self.step_size(k)` is a_k; the step
# size 1/(1 + (1 - discount)(k + 1)) suits Q-learning better than 1/(k + 1) does.


# %%
class HeavyBall(mq.Rule):
    def update(self, k, q, q_prev, target, target_prev):
        a = self.step_size(k)
        return (1 - a) * q + a * target + 0.1 * (q - q_prev)


step_size = mq.RescaledLinear(discount=0.9)
rules = {"Q-learning": mq.QLearning(), "heavy ball": HeavyBall(), "SpeedyQ": mq.SpeedyQ()}
errors = {}
for name, rule in rules.items():
    errors[name] = mq.run(lake, rule, step_size=step_size, iterations=10_000, n_seeds=20).curves["q_error"]
    print(f"{name:10}  mean error {errors[name][:, -1].mean():.4f}")

# %% [markdown]
# Is that a difference? Seed by seed the rules met the same samples, so the question is about the differences: a
# test of their signs, and an interval of their mean.

# %%
from mqlearn.significance import sign_flip
from mqlearn.statistics import bootstrap_interval

difference = errors["heavy ball"][:, -1] - errors["Q-learning"][:, -1]
interval = bootstrap_interval(difference)
print(f"mean difference {difference.mean():.5f}, 95 % interval {interval.low:.5f} to {interval.high:.5f}")
print(f"p = {sign_flip(difference).p:.3g}")

# %% [markdown]
# ## Where does it stand?
#
# A suite is a list of problems, with a budget of transitions and seeds. `mq.bench` tunes your rule on each, on other
# seeds, and ranks it among the rules whose results are there. The score is the error over the samples, as a factor of
# that of tuned Q-learning: below 1 is better.

# %%
board = mq.bench(HeavyBall(), suite="paper")
for line in board["rules"]:
    if line["setting"] == "tuned" and line["score"] is not None:
        print(f"{line['rule']:14}  {line['score']:.3f}, 95 % interval {line['low']:.3f} to {line['high']:.3f}")

# %% [markdown]
# ## Where to go on
#
# - `mqlearn new rule heavy_ball` writes such a rule as a file of yours, with its yaml and a test, and says how to run
#   it; `mqlearn new problem my_problem` does the same for a problem.
# - `mqlearn compare experiment.name=tutorial` prints the whole comparison, `mqlearn report experiment.name=tutorial`
#   makes a page of it.
# - `mqlearn --help` lists all verbs.
