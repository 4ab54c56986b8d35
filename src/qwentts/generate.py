"""The frame loop: prefill, then frame by frame codebook 0 from the talker and the other codebooks from the predictor.

rows [T, D] -> logits -> code 0 -> predictor -> codes [G] -> (their embeddings + overlay row) -> logits -> ... until the end token,
the frame limit, the repetition guard or a cancel. The end token ends before its frame is expanded; it is never part of the codes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from time import perf_counter, sleep
from typing import Any, Protocol, TypeVar

import numpy as np

from .errors import Cancelled, ParameterError
from .philox import UniformStream
from .sampling import Codebook0, RepetitionGuard, Settings, draw
from .settings import Chosen

T = TypeVar("T")
STOP, LENGTH, REPETITION, CANCELLED = "stop", "length", "repetition", "cancelled"
CAP_BASE_S, CAP_TOKEN_S = 2.0, 0.8
POLL_S = 0.05  # how often a waiting thread looks at the cancel event


def derived_cap_frames(n_text_tokens: int, frame_hz: float) -> int:
    """Frame limit when the caller gives none: 2 s + 0.8 s for each text token, rounded up.

    Usual speech takes 0.2 to 0.4 s a token, so slow speech has room; two tokens that never end stop after 3.6 s.
    """
    return math.ceil(round((CAP_BASE_S + CAP_TOKEN_S * n_text_tokens) * frame_hz, 6))  # rounded: 2.0 + 0.8 * 3 is not quite 4.4


class Stack(Protocol):
    """What the loop needs of a session."""

    facts: Any

    def prefill(self, rows: np.ndarray, logits: np.ndarray) -> None: ...
    def step(self, codes: np.ndarray, overlay: np.ndarray, logits: np.ndarray) -> None: ...
    def predictor_frame(self, code0: int, uniforms: np.ndarray, settings: Settings, codes: np.ndarray) -> None: ...
    def cancel(self) -> None: ...


class Flag(Protocol):
    """What the loop needs of a cancel event."""

    def is_set(self) -> bool: ...


@dataclass(frozen=True)
class Limits:
    """When the loop ends other than by the end token."""

    max_frames: int
    guard: bool = True
    cancel: Flag | None = None

    def is_cancelled(self) -> bool:
        """The caller's event is set."""
        return self.cancel is not None and self.cancel.is_set()


class FrameLoop:
    """Iterates over the codes int32 [G] of each frame; afterwards finish_reason and timings (seconds) are set."""

    def __init__(
        self, session: Stack, prompt: tuple[np.ndarray, np.ndarray, np.ndarray], *, eos: int, chosen: Chosen, seed: int, limits: Limits
    ) -> None:
        self.session = session
        self.rows, self.overlay, self.pad_row = prompt
        self.eos, self.chosen, self.seed, self.limits = eos, chosen, seed, limits
        self.finish_reason = LENGTH
        self.timings = {"prefill": 0.0, "talker": 0.0, "predictor": 0.0, "sampling": 0.0}

    def __iter__(self) -> Iterator[np.ndarray]:
        try:
            yield from self._frames()
        except Cancelled:
            self.finish_reason = CANCELLED

    def _frames(self) -> Iterator[np.ndarray]:
        session, times, facts = self.session, self.timings, self.session.facts
        talker, predictor = self.chosen.talker, self.chosen.predictor
        n_groups = facts.n_code_groups
        codebook0 = Codebook0(facts.codec_vocab_size, self.eos, penalty=self.chosen.repetition_penalty)
        guard = RepetitionGuard(facts.frame_hz) if self.limits.guard else None
        uniforms = UniformStream(self.seed, n_groups)
        logits = np.empty(facts.codec_vocab_size, np.float32)
        codes = np.zeros(n_groups, np.int32)

        start = perf_counter()
        interruptible(session, lambda: session.prefill(self.rows, logits), self.limits.cancel)
        times["prefill"] = perf_counter() - start
        for frame in range(self.limits.max_frames):
            if self.limits.is_cancelled():
                self.finish_reason = CANCELLED
                return
            start = perf_counter()
            if frame:
                at = frame - 1
                session.step(codes, self.overlay[at] if at < len(self.overlay) else self.pad_row, logits)
            stepped = perf_counter()
            uniform = uniforms.frame(frame)
            token = draw(codebook0.process(logits), talker, uniform[0])
            drawn = perf_counter()
            times["talker"] += stepped - start
            times["sampling"] += drawn - stepped
            if token == self.eos:
                self.finish_reason = STOP
                return
            codebook0.accept(token)
            session.predictor_frame(token, uniform[1:], predictor, codes)
            times["predictor"] += perf_counter() - drawn
            yield codes.copy()
            if guard is not None and guard.repeats(token):
                self.finish_reason = REPETITION
                return


def frame_limit(caller: int | None, file_limit: int, n_text: int, n_rows: int, facts: Any) -> int:
    """Frames the loop may make: the caller's limit, else the derived cap within the file's; never beyond the context."""
    room = facts.context_length - n_rows + 1  # the last frame is never fed back
    if room < 1:
        raise ParameterError(f"text needs {n_rows} positions in the prompt, the model's context has {facts.context_length}: split the text")
    if caller is None:
        return min(derived_cap_frames(n_text, facts.frame_hz), file_limit, room)
    if isinstance(caller, bool) or not isinstance(caller, int) or caller < 1:
        raise ParameterError(f"max_new_tokens is {caller!r}, valid are whole numbers from 1 (frames)")
    return min(caller, room)


def interruptible(session: Any, call: Callable[[], T], cancel: Flag | None) -> T:
    """The result of a long library call; an event or Ctrl-C in this thread cancels it within its current graph."""
    outcome: list[tuple[Any, BaseException | None]] = []
    begun = threading.Lock()  # taken by the worker, or by an interrupt that comes before it

    def work() -> None:
        if not begun.acquire(blocking=False):
            return
        try:
            outcome.append((call(), None))
        except BaseException as error:  # handed to the waiting thread
            outcome.append((None, error))

    worker = threading.Thread(target=work, name="qwentts-call", daemon=True)
    try:
        worker.start()
        while worker.is_alive():
            worker.join(POLL_S)
            if cancel is not None and cancel.is_set():
                session.cancel()
    except BaseException:
        if not begun.acquire(blocking=False):
            _wait_out(session, outcome)
        raise
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


def _wait_out(session: Any, outcome: list[Any]) -> None:
    """Return once the call has ended: nobody may free what it still uses, however often Ctrl-C is pressed."""
    while not outcome:
        try:
            session.cancel()
            sleep(POLL_S / 10)
        except KeyboardInterrupt:
            continue
