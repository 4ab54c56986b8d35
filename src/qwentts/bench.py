"""How fast a model speaks on this machine.

TTS -> a warm-up, then whole syntheses of a fixed text -> milliseconds a frame by part, percentiles of the time between frames
    -> streams -> time to the first chunk
    -> the most memory so far
    -> frames behind prompts of 64, 512 and 2,000 rows, in turns -> how a frame's time grows with the length of the utterance: talker,
       predictor and Python there; the codec, whose window has the same length everywhere, from the syntheses
Seed and text are fixed, so two runs compute the same. Times are wall clock: what else runs on the machine is in them.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np

from .generate import FrameLoop, Limits
from .request import PieceRun, Request
from .speech import Speech
from .tts import TTS

TEXT = "The quick brown fox jumps over the lazy dog, and then it rests for a while in the warm afternoon sun."
SEED = 7
PARTS = ("talker", "predictor", "sampling", "codec")  # of a frame; what is left of the total is Python's loop
POSITIONS = (64, 512, 2000)  # rows before the frames that are timed
BEHIND_FRAMES = 24
STREAM_FRAMES = 4
PERCENTILES = (50, 90, 99)


def bench(tts: TTS, *, frames: int = 50, runs: int = 3, step: Callable[[], Any] = lambda: None) -> dict[str, Any]:
    """Figures as plain numbers, medians of the runs; step is called after each of n_steps(runs) parts."""
    say = _options(tts)
    tts.synthesize(TEXT, max_new_tokens=2, **say)
    step()
    speeches: list[Speech] = []
    intervals: list[float] = []
    for _ in range(runs):
        ticks: list[float] = []
        speeches.append(tts.synthesize(TEXT, max_new_tokens=frames, progress=_ticker(ticks), **say))
        intervals += _gaps_ms(ticks)
        step()
    firsts = []
    for _ in range(runs):
        firsts.append(first_audio_ms(tts, say))
        step()
    peak_mb = peak_rss_mb()  # before prompts of 2,000 rows, which a synthesis does not have
    parts = {name: statistics.median(frame_ms(speech)[name] for speech in speeches) for name in (*PARTS, "python", "all")}
    beside_ms = statistics.median(1000 * speech.timings["codec_beside"] / len(speech.codes) for speech in speeches)
    behind = frame_ms_behind(tts, [n for n in POSITIONS if n + BEHIND_FRAMES < tts.facts.context_length], say)
    step()
    return {
        "backend": tts.backend_name,
        "frames": statistics.median_low(len(speech.codes) for speech in speeches),
        "runs": runs,
        "audio_ms": 1000 / tts.facts.frame_hz,  # that a frame lasts
        "load_s": tts.load_s,
        "prefill_ms": statistics.median(1000 * speech.timings["prefill"] for speech in speeches),
        "first_audio_ms": statistics.median(firsts),
        "frame_ms": parts,
        "codec_beside_ms": beside_ms,  # of the codec's share of a frame, while the next frames were made
        "interval_ms": {f"p{p}": float(np.percentile(intervals, p)) for p in PERCENTILES} | {"max": max(intervals)} if intervals else {},
        "real_time_factor": statistics.median(speech.timings["total"] / speech.duration_s for speech in speeches),
        "frame_ms_behind": behind,  # codec left out
        "frame_ms_at": {n_rows: value + parts["codec"] - beside_ms for n_rows, value in behind.items()},
        "peak_rss_mb": peak_mb,
    }


def n_steps(runs: int) -> int:
    """How often bench calls step."""
    return 2 + 2 * runs


def frame_ms(speech: Speech) -> dict[str, float]:
    """Milliseconds a frame by part, what Python's loop took besides, and all of them; the prefill is left out."""
    n = len(speech.codes)
    parts = {name: 1000 * speech.timings[name] / n for name in PARTS}
    whole = 1000 * (speech.timings["total"] - speech.timings["prefill"]) / n
    beside = 1000 * speech.timings["codec_beside"] / n
    return {**parts, "python": whole - (sum(parts.values()) - beside), "all": whole}


def first_audio_ms(tts: TTS, say: dict[str, Any]) -> float:
    """From the call to the first chunk of a stream."""
    start = perf_counter()
    stream = tts.stream(TEXT, max_new_tokens=STREAM_FRAMES, **say)
    try:
        next(stream)
        return 1000 * (perf_counter() - start)
    finally:
        stream.close()


def frame_ms_behind(tts: TTS, positions: list[int], say: dict[str, Any]) -> dict[str, float]:
    """Median time of a frame, codec left out, by the rows of its prompt (the text's own, repeated).

    Frames of all positions take turns: what else runs on the machine then slows all of them alike.
    """
    times: dict[int, list[float]] = {n_rows: [] for n_rows in positions}
    with ExitStack() as sessions:
        loops = {n_rows: iter(_loop_behind(tts, n_rows, say, sessions)) for n_rows in positions}
        for frames in loops.values():
            next(frames, None)  # with the prefill
        for _ in range(BEHIND_FRAMES - 1):
            for n_rows, frames in loops.items():
                start = perf_counter()
                if next(frames, None) is not None:  # None: the end token
                    times[n_rows].append(1000 * (perf_counter() - start))
    return {str(n_rows): statistics.median(taken) for n_rows, taken in times.items() if taken}


def _loop_behind(tts: TTS, n_rows: int, say: dict[str, Any], sessions: ExitStack) -> FrameLoop:
    request = Request(tts, text=TEXT, max_new_tokens=BEHIND_FRAMES, **{**_UNSET, **say})
    session = sessions.enter_context(tts._session(request))
    session.reset()
    loop = PieceRun(request, session, TEXT, SEED, 0).loop()
    loop.rows = np.resize(loop.rows, (n_rows, loop.rows.shape[1]))
    loop.limits = Limits(BEHIND_FRAMES, guard=False)
    return loop


def peak_rss_mb() -> float:
    """The most memory this process has had resident so far; not a number where the system does not say."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return float("nan")
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


_UNSET: dict[str, Any] = dict.fromkeys(
    ("language", "speaker", "instruct", "voice", "streaming_text", "split", "seed", "greedy", "cancel", "progress")
)


def _options(tts: TTS) -> dict[str, Any]:
    """What makes every call the same; temperature and the end token are the model's own, so a trained voice may end before the limit."""
    return {
        "speaker": tts.speakers[0] if tts.speakers else None,
        "instruct": "A calm voice." if tts.info.model_type == "voice_design" else None,
        "split": "none",
        "seed": SEED,
        "repetition_guard": False,
    }


def _ticker(ticks: list[float]) -> Callable[[int], None]:
    return lambda _: ticks.append(perf_counter())


def _gaps_ms(ticks: list[float]) -> list[float]:
    return [1000 * (b - a) for a, b in pairwise(ticks)]
