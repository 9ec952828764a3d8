"""Adapters for trainers that ask a function, a workflow or an endpoint for rewards."""
