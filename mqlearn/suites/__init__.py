"""Suites: many rules on many problems, each rule as its source has it and tuned, kept as one array file a problem."""
