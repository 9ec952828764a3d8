"""An OpenAI-compatible HTTP API in front of a rollout engine.

`python -m assay.rollout.server MODEL` serves a model file with an engine in this process; tokens
are ids with log-probs and policy versions. `assay.rollout.remote` is the client, which turns it
into a `RolloutEngine` again.
"""
