"""The planner against other policies, against exact optima, and on real work."""
