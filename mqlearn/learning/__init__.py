"""Learning from samples: where they come from, what learns from them, and what is measured on the way."""
