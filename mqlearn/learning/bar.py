"""The progress bar of `run(progress=True)`: tqdm's, in a terminal or a notebook."""

from typing import Any


class Bar:
    """Called with the iteration and the current error; shown from the first call on, when all has been compiled."""

    def __init__(self, iterations: int) -> None:
        self.iterations = iterations
        self.tqdm: Any = None

    def __call__(self, k: int, error: float) -> None:
        if self.tqdm is None:
            from tqdm.auto import tqdm

            self.tqdm = tqdm(total=self.iterations, unit="it", unit_scale=True)
        if error == error:
            self.tqdm.set_postfix_str(f"error {error:.3g}", refresh=False)
        self.tqdm.update(k - self.tqdm.n)
        if k >= self.iterations:
            self.tqdm.close()
