"""Philox4x32-10, the counter-based generator behind every draw: word 0 of a block is one uniform number.

(seed, n) -> block(key = seed, counter = (0, 0, n_lo, n_hi)) -> word 0 -> u in (0, 1], float32. The n-th number does not depend on
how many were drawn before, so a seed replays whatever the chunking. Same scheme as PyTorch's CUDA generator (Random123 family).
"""

from __future__ import annotations

import numpy as np

M0, M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
W0, W1 = 0x9E3779B9, 0xBB67AE85  # added to the key after each round
MASK = np.uint64(0xFFFFFFFF)
SHIFT = np.uint64(32)
ROUNDS = 10


def philox4x32(counter: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Blocks uint32 [n, 4] for counters uint32 [n, 4] under one key of two 32-bit words."""
    c0, c1, c2, c3 = np.asarray(counter, np.uint64).T
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = c0 * M0, c2 * M1  # 32 x 32 -> 64 bits, exact
        c0, c1, c2, c3 = (p1 >> SHIFT) ^ c1 ^ np.uint64(k0), p1 & MASK, (p0 >> SHIFT) ^ c3 ^ np.uint64(k1), p0 & MASK
        k0, k1 = (k0 + W0) & 0xFFFFFFFF, (k1 + W1) & 0xFFFFFFFF
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


def uniforms(seed: int, first: int, count: int) -> np.ndarray:
    """Uniform numbers float32 [count] of subsequences first .. first + count - 1: (x + 0.5) * 2^-32 in float32."""
    n = np.arange(first, first + count, dtype=np.uint64)
    counter = np.zeros((count, 4), np.uint64)
    counter[:, 2], counter[:, 3] = n & MASK, n >> SHIFT
    x = philox4x32(counter, (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF))[:, 0]
    return (x.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32)


class UniformStream:
    """The uniforms of one utterance by frame: frame f of G code groups uses subsequences G f .. G f + G - 1."""

    BLOCK_FRAMES = 64  # one vectorised Philox call per 64 frames instead of per frame

    def __init__(self, seed: int, n_groups: int) -> None:
        self.seed, self.n_groups = seed, n_groups
        self._first, self._block = -1, np.empty((0, n_groups), np.float32)

    def frame(self, index: int) -> np.ndarray:
        """Uniforms float32 [G] of frame `index`."""
        first = index - index % self.BLOCK_FRAMES
        if first != self._first:
            flat = uniforms(self.seed, first * self.n_groups, self.BLOCK_FRAMES * self.n_groups)
            self._first, self._block = first, flat.reshape(self.BLOCK_FRAMES, self.n_groups)
        return self._block[index - first]
