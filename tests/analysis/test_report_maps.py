"""Maps in a report: directions, best actions, levels and pixels."""

import base64
import io

import numpy as np
from PIL import Image

from mqlearn.analysis.report import grid, maps
from mqlearn.problems.solvers import optimal


def test_directions_of_actions_are_read_from_the_model():
    import mqlearn as mq

    for slippery in (True, False):
        assert grid.directions(mq.frozen_lake("8x8", slippery=slippery)) == ("left", "down", "right", "up")
    assert grid.directions(mq.cliff_walking()) == ("up", "right", "down", "left")
    assert grid.directions(mq.taxi()) == ()


def test_heat_map_levels_and_arrows():
    import mqlearn as mq

    levels = grid.levels(np.array([1e-9, 1e-3, 1.0, np.nan]), 1e-6, 1.0, log=True)
    assert levels.tolist() == [0, 16, grid.LEVELS - 1, -1]
    lake = mq.frozen_lake("4x4")
    place = np.zeros(16, int)
    best = maps.best(lake, optimal(lake).q)
    assert "".join(shape.text for shape in grid.arrows(lake, best, place)) == "←↑←↑←←→↑↓←→↓"


def test_best_actions_are_found_where_every_value_is_negative():
    import mqlearn as mq

    lake = mq.frozen_lake("4x4")
    values = np.tile([-3.0, -1.0, -1.0 - 1e-12, -2.0], (16, 1))  # the third is as good but for rounding
    some = lake.counted.any(axis=1)
    assert maps.best(lake, values)[some].tolist() == [[False, True, True, False]] * int(some.sum())
    assert not maps.best(lake, values)[~some].any()


def test_a_large_map_is_a_picture_with_the_pixels_of_its_palette():
    pixels = np.arange(12, dtype=np.uint8).reshape(3, 4) % 5
    colors = ["#000000", "#ff0000", "#00ff00", "#0000ff", "#123456"]
    uri = grid.data_uri(pixels, colors)
    assert uri == grid.data_uri(pixels.copy(), colors)
    with Image.open(io.BytesIO(base64.b64decode(uri.partition("base64,")[2]))) as image:
        seen = np.asarray(image.convert("RGB"))
    wanted = np.array([list(bytes.fromhex(color[1:])) for color in colors], np.uint8)[pixels]
    np.testing.assert_array_equal(seen, wanted)
