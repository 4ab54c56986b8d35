"""TTS on the tiny models and the demonstration voice: equal to the official codes, repeatable, and honest about its end."""

import doctest
import logging
import shutil
import threading
import time

import numpy as np
import pytest
from conftest import MODES, golden_arrays, golden_cases, nmse, tiny_files

from qwentts import TTS, Cancelled, GenerateError, ModeError, ModelFileError, ParameterError
from qwentts.engine import Engine

TEXT = "Hello world, this is a tiny test."
SPEAKER = {"custom_voice": "ada"}
INSTRUCT = {"voice_design": "A calm voice, slowly."}


@pytest.fixture(scope="module")
def voices():
    opened = {mode: TTS(*tiny_files(mode), threads=2) for mode in MODES}
    yield opened
    for tts in opened.values():
        tts.close()


@pytest.fixture(scope="module")
def demo():
    with TTS() as tts:
        yield tts


def say(tts, text=TEXT, **options):
    mode = tts.info.model_type
    given = {"speaker": SPEAKER.get(mode), "instruct": INSTRUCT.get(mode), "repetition_guard": False, "max_new_tokens": 40}
    return tts.synthesize(text, **{**given, **options})


@pytest.mark.parametrize("case", golden_cases(), ids=lambda case: case["name"])
def test_greedy_codes_equal_the_official_ones(voices, case):
    speech = voices[case["mode"]].synthesize(
        case["text"],
        language=case["language"],
        speaker=case["speaker"],
        instruct=case["instruct"],
        streaming_text=not case["non_streaming"],
        greedy=True,
        repetition_penalty=case["settings"]["repetition_penalty"],
        max_new_tokens=case["frames"],
        repetition_guard=False,
    )
    want = golden_arrays("cases.npz")[f"{case['name']}/codes"]
    assert np.array_equal(speech.codes, want)
    assert speech.finish_reason == ("stop" if case["stopped"] else "length")
    assert speech.samples.size == len(want) * voices[case["mode"]].facts.hop_samples and np.isfinite(speech.samples).all()


@pytest.mark.parametrize("name", ["a", "b"])
def test_one_pass_decode_equals_the_official_decoder(voices, name):
    golden = golden_arrays(f"codec_{name}.npz")
    session = voices["base" if name == "a" else "voice_design"]._engine.session()
    samples = session.decode(golden["full_codes"])
    assert nmse(samples, golden["full_audio"][:, 0]) <= 1e-8
    session.close()


@pytest.mark.parametrize("mode", MODES)
def test_a_seed_replays_at_any_number_of_threads(mode):
    runs = []
    for threads in (1, 2, 4, 2):
        with TTS(*tiny_files(mode), threads=threads) as tts:
            runs.append(say(tts, seed=7, greedy=False))
    for run in runs[1:]:
        assert run.codes.tobytes() == runs[0].codes.tobytes() and run.samples.tobytes() == runs[0].samples.tobytes()
    assert runs[0].seed == 7


@pytest.mark.parametrize("mode", MODES)
def test_seeds_and_reported_random_seeds_matter(voices, mode):
    tts = voices[mode]
    first, other, random = (say(tts, seed=seed, greedy=False) for seed in (7, 8, None))
    assert first.codes.tobytes() != other.codes.tobytes()
    assert say(tts, seed=random.seed, greedy=False).codes.tobytes() == random.codes.tobytes()
    assert random.seed not in (7, 8)


def test_requests_side_by_side_give_the_same_bytes_as_alone(voices):
    tts = voices["custom_voice"]
    alone = [say(tts, seed=s, greedy=False).samples.tobytes() for s in range(3)]
    together: dict[int, bytes] = {}

    def speak(seed):
        together[seed] = say(tts, seed=seed, greedy=False).samples.tobytes()

    threads = [threading.Thread(target=speak, args=(s,)) for s in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [together[s] for s in range(3)] == alone


def test_split_text_is_spoken_piece_by_piece_with_seeds_from_one(voices):
    tts = voices["custom_voice"]
    speech = say(tts, "One. Two? Three!", split="sentences", seed=5, greedy=False)
    assert [(p.text, p.seed) for p in speech.pieces] == [("One.", 5), ("Two?", 6), ("Three!", 7)]
    for piece in speech.pieces:
        alone = say(tts, piece.text, seed=piece.seed, greedy=False)
        got = speech.samples[piece.start_samples : piece.start_samples + piece.n_samples]
        assert got.tobytes() == alone.samples.tobytes()
    assert speech.seed == 5 and len(speech.codes) == sum(p.n_frames for p in speech.pieces)
    assert len(say(tts, "One. Two? Three!", seed=5).pieces) == 1, "off for other voices"


def test_the_cap_used_is_reported(voices):
    tts = voices["base"]
    assert say(tts, max_new_tokens=3).max_frames == 3
    capped = say(tts, "A", max_new_tokens=None, greedy=True)
    assert capped.max_frames == round((2 + 0.8) * tts.facts.frame_hz) and capped.finish_reason == "length"


def test_a_cancel_event_stops_and_the_voice_speaks_on(voices):
    tts = voices["custom_voice"]
    cancel = threading.Event()
    speech = say(tts, max_new_tokens=2000, cancel=cancel, progress=lambda n: cancel.set() if n == 5 else None, seed=1)
    assert speech.finish_reason == "cancelled" and len(speech.codes) == 5 and speech.samples.size == 0
    assert say(tts, seed=1, max_new_tokens=5).finish_reason == "length"


def test_a_cancel_while_decoding_returns_soon(voices):
    tts = voices["base"]
    session = tts._engine.session()
    codes = np.zeros((3000, tts.facts.n_code_groups), np.int32)
    start = time.perf_counter()
    assert session.decode(codes).size == 3000 * tts.facts.hop_samples
    whole_s = time.perf_counter() - start
    threading.Timer(whole_s / 10, session.cancel).start()
    start = time.perf_counter()
    with pytest.raises(Cancelled):
        session.decode(codes)
    assert time.perf_counter() - start < whole_s * 0.8
    session.reset()
    assert session.decode(codes[:2]).size == 2 * tts.facts.hop_samples
    session.close()


def test_taps_name_every_stage(voices):
    names = []
    say(voices["custom_voice"], max_new_tokens=2, tap=lambda name, values: names.append((name, values.shape)))
    seen = {name for name, _ in names}
    assert {"talker.norm", "talker.logits", "predictor.1.logits", "codec.rvq", "codec.audio"} <= seen
    names.clear()
    say(voices["custom_voice"], max_new_tokens=2)
    assert not names, "the tap outlived its call"


@pytest.mark.parametrize(
    ("mode", "options", "error", "message"),
    [
        ("custom_voice", {"speaker": None}, ModeError, "--speaker is required"),
        ("custom_voice", {"speaker": "nobody"}, ParameterError, "speaker 'nobody' is not in this model; valid are ada"),
        ("base", {"speaker": "ada"}, ModeError, "--speaker is only valid for custom_voice"),
        ("base", {"instruct": "x"}, ModeError, "--instruct is not valid for base"),
        ("voice_design", {"instruct": None}, ModeError, "--instruct is required"),
        ("base", {"language": "jp"}, ParameterError, "language 'jp' is not known"),
        ("base", {"text": " \n"}, ParameterError, "text is blank"),
        ("base", {"text": ""}, ParameterError, "text is empty"),
        ("base", {"text": "a\udcff"}, ParameterError, "text is not valid UTF-8"),
        ("base", {"text": 5}, ParameterError, "text is of type int"),
        ("base", {"text": "word " * 5000, "streaming_text": False}, ParameterError, "the model's context has 4096"),
        ("base", {"split": "words"}, ParameterError, "split is 'words', valid are none, sentences"),
        ("base", {"temperature": float("nan")}, ParameterError, "temperature is nan"),
        ("base", {"language": 5}, ParameterError, "language is of type int"),
        ("base", {"max_new_tokens": 0}, ParameterError, "max_new_tokens is 0"),
        ("base", {"seed": -5}, ParameterError, "seed is -5"),
        ("base", {"greedy": 1}, ParameterError, "greedy is of type int, expected bool or None"),
        ("base", {"streaming_text": "yes"}, ParameterError, "streaming_text is of type str, expected bool or None"),
        ("base", {"repetition_guard": None}, ParameterError, "repetition_guard is of type NoneType, expected bool"),
        ("base", {"cancel": True}, ParameterError, "cancel is of type bool, expected threading.Event or None"),
        ("base", {"progress": "bar"}, ParameterError, "progress is of type str, expected a function or None"),
    ],
)  # fmt: skip
def test_bad_input_is_named(voices, mode, options, error, message):
    with pytest.raises(error, match=message):
        say(voices[mode], **options)


def test_speakers_and_languages_are_found_in_any_form(voices):
    tts = voices["custom_voice"]
    want = say(tts, speaker="ada", language="german", seed=1)
    assert say(tts, speaker="ADA", language="de-DE", seed=1).codes.tobytes() == want.codes.tobytes()


def test_broken_files_are_refused_in_one_line(tmp_path):
    talker, codec = tiny_files("custom_voice")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(talker.read_bytes()[: talker.stat().st_size // 2])
    text = tmp_path / "text.gguf"
    text.write_text("not a model")
    other_codec = tiny_files("voice_design")[1]
    for files in [(tmp_path / "none.gguf", codec), (cut, codec), (text, codec), (codec, talker), (talker, other_codec), (talker, tmp_path)]:
        with pytest.raises(ModelFileError) as error:
            TTS(*files)
        message = str(error.value)
        assert message and "\n" not in message and ".gguf" in message or str(tmp_path) in message
    with pytest.raises(ParameterError, match="codec .* is missing"):
        TTS(talker)


def test_a_closed_voice_says_so():
    tts = TTS(*tiny_files("base"))
    tts.close()
    tts.close()
    with pytest.raises(ParameterError, match="closed"):
        say(tts)


def test_an_engine_without_a_codec_does_not_decode():
    engine = Engine(tiny_files("base")[0], None)
    with pytest.raises((ParameterError, GenerateError, ModeError)):
        engine.session().decode(np.zeros((2, 5), np.int32))
    with pytest.raises(ModelFileError):
        engine.file(1)
    engine.close()


def test_codes_beyond_the_codebook_are_refused(voices):
    session = voices["base"]._engine.session()
    codes = np.zeros((3, 5), np.int32)
    for bad in (voices["base"].facts.codebook_size, 2150, -1):
        codes[1, 0] = bad
        with pytest.raises(ParameterError, match=str(bad)):
            session.decode(codes)
    session.close()


SENTENCES = (
    "Hello world.", "Good morning.", "How are you today?", "The rain has stopped.", "Please close the door.", "I like green tea.",
    "We met by the river.", "The train leaves at noon.", "Nobody knew the answer.", "It was a cold night.", "She sings very well.",
    "The cat is asleep.", "Come and see us soon.", "This is a small voice.", "The boat went home.", "Bread and butter.",
    "He opened the window.", "They walk to school.", "What a nice day!", "Thank you and goodbye.",
)  # fmt: skip


def test_twenty_sentences_of_the_demonstration_voice_end_by_themselves(demo):
    for sentence in SENTENCES:
        speech = demo.synthesize(sentence)
        assert speech.finish_reason == "stop", sentence
        assert 0.4 < speech.duration_s < 4 and np.sqrt((speech.samples**2).mean()) > 0.01, sentence
        assert speech.warnings == (), sentence


def test_the_demonstration_voice_splits_and_needs_no_speaker(demo, caplog):
    speech = demo.synthesize("Dr. Lee paid $3.50. Then he left.")
    assert [p.text for p in speech.pieces] == ["Dr. Lee paid $3.50.", "Then he left."] and speech.finish_reason == "stop"
    assert demo.speakers == ["demo"] and demo.languages == ["auto", "english"]
    with caplog.at_level(logging.INFO, "qwentts"):
        TTS().close()
    assert "demonstration voice" in caplog.text


def test_the_example_in_the_documentation_of_tts_runs():
    from qwentts import tts

    result = doctest.testmod(tts)
    assert result.attempted >= 3 and result.failed == 0


def test_a_small_custom_voice_model_warns_that_it_drops_the_instruction(demo):
    """Needs row 35."""
    plain, told = demo.synthesize("Hello world."), demo.synthesize("Hello world.", instruct="whisper")
    assert told.codes.tobytes() == plain.codes.tobytes() and "instruct is ignored" in told.warnings[0]


def test_a_silent_voice_is_reported(tmp_path):
    from gguf import GGUFReader

    talker, codec = (shutil.copy(path, tmp_path) for path in tiny_files("base"))
    last = [t for t in GGUFReader(codec, "r+").tensors if t.name.startswith("tok_dec.dec.") and t.name.endswith(".conv.bias")]
    reader = GGUFReader(codec, "r+")
    end = max((t.name for t in last), key=lambda name: int(name.split(".")[2])).rsplit(".", 1)[0]
    for tensor in reader.tensors:
        if tensor.name.startswith(end + "."):
            tensor.data[:] = 0
    reader.data.flush()
    with TTS(talker, codec) as tts:
        assert say(tts, seed=1).warnings == ("the audio is silent",)


def test_what_a_tap_raises_reaches_the_caller(voices):
    def tap(name, values):
        raise KeyboardInterrupt

    tts = voices["custom_voice"]
    session = tts._engine.session()
    session.set_tap(tap)
    with pytest.raises(KeyboardInterrupt):
        session.text_embed(np.array([1, 2]))
    session.set_tap(None)
    assert session.text_embed(np.array([1, 2])).shape[0] == 2
    session.close()


def test_ctrl_c_right_behind_a_free_does_not_free_twice(monkeypatch):
    import qwentts.engine as module

    freed = []

    class Interrupted:
        """The library, with Ctrl-C as qt_free returns."""

        def __getattr__(self, name):
            return getattr(library, name)

        def qt_free(self, handle):
            freed.append(handle)
            library.qt_free(handle)
            raise KeyboardInterrupt

    library = module.lib
    tts = TTS(*tiny_files("custom_voice"))
    monkeypatch.setattr(module, "lib", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        tts.close()
    tts.close()
    assert len(freed) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads is 0"), ({"threads": 2.5}, "threads is 2.5"), ({"threads": "x"}, "threads is 'x'"),
        ({"backend": None}, "backend is of type NoneType"), ({"codec_chunk_s": float("nan")}, "codec_chunk_s is nan"),
        ({"codec_chunk_s": "x"}, "codec_chunk_s is 'x'"), ({"model": ""}, "model is ''"), ({"codec": "a\0b"}, "codec is 'a.x00b'"),
    ],
)  # fmt: skip
def test_what_a_tts_is_opened_with_is_checked(options, message):
    model, codec = tiny_files("base")
    with pytest.raises(ParameterError, match=message):
        TTS(**{"model": model, "codec": codec, **options})
