"""Models for the decode engine: sizes, weights and tokenizers, read from common file formats.

`load_model(path)` reads Hugging Face folders (config.json + safetensors), GGUF files and llama2.c
checkpoints into one `Model`; `load_tokenizer(path)` reads the matching tokenizer; `Engine.create`
passes a model to the native engine. For every format, a `Model` has Hugging Face's layout: matrices
are (outputs, inputs) and q/k rows are in rotate-half order.
"""

from assay.rollout.models.adapters import Adapter, read_adapter
from assay.rollout.models.engine import Engine, EngineError, EngineInfo
from assay.rollout.models.errors import CorruptModel, ModelError, UnsupportedModel
from assay.rollout.models.load import load_model, load_tokenizer
from assay.rollout.models.model import DType, Model, ModelConfig, RopeScaling, Tensor, TensorKind
from assay.rollout.models.staging import StagedWeights, tensors_of
from assay.rollout.models.tensor_checks import StagedTensor

__all__ = [
    "Adapter",
    "CorruptModel",
    "DType",
    "Engine",
    "EngineError",
    "EngineInfo",
    "Model",
    "ModelConfig",
    "ModelError",
    "RopeScaling",
    "StagedTensor",
    "StagedWeights",
    "Tensor",
    "TensorKind",
    "UnsupportedModel",
    "load_model",
    "load_tokenizer",
    "read_adapter",
    "tensors_of",
]
