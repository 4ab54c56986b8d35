"""The codec's pushes of one piece: each at once, or beside the frame loop in a thread of their own.

codes [n, G] -> add() -> thread: decode with the codec's threads, beside the loop -> emit(codes, samples)
                      -> drain(): decode with all threads, while the loop waits   -> the same, in the order of the codes
The loop decodes by itself what is urgent, and everything where the codec has no threads of its own. It also does so when a second push
waits as one is done: then the codec's threads are not enough, and waiting for them would cost more than they save.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from types import TracebackType

import numpy as np

from .engine import Session
from .errors import Cancelled
from .generate import POLL_S, Flag, interruptible

MOST_WAITING = 4  # pushes, 32 frames, that wait for the one being decoded: a loop that is further ahead waits itself


class Pushes:
    """Decodes what it is given, in order; emit gets each push as soon as it is decoded, in whichever thread that was.

    Afterwards: left (codes of pushes that a cancel or an error prevented), n_samples and peak (the gap left out), first_audio (when the
    first samples were there), seconds of decoding, and seconds_beside: those of them that the loop did not wait for.
    """

    def __init__(
        self,
        session: Session,
        stop: Flag,
        emit: Callable[[np.ndarray, np.ndarray], None],
        gap: np.ndarray,
        is_urgent: Callable[[], bool],
    ) -> None:
        self._session, self._stop, self._emit, self._gap, self._is_urgent = session, stop, emit, gap, is_urgent
        self.seconds = self._seconds_beside = self._waited = self.peak = 0.0
        self.n_samples = 0
        self.first_audio: float | None = None
        self._waiting: deque[np.ndarray] = deque()  # the first may be one that is being decoded
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._decodes = self._drains = self._ends = False  # the thread, the loop; the thread is to end
        self._error: BaseException | None = None

    @property
    def left(self) -> list[np.ndarray]:
        """Codes of pushes that were not made."""
        return list(self._waiting)

    @property
    def seconds_beside(self) -> float:
        """Of decoding, while the loop did something else."""
        return max(self._seconds_beside - self._waited, 0.0)

    def add(self, codes: np.ndarray) -> None:
        """Decode codes [n, G]: now, or soon. Raises what any push raised."""
        is_urgent = self._is_urgent()
        with self._changed:
            self._waiting.append(codes)
            self._changed.notify_all()
        if is_urgent or len(self._waiting) > 1 + MOST_WAITING:
            self.drain()
        elif self._thread is None:
            self._thread = threading.Thread(target=self._run, name="qwentts-codec", daemon=True)
            self._thread.start()

    def check(self) -> None:
        """Between two frames: raise what a push raised, and take over what the codec's threads do not keep up with."""
        if self._error is not None:
            raise self._error
        if len(self._waiting) > 1 and not self._decodes:
            self.drain()

    def drain(self) -> None:
        """Decode everything that was added. Raises what any push raised."""
        start = perf_counter()
        with self._changed:
            self._drains = True
            while self._decodes:
                if self._stop.is_set():
                    self._session.cancel()
                self._changed.wait(POLL_S)
        self._waited += perf_counter() - start
        if self._error is not None:
            raise self._error
        while self._waiting:
            self._emit(self._waiting[0], self.decode(self._waiting[0]))
            self._waiting.popleft()
        self._drains = False

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Samples of codes [n, G], with all threads, after a drain(); the first of all follow the gap."""
        return self._counted(lambda: interruptible(self._session, lambda: self._session.stream_push(codes), self._stop))

    def __enter__(self) -> Pushes:
        return self

    def __exit__(self, _kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None) -> None:
        """Nothing is decoded any more. An error of the loop comes after the samples of the frames before it."""
        try:
            if isinstance(error, Exception) and not isinstance(error, Cancelled) and self._error is None:
                with suppress(Cancelled):
                    self.drain()
        finally:
            self._end()
            self._error = None  # whose traceback holds all of this

    def _run(self) -> None:
        while (codes := self._next()) is not None:
            try:
                self._emit(codes, self._decode_beside(codes))
                self._waiting.popleft()
            except BaseException as error:  # handed to the loop
                self._error, self._ends = error, True
            finally:
                with self._changed:
                    self._decodes = False
                    self._changed.notify_all()

    def _next(self) -> np.ndarray | None:
        with self._changed:
            while not self._ends and (self._drains or len(self._waiting) != 1):
                self._changed.wait()
            self._decodes = not self._ends
            return self._waiting[0] if self._decodes else None

    def _decode_beside(self, codes: np.ndarray) -> np.ndarray:
        before = self.seconds
        samples = self._counted(lambda: self._session.stream_push(codes, beside=True))
        self._seconds_beside += self.seconds - before
        return samples

    def _counted(self, push: Callable[[], np.ndarray]) -> np.ndarray:
        start = perf_counter()
        try:
            samples = push()
        except BaseException as error:
            self._error = error
            raise
        now = perf_counter()
        self.seconds += now - start
        self.peak = max(self.peak, float(np.abs(samples).max()))
        self.n_samples += samples.size
        if self.first_audio is not None:
            return samples
        self.first_audio = now
        return np.concatenate([self._gap, samples])

    def _end(self) -> None:
        """Cancel what is being decoded and wait for it: nobody may free what it still uses, however often Ctrl-C is pressed."""
        while self._thread is not None and self._thread.is_alive():
            try:
                with self._changed:
                    self._ends = True
                    self._changed.notify_all()
                if self._decodes:
                    self._session.cancel()
                self._thread.join(POLL_S / 10)
            except KeyboardInterrupt:
                continue
