"""One self-contained HTML page on the finished runs of an experiment, and what a picture or page says of its origin."""
