"""Exceptions of the package, and the mapping from the library's status codes to them."""

from __future__ import annotations


class QwenTTSError(Exception):
    """Base of every error the package raises on purpose."""


class ModelFileError(QwenTTSError, ValueError):
    """A model or checkpoint file is missing, damaged or not understood."""


class ParameterError(QwenTTSError, ValueError):
    """An argument has a value that is not valid; the message names it and what is valid."""


class ModeError(QwenTTSError, ValueError):
    """The arguments are valid, but not for the kind of model that is loaded."""


class GenerateError(QwenTTSError, RuntimeError):
    """The computation failed."""


class OutputError(QwenTTSError, OSError):
    """What was computed cannot be written: a full disk, a device that went away."""


class OutOfMemory(QwenTTSError, MemoryError):
    """Memory could not be had."""


class DownloadError(QwenTTSError, RuntimeError):
    """A file could not be fetched; the message says why, and how to do without."""


class Cancelled(QwenTTSError):
    """The call was cancelled."""


BY_STATUS: dict[int, type[QwenTTSError]] = {
    -1: ParameterError,
    -2: ModeError,
    -3: GenerateError,
    -4: OutOfMemory,
    -5: Cancelled,
}


def from_status(status: int, message: str) -> QwenTTSError:
    """The exception for a failed call; a status unknown to this version is a GenerateError that names it."""
    kind = BY_STATUS.get(status)
    return kind(message) if kind else GenerateError(f"status {status}: {message}")
