"""The codec's stream: however frames are split into pushes, the samples are those of the one pass, bit for bit."""

from pathlib import Path

import numpy as np
import pytest
from c_programs import run
from conftest import golden_arrays, nmse, tiny_files
from hypothesis import given, settings
from hypothesis import strategies as st

import qwentts
from qwentts import Cancelled, ParameterError
from qwentts.engine import Engine

FRAMES = 150  # keys move once in codec_a (window 5) and codec_b (window 9): their cache has 128 places
MODE_OF = {"codec_a": "custom_voice", "codec_b": "voice_design"}

sizes = st.lists(st.integers(1, 40), min_size=1, max_size=12)
examples = settings(max_examples=25, deadline=None)


class Stream:
    """A codec, two sessions over it, random codes and their one-pass samples."""

    def __init__(self, codec, *, flash_attention=True):
        self.engine = Engine(None, codec, threads=2, flash_attention=flash_attention)
        self.sessions = [self.engine.session() for _ in range(2)]
        facts = self.engine.facts
        self.hop = facts.hop_samples
        self.codes = np.random.default_rng(7).integers(0, facts.codebook_size, (FRAMES, facts.n_code_groups), np.int32)
        self.whole = self.sessions[0].decode(self.codes)

    def want(self, first, end):
        return self.whole[first * self.hop : end * self.hop]

    def push_all(self, session, split, *, first=0):
        """Samples of pushes of these sizes from frame `first` on, and the frame after the last."""
        parts, at = [], first
        for n in split:
            n = min(n, FRAMES - at)
            if n:
                parts.append(session.stream_push(self.codes[at : at + n]))
                at += n
        return np.concatenate(parts), at


@pytest.fixture(scope="module", params=sorted(MODE_OF))
def stream(request):
    made = Stream(tiny_files(MODE_OF[request.param])[1])
    yield made
    made.engine.close()


@given(split=sizes)
@examples
def test_any_split_equals_one_pass(stream, split):
    session = stream.sessions[0]
    session.stream_reset()
    samples, end = stream.push_all(session, split)
    assert samples.tobytes() == stream.want(0, end).tobytes()


@given(before=sizes, after=sizes)
@examples
def test_a_reset_stream_is_a_fresh_one(stream, before, after):
    session = stream.sessions[0]
    session.stream_reset()
    stream.push_all(session, before)
    session.stream_reset()
    samples, end = stream.push_all(session, after)
    assert samples.tobytes() == stream.want(0, end).tobytes()


@given(n=st.integers(1, 120), split=sizes)
@examples
def test_a_primed_stream_continues_the_reference(stream, n, split):
    session, other = stream.sessions
    first_time = session.stream_prime(stream.codes[:n])
    samples, end = stream.push_all(session, split, first=n)
    assert samples.tobytes() == stream.want(n, end).tobytes()
    assert other.stream_prime(stream.codes[:n]), f"decoded again, at first {'restored' if first_time else 'decoded'}"
    restored, end = stream.push_all(other, split, first=n)
    assert restored.tobytes() == stream.want(n, end).tobytes()


@given(turns=st.lists(st.tuples(st.integers(0, 1), st.integers(1, 20)), min_size=2, max_size=14))
@examples
def test_interleaved_sessions_do_not_meet(stream, turns):
    at, got = [0, 0], [[], []]
    for session in stream.sessions:
        session.stream_reset()
    for which, n in turns:
        n = min(n, FRAMES - at[which])
        if n:
            got[which].append(stream.sessions[which].stream_push(stream.codes[at[which] : at[which] + n]))
            at[which] += n
    for which in range(2):
        assert b"".join(part.tobytes() for part in got[which]) == stream.want(0, at[which]).tobytes()


@given(stop_after=st.integers(1, 12), split=sizes)
@examples
def test_a_cancelled_push_needs_a_reset_and_leaves_nothing(stream, stop_after, split):
    session = stream.sessions[0]
    session.reset()
    seen = []

    def stop(name, _values):
        seen.append(name)
        if len(seen) == stop_after:
            session.cancel()

    session.set_tap(stop)
    with pytest.raises(Cancelled):
        session.stream_push(stream.codes[:40])
    session.set_tap(None)
    with pytest.raises(Cancelled, match="qt_session_reset"):
        session.stream_push(stream.codes[:1])
    session.reset()
    samples, end = stream.push_all(session, split)
    assert samples.tobytes() == stream.want(0, end).tobytes()


@pytest.mark.parametrize("name", sorted(MODE_OF))
def test_without_fused_attention_it_is_equal_within_rounding(name):
    stream = Stream(tiny_files(MODE_OF[name])[1], flash_attention=False)
    for split in ([1] * FRAMES, [7] * 22, [FRAMES]):
        stream.sessions[0].stream_reset()
        samples, end = stream.push_all(stream.sessions[0], split)
        assert end == FRAMES and nmse(samples, stream.whole) <= 1e-12
    stream.engine.close()


@pytest.mark.parametrize("name", sorted(MODE_OF))
def test_the_stream_equals_the_official_decoder(name):
    with_official = golden_arrays(f"{name}.npz")
    codes, want = with_official["full_codes"], with_official["full_audio"].ravel()
    engine = Engine(None, tiny_files(MODE_OF[name])[1], threads=2)
    session = engine.session()
    samples = np.concatenate([session.stream_push(codes[i : i + 1]) for i in range(len(codes))])
    assert nmse(samples, want) <= 1e-8
    engine.close()


@pytest.mark.parametrize("name", sorted(MODE_OF))
def test_the_stream_from_c(name):
    done = run("stream_equals_one_pass", str(tiny_files(MODE_OF[name])[1]))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_demonstration_voice_streams_from_c():
    demo = next((Path(qwentts.__file__).parent / "voices" / "demo").glob("qwen-tokenizer-*.gguf"))
    done = run("stream_equals_one_pass", str(demo))
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_snapshot_store_by_itself():
    done = run("codec_snapshots_lru")
    assert done.returncode == 0, done.stdout + done.stderr


def test_snapshots_are_kept_for_the_eight_last_references(stream):
    session = stream.sessions[0]
    references = [stream.codes[i : i + 3] for i in range(9)]
    for reference in references:
        session.stream_prime(reference)
    assert [session.stream_prime(reference) for reference in references[1:]] == [True] * 8
    assert not session.stream_prime(references[0])


def test_codes_out_of_range_are_named(stream):
    session = stream.sessions[0]
    session.stream_reset()
    bad = stream.codes[:2].copy()
    bad[1, 0] = stream.engine.facts.codebook_size
    with pytest.raises(ParameterError, match=r"codes\[0\]\[1\] is"):
        session.stream_push(bad)
    samples, end = stream.push_all(session, [5])
    assert samples.tobytes() == stream.want(0, end).tobytes(), "a refused push must not change the stream"
