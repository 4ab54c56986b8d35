"""Qwen3-TTS 12 Hz speech synthesis: `TTS().synthesize("Hello world.").save("hello.wav")`."""

from . import _lib
from .errors import Cancelled, GenerateError, ModeError, ModelFileError, OutOfMemory, ParameterError, QwenTTSError
from .speech import Chunk, Piece, Speech
from .tts import TTS
from .voice import Voice

__version__ = "0.1.0"
__all__ = [
    "TTS", "Cancelled", "Chunk", "GenerateError", "ModeError", "ModelFileError", "OutOfMemory", "ParameterError", "Piece",
    "QwenTTSError", "Speech", "Voice", "library_version",
]  # fmt: skip

library_version = _lib.library_version
