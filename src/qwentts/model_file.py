"""Typed, read-only view of a GGUF file through the library: metadata as Python values, the tensor table, tensor values.

A ModelFile either owns a mapping (ModelFile.open) or borrows the one of a loaded engine, which it keeps alive.
Metadata scalars become int, float, bool or str; arrays become numpy arrays or lists of str.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._lib import ffi, last_error, lib
from .errors import ModelFileError

# GGUF value type -> numpy type; strings (8) and arrays (9) are read by hand
NUMERIC = {0: "u1", 1: "i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "?", 10: "<u8", 11: "<i8", 12: "<f8"}
STRING, ARRAY = 8, 9


@dataclass(frozen=True)
class TensorInfo:
    """One row of the tensor table; shape has the fastest axis first, as in the file."""

    name: str
    type_name: str
    shape: tuple[int, ...]
    n_bytes: int
    type: int  # ggml_type
    offset: int  # of the data, from the start of the file

    @property
    def n_elements(self) -> int:
        """The product of the shape."""
        return int(np.prod(self.shape, dtype=np.int64))


class ModelFile:
    """Metadata and tensors of one GGUF file."""

    def __init__(self, handle: Any, path: str, owner: Any) -> None:
        self._handle = handle
        self._owner = owner  # keeps the mapping alive
        self.path = path

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> ModelFile:
        """The file at `path`, mapped and checked; raises ModelFileError."""
        out = ffi.new("struct qt_file **")
        if lib.qt_file_open(os.fsencode(path), out) != 0:
            raise ModelFileError(last_error())
        handle = ffi.gc(out[0], lib.qt_file_free)
        return cls(handle, os.fspath(path), None)

    def keys(self) -> list[str]:
        """All metadata keys in file order."""
        count = lib.qt_file_n_keys(self._handle)
        return [_text(lib.qt_file_key(self._handle, i)) for i in range(count)]

    def get(self, key: str, default: Any = None) -> Any:
        """The value of `key`, or `default` when the file has none."""
        value = ffi.new("struct qt_value *")
        if lib.qt_file_value(self._handle, key.encode(), value) != 0:
            return default
        if value.type == STRING:
            strings = _strings(bytes(ffi.buffer(value.data, value.n_bytes)) if value.n_bytes else b"", value.n)
            return strings if value.is_array else strings[0]
        if value.type not in NUMERIC:
            return default
        dtype = np.dtype(NUMERIC[value.type])
        raw = bytes(ffi.buffer(value.data, value.n * dtype.itemsize)) if value.n else b""
        array = np.frombuffer(raw, dtype)
        return array if value.is_array else array[0].item()

    def strings(self, key: str) -> Any:
        """The array of strings at `key` as a qt_value, in the file's memory; raises ModelFileError."""
        value = ffi.new("struct qt_value *")
        if lib.qt_file_value(self._handle, key.encode(), value) != 0 or value.type != STRING or not value.is_array:
            self.require(key, list)
        return value

    def encoded_keys(self) -> list[tuple[str, bytes]]:
        """(key, type number and value as the file has them) of all metadata in file order; odd bytes in a key become surrogates."""
        value, items = ffi.new("struct qt_value *"), []
        for i in range(lib.qt_file_n_keys(self._handle)):
            key = lib.qt_file_key(self._handle, i)
            if lib.qt_file_value(self._handle, key, value) != 0:
                raise ModelFileError(last_error())
            tag = struct.pack("<IIQ", ARRAY, value.type, value.n) if value.is_array else struct.pack("<I", value.type)
            data = bytes(ffi.buffer(value.data, value.n_bytes)) if value.n_bytes else b""
            items.append((ffi.string(key).decode("utf-8", "surrogateescape"), tag + data))
        return items

    def require(self, key: str, kind: type) -> Any:
        """The value of `key`, which must be of `kind` (int, float, str, list or numpy array); raises ModelFileError."""
        value = self.get(key)
        if value is None:
            raise ModelFileError(f"{self.path}: the key {key} is missing")
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise ModelFileError(f"{self.path}: the key {key} is of type {type(value).__name__}, expected {kind.__name__}")
        return value

    def tensors(self) -> list[TensorInfo]:
        """The tensor table in file order."""
        info, rows = ffi.new("struct qt_tensor_info *"), []
        for i in range(lib.qt_file_n_tensors(self._handle)):
            if lib.qt_file_tensor(self._handle, i, info) != 0:
                raise ModelFileError(last_error())
            shape = tuple(info.ne[d] for d in range(info.n_dims))
            offset = lib.qt_file_tensor_offset(self._handle, i)
            rows.append(TensorInfo(_text(info.name), _text(info.type_name), shape, info.n_bytes, info.type, offset))
        return rows

    def tensor(self, index: int) -> np.ndarray:
        """All elements of tensor `index` as float32, shape in numpy order (slowest axis first)."""
        info = ffi.new("struct qt_tensor_info *")
        if lib.qt_file_tensor(self._handle, index, info) != 0:
            raise ModelFileError(last_error())
        values = np.empty([info.ne[d] for d in reversed(range(info.n_dims))], np.float32)
        if lib.qt_file_tensor_read(self._handle, index, ffi.from_buffer("float[]", values), values.size) != 0:
            raise ModelFileError(last_error())
        return values


def _text(pointer: Any) -> str:
    return ffi.string(pointer).decode("utf-8", "replace") if pointer != ffi.NULL else ""


def _strings(data: bytes, count: int) -> list[str]:
    """`count` strings stored as a little-endian uint64 length and that many bytes each."""
    found = _strings_at_once(data, count)
    if found is not None:
        return found
    strings, at, from_bytes = [], 0, int.from_bytes
    for _ in range(count):
        end = at + 8 + from_bytes(data[at : at + 8], "little")
        strings.append(data[at + 8 : end].decode("utf-8", "replace"))
        at = end
    return strings


def _strings_at_once(data: bytes, count: int) -> list[str] | None:
    """The same without a step a string, for vocabularies: lengths below 65536 end in six zero bytes, which text does not hold.

    None where that does not find every length, or a string holds a line feed, which marks the ends here.
    """
    if count < 2:
        return None
    raw = np.frombuffer(data, np.uint8)
    zero = raw == 0
    is_length = ~zero[8:]
    for i in range(2, 8):
        is_length &= zero[i : i - 8]
    at = np.flatnonzero(is_length)
    ends = at + 8 + raw[at] + 256 * raw[at + 1].astype(np.int64)
    if at.size != count or at[0] != 0 or (at[1:] != ends[:-1]).any() or ends[-1] != raw.size:
        return None
    text, keep = raw.copy(), np.ones(raw.size, bool)
    for i in range(8):
        text[at + i] = 10
        keep[at + i] = i == 0
    try:
        strings = text[keep].tobytes().decode().split("\n")
    except UnicodeDecodeError:
        return None
    return strings[1:] if len(strings) == count + 1 else None
