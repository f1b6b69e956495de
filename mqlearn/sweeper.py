"""The sweeper that Hydra finds as hydra/sweeper=mqlearn: it sets up Hydra's launcher, and hands it over."""

import sys
from collections.abc import Callable
from typing import Any

from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper

_MODULE = "hydra_plugins.mqlearn"  # Hydra takes plugins from that package alone
_carry_out: list[Callable[[Any], None]] = []


class CellSweeper(Sweeper):
    """Hydra's part of mqlearn/sweep.py."""

    __module__ = _MODULE

    def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
        self.launch = Plugins.instance().instantiate_launcher(hydra_context, task_function, config).launch

    def sweep(self, arguments: list[str]) -> None:
        _carry_out[-1](self.launch)


def register(carry_out: Callable[[Any], None]) -> None:
    """Make it the plugin of this process; `carry_out` gets the launcher's `launch`."""
    _carry_out[:] = [carry_out]
    sys.modules[_MODULE] = sys.modules[__name__]
    Plugins.instance().register(CellSweeper)
