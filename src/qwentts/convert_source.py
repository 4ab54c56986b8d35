"""Read tensors from a checkpoint folder, a block of rows at a time, without torch.

A safetensors file is a little-endian u64 header length, a JSON header (name -> dtype, shape, byte range), then raw data.
The file is read with plain reads instead of a memory map, so that resident memory stays at one block of rows however
large the checkpoint is, and bfloat16 (which numpy lacks) is widened here.

Folder layouts: model.safetensors, or model.safetensors.index.json with its shards.
"""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .errors import ModelFileError

ELEMENT_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
MAX_HEADER_BYTES = 100_000_000
BLOCK_VALUES = 4 << 20  # 16 MiB of float32 at a time


@dataclass(frozen=True)
class SourceTensor:
    """One tensor of the checkpoint: where its bytes lie and how to read them."""

    name: str
    file: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int  # of the first byte, from the start of the file

    def rows(self) -> Iterator[np.ndarray]:
        """Yields float32 arrays [rows, values of one row] that cover the tensor in order."""
        if self.dtype not in ELEMENT_BYTES:
            valid = ", ".join(ELEMENT_BYTES)
            raise ModelFileError(f"{self.file}: tensor {self.name}: element type {self.dtype} is not one of {valid}")
        n_rows = self.shape[0] if self.shape else 1
        row_values = math.prod(self.shape[1:])
        step = max(1, BLOCK_VALUES // max(1, row_values))
        with open(self.file, "rb") as file:
            file.seek(self.offset)
            for first in range(0, n_rows, step):
                n = min(step, n_rows - first)
                values = _widen(_read_exactly(file, n * row_values * ELEMENT_BYTES[self.dtype], self), self.dtype)
                yield values.reshape(n, row_values)

    def load(self) -> np.ndarray:
        """The whole tensor as float32 in its own shape."""
        return np.concatenate(list(self.rows())).reshape(self.shape)


def open_checkpoint(folder: Path) -> dict[str, SourceTensor]:
    """Returns every tensor of the folder by name; one file or a sharded set."""
    index = folder / "model.safetensors.index.json"
    single = folder / "model.safetensors"
    if single.is_file():
        return _read_header(single)
    if not index.is_file():
        raise ModelFileError(f"{folder}: neither model.safetensors nor model.safetensors.index.json is there")
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelFileError(f"{index}: weight_map is missing or empty")
    shards: dict[str, dict[str, SourceTensor]] = {}
    tensors: dict[str, SourceTensor] = {}
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or os.path.basename(shard) != shard:
            raise ModelFileError(f"{index}: tensor {name}: shard {shard!r} is not a file name in the same folder")
        if shard not in shards:
            shards[shard] = _read_header(folder / shard)
        if name not in shards[shard]:
            raise ModelFileError(f"{index}: tensor {name} is not in {shard}, which the index names for it")
        tensors[name] = shards[shard][name]
    return tensors


def read_json(path: Path) -> dict[str, Any]:
    """Returns the JSON object in a file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelFileError(f"{path}: file not found") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelFileError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise ModelFileError(f"{path}: expected a JSON object, found {type(value).__name__}")
    return value


def _read_header(path: Path) -> dict[str, SourceTensor]:
    try:
        file_bytes = path.stat().st_size
        with open(path, "rb") as file:
            prefix = file.read(8)
            n = struct.unpack("<Q", prefix)[0] if len(prefix) == 8 else -1
            if not 2 <= n <= min(MAX_HEADER_BYTES, file_bytes - 8):
                raise ModelFileError(f"{path}: header of {n} bytes does not fit a file of {file_bytes} bytes")
            header = json.loads(file.read(n))
    except FileNotFoundError:
        raise ModelFileError(f"{path}: file not found") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ModelFileError(f"{path}: safetensors header is not valid JSON: {error}") from None
    tensors = {}
    data_bytes = file_bytes - 8 - n
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        try:
            dtype, shape = str(entry["dtype"]), tuple(int(d) for d in entry["shape"])
            begin, end = (int(v) for v in entry["data_offsets"])
        except (TypeError, KeyError, ValueError):
            raise ModelFileError(f"{path}: tensor {name}: entry has no dtype, shape and data_offsets") from None
        if not 0 <= begin <= end <= data_bytes or any(d < 0 for d in shape):
            raise ModelFileError(f"{path}: tensor {name}: bytes {begin}..{end} lie outside the {data_bytes} of the file")
        if dtype in ELEMENT_BYTES and math.prod(shape) * ELEMENT_BYTES[dtype] != end - begin:
            raise ModelFileError(f"{path}: tensor {name}: {end - begin} bytes do not hold {dtype} {list(shape)}")
        tensors[name] = SourceTensor(name, path, dtype, shape, 8 + n + begin)
    return tensors


def _read_exactly(file: BinaryIO, n_bytes: int, tensor: SourceTensor) -> bytes:
    data = file.read(n_bytes)
    if len(data) != n_bytes:
        raise ModelFileError(f"{tensor.file}: tensor {tensor.name}: the file ends early")
    return data


def _widen(data: bytes, dtype: str) -> np.ndarray:
    """float32 values; a bfloat16 is the upper half of a float32."""
    if dtype == "BF16":
        return (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(data, {"F64": "<f8", "F32": "<f4", "F16": "<f2"}[dtype]).astype(np.float32)
