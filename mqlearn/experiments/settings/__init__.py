"""Settings: composed by Hydra, checked, built into objects, and named by their content."""
