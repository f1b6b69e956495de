"""Sweeps: what is planned, run and accounted for."""
