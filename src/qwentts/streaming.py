"""A stream of chunks made ahead of its reader: a worker thread, a bounded queue, and a generator that ends both.

speak(emit), in a worker -> emit, in any thread -> at most QUEUE_CHUNKS waiting -> generator -> reader
Up to that bound a slow reader does not slow the computation. Closing or dropping the generator stops the worker within its current
computation, and so does the end of the program.
"""

from __future__ import annotations

import atexit
import threading
import weakref
from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from .errors import ParameterError
from .generate import POLL_S
from .speech import Chunk

if TYPE_CHECKING:
    from .request import Call

Speak = Callable[[Callable[[Chunk], None]], None]  # computes chunks and gives each to the function it is given
QUEUE_CHUNKS = 64  # of 8 frames each, the first three aside: 40 s of audio at 12.5 frames a second, 4 MB
JOIN_S = 10.0  # a worker ends within one computation; a collector that runs while a lock is held must not wait for ever
_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


class Worker:
    """Speaks in a thread of its own."""

    def __init__(self, call: Call, speak: Speak) -> None:
        self._call, self._speak = call, speak
        self._waiting: deque[Chunk] = deque()
        self._changed = threading.Condition()
        self._finished = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="qwentts-stream", daemon=True)
        _workers.add(self)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._speak(self._put)
        except BaseException as error:  # handed to the reader
            self._error = error
        finally:
            with self._changed:
                self._finished = True
                self._changed.notify_all()

    def _put(self, chunk: Chunk) -> None:
        with self._changed:
            while len(self._waiting) >= QUEUE_CHUNKS and not self._call.stop.is_set():
                self._changed.wait(POLL_S)
            self._waiting.append(chunk)
            self._changed.notify_all()

    def get(self) -> Chunk | None:
        """The next chunk, None after the last; raises what the worker raised."""
        with self._changed:
            while not self._waiting and not self._finished:
                self._changed.wait()
            if self._waiting:
                chunk = self._waiting.popleft()
                self._changed.notify_all()
                return chunk
        if self._error is not None:
            raise self._error
        return None

    def stop(self) -> None:
        """End the computation and wait for it."""
        if self._thread.is_alive():
            self._call.interrupt()
            with self._changed:
                self._changed.notify_all()
            if self._thread is not threading.current_thread():  # a collector may run anywhere
                self._thread.join(JOIN_S)
        self._waiting.clear()


@atexit.register
def _stop_all() -> None:
    for worker in list(_workers):
        worker.stop()


class Stream(Generator[Chunk, None, None]):
    """A generator of chunks that any thread may close: a reader that waits in another one then gets a last chunk that says `cancelled`."""

    def __init__(self, call: Call, speak: Speak) -> None:
        self._call, self._chunks = call, _ahead(call, speak)

    def send(self, value: None) -> Chunk:
        """The next chunk."""
        if self._chunks.gi_running:
            raise ParameterError("this stream is being read in another thread: one thread at a time reads it")
        return self._chunks.send(value)

    def throw(self, *error: Any) -> Chunk:
        """Raise an exception where the stream is."""
        return self._chunks.throw(*error)

    def close(self) -> None:
        """End the speech; closing twice is legal."""
        try:
            self._chunks.close()
        except ValueError:  # a reader is within it
            self._call.interrupt()


def deliver(call: Call, speak: Speak) -> Stream:
    """The chunks of speak, computed ahead from the first request for one on."""
    return Stream(call, speak)


def _ahead(call: Call, speak: Speak) -> Generator[Chunk, None, None]:
    worker = Worker(call, speak)
    try:
        while (chunk := worker.get()) is not None:
            yield chunk
    finally:
        worker.stop()
