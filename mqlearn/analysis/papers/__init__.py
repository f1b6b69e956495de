"""Papers of the field: what each reports, what is measured here under its settings, and whether the two agree."""
