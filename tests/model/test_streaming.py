"""TTS.stream on the tiny models: the bytes of synthesize, at once, and nothing left behind by those who leave early."""

import gc
import io
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest
from conftest import MODES, golden_arrays, tiny_files
from hypothesis import given, settings
from hypothesis import strategies as st

from qwentts import TTS, ModeError, ParameterError, Voice, prompt
from qwentts.engine import Session

TEXT = "Hello world, this is a tiny test."
GIVEN = {"custom_voice": {"speaker": "ada"}, "voice_design": {"instruct": "A calm voice, slowly."}, "base": {}}


@pytest.fixture(scope="module")
def voices():
    opened = {mode: TTS(*tiny_files(mode), threads=2) for mode in MODES}
    yield opened
    for tts in opened.values():
        tts.close()


def options(mode, **more):
    return {"max_new_tokens": 40, "repetition_guard": False, "seed": 7, **GIVEN[mode], **more}


def reference():
    golden = golden_arrays("clone.npz")
    return Voice(golden["speaker"], golden["codes"], "A tone that rises.")


def equal(chunks, speech):
    assert np.concatenate([c.samples for c in chunks]).tobytes() == speech.samples.tobytes()
    assert np.concatenate([c.codes for c in chunks]).tobytes() == speech.codes.tobytes()
    last = chunks[-1]
    assert [c.is_last for c in chunks] == [False] * (len(chunks) - 1) + [True]
    assert (last.finish_reason, last.seed, last.max_frames, last.pieces) == (
        speech.finish_reason, speech.seed, speech.max_frames, speech.pieces,
    )  # fmt: skip
    assert set(last.timings) == set(speech.timings) and last.warnings == speech.warnings


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 15, 16, 40, 61])
def test_the_chunks_are_the_speech_byte_for_byte_whatever_its_length(voices, mode, n):
    given_ = options(mode, max_new_tokens=n)
    chunks = list(voices[mode].stream(TEXT, **given_))
    equal(chunks, voices[mode].synthesize(TEXT, **given_))
    sizes = [len(c.codes) for c in chunks]
    assert sum(sizes) == n and sizes[:-1] == [1, 2, 4, 8, 8, 8, 8, 8, 8, 8][: len(sizes) - 1] and sizes[-1] < 8


@pytest.mark.parametrize(("flash_attention", "buffered"), [(True, [8, 8, 8, 5]), (False, [1, 2, 4, 8, 8, 6])])
def test_who_waits_for_all_need_not_push_in_small_steps(monkeypatch, flash_attention, buffered):
    """Without fused attention samples depend on the split in their last bits, so both kinds of caller then push the same."""
    pushes, push = [], Session.stream_push
    monkeypatch.setattr(Session, "stream_push", lambda self, codes: pushes.append(len(codes)) or push(self, codes))
    with TTS(*tiny_files("voice_design"), threads=2, flash_attention=flash_attention) as tts:
        speech = tts.synthesize(TEXT, **options("voice_design", max_new_tokens=29))
        assert pushes == buffered
        pushes.clear()
        equal(list(tts.stream(TEXT, **options("voice_design", max_new_tokens=29))), speech)
        assert pushes == [1, 2, 4, 8, 8, 6]


@pytest.mark.parametrize("mode", MODES)
def test_the_speech_is_the_one_pass_decode_of_its_codes(voices, mode):
    speech = voices[mode].synthesize(TEXT, **options(mode))
    session = voices[mode]._engine.session()
    assert session.decode(speech.codes).tobytes() == speech.samples.tobytes()
    session.close()


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_any_split_of_the_frames_gives_the_one_pass_decode(voices, data):
    tts = voices[data.draw(st.sampled_from(MODES))]
    facts = tts.facts
    codes = np.random.default_rng(data.draw(st.integers(0, 9))).integers(0, facts.codebook_size, (90, facts.n_code_groups))
    cuts = sorted(data.draw(st.lists(st.integers(1, 89), max_size=12, unique=True)))
    session = tts._engine.session()
    whole = session.decode(codes)
    for _ in range(2):  # a reset stream is a fresh one
        session.stream_reset()
        parts = [session.stream_push(part) for part in np.split(codes, cuts)]
        assert np.concatenate(parts).tobytes() == whole.tobytes()
    session.close()


@pytest.mark.parametrize("n", [3, 20])
def test_split_text_streams_piece_by_piece_with_its_pauses(voices, n):
    given_ = options("custom_voice", split="sentences", max_new_tokens=n)
    text = "One. Two? Three!"
    chunks = list(voices["custom_voice"].stream(text, **given_))
    equal(chunks, voices["custom_voice"].synthesize(text, **given_))
    assert sorted({c.piece for c in chunks}) == [0, 1, 2]
    samples, (first, second, third) = np.concatenate([c.samples for c in chunks]), chunks[-1].pieces
    for before, after in ((first, second), (second, third)):
        end = before.start_samples + before.n_samples
        assert after.start_samples - end == round(0.2 * chunks[0].sample_rate)
        assert not samples[end : after.start_samples].any() and samples[after.start_samples :].any()


@pytest.mark.parametrize("layout", [True, False])
def test_a_cloned_voice_streams_the_same_bytes(voices, layout):
    given_ = options("base", voice=reference(), streaming_text=layout)
    chunks = list(voices["base"].stream(TEXT, **given_))
    equal(chunks, voices["base"].synthesize(TEXT, **given_))
    assert chunks[-1].reference_reused is True or chunks[-1].timings["prime"] > 0


def test_the_first_chunk_comes_after_the_first_frame(voices):
    progress = []
    stream = voices["base"].stream(TEXT, **options("base", progress=progress.append))
    first = next(stream)
    assert len(first.codes) == 1 and first.samples.size == voices["base"].facts.hop_samples
    last = list(stream)[-1]
    assert progress == list(range(1, 41)) and 0 < last.timings["first_audio"] < last.timings["total"]


def test_wrong_options_are_raised_by_the_call_itself(voices):
    """Needs row 56: a server knows before it sends a header."""
    with pytest.raises(ParameterError, match="text is blank"):
        voices["base"].stream(" ")
    with pytest.raises(ModeError, match="--speaker is only valid"):
        voices["base"].stream(TEXT, speaker="ada")


def test_streams_side_by_side_are_those_alone(voices):
    tts = voices["base"]
    asked = [dict(seed=1), dict(seed=2, voice=reference()), dict(seed=3, max_new_tokens=13)]
    alone = [tts.synthesize(TEXT, **options("base", **more)) for more in asked]
    running = [(tts.stream(TEXT, **options("base", **more)), []) for more in asked]
    while any(not got or not got[-1].is_last for _, got in running):
        for stream, got in running:
            got.extend(c for c in [next(stream, None)] if c is not None)
    for (_, got), speech in zip(running, alone, strict=True):
        equal(got, speech)


def idle(tts):
    return len(tts._idle), len(tts._busy)


@pytest.mark.parametrize("reads", [0, 1, 3])
@pytest.mark.parametrize("how", ["close", "drop"])
def test_a_reader_that_leaves_frees_the_session_and_the_next_request_is_untouched(voices, reads, how):
    """Needs row 48."""
    tts = voices["base"]
    want = tts.synthesize(TEXT, **options("base"))
    n_sessions = len(tts._idle)
    stream = tts.stream(TEXT, **options("base", max_new_tokens=4000))
    for _ in range(reads):
        next(stream)
    start = time.perf_counter()
    if how == "close":
        stream.close()
        stream.close()
    else:
        del stream
        gc.collect()
    assert time.perf_counter() - start < 0.5 and idle(tts) == (n_sessions, 0)
    equal(list(tts.stream(TEXT, **options("base"))), want)


def test_a_cancel_event_ends_the_stream_within_a_frame(voices):
    tts, cancel = voices["base"], threading.Event()
    progress = []
    stream = tts.stream(TEXT, **options("base", max_new_tokens=4000, cancel=cancel, progress=progress.append))
    got = [next(stream)]
    cancel.set()
    n = len(progress)
    got += list(stream)
    assert got[-1].finish_reason == "cancelled" and len(progress) <= n + 20
    assert sum(len(c.codes) for c in got) == len(progress)
    whole = tts.synthesize(TEXT, **options("base", max_new_tokens=len(progress) + 8))
    samples = np.concatenate([c.samples for c in got])
    assert samples.size and samples.tobytes() == whole.samples[: samples.size].tobytes()
    assert idle(tts)[1] == 0


def test_a_cancel_while_the_prompt_is_made_is_told_as_at_any_other_moment(voices, monkeypatch):
    tts, rows = voices["base"], prompt.voice_rows

    def cancelled(session, *given_):
        session.cancel()
        return rows(session, *given_)

    monkeypatch.setattr(prompt, "voice_rows", cancelled)
    tts._voice_rows.clear()
    chunks = list(tts.stream(TEXT, **options("base", voice=reference())))
    assert len(chunks) == 1 and chunks[0].finish_reason == "cancelled" and not chunks[0].samples.size
    assert tts.synthesize(TEXT, **options("base", voice=reference())).finish_reason == "cancelled"
    monkeypatch.undo()
    assert tts.synthesize(TEXT, **options("base", voice=reference())).finish_reason == "length"


def test_a_stream_ends_with_its_voice():
    tts = TTS(*tiny_files("base"))
    stream = tts.stream(TEXT, **options("base", max_new_tokens=4000))
    next(stream)
    tts.close()
    assert list(stream)[-1].finish_reason == "cancelled"
    with pytest.raises(ParameterError, match="closed"):
        next(tts.stream(TEXT, **options("base")))


def test_a_voice_is_not_closed_from_within_its_own_call():
    with TTS(*tiny_files("base")) as tts:
        with pytest.raises(ParameterError, match="still running"):
            tts.synthesize(TEXT, **options("base", progress=lambda n: tts.close()))
        assert tts.synthesize(TEXT, **options("base", max_new_tokens=3)).samples.size


def test_readers_that_leave_early_leave_no_memory_and_no_thread_behind(voices):
    tts, process = voices["base"], psutil.Process()

    def leave(n):
        for i in range(n):
            stream = tts.stream(TEXT, **options("base", max_new_tokens=4000, voice=reference() if i % 2 else None))
            size = 0
            while size < 4096:  # bytes of float samples
                size += next(stream).samples.nbytes
            stream.close() if i % 3 else None
            del stream
        gc.collect()
        return process.memory_info().rss

    sizes = [leave(30) for _ in range(4)]
    assert min(after - before for before, after in zip(sizes[:-1], sizes[1:], strict=True)) < 1 << 20  # a leak grows every time
    assert not [t for t in threading.enumerate() if t.name.startswith("qwentts")]


def test_a_program_ends_although_a_stream_is_open():
    files = [str(path) for path in tiny_files("base")]
    script = f"from qwentts import TTS; s = TTS(*{files!r}).stream('Hello', max_new_tokens=4000); print(next(s).codes.shape)"
    start = time.perf_counter()
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert result.returncode == 0 and result.stdout == "(1, 5)\n" and not result.stderr and time.perf_counter() - start < 20


def test_the_command_line_writes_the_wav_as_it_is_made():
    """Needs rows 46 and 50."""
    talker, codec = map(str, tiny_files("custom_voice"))
    command = [sys.executable, "-m", "qwentts", "--model", talker, "--codec", codec, "--speaker", "ada", "--seed", "1", "--max-new", "3000",
               "--no-repetition-guard", "-o", "-", "Hello world."]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        head = process.stdout.read(44 + 960)
        assert process.poll() is None, "the head came before the end"
        assert head[:4] == b"RIFF" and head[4:8] == head[40:44] == b"\xff" * 4
        assert head[24:32] == (24000).to_bytes(4, "little") + (48000).to_bytes(4, "little")
        process.stdout.close()  # a reader that leaves
        err = process.stderr.read().decode()
        assert process.wait(20) != 0 and "Traceback" not in err and "Exception ignored" not in err
    import soundfile

    assert soundfile.read(io.BytesIO(head))[0].size == 480
