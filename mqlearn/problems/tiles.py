"""Tile coding: which tile of each tiling a point of a box lies in (Sutton, Barto 2018, 9.5.4)."""

import numpy as np

from mqlearn.jit import compiled


@compiled
def tile_columns(points, grid, tiles, out):
    """Tile coding: the active tile of each tiling at points (n, K), into `out` (n, tilings) int64.

    grid: (2 + tilings, K): lower end and width of the box, then the displacement of each tiling in tiles. A point
    outside the box is moved to its edge; one that is no number has the tile 0 and the result is False.
    """
    n_axes = points.shape[1]
    below_one = 1.0 - 2.0**-53
    sound = True  # whether all are numbers
    for i in range(points.shape[0]):
        for tiling in range(grid.shape[0] - 2):
            column = 0
            stride = 1
            for j in range(n_axes):
                x = (points[i, j] - grid[0, j]) / grid[1, j]
                if x != x:
                    sound = False
                x = min(x, below_one) if x > 0.0 else 0.0
                column += np.int64(x * tiles + grid[2 + tiling, j]) * stride
                stride *= tiles + 1
            out[i, tiling] = tiling * stride + column
    return sound
