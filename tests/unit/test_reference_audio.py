"""Reference recordings: every usual container and type is read, the rest is named, and a poor recording is remarked upon."""

import io
import struct
import tracemalloc

import numpy as np
import pytest
import soundfile
import soxr

from qwentts import ParameterError
from qwentts.reference import Recording, letters, read_recording, remarks, speech_s

RATE = 24000
T = np.arange(RATE) / RATE
TONE = (0.5 * np.sin(2 * np.pi * 220 * T) * (1 + 0.3 * np.sin(2 * np.pi * 3 * T))).astype(np.float32)
CLOSED = io.BytesIO(b"x")
CLOSED.close()


def encoded(format="WAV", subtype="PCM_16", samples=TONE, rate=RATE):
    out = io.BytesIO()
    soundfile.write(out, samples, rate, format=format, subtype=subtype)
    return out.getvalue()


@pytest.mark.parametrize(
    ("format", "subtype", "error"),
    [
        ("WAV", "PCM_16", 1e-4), ("WAV", "PCM_U8", 0.01), ("WAV", "PCM_24", 1e-6), ("WAV", "PCM_32", 1e-6), ("WAV", "FLOAT", 0),
        ("WAV", "DOUBLE", 0), ("WAV", "ULAW", 0.03), ("WAV", "ALAW", 0.03), ("WAVEX", "PCM_16", 1e-4), ("WAVEX", "PCM_24", 1e-6),
        ("RF64", "PCM_16", 1e-4), ("W64", "PCM_16", 1e-4), ("FLAC", "PCM_16", 1e-4), ("AIFF", "PCM_16", 1e-4), ("OGG", "VORBIS", 0.05),
        ("OGG", "OPUS", None), ("MP3", "MPEG_LAYER_III", 0.05),
    ],
)  # fmt: skip
def test_usual_formats_are_read_from_bytes_files_and_paths(tmp_path, format, subtype, error):
    """Needs row 21."""
    data = encoded(format, subtype)
    path = tmp_path / "clip.wav"  # whatever the name says
    path.write_bytes(data)
    for source in (data, bytearray(data), io.BytesIO(data), path, str(path), open(path, "rb")):
        recording = read_recording(source)
        assert recording.rate_hz in (RATE, 48000)
        n = min(recording.samples.size, RATE)
        assert abs(recording.duration_s - 1) < 0.1
        if error is None:  # the encoder shifts the phase
            assert np.std(recording.samples) == pytest.approx(np.std(TONE), rel=0.05)
        else:
            assert np.abs(recording.resampled(RATE)[:n] - TONE[:n]).max() <= max(error, 1e-7)
        if hasattr(source, "close"):
            source.close()


def wav(data_size, riff_size, *, before=b"", payload=None):
    payload = (TONE * 32767).astype("<i2").tobytes() if payload is None else payload
    layout = struct.pack("<HHIIHH", 1, 1, RATE, 2 * RATE, 2, 16)
    return (
        b"RIFF" + struct.pack("<I", riff_size) + b"WAVEfmt " + struct.pack("<I", 16) + layout + before + b"data"
        + struct.pack("<I", data_size) + payload
    )  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        wav(0xFFFFFFFF, 0xFFFFFFFF), wav(0, 0), wav(0, 36), wav(2 * RATE, 36 + 2 * RATE),
        wav(2 * RATE, 48 + 2 * RATE, before=b"LIST" + struct.pack("<I", 3) + b"abc\0"),
        wav(0, 0, before=b"LIST" + struct.pack("<I", 3) + b"abc\0"),
    ],
)  # fmt: skip
def test_streamed_and_odd_wav_files_are_read_whole(data):
    assert np.abs(read_recording(data).samples - TONE).max() < 1e-4


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\0\0\0\x20ftypM4A \0\0\0\0", "an MP4 container"), (b"ID3\x04\0\0", "an MP3 file"), (b"fLaC\0\0", "a FLAC file, damaged"),
        (b"OggS\0\0", "an Ogg file"), (b"RF64\xff\xff\xff\xffWAVE", "an RF64 file, damaged"), (b"\x1aE\xdf\xa3", "a Matroska or WebM"),
        (b"0&\xb2u\x8ef\xcf\x11", "an ASF container .WMA"), (b"\xff\xf1\x50\x80", "an AAC stream"), (b"GGUF\3\0\0\0", "a GGUF model file"),
        (b"<html>", "a text or HTML"), (b"RIFF\4\0\0\0AVI ", "an AVI video"), (b"RIFF\4\0\0\0WAVE", "a WAV file, damaged"),
        (b"\1\2\3\4\5\6\7\x08\x09", "no audio format that soundfile knows .it begins with 01 02 03 04 05 06 07 08"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named_with_advice(tmp_path, data, kind):
    """Needs rows 21 and 22."""
    path = tmp_path / "clip.wav"
    path.write_bytes(data + b"\0" * 64)
    with pytest.raises(ParameterError, match=f"clip.wav.*this is {kind}.*ffmpeg"):
        read_recording(path)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"", "audio is empty"),
        ("none.wav", "'none.wav' cannot be read: No such file"),
        ("a\0b", "cannot be read"),
        (5, "type int, expected a path, bytes, a file object or"),
        (None, "type NoneType"),
        (io.StringIO("text"), "opened in binary mode"),
        (CLOSED, "cannot be read: I/O operation on closed file"),
        (([[0.1], [0.1, 0.2]], RATE), "no array of numbers"),
        ((np.array([1e300]), RATE), "sample 0 is inf"),
        ((TONE,), "a tuple of 1"),
        ((TONE, 7999), "a sample rate of 7999, valid are 8000 to 192000 Hz"),
        ((TONE, 192001), "192001"),
        ((TONE, 24000.5), "24000.5"),
        ((TONE, True), "True"),
        ((TONE[:0], RATE), "no samples"),
        ((np.zeros((2, 24000)), RATE), r"shape \(2, 24000\), expected \[samples\] or \[samples, channels\]"),
        ((np.zeros((2, 2, 2)), RATE), r"shape \(2, 2, 2\)"),
        ((np.array([0.1, np.nan]), RATE), "sample 1 is nan"),
        ((np.array(["x"]), RATE), "type <U1"),
        ((np.zeros(5, np.uint16), RATE), "type uint16"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_bad_sources_are_named(source, message):
    with pytest.raises(ParameterError, match=message):
        read_recording(source)


def test_a_small_file_that_unpacks_to_hours_is_not_unpacked():
    out = io.BytesIO()
    soundfile.write(out, np.zeros(8000 * 3600, np.int16), 8000, format="FLAC", subtype="PCM_16")
    tracemalloc.start()
    with pytest.raises(ParameterError, match="audio is longer than 300 s"):
        read_recording(out.getvalue())
    assert tracemalloc.get_traced_memory()[1] < 30 << 20  # 300 s at 8 kHz take 9.6 MB
    tracemalloc.stop()


def test_arrays_of_any_type_and_channels_mean_the_same():
    want = TONE.astype(np.float64)
    for samples, error in [
        (TONE, 0), (want, 1e-7), (TONE.astype(np.float16), 1e-3), ((TONE * 32768).astype(np.int16), 1e-4),
        (np.round(want * 2**31).astype(np.int32), 1e-6), (np.round(TONE * 128 + 128).astype(np.uint8), 0.01),
        (np.stack([TONE, TONE], 1), 1e-7), (np.stack([TONE * 2, 0 * TONE], 1), 1e-7), (np.stack([TONE] * 6, 1), 1e-6),
    ]:  # fmt: skip
        assert np.abs(read_recording((samples, RATE)).samples - TONE).max() <= error


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000, 96000, 192000])
def test_rates_are_converted_to_the_length_upstream_gives(rate):
    """Needs row 20."""
    samples = soxr.resample(TONE, RATE, rate, quality="VHQ")[: rate - 3]
    out = Recording(samples, rate).resampled(RATE)
    assert out.size == int(np.ceil(samples.size * RATE / rate)) and out.dtype == np.float32
    inner = slice(2000, -2000)
    assert np.abs(out[inner] - TONE[: out.size][inner]).max() < 2e-3


def speech(duration_s, rate=RATE, level=0.3):
    t = np.arange(round(duration_s * rate)) / rate
    return (level * np.sin(2 * np.pi * 200 * t) * (0.6 + 0.4 * np.sin(2 * np.pi * 4 * t))).astype(np.float32)


@pytest.mark.parametrize(
    ("samples", "rate", "text", "message"),
    [
        (speech(0.5), RATE, None, "only 0.50 s long"),
        (speech(25), RATE, None, "25.0 s long.*costs time and cuts words"),
        (np.clip(speech(3, level=3), -1, 1), RATE, None, "clipped"),
        (np.zeros(RATE * 3, np.float32), RATE, None, "silent"),
        (speech(3, 8000), 8000, None, "8000 Hz: the voice will sound muffled"),
        (speech(10), RATE, "x" * 90, "ref_text seems shorter than ref_audio .9.0 letters"),
        (speech(10), RATE, "x" * 350, "ref_text seems longer than ref_audio .35.0 letters"),
        (speech(10), RATE, "\u4f60\u597d" * 10, "seems shorter"),
    ],
)
def test_a_poor_reference_is_remarked_upon(samples, rate, text, message):
    """Needs rows 16 and 27."""
    import re

    found = remarks(Recording(samples, rate), text)
    assert len(found) == 1 and re.search(message, found[0]), found


def test_the_frames_that_a_long_reference_costs_are_told():
    assert "563 frames" in remarks(Recording(speech(45), RATE), None, 563)[0]


@pytest.mark.parametrize("text", [None, "x" * 150, "\u4f60\u597d" * 23, "\u3042" * 70, "\uac00" * 60])
def test_a_good_reference_is_not(text):
    assert remarks(Recording(speech(10), RATE), text) == []


def test_pauses_do_not_count_as_speech():
    room = 1e-3 * np.random.default_rng(0).standard_normal(RATE * 6).astype(np.float32)
    with_pauses = np.concatenate([speech(2), room, speech(2)])
    assert speech_s(Recording(with_pauses, RATE)) == pytest.approx(4, abs=0.3)
    assert remarks(Recording(with_pauses, RATE), "x" * 60) == []


def test_letters_are_weighed_by_script():
    assert letters("abc, d!") == 4 and letters("\u4f60") > letters("\u3042") > letters("a") and letters("42") == 8
