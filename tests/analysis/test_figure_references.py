"""Reference data of figures: comparisons with it, and the record beside the pictures."""

import hashlib
import json

import numpy as np
import pytest
from drawn import FAMILIES, PROVENANCE, curve

from mqlearn.analysis.figures import error_curves, reference, style
from mqlearn.analysis.figures.error_curves import Panel
from mqlearn.errors import SettingError


def figure1() -> list[Panel]:
    curves = [curve(label, family=family, short=label.split(", ")[1]) for label, family in FAMILIES.items()]
    return [Panel("FrozenLake 4×4", curves), Panel("FrozenLake 8×8", curves)]


def test_a_comparison_is_same_compatible_or_different(tmp_path):
    path = tmp_path / "paper" / "figure1.npz"
    numbers = error_curves.data(figure1())
    reference.write_reference(path, numbers)
    first = path.read_bytes()
    reference.write_reference(path, dict(reversed(numbers.items())))
    assert path.read_bytes() == first
    assert reference.against_reference(numbers, path) == reference.Comparison("same")

    key = "FrozenLake 8×8 | SpeedyQ, azar | "
    nudged = numbers | {key + "band": numbers[key + "band"] * (1 + 1e-9)}
    outcome = reference.against_reference(nudged, path)
    assert outcome.verdict == "compatible" and outcome.difference.startswith(f"{key}band[0, 0]: ")
    assert reference.digest(nudged) != reference.digest(numbers)

    moved = numbers[key + "band"].copy()
    moved[0, 7] *= 1 + 1e-5
    outcome = reference.against_reference(numbers | {key + "band": moved}, path)
    assert outcome.verdict == "different" and f"{key}band[0, 7]: " in outcome.difference

    for name, change in {"n_finite": -1, "iteration": 1}.items():
        outcome = reference.against_reference(numbers | {key + name: numbers[key + name] + change}, path)
        assert outcome.verdict == "different" and key + name in outcome.difference

    fewer = {name: array for name, array in numbers.items() if not name.startswith(key)}
    assert "only in the reference" in reference.against_reference(fewer, path).difference
    assert "only in this figure" in reference.against_reference(numbers | {"new": np.ones(2)}, path).difference
    shorter = numbers | {key + "iteration": numbers[key + "iteration"][:-1]}
    assert "shape" in reference.against_reference(shorter, path).difference


def test_nan_and_infinity_compare_as_values_and_band_ends_by_the_size_of_the_band(tmp_path):
    path = tmp_path / "r.npz"
    band = np.array([[1.0, 2.0, np.inf], [1e-12, np.nan, 1.0], [2.0, np.nan, 1.0]])
    reference.write_reference(path, {"x": band})
    assert reference.against_reference({"x": band + 0.0}, path).verdict == "same"
    other_nan = band.copy()
    other_nan.view(np.uint64)[1, 1] |= 1
    assert reference.against_reference({"x": other_nan}, path).verdict == "same"
    assert reference.digest({"x": other_nan}) == reference.digest({"x": band})
    low = band.copy()
    low[1, 0] = -1e-12  # cancellation: nothing beside a mean of 1
    assert reference.against_reference({"x": low}, path).verdict == "compatible"
    for place, value in {(1, 1): 2.0, (0, 2): 1e300, (0, 0): np.nan}.items():
        wrong = band.copy()
        wrong[place] = value
        assert reference.against_reference({"x": wrong}, path).verdict == "different"


def test_missing_and_damaged_references_are_one_clear_message(tmp_path):
    path = tmp_path / "r.npz"
    with pytest.raises(SettingError, match="no reference data"):
        reference.against_reference({}, path)
    reference.write_reference(path, {"x": np.ones(1000)})
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(SettingError, match=r"complete \.npz file"):
        reference.against_reference({}, path)


def test_the_sidecar_records_runs_pictures_and_the_digest_of_the_data(tmp_path):
    panels = [Panel("map", [curve()])]
    pictures = style.save(error_curves.draw(panels), tmp_path / "figure", PROVENANCE)
    runs = [{"panel": "map", "label": "Q-learning", "digest": "d", "run_id": "r", "folder": "runs/d"}]
    path = tmp_path / "figure.json"
    reference.write_sidecar(path, data=error_curves.data(panels), runs=runs, pictures=pictures, provenance=PROVENANCE)
    record = json.loads(path.read_text())
    assert record["runs"] == runs and record["settings"] == PROVENANCE["settings"]
    assert record["data_digest"] == reference.digest(error_curves.data(panels))
    assert record["pictures"] == {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in pictures}
    assert b"runs/d" not in b"".join(p.read_bytes() for p in pictures)
