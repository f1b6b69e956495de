"""Run folders: whole or absent, the same bytes for the same numbers, damage named, runs found by digest."""

import json
import os
import time
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from mqlearn.errors import SettingError
from mqlearn.storage import lookup, runs
from mqlearn.storage.summary import aggregate

SETTINGS = {"algorithm": {"name": "momentum_q", "m": 2.0, "shift": "off"}, "discount": 0.9, "q0": None}


@dataclass(frozen=True)
class Outcome:
    """The attributes of a result that a run folder takes."""

    iteration: object = field(default_factory=lambda: np.array([1, 10, 100]))
    curves: dict = field(default_factory=lambda: {"q_error": np.array([[1.0, 0.5, 0.25], [2.0, 1.0, 0.75]])})
    q: object = field(default_factory=lambda: np.arange(12.0).reshape(2, 3, 2))
    error_iteration: object = field(default_factory=lambda: np.array([1, 100]))
    error_tables: object = field(default_factory=lambda: np.ones((2, 3, 2)))
    diverged: dict = field(default_factory=dict)
    seconds: float = 1.5


def write(folder, digest="d1", result: Outcome | None = Outcome(), **extra):
    return runs.write(folder, settings=SETTINGS, digest=digest, name="a run", result=result, extra=extra)


def test_a_run_reads_back_as_written(tmp_path):
    written = write(tmp_path / "run", versions={"numpy": "2"}, command="mqlearn run", warnings=["one"])
    read = runs.load(tmp_path / "run")
    assert (read.digest, read.name, read.status, read.diverged) == ("d1", "a run", "finished", {})
    assert read.settings == SETTINGS
    assert sorted(p.name for p in read.folder.iterdir()) == sorted(runs.FILES)
    assert [p.name for p in tmp_path.iterdir()] == ["run"]  # no temporary folder stays
    outcome = Outcome()
    assert read.curves["iteration"].dtype == np.int64
    np.testing.assert_array_equal(read.curves["q_error"], outcome.curves["q_error"])
    for name in ("q", "error_iteration", "error_tables"):
        np.testing.assert_array_equal(read.tables[name], getattr(outcome, name))
    assert read.summary == written.summary
    assert read.summary["seconds"] == 1.5
    assert read.summary["mlflow_run_id"] is None
    assert read.summary["versions"] == {"numpy": "2"}
    assert runs.is_complete(read.folder, "d1") and not runs.is_complete(read.folder, "d2")
    with pytest.raises(ValueError, match="read-only"):
        read.curves["q_error"][0, 0] = 0.0


def test_final_values_are_those_of_the_last_checkpoint(tmp_path):
    final = write(tmp_path / "run").summary["final"]["q_error"]
    assert final["mean"] == 0.5 and final["n_finite"] == 2
    assert final["std"] == pytest.approx(np.std([0.25, 0.75], ddof=1), rel=1e-14)
    half = 12.706204736174698 * final["std"] / np.sqrt(2)  # t quantile, one degree of freedom
    assert (final["low"], final["high"]) == pytest.approx((0.5 - half, 0.5 + half), rel=1e-12)


def test_summary_has_null_for_what_is_not_finite_and_counts_the_rest(tmp_path):
    curves = {
        "q_error": np.array([[1.0, np.nan], [2.0, np.inf], [3.0, 4.0]]),
        "lost": np.full((3, 2), np.nan),
    }
    outcome = replace(Outcome(), iteration=[0, 5], curves=curves, diverged={np.int64(1): np.int64(5), 0: 4})
    run = write(tmp_path / "run", result=outcome)

    def refuse(text):
        raise AssertionError(f"{text} in summary.json")

    summary = json.loads((run.folder / runs.SUMMARY).read_text(), parse_constant=refuse)
    assert summary["status"] == "diverged"
    assert run.diverged == {0: 4, 1: 5}
    assert summary["final"]["q_error"] == {"mean": 4.0, "std": None, "low": None, "high": None, "n_finite": 1}
    assert summary["final"]["lost"]["mean"] is None and summary["final"]["lost"]["n_finite"] == 0
    assert runs.is_complete(run.folder)


def test_the_same_numbers_give_the_same_bytes(tmp_path):
    first = write(tmp_path / "a")
    time.sleep(2.1)  # dates in zip files have a resolution of two seconds
    outcome = Outcome()
    fortran = replace(outcome, q=np.asfortranarray(outcome.q), iteration=[1, 10, 100])
    second = write(tmp_path / "b", result=fortran)
    for name in (runs.CURVES, runs.TABLES, runs.CONFIG):
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes()


def test_arrays_are_what_numpy_reads_whatever_a_metric_is_called(tmp_path):
    names = ["file", "iteration2", "||Q-Q*||_inf", "a/b", "γ"]
    curves = {name: np.full((1, 3), float(i)) for i, name in enumerate(names)}
    run = write(tmp_path / "run", result=replace(Outcome(), curves=curves))
    with np.load(run.folder / runs.CURVES, allow_pickle=False) as archive:
        assert sorted(archive.files) == sorted([*names, "iteration"])
        np.testing.assert_array_equal(archive["||Q-Q*||_inf"], curves["||Q-Q*||_inf"])
    assert run.curves["a/b"][0, 0] == 3.0


NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False)
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc"), exclude_characters="$"), max_size=8)
TRAPS = st.sampled_from(["on", "1e5", "null", "1:20", "0x1", "~", "???", "2020-01-01", " x ", "a: b", "\n"])
KEYS = st.text("abc", min_size=1)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | TRAPS,
    lambda leaf: st.lists(leaf, max_size=3) | st.dictionaries(KEYS, leaf, max_size=3),
    max_leaves=6,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(KEYS, VALUES, max_size=3))
def test_any_setting_survives_the_yaml_with_its_type(tmp_path_factory, value):
    folder = tmp_path_factory.mktemp("yaml") / "run"
    runs.write(folder, settings=value, digest="d", name="n", result=None)
    read = runs.load(folder).settings
    assert read == value and repr(read) == repr(value)


def test_a_folder_with_another_digest_or_foreign_files_is_refused_and_untouched(tmp_path):
    write(tmp_path / "run", "d1")
    before = {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()}
    with pytest.raises(SettingError, match=r"hydra\.run\.dir=.*holds another run \(digest d1, not d2\)"):
        write(tmp_path / "run", "d2")
    assert {p.name: p.read_bytes() for p in (tmp_path / "run").iterdir()} == before

    foreign = tmp_path / "thesis"
    foreign.mkdir()
    (foreign / "chapter.tex").write_text("mine")
    with pytest.raises(SettingError, match=r"hydra\.run\.dir=.*files that are not a run"):
        write(foreign)
    with pytest.raises(SettingError, match=r"hydra\.run\.dir=.*is a file"):
        write(foreign / "chapter.tex")
    assert [p.name for p in foreign.iterdir()] == ["chapter.tex"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run", "thesis"]


def test_empty_and_same_digest_targets_are_replaced_and_other_files_kept(tmp_path):
    (tmp_path / "run").mkdir()
    write(tmp_path / "run", result=None)  # a failed attempt
    assert runs.load(tmp_path / "run").status == "failed"
    assert not runs.is_complete(tmp_path / "run")
    (tmp_path / "run" / "notes.txt").write_text("mine")
    run = write(tmp_path / "run")
    assert run.status == "finished" and runs.is_complete(run.folder, "d1")
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["run"]


def test_a_place_that_cannot_be_written_is_one_message(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match=r"hydra\.run\.dir=.*cannot be written there"):
        write(tmp_path / "file" / "run")


def test_nothing_half_written_stays_when_writing_fails(tmp_path):
    class Broken(Exception):
        pass

    class Curves(dict):
        def __or__(self, other):
            return NotImplemented

        def __ror__(self, other):
            raise Broken

    with pytest.raises(Broken):
        write(tmp_path / "run", result=replace(Outcome(), curves=Curves()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", runs.FILES)
def test_a_missing_file_is_named_and_the_run_is_not_complete(tmp_path, name):
    run = write(tmp_path / "run")
    (run.folder / name).unlink()
    assert not runs.is_complete(run.folder)
    with pytest.raises(SettingError, match=f"folder=.*{name} is missing"):
        read = runs.load(run.folder)
        _ = read.settings, read.curves, read.tables


@pytest.mark.parametrize("name", [runs.CURVES, runs.TABLES])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_cut_archive_is_named_and_the_run_is_not_complete(tmp_path, name, share):
    run = write(tmp_path / "run")
    data = (run.folder / name).read_bytes()
    (run.folder / name).write_bytes(data[: int(share * len(data))])
    assert not runs.is_complete(run.folder)
    read = runs.load(run.folder)
    with pytest.raises(SettingError, match=f"folder=.*{name} is damaged"):
        _ = read.curves, read.tables


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", "\x00", '{"digest": "d1"}'])
def test_a_damaged_summary_is_named(tmp_path, text):
    run = write(tmp_path / "run")
    (run.folder / runs.SUMMARY).write_text(text)
    assert not runs.is_complete(run.folder)
    with pytest.raises(SettingError, match=r"folder=.*summary\.json is"):
        runs.load(run.folder)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_changed_byte_gives_the_written_numbers_or_a_named_error(tmp_path_factory, data):
    run = write(tmp_path_factory.mktemp("bits") / "run")
    path = run.folder / runs.CURVES
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        read = runs.load(run.folder).curves
    except SettingError as error:
        assert runs.CURVES in str(error)
    else:  # the byte was padding, an attribute or part of a name
        written = ([1, 10, 100], Outcome().curves["q_error"])
        assert all(any(np.array_equal(array, w) for w in written) for array in read.values())


@pytest.mark.parametrize("name", runs.FILES)
@pytest.mark.parametrize("place", [0.2, 0.5, 0.9])
def test_a_run_with_any_flipped_byte_is_damaged_and_not_finished(tmp_path, name, place):
    run = write(tmp_path / "run")
    content = bytearray((run.folder / name).read_bytes())
    content[int(place * len(content))] ^= 1
    (run.folder / name).write_bytes(content)
    found, damage = runs.look(run.folder, "d1")
    assert found is None and name in damage
    with pytest.raises(SettingError, match=f"folder=.*{name} is damaged"):
        runs.whole(run.folder)


def test_a_changed_summary_is_whole_if_it_was_changed_by_us(tmp_path):
    run = runs.update_summary(write(tmp_path / "run"), mlflow_run_id="abc", odd=float("nan"))
    assert runs.whole(run.folder).summary == run.summary
    assert run.summary["files"].keys() == {runs.CONFIG, runs.CURVES, runs.TABLES}


def as_before_checksums(folder):
    summary = json.loads((folder / runs.SUMMARY).read_text())
    del summary["files"], summary["checksum"], summary["format"]
    (folder / runs.SUMMARY).write_text(json.dumps(summary))


def test_a_folder_without_checksums_is_whole_if_it_can_be_read(tmp_path):
    folder = write(tmp_path / "run").folder
    as_before_checksums(folder)
    assert runs.is_complete(folder, "d1")
    for name in (runs.CURVES, runs.TABLES, runs.CONFIG):
        content = (folder / name).read_bytes()
        half = content[: len(content) // 2] if name != runs.CONFIG else b"a: [1,"
        (folder / name).write_bytes(half)
        assert runs.look(folder, "d1")[1].startswith(name)
        (folder / name).write_bytes(content)
    assert runs.is_complete(folder, "d1")


@pytest.mark.parametrize("left", [b"", b"{", b'{"digest": "d1"'])
def test_a_folder_whose_summary_is_damaged_is_written_again_and_no_other(tmp_path, left):
    named = tmp_path / "d1"  # as the outputs folder names it, by digest
    write(named)
    (named / runs.SUMMARY).write_bytes(left)
    assert runs.is_complete(write(named).folder, "d1")
    other = tmp_path / "mine"
    other.mkdir()
    (other / runs.CONFIG).write_text("my own")
    with pytest.raises(SettingError, match="files that are not a run"):
        write(other)


def test_what_a_killed_process_left_half_written_is_removed(tmp_path):
    run = write(tmp_path / "run")
    for name in (".run.123-0123abcd", ".run.123-0123abcd.old", ".run2.123-0123abcd", ".run.notes"):
        (tmp_path / name).mkdir()
    runs.clear(run.folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".run.notes", ".run2.123-0123abcd", "run"]


def test_folders_that_are_none_are_named(tmp_path):
    with pytest.raises(SettingError, match="no such folder"):
        runs.load(tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingError, match="is not a folder"):
        runs.load(tmp_path / "file")


def test_update_summary_replaces_at_once(tmp_path):
    run = write(tmp_path / "run")
    updated = runs.update_summary(run, mlflow_run_id="abc")
    assert updated.summary == run.summary | {"mlflow_run_id": "abc"} == runs.load(run.folder).summary
    assert sorted(p.name for p in run.folder.iterdir()) == sorted(runs.FILES)


def test_names_that_are_not_unicode_survive(tmp_path):
    command = os.fsdecode(b"mqlearn run env.map=m\xff.txt \xc3\xa9")
    assert write(tmp_path / "run", command=command).summary["command"] == command


@given(st.text(max_size=80), st.text(max_size=80))
def test_slugs_are_folder_names_and_differ_for_different_names(a, b):
    for text in (a, b):
        assert runs.slug(text) not in ("", ".", "..") and len(runs.slug(text)) < 80
        assert not set(runs.slug(text)) & set("/\\ :\0")
    assert (runs.slug(a) == runs.slug(b)) == (a == b)


def test_select_without_a_store_finds_complete_folders_of_the_experiment(tmp_path):
    parent = tmp_path / "runs" / runs.slug("my trial")
    for digest in ("d3", "d1", "d2"):
        write(parent / digest, digest)
    write(parent / "failed", "d4", result=None)
    write(tmp_path / "runs" / "other" / "d5", "d5")
    (parent / "d2" / runs.CURVES).unlink()
    (parent / ".d9.123-abc").mkdir()
    (parent / "stray.txt").write_text("")
    assert list(lookup.finished(tmp_path, "my trial", store=None)) == ["d1", "d3"]
    assert list(lookup.finished(tmp_path, "my trial", store=None, digests=["d3", "d2", "d1"])) == ["d3", "d1"]
    assert lookup.finished(tmp_path, "nothing", store=None) == {}


@given(st.lists(st.integers(-(10**6), 10**6), min_size=2, max_size=6), st.integers(-1000, 900))
def test_std_is_that_of_numpy_at_any_scale(values, exponent):
    column = np.ldexp(np.array(values, float)[:, None], exponent)
    std = aggregate(column)["std"][0]
    expected = np.ldexp(np.std(np.array(values), ddof=1), exponent)
    assert std == pytest.approx(expected, rel=1e-9, abs=0)


def test_aggregate_leaves_out_what_is_not_finite_column_by_column():
    values = np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.inf]])
    columns = aggregate(values)
    np.testing.assert_array_equal(columns["n_finite"], [2, 1, 0])
    np.testing.assert_array_equal(columns["mean"], [2.0, 5.0, np.nan])
    np.testing.assert_array_equal(columns["std"], [np.sqrt(2.0), np.nan, np.nan])


@pytest.mark.parametrize("text", ["on", "1e3", "0x1f", "${q0}", "a: b", "null", "é\n", "", "2024-01-01", "12:30"])
def test_settings_are_written_as_omegaconf_writes_them(text):
    some = {
        "text": text,
        "number": 1e-7,
        "none": None,
        "map": ["SF", text],
        "nested": {text or "empty": [1, 2.5, True]},
    }
    assert runs._yaml(some) == OmegaConf.to_yaml(OmegaConf.create(some))
