"""Audio out: WAV at once or as it is made.

A stream has its header before its length is known: both size fields then are FFFFFFFF, which readers take for "to the end", and become
true if the target can seek.
"""

from __future__ import annotations

import os
import struct

import numpy as np

from .errors import ParameterError
from .output import Output

SUBTYPES = {"wav16": "PCM_16", "wav24": "PCM_24", "wav32": "FLOAT"}  # wav32 is IEEE float
UNKNOWN_SIZE = 0xFFFFFFFF
FLOAT_TAG, PCM_TAG = 3, 1
SAMPLE_BYTES = {"wav16": 2, "wav24": 3, "wav32": 4}


def check_format(format: str) -> None:
    """Raise ParameterError for an unknown format."""
    if format not in SUBTYPES:
        raise ParameterError(f"format is {format!r}, valid are {', '.join(SUBTYPES)}")


def wav_header(n_samples: int | None, sample_rate: int, *, format: str) -> bytes:
    """All of a mono WAV file before its samples; None: how many is not known yet."""
    width = SAMPLE_BYTES[format]
    is_float = SUBTYPES[format] == "FLOAT"
    layout = struct.pack("<HHIIHH", FLOAT_TAG if is_float else PCM_TAG, 1, sample_rate, sample_rate * width, width, 8 * width)
    parts = b"WAVEfmt " + struct.pack("<I", len(layout)) + layout
    n_bytes = UNKNOWN_SIZE if n_samples is None else n_samples * width
    total = len(parts) + (12 if is_float else 0) + 8 + n_bytes + n_bytes % 2
    if total > UNKNOWN_SIZE:  # not known, or more than a WAV file can say
        n_samples, n_bytes, total = None, UNKNOWN_SIZE, UNKNOWN_SIZE
    if is_float:
        parts += b"fact" + struct.pack("<II", 4, UNKNOWN_SIZE if n_samples is None else n_samples)
    return b"RIFF" + struct.pack("<I", total) + parts + b"data" + struct.pack("<I", n_bytes)


def pcm_bytes(samples: np.ndarray, *, format: str) -> bytes:
    """The bytes of samples in [-1, 1]; what lies beyond is clipped in the integer formats."""
    if SUBTYPES[format] == "FLOAT":
        return np.asarray(samples, "<f4").tobytes()
    width = SAMPLE_BYTES[format]
    full_scale = float(1 << (8 * width - 1))
    values = np.rint(np.nan_to_num(np.asarray(samples, np.float64)) * full_scale)
    numbers = np.clip(values, -full_scale, full_scale - 1).astype("<i4")
    return numbers.view(np.uint8).reshape(-1, 4)[:, :width].tobytes()  # little-endian: the low bytes come first


def wav_bytes(samples: np.ndarray, sample_rate: int, *, format: str = "wav16") -> bytes:
    """A mono WAV file of samples in [-1, 1]."""
    check_format(format)
    data = pcm_bytes(samples, format=format)
    return wav_header(samples.size, sample_rate, format=format) + data + b"\0" * (len(data) % 2)


def silence(duration_s: float, sample_rate: int) -> np.ndarray:
    """Zero samples."""
    return np.zeros(round(duration_s * sample_rate), np.float32)


class WavStream:
    """A mono WAV file written piece by piece; the header goes out with the first piece, finish() makes its sizes true where it can."""

    def __init__(self, out: Output, sample_rate: int, *, format: str = "wav16") -> None:
        check_format(format)
        self._out, self._sample_rate, self._format = out, sample_rate, format
        self._start: int | None = None
        self._n_samples = -1  # no header yet

    def write(self, samples: np.ndarray) -> None:
        """Append samples in [-1, 1]."""
        data = pcm_bytes(samples, format=self._format)
        if self._n_samples < 0:
            self._start, self._n_samples = self._out.end(), 0
            data = wav_header(None, self._sample_rate, format=self._format) + data
        self._n_samples += samples.size
        self._out.write(data)

    def finish(self) -> None:
        """End the file."""
        if self._n_samples < 0:
            self._out.write(wav_header(0, self._sample_rate, format=self._format))
            return
        if self._n_samples * SAMPLE_BYTES[self._format] % 2:
            self._out.write(b"\0")
        if self._start is not None:
            self._out.rewrite(self._start, wav_header(self._n_samples, self._sample_rate, format=self._format))


def save_wav(path: str | os.PathLike[str], samples: np.ndarray, sample_rate: int, *, format: str = "wav16") -> None:
    """Write a mono WAV file, whole or not at all."""
    data = wav_bytes(samples, sample_rate, format=format)
    with Output(path) as out:
        out.write(data)
