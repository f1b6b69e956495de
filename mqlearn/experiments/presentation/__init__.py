"""What people see of a run: in MLflow its name, its note and the picture of its error; on the terminal, lines."""
