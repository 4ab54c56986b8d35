"""Which element type each tensor of a GGUF file gets, and rows of floats to its bytes and back: the library's policy and row quantizers.

Types are ggml_type numbers. What converter and quantizer share; why each rule is there: docs/quantization.md.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ._lib import ffi, last_error, lib
from .errors import ModelFileError, ParameterError, from_status
from .gguf_write import Keys

F32, F16, BF16 = 0, 1, 30
FLOATS = (F32, F16, BF16)
FILE_TYPES = {"F32": 0, "F16": 1, "Q8_0": 7, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18, "BF16": 32}  # llama.cpp's numbers
QUANTIZATION_VERSION = 2  # of the block formats
_BLOCK = re.compile(r"(.+)\.blk\.(\d+)\.")


@dataclass(frozen=True)
class Choice:
    """A tensor's type in a file, and the policy's reason in a few words."""

    type: int
    reason: str


def variants() -> list[str]:
    """Names of the variants a file can be written in, F32 first."""
    names = (lib.qt_policy_variant(i) for i in itertools.count())
    return [ffi.string(name).decode() for name in itertools.takewhile(lambda name: name != ffi.NULL, names)]


def variant_name(name: str, valid: list[str]) -> str:
    """The name as it is written in files; letter case does not matter. Raises ParameterError that lists the valid ones."""
    found = [v for v in valid if v.lower() == str(name).lower()]
    if not found:
        raise ParameterError(f"type {name!r} is not one of {', '.join(valid)}")
    return found[0]


def choose_types(shapes: Mapping[str, tuple[int, ...]], variant: str, predictor_type: str | None = None) -> dict[str, Choice]:
    """The type of every tensor (name -> ne, fastest axis first) in a file of this variant."""
    layers: dict[str, int] = {}
    for name in shapes:
        match = _BLOCK.match(name)
        if match:
            layers[match[1]] = max(layers.get(match[1], 0), int(match[2]) + 1)
    out_type, out_reason, choices = ffi.new("int32_t *"), ffi.new("const char **"), {}
    predictor = ffi.NULL if predictor_type is None else ffi.new("char[]", predictor_type.encode())
    for name, ne in shapes.items():
        match = _BLOCK.match(name)
        n_layers = layers[match[1]] if match else 0
        status = lib.qt_policy_type(variant.encode(), predictor, name.encode(), len(ne), list(ne), n_layers, out_type, out_reason)
        if status != 0:
            raise from_status(status, last_error())
        choices[name] = Choice(out_type[0], ffi.string(out_reason[0]).decode())
    return choices


def set_file_type(keys: Keys, variant: str) -> None:
    """The keys by which other programs tell what a file holds. F32 files, the published layout's source, have none."""
    if variant != "F32":
        keys.set_uint32("general.file_type", FILE_TYPES[variant])
        keys.set_uint32("general.quantization_version", QUANTIZATION_VERSION)


def type_name(type: int) -> str:
    """`Q8_0` and so on."""
    name = lib.qt_type_name(type)
    return f"type {type}" if name == ffi.NULL else ffi.string(name).decode().upper()


def tensor_bytes(ne: tuple[int, ...], type: int) -> int:
    """Bytes of a tensor of this shape and type, without padding."""
    rows = int(np.prod(ne[1:], dtype=np.int64))
    return rows * lib.qt_row_bytes(type, ne[0])


def encode(name: str, rows: np.ndarray, type: int, *, threads: int = 0) -> tuple[memoryview, float]:
    """Float32 rows [n, row] in `type`, and the sum of squared errors; refuses, by tensor name, what the type cannot hold."""
    n_rows, n_per_row = rows.shape
    blocks = np.empty(n_rows * lib.qt_row_bytes(type, n_per_row), np.uint8)
    error = ffi.new("double *")
    values = ffi.from_buffer("float[]", np.ascontiguousarray(rows, np.float32))
    want_error = ffi.NULL if type == F32 else error
    status = lib.qt_quantize_rows(type, values, n_per_row, n_rows, ffi.from_buffer(blocks), blocks.nbytes, threads, want_error)
    if status != 0:
        _fail(status, name)
    return blocks.data, error[0]


def decode(name: str, blocks: np.ndarray, type: int, n_per_row: int) -> np.ndarray:
    """Bytes of whole rows as float32 [n, row]."""
    n_rows = blocks.nbytes // lib.qt_row_bytes(type, n_per_row)
    if type == F32:
        return blocks.view(np.float32).reshape(n_rows, n_per_row)
    values = np.empty((n_rows, n_per_row), np.float32)
    status = lib.qt_dequantize_rows(type, ffi.from_buffer(blocks), blocks.nbytes, n_per_row, n_rows, ffi.from_buffer("float[]", values))
    if status != 0:
        _fail(status, name)
    return values


def _fail(status: int, name: str) -> None:
    message = f"tensor {name}: {last_error()}"
    raise ModelFileError(message) if status == lib.QT_STATUS_INVALID_PARAMS else from_status(status, message)
