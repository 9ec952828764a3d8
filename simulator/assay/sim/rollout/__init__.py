"""Architectures of rollout and training, compared in virtual time.

How a trainer, a fleet of decode slots and the push of new weights share the clock decides how long
each waits for the others. `engine` simulates one architecture, event by event; `architecture` holds
its inputs; `timeline` what came out; `orbit` the published panels and measurements that the
simulation is held to; `sweep` what changes when one input does; `page` and `plot` draw.
"""
