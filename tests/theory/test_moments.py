import itertools

import numpy as np
import pytest

import mqlearn as mq
from mqlearn.theory.asymptotic import covariance
from mqlearn.theory.moments import moments


def small():
    """Three states and a terminal one; one or two actions; two outcomes a pair, whose rewards differ."""
    p = np.zeros((4, 2, 4))
    p[0, 0, [1, 2]], p[0, 1, [0, 3]] = [0.6, 0.4], [0.5, 0.5]
    p[1, 0, [0, 2]], p[2, 0, [0, 3]], p[3, :, 3] = [0.3, 0.7], [0.8, 0.2], 1
    r = np.zeros((4, 2, 4))
    r[0, 0, [1, 2]], r[0, 1, [0, 3]], r[1, 0, [0, 2]], r[2, 0, [0, 3]] = [1, -1], [0.3, 0], [0.5, 2], [0, 3]
    admissible = np.array([[True, True], [True, False], [True, False], [True, True]])
    return mq.from_arrays(p, r, admissible=admissible, terminal=np.array([0, 0, 0, 1], bool), discount=0.8)


POLICY = (0, 0, 0)
PAIRS = [(0, 0), (0, 1), (1, 0), (2, 0)]


def evaluation(mdp, sampled):
    """Of each pair: two outcomes (probability, reward, pair that follows or None), by hand; and the fixed point."""
    table = []
    for x, u in PAIRS:
        mean = sum(mdp.probabilities[x, u] * mdp.rewards[x, u])
        outcomes = [
            (p, r if sampled else mean, None if y == 3 else PAIRS.index((y, POLICY[y])))
            for p, y, r in zip(mdp.probabilities[x, u], mdp.successors[x, u], mdp.rewards[x, u], strict=True)
            if p > 0
        ]
        table.append(outcomes)
    q = np.zeros(4)
    for _ in range(500):
        q = np.array([sum(p * (r + 0.8 * (0 if j is None else q[j])) for p, r, j in pair) for pair in table])
    return table, q


RULES = [mq.SpeedyQ(), mq.MomentumQ(2), mq.NeSA(0.4), mq.QLearning().with_step_size(mq.RescaledLinear(0.8))]


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: type(rule).__name__)
def test_moments_equal_those_of_all_samples_that_can_be_drawn(rule, sampled):
    mdp = small()
    assert mq.optimal(mdp).q.argmax(1)[0] == 0  # the policy that is held fixed
    table, star = evaluation(mdp, sampled)
    found = moments(mdp, rule, np.arange(4), "sampled" if sampled else "mean", q0=0.25)
    paths = [(1.0, np.full(4, 0.25), np.full(4, 0.25))]
    for k in range(4):
        first = sum(w * (q - star) for w, q, _ in paths)
        second = sum(w * (q - star) ** 2 for w, q, _ in paths)
        np.testing.assert_allclose(found.mean[k], first, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(found.second[k], second, rtol=1e-10, atol=1e-12)
        if k == 3:
            break
        a, b, c, d = rule.weights(k, k + 1)[0]
        after = []
        for w, q, before in paths:
            for drawn in itertools.product(*table):
                t = np.array([r + 0.8 * (0 if j is None else q[j]) for _, r, j in drawn])
                t_before = np.array([r + 0.8 * (0 if j is None else before[j]) for _, r, j in drawn])
                chance = np.prod([p for p, _, _ in drawn])
                after.append((w * chance, a * q + b * before + c * t + d * t_before, q))
        paths = after


@pytest.mark.parametrize("batch", [1, 4])
def test_moments_agree_with_simulated_policy_evaluation(batch):
    mdp, rule, n_seeds = small(), mq.NeSA(0.4), 4000
    table, star = evaluation(mdp, True)
    rng = np.random.default_rng(3)
    q = before = np.zeros((n_seeds, 4))
    k_last = 300
    weights = rule.weights(0, k_last)
    p0 = np.array([pair[0][0] for pair in table])
    r = np.array([[one[1] for one in pair] for pair in table])
    for k in range(k_last):
        second = rng.random((batch, n_seeds, 4)) >= p0

        def target(values, second=second):
            padded = np.concatenate([values, np.zeros((n_seeds, 1))], 1)
            ahead = [padded[:, [-1 if pair[i][2] is None else pair[i][2] for pair in table]] for i in (0, 1)]
            return np.where(second, r[:, 1] + 0.8 * ahead[1], r[:, 0] + 0.8 * ahead[0]).mean(0)

        a, b, c, d = weights[k]
        q, before = a * q + b * before + c * target(q) + d * target(before), q
    found = moments(mdp, rule, np.array([k_last]), "sampled", batch)
    squares = (q - star) ** 2
    deviation = squares.std(0, ddof=1) / np.sqrt(n_seeds)
    assert (np.abs(squares.mean(0) - found.second[0]) < 4 * deviation).all()  # 8 numbers at four standard errors
    assert (np.abs((q - star).mean(0) - found.mean[0]) < 4 * (q - star).std(0) / np.sqrt(n_seeds)).all()


@pytest.mark.parametrize(
    ("rule", "early", "late"),  # rms sqrt(k) at k = 1000 and 10,000, recomputed apart in plain NumPy
    [
        (mq.QLearning().with_step_size(mq.RescaledLinear(0.9)), 0.7546, 0.7542),
        (mq.SpeedyQ(), 0.9588, 0.9650),
        (mq.MomentumQ(2, shift="on"), 0.9323, 0.9614),
        (mq.NeSA(0.4), 0.6389, 0.6166),
    ],
    ids=["q_learning", "speedy_q", "momentum_q", "nesa"],
)
def test_moments_from_the_optimum_of_the_fixed_garnet(rule, early, late):
    mdp = mq.garnet_fixed(8, 2, 3, discount=0.9)
    found = moments(mdp, rule, np.array([1000, 10_000]), q0="optimal")
    assert found.rms_sqrt_k == pytest.approx([early, late], rel=1e-4)
    assert found.rms_sqrt_k[1] == pytest.approx(covariance(mdp, rule).rms_sqrt_k, rel=5e-3)
    assert found.reward == "mean" and found.discount == 0.9 and found.tied_states == 0


def test_a_start_at_the_optimum_has_no_error_and_wrong_checkpoints_are_refused():
    mdp = small()
    assert (moments(mdp, mq.SpeedyQ(), np.array([0]), q0="optimal").rms == 0).all()
    for steps in ([], [3, 2], [[1]], [-1, 2]):
        with pytest.raises(mq.SettingError, match="iteration"):
            moments(mdp, mq.SpeedyQ(), np.array(steps))
