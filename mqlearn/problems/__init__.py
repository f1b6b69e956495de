"""A decision problem and all that is exact about it: models, optima, stationary distributions, features."""
