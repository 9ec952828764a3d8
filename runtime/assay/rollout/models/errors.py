"""What can be wrong with a model file, by who can act on it. The caller who named it, in any case.

ModelError
+-- UnsupportedModel   the file is fine, this engine cannot run it: choose another model
+-- CorruptModel       the file contradicts itself or is cut short: fetch it again
"""

from assay.core.errors import InvalidRequest


class ModelError(InvalidRequest, ValueError):
    """A model cannot be loaded."""


class UnsupportedModel(ModelError):
    """The architecture or format asks for something the engine does not compute."""


class CorruptModel(ModelError):
    """The file lacks tensors, or their sizes contradict its configuration."""
