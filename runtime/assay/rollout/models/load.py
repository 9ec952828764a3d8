"""Selects the reader for a path."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from assay.rollout.models import gguf_file, hugging_face, llama2c, tokenizer
from assay.rollout.models.errors import UnsupportedModel, reading

if TYPE_CHECKING:
    from assay.rollout.models.model import Model
    from assay.rollout.models.tokenizer import Tokenizer


def load_model(path: str | Path) -> Model:
    """Load a Hugging Face folder, a .gguf file or a llama2.c .bin checkpoint.

    Raises:
        CorruptModel: the files contradict themselves or each other; names file and tensor.
        UnsupportedModel: the engine cannot run it.
        OSError: a file cannot be read.
    """
    path = Path(path)
    with reading(path.name):
        if path.is_dir():
            return hugging_face.read_model(path)
        if path.suffix == ".gguf":
            return gguf_file.read_model(path)
        if path.suffix == ".bin":
            return llama2c.read_model(path)
    raise UnsupportedModel(f"{path} is neither a folder with config.json, nor .gguf, nor .bin")


def load_tokenizer(path: str | Path) -> Tokenizer:
    """Load the tokenizer of a model path, of a tokenizer.json, or of llama2.c (tok*.bin)."""
    path = Path(path)
    with reading(path.name):
        if path.is_dir():
            return tokenizer.read_hugging_face(path)
        if path.name.endswith(".json"):
            return tokenizer.read_hugging_face(path.parent)
        if path.suffix == ".gguf":
            return tokenizer.read_gguf(path)
        if path.suffix == ".bin":
            return llama2c.read_tokenizer(path)
    raise UnsupportedModel(f"{path} holds no known tokenizer")
