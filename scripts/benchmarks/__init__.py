"""What scripts/benchmark.py measures: a file a subject, a function a name of its command line."""
