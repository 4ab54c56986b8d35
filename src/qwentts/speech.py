"""What synthesize() returns, and the chunks that stream() yields."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from .audio import save_wav
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
class Chunk:
    """The next audio of a stream; the last one, and it alone, says how the speech ended.

    The last chunk may have no samples. Only where the speech was cancelled it has codes that were not decoded any more.
    """

    samples: np.ndarray = field(repr=False)  # float32 [n], in [-1, 1]
    sample_rate: int
    codes: np.ndarray = field(repr=False)  # int32 [frames, groups]
    seed: int
    piece: int = 0  # which part of split text it belongs to
    # of the last chunk, about all of the speech; see Speech
    finish_reason: str | None = None
    max_frames: int = 0
    timings: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    pieces: tuple[Piece, ...] = ()
    reference_reused: bool | None = None

    @property
    def is_last(self) -> bool:
        """Nothing follows."""
        return self.finish_reason is not None


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
    # seconds: prime (the decoder hears the reference), prefill, talker, predictor, sampling, codec, codec_beside (of codec, while the next
    # frames were made: TTS(codec_threads)), total; first_audio from the start to the first decoded samples: of synthesize those of its
    # first 8 frames, of stream those of its first frame
    timings: Mapping[str, float]
    warnings: tuple[str, ...] = ()
    pieces: tuple[Piece, ...] = ()
    reference_reused: bool | None = None  # the decoder's state after the reference was still there; None: no reference frames

    @property
    def duration_s(self) -> float:
        """Length of the audio."""
        return self.samples.size / self.sample_rate

    def save(self, path: str | os.PathLike[str], *, format: str = "wav16") -> None:
        """Write a WAV file: wav16, wav24 or wav32 (float)."""
        save_wav(path, self.samples, self.sample_rate, format=format)


def worst(reasons: Iterable[str]) -> str:
    """The finish reason of pieces as a whole."""
    present = set(reasons)
    return next(reason for reason in WORST_FIRST if reason in present)


def collect(chunks: Iterable[Chunk]) -> Speech:
    """The Speech that the chunks of a stream are; the audio of a cancelled piece is dropped."""
    got = list(chunks)
    last = got[-1]
    assert last.finish_reason is not None
    samples = np.concatenate([chunk.samples for chunk in got])
    pieces = last.pieces
    if last.finish_reason == CANCELLED:
        *whole, cut = pieces
        end = whole[-1].start_samples + whole[-1].n_samples if whole else 0
        samples = samples[:end].copy()
        pieces = (*whole, Piece(cut.text, cut.seed, cut.finish_reason, end, 0, cut.n_frames))
    return Speech(
        samples=samples,
        sample_rate=last.sample_rate,
        codes=np.concatenate([chunk.codes for chunk in got]),
        seed=last.seed,
        finish_reason=last.finish_reason,
        max_frames=last.max_frames,
        timings=last.timings,
        warnings=last.warnings,
        pieces=pieces,
        reference_reused=last.reference_reused,
    )
