"""Errors of the row quantizers against plain rounding: quantize_nmse.py [CHECKPOINT.safetensors]

Prints NMSE on Gaussian and Laplace rows, and on the float16 matrices of a checkpoint whose rows are whole blocks of 256. PYTHONPATH finds
qwentts. "plain" is rounding between the least and largest value of each sub-block, as tests/unit/test_row_quantizer.py defines it.
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "unit")]

from test_row_quantizer import plain_rounding, round_trip  # noqa: E402


def matrices(path: Path) -> np.ndarray:
    """Rows [n, 256] of the checkpoint's float16 matrices."""
    with path.open("rb") as file:
        (n,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(n))
        found = []
        for entry in header.values():
            shape = entry.get("shape", [])
            if len(shape) == 2 and shape[1] % 256 == 0 and entry["dtype"] == "F16":
                begin, end = entry["data_offsets"]
                file.seek(8 + n + begin)
                found.append(np.frombuffer(file.read(end - begin), "<f2").astype(np.float32).reshape(-1, 256))
    return np.concatenate(found)


def main() -> None:
    rng = np.random.default_rng(5)
    data = {"Gaussian": rng.normal(0, 0.02, (512, 2048)), "Laplace": rng.laplace(0, 0.02, (512, 2048))}
    if len(sys.argv) > 1:
        data[Path(sys.argv[1]).parent.name] = matrices(Path(sys.argv[1]))
    print("| rows | type | NMSE | plain rounding |\n|---|---|---|---|")
    for kind, rows in data.items():
        rows = rows.astype(np.float32)
        power = (rows.astype(np.float64) ** 2).sum()
        for name in ("Q8_0", "Q6_K", "Q5_K", "Q4_K"):
            ours = ((round_trip(name, rows) - rows) ** 2).sum() / power
            plain = ours if name == "Q8_0" else ((plain_rounding(name, rows) - rows) ** 2).sum() / power
            print(f"| {kind} | {name} | {ours:.3g} | {plain:.3g} |")


if __name__ == "__main__":
    main()
