"""Endpoints in other systems' forms, over the reward service: nothing changes in their clients.

Each is a pair of modules: bodies (pure: a message of that system becomes requests, and what its
answer needs) and routes. All are behind the same door, tokens, quotas and limits as `/v1/score`.
"""
