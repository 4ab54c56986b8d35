"""Rows to blocks through the library: errors within the bounds of each format, the edges of floats, the same bytes on all threads."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from c_programs import ROOT
from gguf import GGML_QUANT_SIZES
from gguf import GGMLQuantizationType as T

from qwentts._lib import ffi, last_error, lib

ROUNDED = ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"]
SEARCHED = ["Q4_K", "Q5_K", "Q6_K"]
LEVELS = {"Q4_K": 15, "Q5_K": 31, "Q6_K": 63}
BLOCKS_A_ROW = (1, 2, 7, 12)
SMALLEST_F16 = 2.0**-24


def bound(name: str) -> tuple[str, float]:
    """Metric and bound of a type in tests/bounds.csv."""
    with (ROOT / "tests" / "bounds.csv").open(encoding="utf-8", newline="") as file:
        (row,) = [row for row in csv.DictReader(file) if row["family"] == "quantize" and row["dtype"].upper() == name]
    return row["metric"], float(row["bound"])


def blocks_of(name: str, rows: np.ndarray, threads: int = 2) -> tuple[np.ndarray, float]:
    """(bytes [n, row bytes], sum of squared errors); ValueError with the library's message."""
    block, n_bytes = GGML_QUANT_SIZES[T[name]]
    rows = np.ascontiguousarray(rows, np.float32)
    out = np.zeros((rows.shape[0], rows.shape[1] // block * n_bytes), np.uint8)
    error = ffi.new("double *")
    values, into = ffi.from_buffer("float[]", rows), ffi.from_buffer(out, require_writable=True)
    if lib.qt_quantize_rows(T[name], values, rows.shape[1], rows.shape[0], into, out.nbytes, threads, error) != 0:
        raise ValueError(last_error())
    return out, error[0]


def values_of(name: str, blocks: np.ndarray, n_per_row: int) -> np.ndarray:
    """Decoded rows in double precision."""
    out = np.empty((blocks.shape[0], n_per_row), np.float32)
    status = lib.qt_dequantize_rows(T[name], ffi.from_buffer(blocks), blocks.nbytes, n_per_row, len(out), ffi.from_buffer("float[]", out))
    assert status == 0, last_error()
    return out.astype(np.float64)


def round_trip(name: str, rows: np.ndarray) -> np.ndarray:
    return values_of(name, blocks_of(name, rows)[0], rows.shape[1])


def distributions(n: int) -> dict[str, np.ndarray]:
    """Rows [3, n] of every kind that a weight matrix may hold."""
    rng = np.random.default_rng(n)
    gauss = rng.normal(0, 0.02, (3, n))
    outlier = gauss.copy()
    outlier[:, n // 3] = 5.0
    return {
        "gauss": gauss,
        "laplace": rng.laplace(0, 0.02, (3, n)),
        "uniform": rng.uniform(-1, 1, (3, n)),
        "heavy": rng.standard_t(2, (3, n)),
        "outlier": outlier,
        "scales": gauss * 2.0 ** rng.integers(-8, 8, (3, n // 32)).repeat(32, 1),
        "positive": rng.uniform(3, 4, (3, n)),
        "negative": rng.uniform(-4, -3, (3, n)),
        "constant": np.full((3, n), -0.7),
        "ramp": np.tile(np.linspace(-1, 2, n), (3, 1)),
        "sparse": gauss * (rng.uniform(0, 1, (3, n)) < 0.02),
        "small": gauss * 1e-3,
    }


def check_bound(name: str, x: np.ndarray, y: np.ndarray) -> None:
    """Every block of x and its decoded y within the type's bound; scales may be off by the smallest F16 besides."""
    metric, most = bound(name)
    block = GGML_QUANT_SIZES[T[name]][0]
    x, error = x.reshape(-1, block), np.abs(y - x).reshape(-1, block)
    if metric == "exact":
        assert not error.any()
    elif metric == "mag":  # of the largest value of a block
        assert (error <= most * np.abs(x).max(1, keepdims=True) + SMALLEST_F16).all()
    else:  # the root mean square over a block, of the widest span of a sub-block with 0
        assert metric == "rms"
        subs = x.reshape(len(x), 16 if name == "Q6_K" else 8, -1)
        span = np.abs(subs).max((1, 2)) if name == "Q6_K" else (subs.max(2, initial=0) - subs.min(2, initial=0)).max(1)
        assert (np.sqrt((error**2).mean(1)) <= most * span + SMALLEST_F16).all()


@pytest.mark.parametrize("n_blocks", BLOCKS_A_ROW)
@pytest.mark.parametrize("name", ROUNDED + SEARCHED)
def test_errors_are_within_the_bounds_of_the_format(name: str, n_blocks: int) -> None:
    n = n_blocks * max(32, GGML_QUANT_SIZES[T[name]][0])
    for kind, rows in distributions(n).items():
        rows = rows.astype(np.float32).astype(np.float64)
        blocks, error = blocks_of(name, rows)
        decoded = values_of(name, blocks, n)
        assert np.isclose(error, ((decoded - rows) ** 2).sum(), rtol=1e-9, atol=0), kind
        check_bound(name, rows, decoded)


@pytest.mark.parametrize("name", ROUNDED + SEARCHED)
def test_zeros_stay_zeros(name: str) -> None:
    rows = np.zeros((2, 512), np.float32)
    assert not round_trip(name, rows).any()
    rows[1, 300] = 1.0
    decoded = round_trip(name, rows)
    assert not decoded[0].any() and abs(decoded[1, 300] - 1) < 0.01 and np.abs(np.delete(decoded[1], 300)).max() == 0


@pytest.mark.parametrize("name", ROUNDED[3:] + SEARCHED)
def test_what_scales_cannot_hold_is_clipped(name: str) -> None:
    """Values over the format's largest become that, never infinite or NaN; blocks that fit are not touched by those that do not."""
    rng = np.random.default_rng(8)
    rows = rng.normal(0, 1, (4, 512)).astype(np.float32)
    plain = round_trip(name, rows)
    for size in (1e6, 1e10, 3e38):
        wide = rows.copy()
        wide[2] = np.clip(rows[2] * np.float32(size / 4), -size, size)
        decoded = round_trip(name, wide)
        assert np.isfinite(decoded).all()
        np.testing.assert_array_equal(np.delete(decoded, 2, 0), np.delete(plain, 2, 0))
        large = np.abs(rows[2]) > 2
        assert (np.sign(decoded[2, large]) == np.sign(rows[2, large])).all() and np.abs(decoded[2, large]).min() > 65500
    one = np.zeros((1, 256), np.float32)
    one[0, 7] = np.finfo(np.float32).max
    assert 2.6e5 < round_trip(name, one)[0, 7] < 3e8


@pytest.mark.parametrize("name", ROUNDED[3:] + SEARCHED)
@pytest.mark.parametrize("size", [1e-4, 1e-5, 1e-6, 3e-8, 1e-12, 1e-38, 1e-45])
def test_tiny_values_keep_what_f16_scales_can_say(name: str, size: float) -> None:
    rows = (np.random.default_rng(9).uniform(-1, 1, (3, 512)) * size).astype(np.float32)
    assert rows.any()
    decoded = round_trip(name, rows)
    check_bound(name, rows.astype(np.float64), decoded)
    assert np.abs(decoded).max() <= np.abs(rows).max() * 1.2 + SMALLEST_F16
    if size >= 1e-5:
        assert ((decoded - rows) ** 2).sum() < 0.1 * (rows.astype(np.float64) ** 2).sum()


def plain_rounding(name: str, rows: np.ndarray) -> np.ndarray:
    """Minimum and maximum of a sub-block to the ends of the quants, scales to F16 and 6 or 8 bits, each value to its nearest: no search."""
    levels = LEVELS[name]
    if name == "Q6_K":
        x = rows.reshape(-1, 16, 16).astype(np.float64)
        step = np.abs(x).max(2) / 31
        d = np.float16(step.max(1, keepdims=True) / 127).astype(np.float64)
        step = (d * np.round(step / d))[..., None]
        return (np.clip(np.round(x / step), -32, 31) * step).reshape(rows.shape)
    x = rows.reshape(-1, 8, 32).astype(np.float64)
    low = np.minimum(x.min(2), 0)
    step = (x.max(2) - low) / levels
    d, d_min = (np.float16(v.max(1, keepdims=True) / 63).astype(np.float64) for v in (step, -low))
    step, low = (d * np.round(step / d))[..., None], -(d_min * np.round(-low / d_min))[..., None]
    return (np.clip(np.round((x - low) / step), 0, levels) * step + low).reshape(rows.shape)


@pytest.mark.parametrize("name", SEARCHED)
def test_the_search_clearly_beats_plain_rounding(name: str) -> None:
    rng = np.random.default_rng(10)
    for kind, rows in {"gauss": rng.normal(0, 0.02, (32, 1024)), "laplace": rng.laplace(0, 0.02, (32, 1024))}.items():
        rows = rows.astype(np.float32)
        ours, plain = (((decoded - rows) ** 2).sum() for decoded in (round_trip(name, rows), plain_rounding(name, rows)))
        assert ours < 0.87 * plain, (kind, ours / plain)


@pytest.mark.parametrize("name", ROUNDED + SEARCHED)
def test_threads_change_no_byte(name: str) -> None:
    rows = np.random.default_rng(11).normal(0, 1, (1111, 256))
    blocks, error = blocks_of(name, rows, 1)
    for threads in (2, 3, 4, 64, 0):
        again, error_again = blocks_of(name, rows, threads)
        assert again.tobytes() == blocks.tobytes() and error_again == error


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_first_bad_value_is_named(threads: int) -> None:
    rows = np.zeros((2000, 256), np.float32)
    rows[1500, 3] = np.nan
    rows[700, 255] = -np.inf
    rows[900, 0] = np.nan
    for name in ("Q8_0", "Q4_K", "F32", "BF16"):
        with pytest.raises(ValueError, match="qt_quantize_rows: the value at row 700, column 255 is -infinity, valid: finite"):
            blocks_of(name, rows, threads)
    rows[699, 8] = 65520
    with pytest.raises(ValueError, match="row 699, column 8 is 65520, f16 holds up to 65504"):
        blocks_of("F16", rows, threads)
    rows[700, 255] = rows[900, 0] = rows[1500, 3] = 0
    rows[699, 8] = 65519
    assert round_trip("F16", rows)[699, 8] == 65504
    rows[1, 1] = np.finfo(np.float32).max
    with pytest.raises(ValueError, match=r"row 1, column 1 is 3.40282e\+38, bf16 holds up to 3.38953e\+38"):
        blocks_of("BF16", rows, threads)
    assert np.isfinite(round_trip("Q6_K", rows)).all()


@pytest.mark.parametrize(("name", "n"), [("Q8_0", 16), ("Q8_0", 33), ("Q4_K", 128), ("Q5_K", 255), ("Q6_K", 1000), ("Q4_K", 0), ("F16", 0)])
def test_rows_that_are_no_whole_blocks_are_refused(name: str, n: int) -> None:
    block = GGML_QUANT_SIZES[T[name]][0]
    with pytest.raises(ValueError, match=f"n_per_row is {n}, valid for {name.lower().replace('_k', '_K')}: a positive multiple of {block}"):
        blocks_of(name, np.zeros((2, n)))
