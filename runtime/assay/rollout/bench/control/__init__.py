"""Benches of the control core: rings, states, credits, KV blocks and policies, without a model."""
