"""A reference recording as the encoders want it: one channel, their rate, with warnings about what makes a poor reference.

path, bytes, file object or (array, rate) -> Recording: float32 [n] at its own rate -> resampled(rate)
Files are read by soundfile, channels are averaged, rates are converted by soxr at its high quality: as upstream's librosa does.
"""

from __future__ import annotations

import io
import os
import struct
import unicodedata
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ParameterError

MIN_RATE_HZ, MAX_RATE_HZ = 8000, 192000
MAX_FILE_BYTES = 256 << 20
MAX_S = 300  # what the encoders take; a compressed file of a few bytes can unpack to days
BLOCK_SAMPLES = 1 << 16
SHORT_S, LONG_S = 1.0, 20.0
FULL_SCALE, CLIPPED_SHARE = 0.999, 1e-3  # a sample at full scale; more than this share of them is heard
SILENT_PEAK = 1e-3  # -60 dB
WINDOW_S, SPEECH_DB = 0.02, -35.0  # windows this far below the loudest tenth hold no speech
# Letters a second of speech without its pauses. Readers of Latin script say 12 to 20; a transcript of 60 % of a clip falls below.
SLOW_LETTERS_HZ, FAST_LETTERS_HZ = 9.5, 30.0
LETTERS = {"CJK": 3.2, "HIRAGANA": 1.9, "KATAKANA": 1.9, "HANGUL": 2.3, "DIGIT": 4.0}  # what a sign of these is worth
# the first bytes of files that are not what soundfile reads, at an offset
MAGIC = (
    (4, b"ftyp", "an MP4 container (M4A, MP4 or MOV)"),
    (0, b"\x1aE\xdf\xa3", "a Matroska or WebM container"),
    (0, b"0&\xb2u\x8ef\xcf\x11", "an ASF container (WMA)"),
    (0, b"\xff\xf1", "an AAC stream (ADTS)"),
    (0, b"\xff\xf9", "an AAC stream (ADTS)"),
    (0, b"#!AMR", "an AMR file"),
    (0, b"FLV", "a Flash video"),
    (8, b"AVI ", "an AVI video"),
    (0, b"ID3", "an MP3 file, damaged"),
    (0, b"\xff\xfb", "an MP3 file, damaged"),
    (0, b"\xff\xf3", "an MP3 file, damaged"),
    (0, b"fLaC", "a FLAC file, damaged"),
    (0, b"OggS", "an Ogg file, damaged or of a kind that soundfile does not read"),
    (0, b"RF64", "an RF64 file, damaged"),
    (0, b"RIFF", "a WAV file, damaged or of a kind that soundfile does not read"),
    (0, b"GGUF", "a GGUF model file"),
    (0, b"PK\x03\x04", "a ZIP archive"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"%PDF", "a PDF"),
    (0, b"\x89PNG", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"<", "a text or HTML file"),
    (0, b"{", "a text or JSON file"),
)


@dataclass(frozen=True)
class Recording:
    """One channel, float32 [n] within its own rate."""

    samples: np.ndarray
    rate_hz: int

    @property
    def duration_s(self) -> float:
        """Length."""
        return self.samples.size / self.rate_hz

    def resampled(self, rate_hz: int) -> np.ndarray:
        """The samples at another rate, ceil(n * ratio) of them."""
        if rate_hz == self.rate_hz:
            return self.samples
        import soxr

        out = np.asarray(soxr.resample(self.samples, self.rate_hz, rate_hz, quality="HQ"), np.float32)
        wanted = -(-self.samples.size * rate_hz // self.rate_hz)
        return np.pad(out, (0, max(0, wanted - out.size)))[:wanted]


def read_recording(source: Any) -> Recording:
    """The recording in a path, bytes, a binary file object or (array [n] or [n, channels], rate)."""
    if isinstance(source, tuple):
        if len(source) != 2:
            raise ParameterError(f"audio is a tuple of {len(source)}, expected (array, rate)")
        array, rate = source
        name = "audio"
        _check_rate(name, rate)
        samples = _from_array(array)
    else:
        name, data = _contents(source)
        samples, rate = _decoded(name, data)
    if samples.ndim == 2:
        samples = samples.mean(axis=1)
    samples = np.ascontiguousarray(samples, np.float32)
    if not samples.size:
        raise ParameterError(f"{name} has no samples")
    bad = np.flatnonzero(~np.isfinite(samples))
    if bad.size:
        raise ParameterError(f"{name}: sample {bad[0]} is {samples[bad[0]]}, valid are finite numbers")
    return Recording(samples, int(rate))


def _check_rate(name: str, rate: Any) -> None:
    if isinstance(rate, bool) or not isinstance(rate, (int, np.integer)) or not MIN_RATE_HZ <= rate <= MAX_RATE_HZ:
        raise ParameterError(f"{name} has a sample rate of {rate!r}, valid are {MIN_RATE_HZ} to {MAX_RATE_HZ} Hz")


def _from_array(values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        raise ParameterError("audio is no array of numbers, expected [samples] or [samples, channels]") from None
    if array.ndim not in (1, 2) or (array.ndim == 2 and not 1 <= array.shape[1] <= 64):
        raise ParameterError(f"audio has shape {array.shape}, expected [samples] or [samples, channels]")
    kind, size = array.dtype.kind, array.dtype.itemsize
    if kind == "f":
        with np.errstate(over="ignore"):  # becomes infinite, which is named
            return array.astype(np.float32)
    if kind == "i":
        return (array / float(1 << 8 * size - 1)).astype(np.float32)
    if array.dtype == np.uint8:
        return ((array.astype(np.float32) - 128) / 128).astype(np.float32)
    raise ParameterError(f"audio is of type {array.dtype}, valid are floating point, signed integers and uint8")


def _contents(source: Any) -> tuple[str, bytes]:
    if isinstance(source, (bytes, bytearray, memoryview)):
        return "audio", bytes(source)
    if isinstance(source, (str, os.PathLike)):
        name = f"audio file {os.fspath(source)!r}"
        try:
            with open(source, "rb") as file:
                data = file.read(MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            raise ParameterError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
    elif hasattr(source, "read"):
        name = f"audio file {getattr(source, 'name', '(object)')!r}"
        try:
            data = source.read(MAX_FILE_BYTES + 1)
        except (OSError, ValueError) as error:
            raise ParameterError(f"{name} cannot be read: {getattr(error, 'strerror', None) or error}") from None
        if not isinstance(data, bytes):
            raise ParameterError(f"{name} gives {type(data).__name__}, expected a file opened in binary mode")
    else:
        raise ParameterError(f"audio is of type {type(source).__name__}, expected a path, bytes, a file object or (array, rate)")
    if len(data) > MAX_FILE_BYTES:
        raise ParameterError(f"{name} has more than {MAX_FILE_BYTES} bytes: give a clip of 3 to 15 s")
    return name, data


def _decoded(name: str, data: bytes) -> tuple[np.ndarray, int]:
    import soundfile

    if not data:
        raise ParameterError(f"{name} is empty")
    try:
        with soundfile.SoundFile(io.BytesIO(_with_true_size(data))) as file:
            _check_rate(name, file.samplerate)
            left = MAX_S * file.samplerate + 1
            blocks = [np.empty(0, np.float32)]
            while left > 0 and len(block := file.read(min(left, BLOCK_SAMPLES), dtype="float32", always_2d=True)):
                blocks.append(block.mean(axis=1))
                left -= len(block)
            if left == 0:
                raise ParameterError(f"{name} is longer than {MAX_S} s: give a clip of 3 to 15 s")
            return np.concatenate(blocks), file.samplerate
    except ParameterError:
        raise
    except (soundfile.SoundFileError, RuntimeError, ValueError):
        advice = "convert it, for example with: ffmpeg -i INPUT -ac 1 -ar 24000 OUTPUT.wav"
        raise ParameterError(f"{name} cannot be read as audio: this is {_kind(data)}; {advice}") from None


def _kind(data: bytes) -> str:
    for offset, magic, kind in MAGIC:
        if data[offset : offset + len(magic)] == magic:
            return kind
    return f"no audio format that soundfile knows (it begins with {data[:8].hex(' ')})"


def _with_true_size(data: bytes) -> bytes:
    """A WAV file whose data chunk says 0 bytes, as a writer leaves it that could not go back, with the size that is there."""
    if data[:4] != b"RIFF" or data[8:12] != b"WAVE":
        return data
    at = 12
    while at + 8 <= len(data):
        size = struct.unpack_from("<I", data, at + 4)[0]
        rest = len(data) - at - 8
        if data[at : at + 4] == b"data":
            return data[: at + 4] + struct.pack("<I", rest) + data[at + 8 :] if size == 0 and rest else data
        at += 8 + size + size % 2
    return data


def remarks(recording: Recording, text: str | None, n_frames: int = 0) -> list[str]:
    """Warnings about a reference: its length, level, band, and a transcript that cannot be all that is said."""
    samples, duration_s = recording.samples, recording.duration_s
    if float(np.abs(samples).max()) < SILENT_PEAK:
        return ["ref_audio is silent"]
    out = []
    if duration_s < SHORT_S:
        out.append(f"ref_audio is only {duration_s:.2f} s long: 3 to 15 s make a good reference")
    if duration_s > LONG_S:
        cost = f" and {n_frames} frames of context" if n_frames else ""
        out.append(f"ref_audio is {duration_s:.1f} s long: 3 to 15 s make a good reference, a long one costs time{cost} and cuts words")
    if float((np.abs(samples) >= FULL_SCALE).mean()) > CLIPPED_SHARE:
        out.append("ref_audio is clipped: record it at a lower level")
    if recording.rate_hz < 16000:
        out.append(f"ref_audio has a sample rate of {recording.rate_hz} Hz: the voice will sound muffled, 24000 or more is good")
    if text is not None:
        rate_hz = letters(text) / speech_s(recording)
        found = f"({rate_hz:.1f} letters for each second of speech)"
        if rate_hz < SLOW_LETTERS_HZ:
            out.append(f"ref_text seems shorter than ref_audio {found}: it must say all that is heard")
        if rate_hz > FAST_LETTERS_HZ:
            out.append(f"ref_text seems longer than ref_audio {found}: it must say only what is heard")
    return out


def letters(text: str) -> float:
    """How much there is to say, in letters of Latin script."""
    total = 0.0
    for sign in text:
        if sign.isalnum():
            name = unicodedata.name(sign, "")
            total += next((worth for script, worth in LETTERS.items() if script in name), 1.0)
    return total


def speech_s(recording: Recording) -> float:
    """Seconds of the recording that are not pauses, at least one window."""
    window = max(1, round(WINDOW_S * recording.rate_hz))
    n = recording.samples.size // window
    if n < 2:
        return recording.duration_s
    power = (recording.samples[: n * window].reshape(n, window).astype(np.float64) ** 2).mean(axis=1)
    loud = np.sort(power)[-max(1, n // 10)]
    return max(1, int((power > loud * 10 ** (SPEECH_DB / 10)).sum())) * window / recording.rate_hz
