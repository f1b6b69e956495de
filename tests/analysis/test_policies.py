"""The table that acts beside the one that is measured: stored where they differ, drawn in the report."""

import numpy as np
import pytest
from compared import of, performed

import mqlearn as mq
from mqlearn.analysis.comparison import selection
from mqlearn.analysis.report import policies
from mqlearn.storage import runs


@pytest.fixture(scope="module")
def movi(tmp_path_factory):
    """Outputs with MoVI, which acts on its mean h, measured on h and on q."""
    rest = ["iterations=30", "n_checkpoints=5", "n_seeds=4", "tracking=none", "experiment.name=movi"]
    jobs = [["algorithm=movi", f"algorithm.measured={which}", *rest] for which in "hq"]
    return performed(tmp_path_factory.mktemp("movi"), jobs)


def test_the_acting_table_is_stored_where_it_is_another_one(movi):
    on_h, on_q = (of(movi, "movi", algorithm__measured=which) for which in "hq")
    assert "acting" not in on_h.tables
    np.testing.assert_array_equal(on_q.tables["acting"], on_h.tables["q"])  # the same h, of the same samples
    assert not np.array_equal(on_q.tables["q"], on_q.tables["acting"])
    assert runs.complete(on_q.folder) is not None
    runs.check_readable(on_q)


def test_of_linear_features_the_acting_parameter_is_stored():
    lake = mq.frozen_lake("4x4", discount=0.9)
    common = {"iterations": 200, "n_seeds": 2, "sampling": mq.Markovian(), "features": mq.one_hot(lake)}
    results = [mq.run(lake, rule, **common) for rule in (mq.MoVI(measured="h"), mq.MoVI(measured="q"))]
    assert results[0].theta_acting is None and results[1].acting is None
    np.testing.assert_array_equal(results[1].theta_acting, results[0].theta)


def test_shares_of_seeds_count_what_each_seed_would_do():
    lake = mq.frozen_lake("4x4", discount=0.9)
    tables = np.random.default_rng(3).integers(0, 3, (5, 16, 4)).astype(float)  # with ties
    policy, share = policies.chosen(lake, tables)
    optimum = mq.optimal(lake).q
    for x in range(16):
        chosen, good = np.zeros(4), 0.0
        for table in tables:
            greedy = [u for u in range(4) if table[x, u] == table[x].max()]
            for u in greedy:
                chosen[u] += 1 / len(greedy) / 5
                good += (optimum[x, u] >= optimum[x].max() - 1e-9) / len(greedy) / 5
        if lake.counted[x].any():
            np.testing.assert_allclose(policy[x], chosen)
            assert share[x] == pytest.approx(good)
        else:
            assert np.isnan(share[x])


def test_the_report_draws_what_the_acting_table_does(movi, mqlearn, monkeypatch, tmp_path):
    monkeypatch.setenv("MQLEARN_OUTPUTS", str(movi))
    page = tmp_path / "movi.html"
    done = mqlearn("report", "experiment.name=movi", "tracking=none", "--output", page)
    assert done.code == 0, done.err
    section = page.read_text().partition('id="policies"')[2].partition("<section")[0]
    told = ["greedy in the table that acts, not in the one that is measured" in one for one in section.split("<figure")]
    assert sum(told) == 1  # of the two runs, the one that is measured on q
    both = selection.find(movi, ["movi"]).runs
    assert len(both) == 2 and section.count("<svg") == 2
