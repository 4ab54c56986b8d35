"""Audio out: WAV bytes through soundfile, files that appear whole or not at all, `-` for standard output."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import BinaryIO

import numpy as np

from .errors import ParameterError

SUBTYPES = {"wav16": "PCM_16", "wav24": "PCM_24", "wav32": "FLOAT"}  # wav32 is IEEE float
STDOUT = "-"


def wav_bytes(samples: np.ndarray, sample_rate: int, *, format: str = "wav16") -> bytes:
    """A mono WAV file of samples in [-1, 1]; soundfile clips what lies beyond in the integer formats."""
    import soundfile  # here: loading libsndfile takes 30 ms that --help does not need

    if format not in SUBTYPES:
        raise ParameterError(f"format is {format!r}, valid are {', '.join(SUBTYPES)}")
    out = io.BytesIO()
    soundfile.write(out, samples, sample_rate, format="WAV", subtype=SUBTYPES[format])
    return out.getvalue()


def silence(duration_s: float, sample_rate: int) -> np.ndarray:
    """Zero samples."""
    return np.zeros(round(duration_s * sample_rate), np.float32)


class Output:
    """A file under construction: opened at once, so that an unwritable path fails early, and renamed when complete.

    Used as a context manager; leaving it by an exception removes what was written. `-` and existing special files are written directly.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self._target = Path(path)
        self._partial: Path | None = None
        self._stream: BinaryIO | None = None

    def __enter__(self) -> Output:
        try:
            if self.name == STDOUT:
                self._stream = sys.stdout.buffer
            elif self._target.exists() and not self._target.is_file() and not self._target.is_dir():
                self._stream = open(self._target, "wb")  # noqa: SIM115  a device or a pipe
            elif self._target.is_dir() or not self._target.name:
                raise IsADirectoryError(21, "it is a folder")
            elif self._target.exists() and not os.access(self._target, os.W_OK):
                raise PermissionError(13, "it is not writable")
            else:
                self._target = self._target.resolve()  # a link keeps pointing at the file that it names
                self._partial = self._target.with_name(f".{self._target.name}.{os.getpid()}.part")
                self._stream = open(self._partial, "wb")  # noqa: SIM115  closed in __exit__
        except OSError as error:
            raise ParameterError(f"output {self.name!r} cannot be written: {error.strerror}") from None
        return self

    def write(self, data: bytes) -> None:
        """Append bytes."""
        assert self._stream is not None
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError as error:
            raise ParameterError(f"output {self.name!r} cannot be written: {error.strerror}") from None

    def __exit__(self, kind: object, *_: object) -> None:
        if self._stream is not None and self._stream is not sys.stdout.buffer:
            try:
                self._stream.close()
            except OSError as error:
                kind = kind or error
        if self._partial is not None:
            try:
                if kind is None:
                    os.replace(self._partial, self._target)
            finally:
                self._partial.unlink(missing_ok=True)


def save_wav(path: str | os.PathLike[str], samples: np.ndarray, sample_rate: int, *, format: str = "wav16") -> None:
    """Write a mono WAV file, whole or not at all."""
    data = wav_bytes(samples, sample_rate, format=format)
    with Output(path) as out:
        out.write(data)
