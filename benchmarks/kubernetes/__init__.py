"""The planner on a cluster of simulated pods."""
