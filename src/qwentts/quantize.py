"""A GGUF file with its tensors in other element types: F16, BF16, 8 bits or the K types of 4, 5 and 6 bits.

source -> slices of rows, read and hashed ahead in a thread -> float32 -> blocks by the library's row quantizers on all threads -> target

Which tensor gets which type is the library's policy (tensor_types.py). Slices are plain reads, not a mapping, so resident memory is a few
slices whatever the size of a tensor. Metadata is carried over byte for byte; added are general.file_type, the version of the block formats
and a record of the source. The same source gives the same bytes on any number of threads.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from tqdm import tqdm

from .errors import ModelFileError, ParameterError
from .gguf_write import GGUFWriter, Keys, Slot
from .model_file import ModelFile, TensorInfo
from .tensor_types import (
    FLOATS,
    Choice,
    choose_types,
    decode,
    encode,
    set_file_type,
    tensor_bytes,
    type_name,
    variant_name,
    variants,
)

ARCHITECTURES = ("qwen3-tts", "qwen3-tts-tokenizer")
RECORD = "qwentts.quantize."
SLICE_VALUES = 4 << 20  # 16 MiB of float32 at a time
SHA256_DIGITS = 64


@dataclass
class TensorResult:
    """What became of one tensor; ne has the fastest axis first, errors are sums of squares over all values."""

    name: str
    ne: tuple[int, ...]
    source_type: str
    type: str
    reason: str
    source_bytes: int
    n_bytes: int
    square_error: float = 0.0
    square_sum: float = 0.0

    @property
    def nmse(self) -> float:
        """Mean square of the error over that of the values."""
        return self.square_error / self.square_sum if self.square_sum else 0.0


@dataclass
class QuantizeResult:
    """One run: both files, and every tensor in file order."""

    source: str
    target: str
    variant: str
    predictor_type: str | None
    source_bytes: int
    n_bytes: int = 0
    source_sha256: str = ""
    duration_s: float = 0.0
    tensors: list[TensorResult] = field(default_factory=list)


def target_variants() -> list[str]:
    """The types a file can be quantized to."""
    return [name for name in variants() if name != "F32"]


def quantize(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    type: str,
    *,
    predictor_type: str | None = None,
    allow_requantize: bool = False,
    threads: int | None = None,
    progress: bool | None = None,
) -> QuantizeResult:
    """Writes `target`, the tensors of `source` in `type` (one of target_variants(), letter case does not matter).

    `predictor_type` overrides the policy for the code predictor, `threads` None uses every core, `progress` None shows a bar on a terminal.
    Raises ParameterError or ModelFileError for what is not valid; a failed run leaves the target as it was.
    """
    start = time.perf_counter()
    variant = variant_name(type, target_variants())
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 256):
        raise ParameterError(f"threads is {threads!r}, valid are 1 to 256 (default: every core this process may use)")
    _check_target(source, target)
    file = ModelFile.open(source)
    architecture = file.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in ARCHITECTURES:
        raise ModelFileError(f"{file.path}: general.architecture is {architecture!r}, valid are {', '.join(ARCHITECTURES)}")
    tensors = file.tensors()
    choices = choose_types({t.name: t.shape for t in tensors}, variant, predictor_type)
    if not allow_requantize:
        _refuse_quantized(file.path, tensors)
    result = QuantizeResult(file.path, os.fspath(target), variant, predictor_type, os.path.getsize(source))
    keys = Keys()
    for key, encoded in file.encoded_keys():
        keys.set_raw(key, encoded)
    set_file_type(keys, variant)
    _record(keys, result, tensors)
    result.tensors = [_result(tensor, choices[tensor.name]) for tensor in tensors]
    slots = [Slot(t.name, t.shape, choices[t.name].type, r.n_bytes) for t, r in zip(tensors, result.tensors, strict=True)]
    show = sys.stderr.isatty() if progress is None else progress
    total = sum(tensor.n_bytes for tensor in tensors)
    with GGUFWriter(target, keys, slots) as out, tqdm(total=total, unit="B", unit_scale=True, disable=not show, file=sys.stderr) as bar:
        bar.set_description(f"{Path(target).name}")
        with _HashedReader(source) as reader, ThreadPoolExecutor(1) as ahead:
            for tensor, slot, row in zip(tensors, slots, result.tensors, strict=True):
                out.add(_encoded(file.path, tensor, slot, row, reader, ahead, threads or 0, bar))
            result.source_sha256 = reader.finish()
        record = Keys()
        record.set_string(f"{RECORD}source_sha256", result.source_sha256)
        out.replace(record)
    result.n_bytes = out.n_bytes
    result.duration_s = time.perf_counter() - start
    return result


def _check_target(source: str | os.PathLike[str], target: str | os.PathLike[str]) -> None:
    if os.fspath(target) == "-":
        raise ParameterError("output '-' is not valid: a GGUF file cannot go to standard output")
    try:
        same = os.path.samefile(source, target)
    except OSError:  # one of them does not exist, which others say better
        same = False
    if same:
        raise ParameterError(f"output {os.fspath(target)!r} is the source itself: name another file")
    if Path(target).is_fifo():
        raise ParameterError(f"output {os.fspath(target)!r} is a pipe: the hash of the source is written at the start when all else is")


def _refuse_quantized(path: str, tensors: list[TensorInfo]) -> None:
    for tensor in tensors:
        if tensor.type not in FLOATS:
            floats = ", ".join(type_name(t) for t in FLOATS)
            raise ModelFileError(
                f"{path}: tensor {tensor.name} is {type_name(tensor.type)}, valid sources are {floats}:"
                " what was quantized before loses more (allow_requantize, --allow-requantize, accepts that)"
            )


def _record(keys: Keys, result: QuantizeResult, tensors: list[TensorInfo]) -> None:
    """Where the file comes from; the hash is filled in at the end, when every byte has been read."""
    by_type: dict[int, int] = {}
    for tensor in tensors:
        by_type[tensor.type] = by_type.get(tensor.type, 0) + tensor.n_elements
    keys.set_string(f"{RECORD}source_name", os.path.basename(result.source))
    keys.set_uint64(f"{RECORD}source_bytes", result.source_bytes)
    keys.set_string(f"{RECORD}source_sha256", "0" * SHA256_DIGITS)
    keys.set_string(f"{RECORD}source_type", type_name(max(by_type, key=lambda t: by_type[t])) if by_type else "none")
    keys.set_string(f"{RECORD}predictor_type", result.predictor_type or "default")


def _result(tensor: TensorInfo, choice: Choice) -> TensorResult:
    n_bytes = tensor_bytes(tensor.shape, choice.type)
    return TensorResult(tensor.name, tensor.shape, type_name(tensor.type), type_name(choice.type), choice.reason, tensor.n_bytes, n_bytes)


def _encoded(
    path: str,
    tensor: TensorInfo,
    slot: Slot,
    row: TensorResult,
    reader: _HashedReader,
    ahead: ThreadPoolExecutor,
    threads: int,
    bar: tqdm[Any],
) -> Iterator[memoryview]:
    """The tensor's data in its new type, slice by slice; the next slice is read while this one is computed. Adds up the errors."""
    for blocks, values, square_sum in _ahead(ahead, reader.slices(tensor)):
        row.square_sum += square_sum
        if not math.isfinite(square_sum):  # float32 values cannot make a double overflow
            raise ModelFileError(f"{path}: tensor {tensor.name}: holds NaN or infinite values")
        if slot.type == tensor.type:
            yield blocks.data
        else:
            data, square_error = encode(tensor.name, values, slot.type, threads=threads)
            row.square_error += square_error
            yield data
        bar.update(blocks.nbytes)
    if row.square_sum == 0.0 and len(tensor.shape) > 1:
        warnings.warn(f"{path}: tensor {tensor.name} is all zero", stacklevel=2)


def _ahead(ahead: ThreadPoolExecutor, items: Iterator[Any]) -> Iterator[Any]:
    """The items, each computed in the thread while the one before it is used."""
    coming = ahead.submit(next, items, None)
    while (item := coming.result()) is not None:
        coming = ahead.submit(next, items, None)
        yield item


class _HashedReader:
    """The source file from its first byte to its last: rows of tensors as float32, everything into one SHA-256."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._hash = hashlib.sha256()
        self._at = 0

    def __enter__(self) -> _HashedReader:
        try:
            self._file: BinaryIO = open(self._path, "rb", buffering=0)  # noqa: SIM115  closed in __exit__
        except OSError as error:
            raise ModelFileError(f"{self._path}: cannot be read: {error.strerror}") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def slices(self, tensor: TensorInfo) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        """(bytes as stored, float32 [rows, row], their sum of squares) of some rows at a time."""
        if tensor.offset < self._at:
            raise ModelFileError(
                f"{self._path}: tensor {tensor.name} begins at {tensor.offset}, before the end of the last one at {self._at}"
            )
        self._skip(tensor.offset - self._at, tensor.name)
        n_per_row = tensor.shape[0] if tensor.shape else 1
        n_rows = tensor.n_elements // n_per_row if n_per_row else 0
        row_bytes = tensor.n_bytes // n_rows if n_rows else 0
        step = max(1, SLICE_VALUES // max(1, n_per_row))
        for first in range(0, n_rows, step):
            blocks = np.empty(min(step, n_rows - first) * row_bytes, np.uint8)
            self._read(blocks.data, tensor.name)
            values = decode(tensor.name, blocks, tensor.type, n_per_row)
            yield blocks, values, float(np.einsum("ij,ij->", values, values, dtype=np.float64))

    def finish(self) -> str:
        """The file's SHA-256, the rest of it read."""
        while data := self._file.read(1 << 20):
            self._hash.update(data)
        return self._hash.hexdigest()

    def _skip(self, n_bytes: int, name: str) -> None:
        while n_bytes > 0:
            piece = bytearray(min(n_bytes, 1 << 20))
            self._read(memoryview(piece), name)
            n_bytes -= len(piece)

    def _read(self, into: memoryview, name: str) -> None:
        done = 0
        while done < len(into):
            try:
                n = self._file.readinto(into[done:])  # type: ignore[attr-defined]
            except OSError as error:
                raise ModelFileError(f"{self._path}: tensor {name}: cannot be read: {error.strerror}") from None
            if not n:
                raise ModelFileError(f"{self._path}: tensor {name}: the file ends early, at byte {self._at + done}")
            done += n
        self._hash.update(into)
        self._at += done
