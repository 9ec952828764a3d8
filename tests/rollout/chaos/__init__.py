"""Random faults on a rollout service while trainers use it: `python -m tests.rollout.chaos`."""
