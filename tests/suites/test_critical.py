"""The critical-difference diagram against published values, and what it shows of a small leaderboard."""

import numpy as np
import pytest
from leaderboard_cases import every, found, suite
from scipy import stats

import mqlearn as mq
from mqlearn.suites.leaderboard import figure, figure_critical

__all__ = ["every", "found", "suite"]  # fixtures


def test_critical_differences_are_those_of_demsars_paper():
    """Demsar (2006), Table 5a, q at 0.05 by the number of classifiers, and its example: 4 on 14 data sets, 1.25."""
    table = {2: 1.960, 3: 2.343, 4: 2.569, 5: 2.728, 6: 2.850, 7: 2.949, 8: 3.031, 9: 3.102, 10: 3.164}
    for k, q in table.items():
        assert figure_critical.critical_difference(k, 1) / np.sqrt(k * (k + 1) / 6) == pytest.approx(
            q, abs=1e-3
        )  # some are cut off
    assert figure_critical.critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)


def test_bars_span_the_longest_runs_that_do_not_differ():
    mean = np.array([1.0, 1.5, 3.0, 3.9, 7.0])
    assert figure_critical._groups(mean, 2.4) == ((0, 2), (1, 3))
    assert figure_critical._groups(mean, 0.4) == () and figure_critical._groups(mean, 6.0) == ((0, 4),)


def test_the_diagram_has_the_ranks_of_the_board_and_friedmans_p(found, every, tmp_path):
    one = figure_critical.critical(found)
    own = {row["rule"]: row["rank"] for row in found["rules"] if row["setting"] == "tuned"}
    assert {name.removesuffix(" (yours)"): rank for name, rank in zip(one.names, one.ranks, strict=True)} == own
    means = [[one.entries[name].scores[1, 0].astype(float).mean() for one in every] for name in own]
    assert one.problems == 8 and one.p == pytest.approx(stats.friedmanchisquare(*means).pvalue)
    words = [text.get_text() for text in figure_critical.draw(found).axes[0].texts]
    assert all(any(name in text for text in words) for name in one.names) and "root_sa (yours)" in " ".join(words)
    figure.save(found, tmp_path / "cd.svg", "--critical")
    assert (tmp_path / "cd.svg").stat().st_size > 1000
    few = {**found, "rules": [row for row in found["rules"] if row["rule"] in ("root_sa", "q_learning")]}
    with pytest.raises(mq.SettingError, match="needs three rules and two problems that all ran on: there are 2 and 8"):
        figure_critical.draw(few)
