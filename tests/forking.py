"""Imported before gRPC: without this variable it starts its threads again in every forked child.

A child that closes all descriptors and gives up its rights dies of them. Slots have it too
(`assay.worker.forking.roots.environment_for_slots`).
"""

import os

os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
