"""Learning from samples: the compiled loops, and what they move."""
