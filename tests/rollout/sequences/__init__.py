"""Generated sequences of calls on a rollout service."""
