"""The rollout service, its pushes of weights, the gateway and the engine's threads."""
