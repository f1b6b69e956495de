"""Words for a paper, made from the records of runs."""
