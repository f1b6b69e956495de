"""Learning on simulators of Gymnasium, which have no model; and what is measured there."""
