"""What synthesize() returns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from .audio import save_wav, silence
from .generate import CANCELLED, LENGTH, REPETITION, STOP

PIECE_SILENCE_S = 0.2  # between the pieces of split text
WORST_FIRST = (CANCELLED, REPETITION, LENGTH, STOP)


@dataclass(frozen=True)
class Piece:
    """One separately spoken part of the text."""

    text: str
    seed: int
    finish_reason: str
    start_samples: int  # where it begins in Speech.samples
    n_samples: int
    n_frames: int


@dataclass(frozen=True)
class Speech:
    """Audio with how it came about.

    finish_reason: `stop` (the end token), `length` (the frame limit), `repetition` (the guard) or `cancelled` (codes so far, no audio).
    For split text it is the worst of the pieces, codes are those of all pieces in turn, and samples have a short silence between pieces.
    """

    samples: np.ndarray = field(repr=False)  # float32 [n], in [-1, 1]
    sample_rate: int
    codes: np.ndarray = field(repr=False)  # int32 [frames, groups]
    seed: int
    finish_reason: str
    max_frames: int  # the frame limit that applied (of the last piece)
    timings: Mapping[str, float]  # seconds: prefill, talker, predictor, sampling, codec, total
    warnings: tuple[str, ...] = ()
    pieces: tuple[Piece, ...] = ()

    @property
    def duration_s(self) -> float:
        """Length of the audio."""
        return self.samples.size / self.sample_rate

    def save(self, path: str | os.PathLike[str], *, format: str = "wav16") -> None:
        """Write a WAV file: wav16, wav24 or wav32 (float)."""
        save_wav(path, self.samples, self.sample_rate, format=format)


def join(parts: Sequence[Speech], *, seed: int, total_s: float, warnings: tuple[str, ...]) -> Speech:
    """One Speech of several spoken in turn, with PIECE_SILENCE_S between them."""
    rate = parts[0].sample_rate
    gap = silence(PIECE_SILENCE_S, rate)
    samples, pieces, at = [], [], 0
    for i, part in enumerate(parts):
        if i and part.samples.size:
            samples.append(gap)
            at += gap.size
        samples.append(part.samples)
        pieces += [_moved(piece, at) for piece in part.pieces]
        at += part.samples.size
    timings: dict[str, float] = {}
    for part in parts:
        for name, value in part.timings.items():
            timings[name] = timings.get(name, 0.0) + value
    return Speech(
        samples=np.concatenate(samples),
        sample_rate=rate,
        codes=np.concatenate([part.codes for part in parts]),
        seed=seed,
        finish_reason=next(reason for reason in WORST_FIRST if any(p.finish_reason == reason for p in parts)),
        max_frames=parts[-1].max_frames,
        timings={**timings, "total": total_s},
        warnings=warnings,
        pieces=tuple(pieces),
    )


def _moved(piece: Piece, offset: int) -> Piece:
    return Piece(piece.text, piece.seed, piece.finish_reason, piece.start_samples + offset, piece.n_samples, piece.n_frames)
