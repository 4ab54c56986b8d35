"""Voice: what a clone needs of a reference recording, and its files.

speaker float32 [D] (the x-vector), codes int32 [frames, G] (the recording as the codec hears it) and text (what it says).
With codes and text a voice is used in context: the model goes on speaking where the reference ended. With speaker alone, the x-vector
decides the timbre and nothing else. Files:
  .spk    speaker, raw little-endian float32
  .rvq    codes [G, frames] row-major, as many bits each as the codebook's size needs (11 for 2048), least significant bit first, no header
  text    the transcript, UTF-8
  .voice  all of them in one file: an .npz archive of `speaker`, `codes`, `text` (UTF-8 bytes), `pad_silence_s`, `codebook_size`
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .errors import ParameterError
from .output import Output

CODE_GROUPS, CODEBOOK_SIZE = 16, 2048  # of the published codec, for files without a header
MAX_CODEBOOK_SIZE = 1 << 30  # codes are int32
MAX_FILE_BYTES = 64 << 20  # ten hours of codes; a larger file is no voice
Path = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Voice:
    """A voice to clone; arrays are copied and read-only. Made by TTS.clone, Voice.load or Voice.from_files."""

    speaker: np.ndarray | None = None
    codes: np.ndarray | None = field(default=None, repr=False)
    text: str | None = None
    pad_silence_s: float = 0.0  # silence behind the recording, within codes
    warnings: tuple[str, ...] = ()
    timings: Mapping[str, float] = field(default_factory=dict, repr=False)  # seconds: speaker, codes
    codebook_size: int = CODEBOOK_SIZE  # entries of the codec's codebooks, for save()

    def __post_init__(self) -> None:
        if not 1 <= self.codebook_size <= MAX_CODEBOOK_SIZE:
            raise ParameterError(f"codebook_size is {self.codebook_size}, valid are 1 to {MAX_CODEBOOK_SIZE}")
        if not 0 <= self.pad_silence_s < math.inf:
            raise ParameterError(f"pad_silence_s is {self.pad_silence_s}, valid are seconds from 0")
        if self.speaker is not None:
            object.__setattr__(self, "speaker", _checked_speaker(self.speaker))
        if self.codes is not None:
            object.__setattr__(self, "codes", _checked_codes(self.codes, self.codebook_size))
        if self.text is not None:
            _check_transcript(self.text)
        if self.text is not None and not self.text.strip():
            object.__setattr__(self, "text", None)

    @property
    def in_context(self) -> bool:
        """Reference frames and transcript are there, so the model goes on where the reference ended."""
        return self.codes is not None and self.text is not None

    def key(self) -> bytes:
        """A hash of the contents."""
        import hashlib  # here, because only clones need it: 3 MB

        digest = hashlib.sha256((self.text or "").encode())
        for array in (self.speaker, self.codes):
            digest.update(repr(None if array is None else array.shape).encode())
            digest.update(b"" if array is None else array.tobytes())
        return digest.digest()

    def save(self, path: Path) -> None:
        """Write everything to one .voice file."""
        arrays: dict[str, Any] = {"pad_silence_s": np.float64(self.pad_silence_s), "codebook_size": np.int64(self.codebook_size)}
        if self.speaker is not None:
            arrays["speaker"] = self.speaker.astype("<f4")
        if self.codes is not None:
            arrays["codes"] = self.codes.astype("<i4")
        if self.text is not None:
            arrays["text"] = np.frombuffer(self.text.encode(), np.uint8)
        out = io.BytesIO()
        np.savez_compressed(out, **arrays)
        _write(path, out.getvalue())

    def save_spk(self, path: Path) -> None:
        """Write the speaker embedding as .spk."""
        if self.speaker is None:
            raise ParameterError("this voice has no speaker embedding to write")
        _write(path, self.speaker.astype("<f4").tobytes())

    def save_rvq(self, path: Path) -> None:
        """Write the codes as .rvq."""
        if self.codes is None:
            raise ParameterError("this voice has no codes to write")
        _write(path, pack_codes(self.codes, self.codebook_size))

    def save_text(self, path: Path) -> None:
        """Write the transcript as UTF-8."""
        if self.text is None:
            raise ParameterError("this voice has no transcript to write")
        _write(path, self.text.encode() + b"\n")

    @classmethod
    def load(cls, path: Path) -> Voice:
        """The voice of a .voice file; raises ParameterError that says what is wrong with it."""
        name = f"voice file {os.fspath(path)!r}"
        data = _read(path, name)
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > MAX_FILE_BYTES:
                    raise ParameterError(f"{name} unpacks to more than {MAX_FILE_BYTES} bytes")
            with np.load(io.BytesIO(data), allow_pickle=False) as archive:
                arrays = {key: archive[key] for key in archive.files}
            text = bytes(arrays["text"].astype(np.uint8)).decode() if "text" in arrays else None
            pad, size = float(arrays.get("pad_silence_s", 0)), int(arrays.get("codebook_size", CODEBOOK_SIZE))
        except ParameterError:
            raise
        except Exception as error:  # of zipfile, its decompressors and numpy: a dozen kinds, MemoryError for a size that lies among them
            raise ParameterError(f"{name} is damaged or no voice file: {error}") from None
        if not {"speaker", "codes"} & set(arrays):
            raise ParameterError(f"{name} holds neither a speaker embedding nor codes")
        with _named(name):
            return cls(arrays.get("speaker"), arrays.get("codes"), text, pad, codebook_size=size)

    @classmethod
    def from_files(
        cls,
        *,
        spk: Path | None = None,
        rvq: Path | None = None,
        text: Path | None = None,
        n_groups: int = CODE_GROUPS,
        codebook_size: int = CODEBOOK_SIZE,
    ) -> Voice:
        """The voice of an .spk, an .rvq and a transcript file; the codec's sizes are those of the published one unless given."""
        speaker = codes = said = None
        if spk is not None:
            name = f"speaker file {os.fspath(spk)!r}"
            data = _read(spk, name)
            if len(data) % 4 or not data:
                raise ParameterError(f"{name} has {len(data)} bytes, which is not a multiple of 4 above 0 (float32 values)")
            with _named(name):
                speaker = _checked_speaker(np.frombuffer(data, "<f4"))
        if rvq is not None:
            name = f"code file {os.fspath(rvq)!r}"
            with _named(name):
                codes = unpack_codes(_read(rvq, name), n_groups, codebook_size)
        if text is not None:
            name = f"transcript file {os.fspath(text)!r}"
            data = _read(text, name)
            try:
                said = data.decode("utf-8-sig").strip()
            except UnicodeDecodeError as error:
                raise ParameterError(f"{name} is not valid UTF-8: byte {error.start} is 0x{data[error.start]:02x}") from None
            if not said:
                raise ParameterError(f"{name} is empty: give what the reference recording says")
        return cls(speaker, codes, said, codebook_size=codebook_size)


def code_bits(codebook_size: int) -> int:
    """Bits that a code needs: 11 for 2048."""
    return max(1, (codebook_size - 1).bit_length())


def pack_codes(codes: np.ndarray, codebook_size: int) -> bytes:
    """Codes int32 [frames, G] as the bytes of an .rvq file."""
    n_bits = code_bits(codebook_size)
    planes = _checked_codes(codes, codebook_size).T.reshape(-1, 1)  # [G * frames, 1]
    return np.packbits((planes >> np.arange(n_bits)) & 1, bitorder="little").tobytes()


def unpack_codes(data: bytes, n_groups: int, codebook_size: int) -> np.ndarray:
    """Codes int32 [frames, G] of the bytes of an .rvq file; the number of frames follows from the size."""
    frame_bits = n_groups * code_bits(codebook_size)
    n_frames = 8 * len(data) // frame_bits
    if not n_frames or -(-n_frames * frame_bits // 8) != len(data):
        raise ParameterError(
            f"it has {len(data)} bytes, which is not a whole number of frames ({n_groups} codes of {code_bits(codebook_size)} bits each:"
            f" {frame_bits / 8:g} bytes a frame)"
        )
    bits = np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little")
    if bits[n_frames * frame_bits :].any():
        raise ParameterError("the bits behind its last code are not zero")
    values = bits[: n_frames * frame_bits].reshape(-1, code_bits(codebook_size)) @ (1 << np.arange(code_bits(codebook_size)))
    return _checked_codes(values.reshape(n_groups, n_frames).T, codebook_size)


def _checked_speaker(values: np.ndarray) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 1 or not array.size or array.dtype.kind not in "fiu":
        raise ParameterError(f"speaker embedding has shape {array.shape} and type {array.dtype}, expected numbers [D]")
    with np.errstate(over="ignore"):  # becomes infinite, which is named
        array = array.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(array))
    if bad.size:
        raise ParameterError(f"speaker embedding: value {bad[0]} of {array.size} is {array[bad[0]]}, valid are finite numbers")
    if not array.any():
        raise ParameterError(f"speaker embedding: all {array.size} values are zero")
    return _frozen(array)


def _check_transcript(text: str) -> None:
    if not isinstance(text, str):
        raise ParameterError(f"text of a voice is of type {type(text).__name__}, expected str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ParameterError(f"text of a voice is not valid UTF-8 (lone surrogate at character {error.start})") from None


def _checked_codes(values: np.ndarray, codebook_size: int) -> np.ndarray:
    array = np.asarray(values)
    if array.ndim != 2 or not array.size or array.dtype.kind not in "iu":
        raise ParameterError(f"codes have shape {array.shape} and type {array.dtype}, expected whole numbers [frames, groups]")
    check_code_range(array, codebook_size)
    return _frozen(array.astype(np.int32))


def check_code_range(codes: np.ndarray, codebook_size: int) -> None:
    """Raise ParameterError for the first code [frames, groups] that is no entry of a codebook."""
    bad = np.argwhere((codes < 0) | (codes >= codebook_size))
    if bad.size:
        frame, group = bad[0]
        code = codes[frame, group]
        raise ParameterError(f"code {code} of frame {frame}, group {group} is out of range, valid are 0 to {codebook_size - 1}")


def _frozen(array: np.ndarray) -> np.ndarray:
    array = array.copy(order="C")
    array.setflags(write=False)
    return array


class _named:
    """Puts the file's name before a ParameterError."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None: ...

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, ParameterError) and not str(error).startswith(self._name):
            raise ParameterError(f"{self._name}: {error}") from None


def _read(path: Path, name: str) -> bytes:
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ParameterError(f"{name} cannot be read: {error.strerror}") from None
    if len(data) > MAX_FILE_BYTES:
        raise ParameterError(f"{name} has more than {MAX_FILE_BYTES} bytes")
    return data


def _write(path: Path, data: bytes) -> None:
    with Output(path) as out:
        out.write(data)
