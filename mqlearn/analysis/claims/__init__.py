"""The claims of the paper, tested."""
