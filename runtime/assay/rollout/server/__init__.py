"""An OpenAI-compatible HTTP API in front of a rollout engine.

`python -m assay.rollout.server MODEL` serves a model file with the engine on this machine; tokens
are ids with log-probs and policy versions. `assay.rollout.remote` is the client that makes a
`RolloutEngine` of it again.
"""
