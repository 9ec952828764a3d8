"""JSON bodies of the HTTP interface: the messages of reward.proto with the same names.

Two differences, for people with curl: a reference and a task's settings are JSON objects in place,
and outcomes and states are plain words (`SCORED`, `OPEN`).
"""
