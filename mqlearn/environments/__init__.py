"""Functions that return a FiniteMDP: FrozenLake in its forms, and Gymnasium environments with a model."""

from mqlearn.environments.frozen_lake import frozen_lake, frozen_lake_blocks, frozen_lake_random
from mqlearn.environments.gymnasium import cliff_walking, from_gymnasium, taxi

__all__ = [
    "cliff_walking",
    "from_gymnasium",
    "frozen_lake",
    "frozen_lake_blocks",
    "frozen_lake_random",
    "taxi",
]
