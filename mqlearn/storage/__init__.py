"""Where a run is kept and found again: its folder, and its copy in MLflow."""
