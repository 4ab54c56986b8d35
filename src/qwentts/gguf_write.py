"""Write a GGUF file (version 3, little-endian) whose tensor data comes piece by piece.

magic, version, counts -> keys -> tensor table -> padding -> each tensor's data, padded to the alignment

Keys are kept encoded, as the file holds them, so that those of another file can be carried over byte for byte. The file appears under
its name only when it is complete. The reading side is model_file.py; the layout is checked against the `gguf` package in the tests.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import ModelFileError
from .model_file import ARRAY, STRING
from .output import Output

UINT32, INT32, FLOAT32, BOOL, UINT64 = 4, 5, 6, 7, 10  # GGUF value types
ALIGNMENT_KEY, DEFAULT_ALIGNMENT = "general.alignment", 32
VERSION = 3


class Keys:
    """Metadata in file order: name -> type number and value, encoded. Setting a key again keeps its place."""

    def __init__(self) -> None:
        self._encoded: dict[str, bytes] = {}

    def set_raw(self, key: str, encoded: bytes) -> None:
        """A value as a file holds it: its type number and what follows."""
        self._encoded[key] = encoded

    def set_string(self, key: str, value: str) -> None:
        """A text."""
        self._encoded[key] = struct.pack("<I", STRING) + _text(key, value)

    def set_uint32(self, key: str, value: int) -> None:
        """A whole number below 2^32."""
        self._encoded[key] = struct.pack("<II", UINT32, value)

    def set_uint64(self, key: str, value: int) -> None:
        """A whole number below 2^64."""
        self._encoded[key] = struct.pack("<IQ", UINT64, value)

    def set_float32(self, key: str, value: float) -> None:
        """A number, rounded to float32."""
        try:
            self._encoded[key] = struct.pack("<If", FLOAT32, value)
        except OverflowError:
            raise ModelFileError(f"the key {key}: {value!r} is beyond the range of float32") from None

    def set_bool(self, key: str, value: bool) -> None:
        """True or false."""
        self._encoded[key] = struct.pack("<I?", BOOL, value)

    def set_strings(self, key: str, values: Sequence[str]) -> None:
        """An array of texts."""
        self._encoded[key] = struct.pack("<IIQ", ARRAY, STRING, len(values)) + b"".join(_text(key, v) for v in values)

    def set_int32s(self, key: str, values: Sequence[int]) -> None:
        """An array of whole numbers of 32 bits."""
        beyond = [v for v in values if not -1 << 31 <= v < 1 << 31]
        if beyond:
            raise ModelFileError(f"the key {key}: {beyond[0]} is beyond the range of int32")
        self._encoded[key] = struct.pack(f"<IIQ{len(values)}i", ARRAY, INT32, len(values), *values)

    def __len__(self) -> int:
        return len(self._encoded)

    def __contains__(self, key: str) -> bool:
        return key in self._encoded

    def encoded(self, key: str) -> bytes:
        """The value of `key` as set_raw takes it."""
        return self._encoded[key]

    def items(self) -> Iterable[tuple[str, bytes]]:
        """(name, encoded value) in file order."""
        return self._encoded.items()

    @property
    def alignment(self) -> int:
        """Bytes that tensor data is aligned to: the file's own key, else GGUF's 32."""
        encoded = self._encoded.get(ALIGNMENT_KEY)
        return DEFAULT_ALIGNMENT if encoded is None else struct.unpack("<II", encoded)[1]


@dataclass(frozen=True)
class Slot:
    """One row of the tensor table; ne has the fastest axis first, type is a ggml_type number."""

    name: str
    ne: tuple[int, ...]
    type: int
    n_bytes: int


class GGUFWriter:
    """A file under construction, used as a context manager: give every slot's data to `add`, in order. Leaving early removes it."""

    def __init__(self, path: str | os.PathLike[str], keys: Keys, slots: Sequence[Slot]) -> None:
        self._output = Output(path)
        self._keys, self._slots, self._alignment = keys, list(slots), keys.alignment
        self._next = 0
        self._value_at: dict[str, int] = {}  # position of each key's encoded value

    def __enter__(self) -> GGUFWriter:
        head = bytearray(struct.pack("<4sIQQ", b"GGUF", VERSION, len(self._slots), len(self._keys)))
        for key, encoded in self._keys.items():
            head += _name(key)
            self._value_at[key] = len(head)
            head += encoded
        offset = 0
        for slot in self._slots:
            head += _name(slot.name) + struct.pack(f"<I{len(slot.ne)}QIQ", len(slot.ne), *slot.ne, slot.type, offset)
            offset += slot.n_bytes + self._padding(slot.n_bytes)
        head += b"\0" * self._padding(len(head))
        self.n_bytes = len(head) + offset
        self._output.__enter__()
        try:
            self._output.write(bytes(head))
        except BaseException as error:
            self._output.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def add(self, pieces: Iterable[Any]) -> None:
        """The next slot's data, in pieces of bytes; the slot's n_bytes in all."""
        slot, written = self._slots[self._next], 0
        for piece in pieces:
            self._output.write(piece)
            written += len(piece)
        if written != slot.n_bytes:
            raise ValueError(f"tensor {slot.name}: {written} bytes were given, its type and shape take {slot.n_bytes}")
        self._output.write(b"\0" * self._padding(written))
        self._next += 1

    def replace(self, keys: Keys) -> None:
        """New values for keys that are already written, each as long as the old one."""
        for key, encoded in keys.items():
            if len(encoded) != len(self._keys.encoded(key)):
                raise ValueError(f"the key {key} changes its length")
            self._output.rewrite(self._value_at[key], encoded)

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None and self._next != len(self._slots):
            kind, error = ValueError, ValueError(f"{self._next} of {len(self._slots)} tensors were given")
            self._output.__exit__(kind, error, None)
            raise error
        self._output.__exit__(kind, error, traceback)

    def _padding(self, n_bytes: int) -> int:
        return -n_bytes % self._alignment


def _text(where: str, value: str) -> bytes:
    try:
        data = value.encode("utf-8")
    except UnicodeEncodeError:
        raise ModelFileError(f"the key {where}: {value!r} has characters that are no text") from None
    return struct.pack("<Q", len(data)) + data


def _name(name: str) -> bytes:
    data = name.encode("utf-8", "surrogateescape")  # a name that was carried over keeps its bytes
    return struct.pack("<Q", len(data)) + data
