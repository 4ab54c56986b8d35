"""The worker behind a stream, with chunks that are made up: order, bound, slow readers, early ends, errors, cancels."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qwentts import Chunk, GenerateError, ParameterError
from qwentts.request import Call
from qwentts.streaming import QUEUE_CHUNKS, deliver

EMPTY = np.zeros(0, np.float32)


def chunk(i, reason=None):
    return Chunk(np.full(3, i, np.float32), 24000, np.full((1, 2), i, np.int32), 1, finish_reason=reason)


class Source:
    """Chunks at a pace; knows how many it made and whether it was closed."""

    def __init__(self, n, *, pause_s=0.0, error=None, cancel=None):
        self.n, self.pause_s, self.error = n, pause_s, error
        self.call = Call(cancel)
        self.made, self.closed, self.cancels = 0, threading.Event(), 0
        self.call.own(self)

    def cancel(self):  # what a session does
        self.cancels += 1

    def speak(self, emit):
        try:
            for i in range(self.n):
                if self.call.stop.is_set():
                    emit(chunk(i, "cancelled"))
                    return
                time.sleep(self.pause_s)
                self.made += 1
                emit(chunk(i))
            if self.error is not None:
                raise self.error
            emit(chunk(self.n, "stop"))
        finally:
            self.closed.set()

    def stream(self):
        return deliver(self.call, self.speak)


def n_workers():
    return sum(thread.name == "qwentts-stream" for thread in threading.enumerate())


def test_all_chunks_come_in_order_and_the_last_says_why():
    source = Source(200)
    got = list(source.stream())
    assert [int(c.samples[0]) for c in got] == list(range(201))
    assert [c.finish_reason for c in got] == [None] * 200 + ["stop"] and got[-1].is_last
    assert source.closed.is_set() and n_workers() == 0 and source.cancels == 0


def test_nothing_begins_before_the_first_chunk_is_asked_for():
    source = Source(3)
    stream = source.stream()
    time.sleep(0.05)
    assert source.made == 0 and n_workers() == 0
    stream.close()
    stream.close()
    assert list(stream) == [] and source.made == 0


def test_a_slow_reader_does_not_slow_the_work():
    """Needs row 47."""
    source = Source(30, pause_s=0.01)
    stream = source.stream()
    start = time.perf_counter()
    next(stream)
    source.closed.wait(10)
    assert time.perf_counter() - start < 2, "all chunks were made although one was read"
    assert source.made == 30 and len(list(stream)) == 30


def test_a_reader_that_does_not_read_holds_the_work_at_the_bound():
    source = Source(10 * QUEUE_CHUNKS)
    stream = source.stream()
    next(stream)
    time.sleep(0.3)
    made = source.made
    assert QUEUE_CHUNKS <= made <= QUEUE_CHUNKS + 2
    time.sleep(0.2)
    assert source.made == made
    for _ in range(10):
        next(stream)
    time.sleep(0.2)
    assert made + 9 <= source.made <= made + 11
    stream.close()


@pytest.mark.parametrize("end", ["close", "drop", "throw", "cycle"])
def test_a_reader_that_leaves_stops_the_work(end):
    source = Source(100_000, pause_s=0.001)
    stream = source.stream()
    next(stream)
    if end == "close":
        stream.close()
        stream.close()
    elif end == "throw":
        with pytest.raises(KeyError):
            stream.throw(KeyError("x"))
    elif end == "cycle":
        ring = [stream]
        ring.append(ring)
        del ring, stream
        gc.collect()
    else:
        del stream
    assert source.closed.wait(1) and source.cancels >= 1
    made = source.made
    time.sleep(0.05)
    assert source.made == made and n_workers() == 0


def test_leaving_while_the_queue_is_full_stops_the_work_too():
    source = Source(10 * QUEUE_CHUNKS)
    stream = source.stream()
    next(stream)
    time.sleep(0.2)
    start = time.perf_counter()
    stream.close()
    assert source.closed.is_set() and time.perf_counter() - start < 0.5 and n_workers() == 0


@pytest.mark.parametrize("full", [False, True])
def test_a_cancel_event_ends_with_a_last_chunk(full):
    cancel = threading.Event()
    source = Source(100_000, pause_s=0 if full else 0.001, cancel=cancel)
    stream = source.stream()
    got = [next(stream)]
    time.sleep(0.2 if full else 0)
    cancel.set()
    start = time.perf_counter()
    assert source.closed.wait(1) and time.perf_counter() - start < 0.5
    got += list(stream)
    assert got[-1].finish_reason == "cancelled" and [int(c.samples[0]) for c in got] == list(range(len(got)))


def test_an_error_comes_after_the_chunks_before_it():
    stream = Source(5, error=GenerateError("broken")).stream()
    got = []
    with pytest.raises(GenerateError, match="broken"):
        for c in stream:
            got.append(c)
    assert len(got) == 5 and n_workers() == 0


def test_a_stream_that_is_interrupted_from_outside_says_so():
    source = Source(100_000, pause_s=0.001)
    stream = source.stream()
    next(stream)
    source.call.interrupt()  # what TTS.close does
    assert list(stream)[-1].finish_reason == "cancelled" and n_workers() == 0


def test_chunks_and_stream_are_freed():
    source = Source(3)
    stream = source.stream()
    first = next(stream)
    gone = weakref.ref(stream), weakref.ref(first)
    del stream, first
    gc.collect()
    assert all(ref() is None for ref in gone)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5)), min_size=1, max_size=30), st.integers(0, 20))
def test_interleaved_streams_do_not_mix(turns, length):
    streams = {}
    for which, n in turns:
        source, stream, at = streams.get(which) or (Source(length), None, 0)
        stream = stream or source.stream()
        for _ in range(n):
            c = next(stream, None)
            if c is not None:
                assert int(c.samples[0]) == at and c.is_last == (at == length)
                at += 1
        streams[which] = (source, stream, at)
    for _, stream, _ in streams.values():
        stream.close()
    assert n_workers() == 0


def test_another_thread_may_close_a_stream_that_is_being_read():
    source = Source(1000, pause_s=0.02)
    stream, got = source.stream(), []
    reader = threading.Thread(target=lambda: got.extend(stream))
    reader.start()
    while source.made < 3:
        time.sleep(0.005)
    stream.close()
    reader.join(5)
    assert not reader.is_alive() and got[-1].finish_reason == "cancelled" and 3 <= source.made < 20 and source.closed.is_set()
    stream.close()
    assert list(stream) == []


def test_two_readers_at_once_are_named():
    source = Source(3, pause_s=0.3)
    stream = source.stream()
    reader = threading.Thread(target=lambda: list(stream))
    reader.start()
    time.sleep(0.1)
    with pytest.raises(ParameterError, match="being read in another thread"):
        next(stream)
    reader.join(5)
