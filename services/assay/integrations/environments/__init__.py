"""Adapters for environments whose own step returns the reward."""
