"""Shared by all benches: a description of the machine, and the report."""
