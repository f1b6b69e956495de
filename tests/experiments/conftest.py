"""A place of its own for each test of sweeps."""

import pytest
from sweep_place import Place


@pytest.fixture
def place(tmp_path) -> Place:
    return Place(tmp_path)
