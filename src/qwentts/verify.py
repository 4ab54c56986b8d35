"""Every value of every tensor of a GGUF file, looked at: NaN, infinity, all zero, a type that the loader would refuse.

Slices are read with plain reads, since a mapping would count every page it has seen as memory of this process.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ._lib import ffi, lib
from .errors import ModelFileError
from .inspect import CODEC_ARCH, TALKER_ARCH
from .model_file import ModelFile, TensorInfo
from .tensor_types import decode

SLICE_VALUES = 4 << 20  # 16 MiB of float32 at a time


def verify_file(path: str | os.PathLike[str], progress: Callable[[int], Any] | None = None) -> list[dict[str, str]]:
    """Findings as (tensor, finding); progress is called with the number of bytes read. Raises ModelFileError for what is no GGUF file."""
    file = ModelFile.open(path)
    architecture = file.get("general.architecture")
    ours = isinstance(architecture, str) and architecture in (TALKER_ARCH, CODEC_ARCH)
    findings: list[dict[str, str]] = []
    try:
        with Path(path).open("rb") as stream:
            for tensor in file.tensors():
                stream.seek(tensor.offset)
                texts = _values(tensor, stream, progress)
                if ours:
                    reason = lib.qt_policy_f32_reason(tensor.name.encode(), len(tensor.shape), list(tensor.shape))
                    if reason != ffi.NULL and tensor.type_name != "f32":
                        texts.append(f"is of type {tensor.type_name}, the loader wants f32 ({ffi.string(reason).decode()})")
                findings += [{"tensor": tensor.name, "finding": text} for text in texts]
    except OSError as error:
        raise ModelFileError(f"{os.fspath(path)} cannot be read: {error.strerror}") from None
    return findings


def _values(tensor: TensorInfo, stream: Any, progress: Callable[[int], Any] | None) -> list[str]:
    """What is wrong with the values; integers can only be zero, which says nothing."""
    row = max(tensor.shape[0], 1) if tensor.shape else 1
    row_bytes = lib.qt_row_bytes(tensor.type, row)
    is_float = tensor.type_name[0] in "bfq"
    slice_bytes = max(SLICE_VALUES // row, 1) * row_bytes
    n_nan = n_infinite = 0
    first = -1
    any_value = False
    for start in range(0, tensor.n_bytes, slice_bytes):
        data = np.frombuffer(stream.read(min(slice_bytes, tensor.n_bytes - start)), np.uint8)
        if data.size < min(slice_bytes, tensor.n_bytes - start):
            return [f"ends after {start + data.size} of {tensor.n_bytes} bytes"]
        if is_float:
            values = data.view(np.float64) if tensor.type_name == "f64" else decode(tensor.name, data, tensor.type, row)
            any_value = any_value or bool(values.any())
            if not np.isfinite(values).all():
                flat = values.ravel()
                n_nan += int(np.isnan(flat).sum())
                n_infinite += int(np.isinf(flat).sum())
                first = first if first >= 0 else start // row_bytes * row + int(np.flatnonzero(~np.isfinite(flat))[0])
        if progress is not None:
            progress(data.size)
    found = []
    if n_nan or n_infinite:
        counts = [f"{n:,} {name}" for n, name in ((n_nan, "NaN"), (n_infinite, "infinite")) if n]
        found.append(f"{' and '.join(counts)} of {tensor.n_elements:,} values, the first at {first}")
    elif is_float and tensor.n_elements and not any_value and not tensor.name.endswith(".bias"):
        found.append(f"all {tensor.n_elements:,} values are zero")
    return found
