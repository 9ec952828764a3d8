"""A rollout engine on a server: vLLM, SGLang or `assay.rollout.server`, behind `RolloutEngine`."""

from assay.rollout.remote.dialects import AssayServer, Vllm
from assay.rollout.remote.engine import RemoteEngine
from assay.rollout.remote.options import RemoteOptions
from assay.rollout.remote.sglang import SGLang

__all__ = ["AssayServer", "RemoteEngine", "RemoteOptions", "SGLang", "Vllm"]
