"""The gateway for agents that speak OpenAI's HTTP API; see docs/gateway.md.

An agent's calls below `/sessions/{id}/v1` become turns of token-exact trajectories, one reward is
asked for per session, and the trainer reads both.
"""
