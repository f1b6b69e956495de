"""An environment whose state is no attribute that could be set."""

from typing import Any


class HiddenState:
    """Before an environment that keeps its state in `s`: between steps it lies elsewhere."""

    def reset(self, **settings: Any) -> tuple[Any, dict]:
        observation, info = super().reset(**settings)  # type: ignore[misc]  # of the environment that comes next
        self.place = [vars(self).pop("s")]
        return observation, info

    def step(self, action: Any) -> Any:
        self.s = self.place[0]
        result = super().step(action)  # type: ignore[misc]  # as above
        self.place = [vars(self).pop("s")]
        return result
