"""A GGUF file as bytes, from keys and tensors that a test may make wrong in any way: nothing is checked, so that a reader has to."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMATS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}
TYPES = {"f32": 0, "f16": 1, "q4_0": 2, "q8_0": 8, "i32": 26, "bf16": 30}  # ggml's numbers


@dataclass
class Tensor:
    """A row of the tensor table and its bytes; ne has the fastest axis first."""

    ne: tuple[int, ...]
    data: bytes
    type: str | int = "f32"
    offset: int | None = None  # None: behind the tensor before

    def values(self) -> np.ndarray:
        """The elements of an F32 tensor, a copy."""
        assert self.type == "f32"
        return np.frombuffer(self.data, np.float32).copy()


@dataclass
class Gguf:
    """Keys [name -> (type, value)], the value of an ARRAY being (type, list), and tensors by name."""

    keys: dict[str, tuple[int, Any]] = field(default_factory=dict)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    alignment: int = 32
    version: int = 3

    def to_bytes(self) -> bytes:
        """The whole file."""
        head, data = bytearray(), bytearray()
        head += b"GGUF" + struct.pack("<IQQ", self.version, len(self.tensors), len(self.keys))
        for name, (kind, value) in self.keys.items():
            head += _string(name) + struct.pack("<I", kind)
            if kind == ARRAY:
                element, values = value
                head += struct.pack("<IQ", element, len(values)) + b"".join(_scalar(element, v) for v in values)
            else:
                head += _scalar(kind, value)
        for name, tensor in self.tensors.items():
            data += b"\0" * (-len(data) % self.alignment)
            kind = TYPES[tensor.type] if isinstance(tensor.type, str) else tensor.type
            offset = len(data) if tensor.offset is None else tensor.offset
            head += _string(name) + struct.pack(f"<I{len(tensor.ne)}QIQ", len(tensor.ne), *tensor.ne, kind, offset)
            data += tensor.data
        return bytes(head) + b"\0" * (-len(head) % self.alignment) + bytes(data)

    def write(self, path: Path) -> Path:
        """Writes the file; returns its path."""
        path.write_bytes(self.to_bytes())
        return path


def _string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def _scalar(kind: int, value: Any) -> bytes:
    return _string(value) if kind == STRING else struct.pack("<" + FORMATS[kind], value)
