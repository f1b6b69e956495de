"""FrozenLake in its forms and Gymnasium environments, as a FiniteMDP; those without a model as a Simulator."""

from mqlearn.problems.environments.frozen_lake import frozen_lake, frozen_lake_blocks, frozen_lake_random
from mqlearn.problems.environments.gymnasium import cliff_walking, from_gymnasium, simulator, taxi

__all__ = [
    "cliff_walking",
    "from_gymnasium",
    "frozen_lake",
    "frozen_lake_blocks",
    "frozen_lake_random",
    "simulator",
    "taxi",
]
