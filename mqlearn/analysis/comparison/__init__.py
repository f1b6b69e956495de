"""Which rule is faster: finished runs, compared."""
