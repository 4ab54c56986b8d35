"""Cloning on the tiny base model: the official codes in both modes and layouts, primed decoding, voices from files and from audio."""

import io
import json
import subprocess
import sys

import numpy as np
import psutil
import pytest
import soundfile
import soxr
from conftest import clone_cases, golden_arrays, nmse, tiny_files

from qwentts import TTS, ModeError, ParameterError, Voice
from qwentts.cli import main, main_qwen_codec

RATE = 24000
REF_TEXT = "A tone that rises."
TEXT = "Hello world, this is a tiny test."


@pytest.fixture(scope="module")
def tts():
    with TTS(*tiny_files("base"), threads=2) as opened:
        yield opened


@pytest.fixture(scope="module")
def golden():
    return golden_arrays("clone.npz")


def say(tts, **more):
    return tts.synthesize(TEXT, **{"max_new_tokens": 30, "repetition_guard": False, "seed": 3, **more})


def recorded_voice(golden, case):
    if case["ref_text"] is None:
        return Voice(golden["speaker"])
    return Voice(golden["speaker"], golden["codes_bare" if case["bare"] else "codes"], case["ref_text"])


@pytest.mark.parametrize("case", clone_cases(), ids=lambda case: case["name"])
def test_greedy_codes_of_a_clone_equal_the_official_ones(tts, golden, case):
    speech = tts.synthesize(
        case["text"], voice=recorded_voice(golden, case), language=case["language"], streaming_text=not case["non_streaming"],
        greedy=True, repetition_penalty=case["settings"]["repetition_penalty"], max_new_tokens=64, repetition_guard=False,
    )  # fmt: skip
    assert np.array_equal(speech.codes, golden[f"{case['name']}/codes"]) and len(speech.codes) == 64
    assert speech.samples.size == 64 * tts.facts.hop_samples, "the reference is cut off exactly"
    if f"{case['name']}/audio" in golden:
        assert nmse(speech.samples, golden[f"{case['name']}/audio"]) <= 1e-8


def test_the_reference_is_heard_by_the_decoder_and_cut_off(tts, golden):
    voice = Voice(golden["speaker"], golden["codes"], REF_TEXT)
    speech = say(tts, voice=voice)
    session, n = tts._engine.session(), len(voice.codes) * tts.facts.hop_samples
    whole = session.decode(np.concatenate([voice.codes, speech.codes]))
    assert speech.samples.tobytes() == whole[n:].tobytes() != session.decode(speech.codes).tobytes()
    session.close()


def test_a_clone_hears_what_the_official_code_hears(tts, golden):
    clip = (golden["clip"], RATE)
    voice = tts.clone(clip, REF_TEXT)
    cosine = voice.speaker @ golden["speaker"] / np.linalg.norm(voice.speaker) / np.linalg.norm(golden["speaker"])
    assert cosine >= 0.999999 and voice.pad_silence_s == 0.5
    assert np.array_equal(voice.codes, golden["codes"])
    bare = tts.clone(clip, REF_TEXT, pad_silence=False)
    assert np.array_equal(bare.codes, golden["codes_bare"]) and bare.pad_silence_s == 0
    assert len(bare.codes) == -(-golden["clip"].size // tts.facts.hop_samples), "the official rule keeps the last partial frame"
    assert np.array_equal(bare.speaker, voice.speaker) and set(voice.timings) == {"speaker", "codes"}


def test_a_clone_from_audio_speaks_the_official_codes(tts, golden):
    case = next(c for c in clone_cases() if c["name"] == "icl/streamed/german")
    voice = tts.clone((golden["clip"], RATE), REF_TEXT)
    speech = tts.synthesize(case["text"], voice=voice, language="german", greedy=True, max_new_tokens=64, repetition_guard=False)
    assert np.array_equal(speech.codes, golden["icl/streamed/german/codes"]), "the streaming layout is the default for clones"


def test_half_a_second_of_silence_is_put_behind_the_codes(tts, golden):
    """Needs row 17."""
    voice = tts.clone((golden["clip"], RATE), REF_TEXT)
    by_hand = tts.clone((np.concatenate([golden["clip"], np.zeros(RATE // 2, np.int16)]), RATE), REF_TEXT, pad_silence=False)
    assert np.array_equal(voice.codes, by_hand.codes) and not np.array_equal(voice.speaker, by_hand.speaker)


def test_without_a_transcript_only_the_speaker_is_taken(tts, golden):
    voice = tts.clone((golden["clip"], RATE))
    assert voice.codes is None and voice.text is None and not voice.in_context and set(voice.timings) == {"speaker"}
    assert say(tts, voice=voice).reference_reused is None
    assert say(tts, voice=voice).codes.tobytes() != say(tts).codes.tobytes()


@pytest.mark.parametrize("rate", [16000, 22050, 44100, 48000, 96000])
def test_a_clip_gives_the_same_speaker_at_any_rate(tts, rate):
    """Needs row 20; a voice has most of its power below 8 kHz, which all of these rates carry."""
    t = np.arange(3 * RATE) / RATE
    rng = np.random.default_rng(1)
    voiced = sum(np.sin(2 * np.pi * k * (110 * t + 8 * np.sin(2 * np.pi * 2 * t) / 6)) / k**1.2 for k in range(1, 40))
    clip = 0.2 * voiced * (0.6 + 0.4 * np.sin(2 * np.pi * 3 * t)) + 1e-4 * rng.standard_normal(t.size)
    want = tts.clone((clip, RATE)).speaker
    other = soxr.resample(clip, RATE, rate, quality="VHQ")
    for samples in (other, np.stack([other, other], 1)):
        got = tts.clone((samples, rate)).speaker
        assert got @ want / np.linalg.norm(got) / np.linalg.norm(want) >= 0.98


def test_sources_of_one_clip_give_one_voice(tts, golden, tmp_path):
    soundfile.write(tmp_path / "clip.wav", golden["clip"], RATE, subtype="PCM_16")
    data = (tmp_path / "clip.wav").read_bytes()
    keys = {tts.clone(source, REF_TEXT).key() for source in (tmp_path / "clip.wav", data, io.BytesIO(data), (golden["clip"], RATE))}
    assert len(keys) == 1


def test_a_second_request_finds_the_primed_decoder(golden):
    with TTS(*tiny_files("base")) as tts:
        voice = Voice(golden["speaker"], golden["codes"], REF_TEXT)
        first, second = say(tts, voice=voice), say(tts, voice=voice)
        assert (first.reference_reused, second.reference_reused) == (False, True)
        assert first.samples.tobytes() == second.samples.tobytes()
        assert second.timings["prime"] < first.timings["prime"]
        same = Voice(golden["speaker"], golden["codes"].copy(), REF_TEXT)
        assert say(tts, voice=same).reference_reused and len(tts._voice_rows) == 1, "kept by contents, not by object"
        plain = say(tts)
        assert plain.reference_reused is None and plain.timings["prime"] == 0
        assert say(tts, voice=voice).samples.tobytes() == first.samples.tobytes()


def test_many_references_keep_memory_flat(golden):
    with TTS(*tiny_files("base")) as tts:
        voices = []
        for i in range(20):
            codes = np.random.default_rng(i).integers(0, tts.facts.codebook_size, (12, tts.facts.n_code_groups))
            voices.append(Voice(golden["speaker"], codes, REF_TEXT))
        sizes = []
        for i in range(200):
            say(tts, voice=voices[i % 20], max_new_tokens=3)
            sizes.append(psutil.Process().memory_info().rss)
        assert len(tts._voice_rows) <= 16 and sizes[-1] - sizes[60] < 2 << 20


@pytest.mark.parametrize(
    ("mode", "given", "error", "message"),
    [
        ("custom_voice", {"speaker": None}, ModeError, r"--ref-wav is only valid for base models \(loaded: custom_voice\)"),
        ("custom_voice", {"speaker": "ada"}, ParameterError, "--speaker and --ref-wav are mutually exclusive"),
        ("voice_design", {"instruct": "calm"}, ModeError, r"--ref-wav is only valid for base models \(loaded: voice_design\)"),
        ("base", {"speaker": "ada"}, ParameterError, "mutually exclusive"),
        ("base", {"instruct": "calm"}, ModeError, "--instruct is not valid for base models"),
    ],
)  # fmt: skip
def test_mode_rules_hold_for_voices(golden, mode, given, error, message):
    with TTS(*tiny_files(mode)) as tts, pytest.raises(error, match=message):
        say(tts, voice=Voice(golden["speaker"]), **given)


def test_only_base_models_clone(golden):
    with TTS(*tiny_files("custom_voice")) as tts, pytest.raises(ModeError, match="--ref-wav is only valid for base models"):
        tts.clone((golden["clip"], RATE))


def test_voices_that_do_not_fit_are_refused(tts, golden):
    speaker, codes = golden["speaker"], golden["codes"]
    for voice, message in [
        (Voice(np.ones(1024)), "1024 values, this model's have 40"),
        (Voice(None, codes, REF_TEXT), "no speaker embedding"),
        (Voice(speaker, codes[:, :4], REF_TEXT), "4 codes a frame, this codec has 5"),
        (Voice(speaker, np.full((3, 5), 64), REF_TEXT), "code 64 of frame 0, group 0 is out of range, valid are 0 to 63"),
        ("ryan", "type str, expected Voice"),
    ]:  # fmt: skip
        with pytest.raises(ParameterError, match=message):
            say(tts, voice=voice)
    assert "no transcript: only its speaker embedding" in say(tts, voice=Voice(speaker, codes)).warnings[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((np.zeros(RATE * 3), RATE), ""), "ref_text is ''"),
        (((np.zeros(RATE * 3), RATE), 5), "ref_text is 5"),
        (((np.zeros(RATE * 121), RATE),), "121.0 s long, max_clip_s allows 120"),
        ((b"\0\0\0\x20ftypM4A ",), "this is an MP4 container"),
    ],
)
def test_bad_references_are_named(tts, arguments, message):
    with pytest.raises(ParameterError, match=message):
        tts.clone(*arguments)


@pytest.mark.parametrize("limit", [0, -1, 301, float("nan"), "x", True])
def test_bad_limits_of_a_clip_are_named(tts, golden, limit):
    with pytest.raises(ParameterError, match="max_clip_s is .* valid are seconds above 0 up to 300"):
        tts.clone((golden["clip"], RATE), max_clip_s=limit)


def test_a_clip_that_is_too_long_with_its_silence_says_so(tts):
    clip = (np.zeros(RATE * 300 - 5000, np.float32), RATE)
    with pytest.raises(ParameterError, match="299.79 s long, and with 0.5 s of silence behind it more than the 300 s"):
        tts.clone(clip, "What it says.", max_clip_s=300)


def test_poor_references_are_warned_about(tts):
    warnings = tts.clone((np.zeros(RATE * 3, np.float32), RATE)).warnings
    assert warnings == ("ref_audio is silent",)


# the command line


@pytest.fixture(scope="module")
def folder(tmp_path_factory, golden):
    """clip.wav, its transcript, and what qwen-codec makes of it."""
    path = tmp_path_factory.mktemp("clone")
    soundfile.write(path / "clip.wav", golden["clip"], RATE, subtype="PCM_16")
    (path / "clip.txt").write_text(REF_TEXT + "\n")
    talker, codec = map(str, tiny_files("base"))
    assert main_qwen_codec(["--model", codec, "--talker", talker, "-i", str(path / "clip.wav")]) == 0
    return path


def command(*arguments):
    talker, codec = map(str, tiny_files("base"))
    base = ["Hello world.", "--model", talker, "--codec", codec, "--max-new", "20", "--seed", "3", "--quiet"]
    try:
        return main([*base, *map(str, arguments)])
    except SystemExit as exit:
        return exit.code


def test_qwen_codec_writes_whole_frames_and_the_speaker(folder, golden, tts, capsys):
    hop = tts.facts.hop_samples
    n_frames = golden["clip"].size // hop
    voice = Voice.from_files(spk=folder / "clip.spk", rvq=folder / "clip.rvq", n_groups=5, codebook_size=64)
    whole = tts.clone((golden["clip"][: n_frames * hop], RATE), REF_TEXT, pad_silence=False)
    assert np.array_equal(voice.codes, whole.codes) and np.array_equal(voice.speaker, whole.speaker)
    assert (folder / "clip.rvq").stat().st_size == -(-n_frames * 5 * 6 // 8)


def test_qwen_codec_decodes_next_to_the_codes(folder, tts, tmp_path, capsys):
    (tmp_path / "x.RVQ").write_bytes((folder / "clip.rvq").read_bytes())
    codec = str(tiny_files("base")[1])
    assert main(["codec", "--model", codec, "-i", str(tmp_path / "x.RVQ"), "--format", "wav32"]) == 0
    samples, rate = soundfile.read(tmp_path / "x.wav", dtype="float32")
    session = tts._engine.session()
    codes = Voice.from_files(rvq=folder / "clip.rvq", n_groups=5, codebook_size=64).codes
    assert rate == RATE and np.array_equal(samples, session.decode(codes))
    session.close()


def test_qwen_codec_tests_itself(capsys):
    for mode in ("base", "voice_design"):
        assert main_qwen_codec(["--model", str(tiny_files(mode)[1]), "--json"]) == 0
        figures = json.loads(capsys.readouterr().out)
        assert figures["self_test"] == "ok" and figures["codes_used"] > 3 and figures["rms_out"] > 0 and 0 <= figures["codes_kept"] <= 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-i", "none.wav"], "none.wav"),
        (["-i", "none.rvq"], "none.rvq"),
        (["--talker", "x.gguf"], "--talker is for encoding"),
        (["-i", "{short}"], "a frame needs 480"),
        (["-i", "{bad}"], "not a whole number of frames"),
        (["-i", "{clip}", "--talker", "{custom}"], "--talker must be a base model"),
        (["-i", "{clip}", "--talker", "none.gguf"], "none.gguf"),
        (["-i", "{mp4}"], "this is an MP4 container"),
    ],
)  # fmt: skip
def test_qwen_codec_names_what_is_wrong(folder, tmp_path, capsys, arguments, message):
    soundfile.write(tmp_path / "short.wav", np.zeros(300), RATE)
    (tmp_path / "bad.rvq").write_bytes(b"\0" * 3)
    (tmp_path / "song.wav").write_bytes(b"\0\0\0\x20ftypM4A " + b"\0" * 50)
    paths = dict(short=tmp_path / "short.wav", bad=tmp_path / "bad.rvq", clip=folder / "clip.wav", mp4=tmp_path / "song.wav",
                 custom=tiny_files("custom_voice")[0])  # fmt: skip
    before = sorted(tmp_path.iterdir())
    with pytest.raises(SystemExit) as exit:
        main_qwen_codec(["--model", str(tiny_files("base")[1]), *[a.format(**paths) for a in arguments]])
    err = capsys.readouterr().err
    assert exit.value.code == 2 and message in err and err.count("\n") == 1 and sorted(tmp_path.iterdir()) == before


def test_all_ways_to_give_a_voice_say_the_same(folder, golden, tmp_path, tts):
    voice = Voice.from_files(
        spk=folder / "clip.spk", rvq=folder / "clip.rvq", text=folder / "clip.txt", n_groups=5, codebook_size=64
    )  # fmt: skip
    voice.save(tmp_path / "v.voice")
    hop = tts.facts.hop_samples
    soundfile.write(tmp_path / "whole.wav", golden["clip"][: golden["clip"].size // hop * hop], RATE, subtype="PCM_16")
    ways = [
        ["--voice", tmp_path / "v.voice"],
        ["--ref-spk", folder / "clip.spk", "--ref-rvq", folder / "clip.rvq", "--ref-text", folder / "clip.txt"],
        ["--ref-wav", tmp_path / "whole.wav", "--ref-text", folder / "clip.txt", "--no-pad-silence"],
    ]
    for i, way in enumerate(ways):
        assert command(*way, "-o", tmp_path / f"{i}.wav") == 0
    want = tts.synthesize("Hello world.", voice=voice, seed=3, max_new_tokens=20)
    want.save(tmp_path / "want.wav")
    assert {(tmp_path / f"{name}.wav").read_bytes() for name in (0, 1, 2, "want")} == {(tmp_path / "want.wav").read_bytes()}
    assert command("--ref-spk", folder / "clip.spk", "-o", tmp_path / "x.wav") == 0
    assert command("--ref-wav", tmp_path / "whole.wav", "-o", tmp_path / "y.wav") == 0
    assert (tmp_path / "x.wav").read_bytes() == (tmp_path / "y.wav").read_bytes() != (tmp_path / "0.wav").read_bytes()


def test_the_voice_really_used_is_reported(folder, tmp_path, capsys):
    """Needs row 24."""
    assert command("--ref-wav", folder / "clip.wav", "--ref-text", folder / "clip.txt", "--json", "-o", tmp_path / "x.wav") == 0
    out, err = capsys.readouterr()
    voice = json.loads(out)["voice"]
    assert voice["in_context"] and voice["frames"] == 46 and voice["reference_reused"] is False
    assert voice["encode_s"]["speaker"] > 0 and voice["encode_s"]["codes"] > 0
    assert "warning: ref_audio is only 0.40 s long" in err and voice["warnings"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ref-wav", "none.wav"], "'none.wav' cannot be read"),
        (["--ref-wav", "{folder}/clip.txt"], "no audio format that soundfile knows"),
        (["--ref-wav", "{folder}/clip.wav", "--ref-text", "none.txt"], "'none.txt' cannot be read"),
        (["--ref-spk", "{folder}/clip.wav"], "clip.wav"),
        (["--ref-spk", "{folder}/clip.spk", "--ref-rvq", "{folder}/clip.wav", "--ref-text", "{folder}/clip.txt"], "clip.wav"),
        (["--voice", "{folder}/clip.wav"], "damaged or no voice file"),
        (["--ref-wav", ""], "--ref-wav is empty"),
        (["--ref-wav", "{folder}/clip.wav", "--instruct", "calm"], "--instruct is not valid for base"),
    ],
)  # fmt: skip
def test_bad_voices_are_one_line_and_leave_no_file(folder, tmp_path, capsys, arguments, message):
    code = command(*[a.format(folder=folder) for a in arguments], "-o", tmp_path / "x.wav")
    err = capsys.readouterr().err
    assert code == 2 and message in err and err.count("\n") == 1 and list(tmp_path.iterdir()) == []


def test_qwen_codec_is_installed_as_a_module_command():
    result = subprocess.run([sys.executable, "-m", "qwentts", "codec", "--help"], capture_output=True, text=True)
    assert result.returncode == 0 and all(flag in result.stdout for flag in ("--model", "-i", "--talker", "--format"))
