"""What can be wrong with a model file, by who can act on it. The caller who named it, in any case.

ModelError
+-- UnsupportedModel   the file is fine, this engine cannot run it: choose another model
+-- CorruptModel       the file contradicts itself or is cut short: fetch it again
"""

from collections.abc import Iterator
from contextlib import contextmanager

from assay.core.errors import InvalidRequest


class ModelError(InvalidRequest, ValueError):
    """A model cannot be loaded."""


class UnsupportedModel(ModelError):
    """The architecture or format asks for something the engine does not compute."""


class CorruptModel(ModelError):
    """The file lacks tensors, or their sizes contradict its configuration."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Inside, whatever a reader stumbles over is the file's fault and says where.

    Args:
        what: the file, or the file and the tensor; it begins the message.

    Raises:
        CorruptModel: for anything but a `ModelError` or an `OSError`.
    """
    try:
        yield
    except (ModelError, OSError):
        raise
    except (Exception, RecursionError, MemoryError) as error:
        said = f"{what}: {type(error).__name__}: {error}"[:500]
        raise CorruptModel(said) from error
