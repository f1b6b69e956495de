"""From settings to finished runs."""
