"""The codec beside the frames, on threads of its own: bytes, chunks, reasons and errors are those of taking turns, and nothing stays."""

import os
import signal
import threading
import time

import numpy as np
import pytest
from conftest import MODES, golden_arrays, tiny_files

from qwentts import TTS, GenerateError, ParameterError, Voice
from qwentts._lib import lib
from qwentts.cli import main
from qwentts.engine import Session, default_codec_threads
from qwentts.pushes import MOST_WAITING

TEXT = "Hello world, this is a tiny test."
GIVEN = {"custom_voice": {"speaker": "ada"}, "voice_design": {"instruct": "A calm voice, slowly."}, "base": {}}
FRAMES, HOP = 61, 480
ALL_BUT_THE_FIRST = -1e9  # seconds in hand below which a push is urgent: never, and a stream's first push always is


def options(mode="custom_voice", **more):
    return {"max_new_tokens": FRAMES, "repetition_guard": False, "seed": 7, **GIVEN[mode], **more}


@pytest.fixture(scope="module")
def in_turn():
    opened = {mode: TTS(*tiny_files(mode), threads=2, codec_threads=0) for mode in MODES}
    yield opened
    for tts in opened.values():
        tts.close()


@pytest.fixture(scope="module")
def voices():
    opened = {mode: TTS(*tiny_files(mode), threads=2, codec_threads=1) for mode in MODES}
    yield opened
    for tts in opened.values():
        tts.close()


@pytest.fixture
def tts(voices):
    yield voices["custom_voice"]
    assert not threads_left() and not voices["custom_voice"]._busy


@pytest.fixture
def want(in_turn):
    return in_turn["custom_voice"].synthesize(TEXT, **options())


class Pushed:
    """Stands in for Session.stream_push: notes who pushed how much, and does something first."""

    def __init__(self, monkeypatch, before=lambda pushed, beside: None):
        self.sizes, self.beside, push = [], [], Session.stream_push

        def stream_push(session, codes, *, beside=False):
            self.sizes.append(len(codes))
            self.beside.append(beside)
            before(self, beside)
            return push(session, codes, beside=beside)

        monkeypatch.setattr(Session, "stream_push", stream_push)


def threads_left():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("qwentts")]


def wait_until(holds, timeout_s=20.0):
    end = time.perf_counter() + timeout_s
    while not holds():
        assert time.perf_counter() < end, "it did not come to that"
        time.sleep(0.002)


def settled(progress):
    """What progress holds once nothing is added for a while."""
    n = -1
    while n != len(progress):
        n = len(progress)
        time.sleep(0.25)
    return n


def joined(chunks):
    return np.concatenate([c.samples for c in chunks]).tobytes(), np.concatenate([c.codes for c in chunks]).tobytes()


def same(got, want):
    assert got.samples.tobytes() == want.samples.tobytes() and got.codes.tobytes() == want.codes.tobytes()
    assert (got.finish_reason, got.seed, got.max_frames, got.pieces, got.warnings, set(got.timings)) == (
        want.finish_reason, want.seed, want.max_frames, want.pieces, want.warnings, set(want.timings),
    )  # fmt: skip


def cases():
    golden = golden_arrays("clone.npz")
    yield "custom_voice", options()
    yield "voice_design", options("voice_design", max_new_tokens=16)
    yield "base", options("base", voice=Voice(golden["speaker"], golden["codes"], "A tone that rises."))
    yield "custom_voice", options(split="sentences", max_new_tokens=20)
    yield "base", options("base", split="sentences", max_new_tokens=3)


@pytest.mark.parametrize(("threads", "codec_threads"), [(2, 1), (3, 1), (3, 2)])
@pytest.mark.parametrize("flash_attention", [True, False])
def test_the_bytes_are_those_of_taking_turns(monkeypatch, threads, codec_threads, flash_attention):
    monkeypatch.setattr("qwentts.request.IN_HAND_S", ALL_BUT_THE_FIRST)
    text = "One. Two, three and four! Five?"
    for mode, given in cases():
        with TTS(*tiny_files(mode), threads=2, codec_threads=0, flash_attention=flash_attention) as tts:
            want, chunks = tts.synthesize(text, **given), list(tts.stream(text, **given))
            assert want.timings["codec_beside"] == 0
        with TTS(*tiny_files(mode), threads=threads, codec_threads=codec_threads, flash_attention=flash_attention) as tts:
            assert tts.backend_name.endswith(f", {threads} threads, {codec_threads} of them the codec's")
            same(tts.synthesize(text, **given), want)
            got = list(tts.stream(text, **given))
        assert joined(got) == joined(chunks) == (want.samples.tobytes(), want.codes.tobytes())
        assert [(len(c.codes), c.samples.size, c.piece, c.is_last) for c in got] == [
            (len(c.codes), c.samples.size, c.piece, c.is_last) for c in chunks
        ]
        assert got[-1].pieces == chunks[-1].pieces


def test_who_pushes_what(monkeypatch, tts, want):
    pushed = Pushed(monkeypatch)
    speech = tts.synthesize(TEXT, **options())
    same(speech, want)
    assert pushed.sizes == [8] * 7 + [5] and not pushed.beside[-1] and any(pushed.beside)
    assert 0 < speech.timings["codec_beside"] <= speech.timings["codec"]
    for in_hand_s, is_urgent in ((ALL_BUT_THE_FIRST, [True] + [False] * 9), (1e9, [True] * 10)):
        monkeypatch.setattr("qwentts.request.IN_HAND_S", in_hand_s)
        pushed.sizes.clear()
        pushed.beside.clear()
        assert joined(list(tts.stream(TEXT, **options()))) == (want.samples.tobytes(), want.codes.tobytes())
        assert pushed.sizes == [1, 2, 4, *[8] * 6, 6]
        assert not any(beside and urgent for beside, urgent in zip(pushed.beside, is_urgent, strict=True))
        assert any(pushed.beside) != all(is_urgent)


def test_frames_go_on_during_a_push_but_not_without_bound(monkeypatch, tts, want):
    gate, progress, got = threading.Event(), [], []
    Pushed(monkeypatch, lambda pushed, beside: beside and gate.wait(20))
    caller = threading.Thread(target=lambda: got.append(tts.synthesize(TEXT, **options(progress=progress.append))))
    caller.start()
    n = settled(progress)
    gate.set()
    caller.join()
    assert n == 8 * (2 + MOST_WAITING), "one is decoded, so many wait, and one more could not be handed over"
    same(got[0], want)
    assert progress == list(range(1, FRAMES + 1))


def test_the_loop_takes_over_what_the_codec_does_not_keep_up_with(monkeypatch, tts, want):
    progress, taken_over_at = [], []

    def push(pushed, beside):
        if not beside:
            taken_over_at.append(len(progress))
        elif len(pushed.sizes) == 1:
            wait_until(lambda: len(progress) >= 25)  # two more wait

    pushed = Pushed(monkeypatch, push)
    same(tts.synthesize(TEXT, **options(progress=lambda n: progress.append(n) or time.sleep(0.005))), want)
    assert pushed.sizes == [8] * 7 + [5] and pushed.beside[0]
    assert taken_over_at[0] < 8 * (2 + MOST_WAITING), "it need not be that far ahead"


def test_a_reader_gets_a_chunk_while_the_loop_makes_frames(monkeypatch, tts, want):
    monkeypatch.setattr("qwentts.request.IN_HAND_S", ALL_BUT_THE_FIRST)
    has_it = threading.Event()
    stream = tts.stream(TEXT, **options(progress=lambda n: n != 4 or has_it.wait(20) or pytest.fail("the chunk of frames 2 and 3 waits")))
    got = [next(stream), next(stream)]
    has_it.set()
    assert joined([*got, *stream]) == (want.samples.tobytes(), want.codes.tobytes())


def test_a_slow_reader_holds_both_at_the_bounds(monkeypatch, tts, want):
    monkeypatch.setattr("qwentts.request.IN_HAND_S", ALL_BUT_THE_FIRST)
    monkeypatch.setattr("qwentts.streaming.QUEUE_CHUNKS", 2)
    progress = []
    stream = tts.stream(TEXT, **options(progress=progress.append, max_new_tokens=200))
    got = [next(stream)]
    n = settled(progress)
    assert n <= 1 + (2 + 4 + 8) + 8 * (2 + MOST_WAITING), "a chunk is read, two wait, one is on its way to them"
    got += stream
    assert joined(got)[0][: want.samples.nbytes] == want.samples.tobytes() and progress == list(range(1, 201))


@pytest.mark.parametrize("at", [1, 5, 8, 9, 20, 33])
def test_a_cancel_ends_within_the_frame(monkeypatch, tts, want, at):
    monkeypatch.setattr("qwentts.request.IN_HAND_S", ALL_BUT_THE_FIRST)
    for stream in (False, True):
        cancel = threading.Event()
        given = options(cancel=cancel, progress=lambda n, cancel=cancel: cancel.set() if n == at else None)
        if stream:
            chunks = list(tts.stream(TEXT, **given))
            samples, codes = joined(chunks)
            assert samples == want.samples[: len(samples) // 4].tobytes() and chunks[-1].finish_reason == "cancelled"
            assert all(c.samples.size == HOP * len(c.codes) for c in chunks[:-1]) and chunks[-1].samples.size == 0
        else:
            speech = tts.synthesize(TEXT, **given)
            codes = speech.codes.tobytes()
            assert speech.samples.size == 0 and speech.finish_reason == "cancelled"
        assert codes == want.codes[:at].tobytes()
    same(tts.synthesize(TEXT, **options()), want)


def test_a_cancel_stops_a_push_that_runs_and_a_loop_that_waits_for_it(monkeypatch, tts, want):
    cancel, begun, told, tell = threading.Event(), threading.Event(), threading.Event(), Session.cancel
    monkeypatch.setattr(Session, "cancel", lambda session: (tell(session), told.set()))

    def long(pushed, beside):
        begun.set()
        told.wait(20)

    Pushed(monkeypatch, long)
    threading.Thread(target=lambda: begun.wait(20) and (time.sleep(0.3), cancel.set())).start()
    start = time.perf_counter()
    speech = tts.synthesize(TEXT, **options(cancel=cancel))
    assert time.perf_counter() - start < 5 and speech.finish_reason == "cancelled"
    assert speech.codes.tobytes() == want.codes[: len(speech.codes)].tobytes() and len(speech.codes) >= 8
    monkeypatch.undo()
    same(tts.synthesize(TEXT, **options()), want)


def broken(after):
    """The push after so many fails."""

    def before(pushed, beside):
        if len(pushed.sizes) > after:
            raise GenerateError("the codec broke")

    return before


@pytest.mark.parametrize("after", [0, 3])
def test_a_push_that_fails_ends_the_loop_and_comes_after_the_chunks_before_it(monkeypatch, tts, want, after):
    monkeypatch.setattr("qwentts.request.IN_HAND_S", ALL_BUT_THE_FIRST)
    progress, got = [], []
    with monkeypatch.context() as patch:
        Pushed(patch, broken(after))
        with pytest.raises(GenerateError, match="the codec broke"):
            tts.synthesize(TEXT, **options(progress=progress.append, max_new_tokens=3000))
        assert len(progress) <= 8 * (after + 3 + MOST_WAITING)
        assert not threads_left()
    with monkeypatch.context() as patch:
        Pushed(patch, broken(after))
        with pytest.raises(GenerateError, match="the codec broke"):
            for chunk in tts.stream(TEXT, **options(max_new_tokens=3000)):
                got.append(chunk)
    assert [len(c.codes) for c in got] == [1, 2, 4, 8][:after]
    same(tts.synthesize(TEXT, **options()), want)


def test_a_failing_loop_comes_after_the_chunks_of_the_frames_before_it(monkeypatch, voices, in_turn, want):
    monkeypatch.setattr("qwentts.request.IN_HAND_S", ALL_BUT_THE_FIRST)
    Pushed(monkeypatch, lambda pushed, beside: beside and time.sleep(0.5 if pushed.sizes[-4:] == [8] * 4 else 0))

    def fail(n):
        if n == 45:
            raise KeyError("mine")

    sizes = []
    for tts in (in_turn["custom_voice"], voices["custom_voice"]):
        got = []
        with pytest.raises(KeyError, match="mine"):
            for chunk in tts.stream(TEXT, **options(progress=fail)):
                got.append(chunk)
        sizes.append([len(c.codes) for c in got])
        assert joined(got)[0] == want.samples[: HOP * sum(sizes[-1])].tobytes() and not threads_left()
    assert sizes[0] == sizes[1] == [1, 2, 4, 8, 8, 8, 8]
    same(voices["custom_voice"].synthesize(TEXT, **options()), want)


def test_ctrl_c_between_frames(monkeypatch, tts, want):
    told, tell, start = threading.Event(), Session.cancel, time.perf_counter()
    with monkeypatch.context() as patch:
        patch.setattr(Session, "cancel", lambda session: (tell(session), told.set()))
        Pushed(patch, lambda pushed, beside: beside and told.wait(20))
        with pytest.raises(KeyboardInterrupt):
            tts.synthesize(TEXT, **options(progress=lambda n: n == 20 and signal.raise_signal(signal.SIGINT)))
        assert not threads_left() and time.perf_counter() - start < 10
    same(tts.synthesize(TEXT, **options()), want)


def test_ctrl_c_while_the_loop_waits_for_the_codec(monkeypatch, tts, want):
    waits = threading.Event()

    def push(pushed, beside):
        waits.set()
        time.sleep(1.0)

    with monkeypatch.context() as patch:
        Pushed(patch, push)
        threading.Thread(target=lambda: waits.wait(20) and (time.sleep(0.4), os.kill(os.getpid(), signal.SIGINT))).start()
        with pytest.raises(KeyboardInterrupt):
            tts.synthesize(TEXT, **options(max_new_tokens=9))
        assert not threads_left()
    same(tts.synthesize(TEXT, **options()), want)


@pytest.mark.parametrize("reads", [1, 4])
def test_a_reader_that_leaves_leaves_nothing_behind(monkeypatch, tts, want, reads):
    monkeypatch.setattr("qwentts.request.IN_HAND_S", ALL_BUT_THE_FIRST)
    stream = tts.stream(TEXT, **options(max_new_tokens=4000))
    for _ in range(reads):
        next(stream)
    start = time.perf_counter()
    stream.close()
    assert time.perf_counter() - start < 1 and not threads_left() and not tts._busy
    same(tts.synthesize(TEXT, **options()), want)


def test_requests_at_once_are_those_alone(monkeypatch, voices, in_turn):
    monkeypatch.setattr("qwentts.request.IN_HAND_S", ALL_BUT_THE_FIRST)
    tts, got = voices["base"], {}
    asked = [options("base", seed=s) for s in range(4)]
    alone = [in_turn["base"].synthesize(TEXT, **given).samples.tobytes() for given in asked]

    def speak(i):
        got[i] = joined(list(tts.stream(TEXT, **asked[i])))[0] if i % 2 else tts.synthesize(TEXT, **asked[i]).samples.tobytes()

    threads = [threading.Thread(target=speak, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [got[i] for i in range(4)] == alone and not threads_left()


def test_a_voice_that_is_closed_ends_both_sides(monkeypatch):
    monkeypatch.setattr("qwentts.request.IN_HAND_S", ALL_BUT_THE_FIRST)
    tts = TTS(*tiny_files("base"), threads=2, codec_threads=1)
    stream = tts.stream(TEXT, **options("base", max_new_tokens=4000))
    for _ in range(5):
        next(stream)
    tts.close()
    assert list(stream)[-1].finish_reason == "cancelled" and not threads_left()


def test_a_tap_is_told_the_same_and_nothing_goes_on_beside(monkeypatch, tts, in_turn):
    pushed, told = Pushed(monkeypatch), ([], [])
    for stages, voice in zip(told, (in_turn["custom_voice"], tts), strict=True):
        voice.synthesize(
            TEXT, **options(max_new_tokens=20, tap=lambda name, values, stages=stages: stages.append((name, values.tobytes())))
        )
    assert told[0] == told[1] and not any(pushed.beside)


@pytest.mark.parametrize(
    ("threads", "cores", "codec"),
    [(1, 1, 0), (2, 2, 0), (3, 3, 0), (3, 8, 0), (8, 2, 0), (4, 4, 1), (4, 64, 1), (7, 8, 1), (8, 8, 2), (64, 64, 16)],
)
def test_the_default_needs_cores_to_spare(threads, cores, codec):
    assert default_codec_threads(threads, cores) == codec


def test_the_default_is_applied(monkeypatch):
    with TTS(*tiny_files("base"), threads=2) as tts:
        assert tts.codec_threads == 0 and tts.backend_name.endswith(", 2 threads")
    monkeypatch.setattr("qwentts.engine.CORES_TO_SPARE", min(lib.qt_cpu_default_threads(), 4))
    with TTS(*tiny_files("base"), threads=4) as tts:
        assert tts.codec_threads == 1 and tts.backend_name.endswith(", 4 threads, 1 of them the codec's")


@pytest.mark.parametrize(("threads", "codec_threads", "most"), [(2, 2, 1), (2, -1, 1), (1, 1, 0), (2, True, 1), (2, 1.0, 1), (2, "1", 1)])
def test_wrong_numbers_are_named(threads, codec_threads, most):
    with pytest.raises(
        ParameterError, match=rf"codec_threads is {codec_threads!r}, valid are 0 to {most}: fewer than the {threads} in all"
    ):
        TTS(*tiny_files("base"), threads=threads, codec_threads=codec_threads)


def test_the_commands_take_it(tmp_path, capsys):
    talker, codec = map(str, tiny_files("custom_voice"))
    written = []
    for n in ("0", "1"):
        path = tmp_path / f"{n}.wav"
        speak = [
            "tts",
            "Hello world.",
            "--model",
            talker,
            "--codec",
            codec,
            "--speaker",
            "ada",
            "--seed",
            "3",
            "--max-new",
            "30",
            "--threads",
            "2",
        ]
        assert main([*speak, "--codec-threads", n, "--quiet", "-o", str(path)]) == 0
        written.append(path.read_bytes())
    assert written[0] == written[1]
    assert (
        main(["bench", "--model", talker, "--codec", codec, "--frames", "24", "--runs", "1", "--threads", "2", "--codec-threads", "1"]) == 0
    )
    report = capsys.readouterr().out
    assert "2 threads, 1 of them the codec's" in report and "beside the next frames" in report
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "--model", talker, "--codec", codec, "--threads", "2", "--codec-threads", "2"])
    assert stopped.value.code == 2 and "codec_threads is 2" in capsys.readouterr().err
