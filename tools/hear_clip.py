"""A recording made of whole numbers only, so that every machine hears the same one: for tools/golden_hear.py and the tests of hearing."""

from __future__ import annotations

import numpy as np


def clip(n_samples: int, *, seed: int = 1) -> np.ndarray:
    """float32 [n_samples], multiples of 2^-15: gliding buzzing tones, noise that comes and goes, a pause in each second."""
    n = np.arange(n_samples, dtype=np.int64)
    noise = np.random.Philox(key=seed).random_raw(n_samples)
    noise = (noise >> np.uint64(50)).astype(np.int64) - 8192  # 14 bits
    rise = np.abs(n % 16001 - 8000)  # a slow triangle
    total = np.zeros(n_samples, np.int64)
    for pitch, reach, loud in ((9, 3, 5), (31, 7, 3), (120, 11, 2)):
        phase = np.cumsum(pitch * 256 + rise * reach // 64 + seed)
        saw = (phase >> 4) % 8192 - 4096
        total += loud * (2 * np.abs(saw) - 4096) * (n // 2000 % (pitch % 5 + 2) + 1)
    total += noise * (n // 3000 % 4) * 2
    total = total * (8000 - rise) // 8000 // 8
    total[n % 24000 > 22500] = 0
    return (np.clip(total, -29000, 29000) / 32768).astype(np.float32)
