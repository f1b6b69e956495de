"""The sweeper that Hydra finds as hydra/sweeper=mqlearn: it sets up Hydra's launcher, and hands it over."""

import copy
import sys
from collections.abc import Callable
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.plugins import Plugins
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext
from omegaconf import OmegaConf, open_dict

from mqlearn.storage.passwords import Address

_MODULE = "hydra_plugins.mqlearn"  # Hydra takes plugins from that package alone
_carry_out: list[Callable[[Any], None]] = []


class PlannedJobs(ConfigLoaderImpl):
    """Jobs need no composition of their own (0.1 s each): they find their settings in the plan."""

    def __init__(self, loader: Any) -> None:
        self.config_search_path, self.repository = loader.config_search_path, loader.repository

    def load_sweep_config(self, master_config: Any, sweep_overrides: list[str]) -> Any:
        """The sweep's own configuration, with values set by KEY=VALUE as they stand, not in Hydra's grammar."""
        config = copy.deepcopy(master_config)
        with open_dict(config):
            for text in sweep_overrides:
                key, _, value = text.partition("=")
                OmegaConf.update(config, key, value)
        return config


class CellSweeper(Sweeper):
    """Hydra's part of mqlearn/experiments/sweep/launch.py."""

    __module__ = _MODULE

    def __init__(self, params: Any = None, cells_per_job: Any = None) -> None:  # which compose has read
        pass

    def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
        uri = OmegaConf.select(config, "tracking.uri", throw_on_missing=False)
        if isinstance(uri, str):  # launchers write their configuration down
            OmegaConf.update(config, "tracking.uri", str(Address(uri)))
        context = HydraContext(PlannedJobs(hydra_context.config_loader), hydra_context.callbacks)
        self.launch = Plugins.instance().instantiate_launcher(context, task_function, config).launch

    def sweep(self, arguments: list[str]) -> None:
        _carry_out[-1](self.launch)


def register(carry_out: Callable[[Any], None]) -> None:
    """Make it the plugin of this process; `carry_out` gets the launcher's `launch`."""
    _carry_out[:] = [carry_out]
    sys.modules[_MODULE] = sys.modules[__name__]
    Plugins.instance().register(CellSweeper)
