"""Where learners have their samples from: chains of their own, or samples that were drawn beforehand."""

from typing import Self

import numpy as np

from mqlearn.sampling.chains import Chain, Samples, copied, drop_lanes


class OnChain:
    """A learner that moves chains of its own as it learns. Abstract."""

    arrays: tuple[str, ...] = ()
    chain: Chain

    @property
    def lanes(self) -> np.ndarray:
        return self.chain.lanes

    def chain_state(self) -> tuple[np.ndarray, np.ndarray]:
        return self.chain.states, self.chain.visits

    def copy(self) -> Self:
        other = copied(self)
        other.chain = copied(self.chain)
        return other

    def keep(self, mask: np.ndarray) -> None:
        drop_lanes(self, mask)
        drop_lanes(self.chain, mask)


class FromSamples:
    """A learner from samples drawn beforehand, which other rules may share: its behaviour is non-adaptive. Abstract."""

    arrays: tuple[str, ...] = ()

    def __init__(self, samples: Samples) -> None:
        self.samples = samples
        self.places = np.arange(len(samples.chain.lanes))  # of its lanes among those of the samples
        self.k = 0

    @property
    def lanes(self) -> np.ndarray:
        return self.chain.lanes[self.places]

    @property
    def chain(self) -> Chain:
        """Of all lanes of the samples, where the last block ends."""
        return self.samples.chain

    def chain_state(self) -> tuple[np.ndarray, np.ndarray]:
        return self.samples.chain_state(self.k, self.places)

    def copy(self) -> Self:
        """A copy that learns from the same samples: the two must stay within one block."""
        return copied(self)

    def keep(self, mask: np.ndarray) -> None:
        drop_lanes(self, mask)
        self.places: np.ndarray = self.places[mask]
