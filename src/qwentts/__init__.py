"""Qwen3-TTS 12 Hz speech synthesis: `TTS().synthesize("Hello world.").save("hello.wav")`.

What the package offers is imported when it is first asked for: the command line answers --help, and Ctrl-C, before the library is loaded.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._lib import library_version
    from .errors import (
        Cancelled,
        DownloadError,
        GenerateError,
        ModeError,
        ModelFileError,
        OutOfMemory,
        OutputError,
        ParameterError,
        QwenTTSError,
    )
    from .speech import Chunk, Piece, Speech
    from .tts import TTS
    from .voice import Voice

__version__ = "0.1.0"
__all__ = [
    "TTS", "Cancelled", "Chunk", "DownloadError", "GenerateError", "ModeError", "ModelFileError", "OutOfMemory", "OutputError",
    "ParameterError", "Piece", "QwenTTSError", "Speech", "Voice", "library_version",
]  # fmt: skip

_MODULES = {"TTS": "tts", "Voice": "voice", "Chunk": "speech", "Piece": "speech", "Speech": "speech", "library_version": "_lib"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_MODULES.get(name, 'errors')}", __name__), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
