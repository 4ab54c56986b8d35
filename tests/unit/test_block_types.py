"""Blocks of every quantized type in a file made by the `gguf` package decode to the values that package gives, bit for bit."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter
from gguf.quants import dequantize, quantize

from qwentts._lib import ffi, lib
from qwentts.model_file import ModelFile

# Byte offsets of the half floats in a block: they get plausible scales, the other bytes anything.
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}
ROWS, BLOCKS_PER_ROW = 7, 12


def random_blocks(name: str, rng: np.random.Generator) -> np.ndarray:
    """Rows of blocks as bytes [ROWS, BLOCKS_PER_ROW * block bytes]: every quant, sub-scale and high bit varies."""
    _, n_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, (ROWS * BLOCKS_PER_ROW, n_bytes), np.uint8)
    for at in HALVES[name]:
        scales = rng.normal(0, 0.1, len(blocks)).astype(np.float16)
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(ROWS, -1)


def written(path: Path, data: np.ndarray, kind: GGMLQuantizationType) -> ModelFile:
    """A file with one tensor of these bytes."""
    writer = GGUFWriter(path, "blocks")
    writer.add_tensor("blocks", data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return ModelFile.open(path)


@pytest.mark.parametrize("name", HALVES)
def test_blocks_decode_as_the_gguf_package_does(name: str, tmp_path: Path) -> None:
    kind = GGMLQuantizationType[name]
    data = random_blocks(name, np.random.default_rng(11))
    file = written(tmp_path / f"{name}.gguf", data, kind)
    assert file.tensors()[0].type_name == name.lower().replace("_k", "_K")
    got, want = file.tensor(0), dequantize(data, kind)
    assert np.unique(want).size > 500 and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


def test_q8_0_rows_quantized_by_the_gguf_package(tmp_path: Path) -> None:
    weights = np.random.default_rng(12).normal(0, 0.05, (ROWS, 96)).astype(np.float32)
    file = written(tmp_path / "q8.gguf", quantize(weights, GGMLQuantizationType.Q8_0), GGMLQuantizationType.Q8_0)
    largest = np.abs(weights.reshape(-1, 32)).max(1).repeat(32).reshape(weights.shape)
    # half a step, and 127 steps times the 2^-11 to which the scale is rounded
    assert (np.abs(file.tensor(0) - weights) <= largest / 127 * 0.57).all()


@pytest.mark.parametrize("name", HALVES)
def test_our_blocks_decode_as_the_gguf_package_does(name: str) -> None:
    """What the library writes, it and the package read alike; 32-value formats are written byte for byte as the package does."""
    kind, rng = GGMLQuantizationType[name], np.random.default_rng(13)
    block, n_bytes = GGML_QUANT_SIZES[kind]
    weights = (rng.laplace(0, 0.05, (ROWS, BLOCKS_PER_ROW * 256)) * 2.0 ** rng.integers(-3, 4, (ROWS, 1))).astype(np.float32)
    weights[1, :700] = np.abs(weights[1, :700]) + 1
    n_rows, n = weights.shape
    blocks, decoded = np.zeros((n_rows, n // block * n_bytes), np.uint8), np.empty_like(weights)
    into = ffi.from_buffer(blocks, require_writable=True)
    assert lib.qt_quantize_rows(kind, ffi.from_buffer("float[]", weights), n, n_rows, into, blocks.nbytes, 0, ffi.NULL) == 0
    assert lib.qt_dequantize_rows(kind, ffi.from_buffer(blocks), blocks.nbytes, n, n_rows, ffi.from_buffer("float[]", decoded)) == 0
    np.testing.assert_array_equal(decoded, dequantize(blocks, kind))
    assert ((decoded - weights) ** 2).sum() < 0.02 * (weights**2).sum()
    if block == 32:
        np.testing.assert_array_equal(blocks, quantize(weights, kind))
