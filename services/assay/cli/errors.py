"""Errors that a user can act on, as one line each."""

import grpc
from pydantic import ValidationError

from assay.config.environment import SettingError
from assay.core.errors import AssayError


def error_line(error: Exception) -> str | None:
    """Return the line to print; `None` for a bug, whose traceback is to be shown."""
    match error:
        case ExceptionGroup():  # several things failed together; the first has the cause
            return error_line(error.exceptions[0])
        case AssayError():
            return f"{error.reason}: {' '.join(error.message.split())}"
        case SettingError() | ValidationError():
            return f"settings: {_told(error)}"
        case OSError():
            return f"file: {_told(error)}"
        case grpc.aio.AioRpcError():
            return f"{error.code().name.lower()}: {error.details() or ''}"
    return None


def _told(error: Exception) -> str:
    # Imported here: it comes with the logging of services, which most errors do not need.
    from assay.edge.lifecycle import told

    return told(error)
