"""Measurements, one package per subject; each module is a command that `python -m` runs."""
