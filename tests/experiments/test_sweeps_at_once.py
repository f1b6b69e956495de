"""Sweeps and runs that want the same cells at the same moment: each cell is run once."""

import pytest
from sweep_place import SMALL

from mqlearn.experiments.sweep import journal
from mqlearn.storage import addresses, store

pytestmark = [pytest.mark.integration, pytest.mark.alone]


def test_overlapping_sweeps_started_at_the_same_moment_run_each_cell_once(place):
    wide = ["run", "-m", *SMALL[1:], "hydra/launcher=basic"]
    both = [place.start(*wide, f"seed={seeds}") for seeds in ("0,1,2,3,4,5", "5,4,3,2,1,0")]
    outputs = ["".join(process.communicate(timeout=200)) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert all("audit: 6 of 6 cells have one finished run" in text for text in outputs), outputs
    stored = store.finished(addresses.default_uri(place.outputs), "default")
    assert len(stored) == len({one.digest for one in stored}) == 6


def test_a_single_run_takes_what_another_process_made_of_its_cell_meanwhile(place):
    both = [place.start("run", *SMALL[1:], "iterations=200000") for _ in range(2)]
    outputs = ["".join(process.communicate(timeout=200)) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert sum("finished already, by another process" in text for text in outputs) == 1, outputs
    assert len(store.finished(addresses.default_uri(place.outputs), "default")) == 1


def test_two_sweeps_at_once_share_the_work(place):
    asked = ["algorithm.kind=wait", "algorithm.i=range(3)", "hydra/launcher=basic"]
    both = [place.start("run", "-m", *place.traps(*asked)) for _ in range(2)]
    outputs = [process.communicate(timeout=200)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len(list(journal.sweeps(place.outputs).glob("2*/plan.json"))) == 2
    assert len(place.curves) == 3
