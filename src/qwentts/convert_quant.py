"""Which element type each tensor gets in a GGUF file, and its bytes.

Policy (every variant): 1-D tensors (norms, biases, scales, snake parameters), codebooks, the projections around them (vq_*)
and the speaker encoder (spk_enc.*) stay F32, because nearest-entry search and x-vectors do not survive rounding.
In a q8_0 file a convolution kernel, and any matrix whose row is no multiple of the 32-value block, is F16.

Data flow: rows float32 [n, row] -> bytes of the chosen type.
"""

from __future__ import annotations

import math

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import quantize

from .errors import ModelFileError

VARIANTS = {
    "f32": GGMLQuantizationType.F32,
    "f16": GGMLQuantizationType.F16,
    "bf16": GGMLQuantizationType.BF16,
    "q8_0": GGMLQuantizationType.Q8_0,
}


def variant_type(name: str) -> GGMLQuantizationType:
    """The element type of a variant's matrices; `name` is one of f32, f16, bf16, q8_0."""
    try:
        return VARIANTS[name.lower()]
    except (KeyError, AttributeError):
        raise ModelFileError(f"type {name!r} is not one of {', '.join(VARIANTS)}") from None


def tensor_type(name: str, shape: tuple[int, ...], variant: GGMLQuantizationType) -> GGMLQuantizationType:
    """The element type of one tensor (GGUF name, row-major shape) in a file of this variant."""
    f32 = GGMLQuantizationType.F32
    if variant == f32 or len(shape) < 2 or name.startswith("spk_enc."):
        return f32
    if name.endswith(".codebook") or ".vq_" in name:
        return f32
    block, _ = GGML_QUANT_SIZES[variant]
    if block > 1 and (len(shape) > 2 or shape[-1] % block):
        return GGMLQuantizationType.F16
    return variant


def tensor_bytes(shape: tuple[int, ...], dtype: GGMLQuantizationType) -> int:
    """Bytes of a tensor of this shape and type."""
    block, block_bytes = GGML_QUANT_SIZES[dtype]
    return math.prod(shape) // block * block_bytes


def encode(name: str, rows: np.ndarray, dtype: GGMLQuantizationType) -> bytes:
    """Bytes of float32 rows [n, row] in `dtype`; refuses what the type cannot hold."""
    if not np.isfinite(rows).all():
        raise ModelFileError(f"tensor {name}: holds NaN or infinite values")
    if dtype == GGMLQuantizationType.F32:
        return rows.astype("<f4", copy=False).tobytes()
    if dtype == GGMLQuantizationType.F16:
        with np.errstate(over="ignore"):
            half = rows.astype("<f2")
        if not np.isfinite(half).all():
            peak = float(np.abs(rows).max())
            raise ModelFileError(f"tensor {name}: value {peak:g} is over the F16 limit of 65504; use type f32 or bf16")
        return half.tobytes()
    return quantize(rows, dtype).tobytes()
