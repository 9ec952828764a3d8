"""A rollout again from its receipt: what has changed since, and `assay replay-rollout`."""
