"""Learning on simulators of Gymnasium, which have no model: by linear features, by rules with state; what is measured."""
