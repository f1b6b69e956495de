"""Cells of a sweep that are filled in are those that Hydra composes, one by one."""

import pytest

from mqlearn.experiments.settings import compose, filled

SWEEPS = {
    "numbers": ["seed=range(0,3)", "discount=0.5,0.9,1e-1", "iterations=20"],
    "a value that another refers to": ["step_size=rescaled_linear", "discount=0.5,0.9", "iterations=20"],
    "groups": ["algorithm=q_learning,nesa", "env=two_state,frozen_lake_4x4", "n_seeds=2,3", "iterations=20"],
    "settings of groups": ["step_size=polynomial", "step_size.exponent=0.6,0.8", "env.success_rate=0.5,1,0.25"],
    "texts and nothing": ["reward=sampled,mean", "n_workers=1,null", "seed=1,2", "iterations=20"],
    "twice": ["seed=1", "seed=2,3", "iterations=20"],
    "truth": ["tracking.per_seed=true,false", "env.slippery=false,true", "iterations=20"],
    "an experiment": ["experiment=coupled", "seed=4,5", "discount=0.5,0.6"],
    "folders": ["hydra.sweep.subdir=${seed}_${discount}", "seed=1,2", "discount=0.5,0.9"],
    "a reference to all overrides": ["seed=1,2", "experiment.name=${hydra.job.override_dirname}"],
    "odd numbers": ["discount=0.50,.5,1e-01,1E-1", "seed=007,1_0,+3"],
}


def planned(overrides: list[str], monkeypatch, *, by_hydra: bool) -> list[tuple]:
    def kept(job: compose.Job) -> tuple:
        return job.overrides, job.cell.digest, job.cell.name, job.cell.settings, job.folder, job.root

    with monkeypatch.context() as patch:
        if by_hydra:
            patch.setattr(filled.Template, "of", lambda *_: None)
        return compose.jobs(compose.sweep(overrides, None), None, multirun=True, keep=kept)


@pytest.mark.parametrize("name", SWEEPS)
def test_what_is_filled_in_is_what_hydra_composes(name, monkeypatch, work):
    assert planned(SWEEPS[name], monkeypatch, by_hydra=False) == planned(SWEEPS[name], monkeypatch, by_hydra=True)


def test_of_a_setting_that_is_given_twice_the_last_one_counts(work):
    lists = [["discount=0.9", "discount=0.9"], ["discount=0.99", "discount=0.9"]]
    discounts = compose.jobs(lists, None, multirun=True, keep=lambda job: job.cell.settings["discount"])
    assert discounts == [0.9, 0.9]


def test_hydra_composes_once_for_values_alone(monkeypatch, work):
    composed = []
    monkeypatch.setattr(compose, "_composed", lambda *words, own=compose._composed: composed.append(1) or own(*words))
    assert len(planned(["seed=range(0,20)", "discount=0.5,0.9"], monkeypatch, by_hydra=False)) == 40
    assert len(composed) == 1
