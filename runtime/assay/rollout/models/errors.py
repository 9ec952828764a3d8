"""Errors of model files, and what to do about each.

ModelError
+-- UnsupportedModel   the file is valid, but this engine cannot run it: choose another model
+-- CorruptModel       the file contradicts itself or is truncated: download it again
"""

from collections.abc import Iterator
from contextlib import contextmanager

from assay.core.errors import InvalidRequest


class ModelError(InvalidRequest, ValueError):
    """A model cannot be loaded."""


class UnsupportedModel(ModelError):
    """The architecture or format needs something the engine does not compute."""


class CorruptModel(ModelError):
    """The file lacks tensors, or their sizes contradict its configuration."""


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn any reader's error inside the block into a `ModelError` that says where.

    Args:
        what: the file, or the file and the tensor; the start of the message.

    Raises:
        ModelError: the block's own, with `what` before its message if that does not say it.
        UnsupportedModel: a package is missing that reads such files.
        CorruptModel: for anything else but an `OSError`.
    """
    try:
        yield
    except OSError:
        raise
    except ModelError as error:
        if what in str(error):
            raise
        raise type(error)(f"{what}: {error}", field=error.field) from error
    except ImportError as error:
        raise UnsupportedModel(f"{what}: pip install 'assay[rollout]' ({error})") from error
    except (Exception, RecursionError, MemoryError) as error:
        kind = "" if type(error) is Exception else f"{type(error).__name__}: "
        said = f"{what}: {kind}{error}"[:500]
        raise CorruptModel(said) from error
