"""Exceptions of the package."""


class QwenTTSError(Exception):
    """Base of every error the package raises on purpose."""


class ModelFileError(QwenTTSError, ValueError):
    """A model or checkpoint file is missing, damaged or not understood."""
