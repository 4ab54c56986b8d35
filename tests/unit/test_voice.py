"""Voices and their files: the published containers byte by byte, and every kind of damage named."""

import io
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from qwentts import ParameterError, Voice
from qwentts.voice import code_bits, pack_codes, unpack_codes

SPEAKER = np.linspace(-1, 1, 40).astype(np.float32)
CODES = np.arange(80, dtype=np.int32).reshape(5, 16) * 25 % 2048


def test_spk_is_raw_little_endian_float32(tmp_path):
    Voice(SPEAKER).save_spk(tmp_path / "a.spk")
    assert (tmp_path / "a.spk").read_bytes() == SPEAKER.astype("<f4").tobytes()
    assert np.array_equal(Voice.from_files(spk=tmp_path / "a.spk").speaker, SPEAKER)


def test_rvq_is_packed_row_major_with_the_least_significant_bit_first():
    stream = 0
    for i, code in enumerate(CODES.T.reshape(-1).tolist()):  # [K, T]
        stream |= code << 11 * i
    assert pack_codes(CODES, 2048) == stream.to_bytes(-(-11 * 80 // 8), "little")
    assert len(pack_codes(CODES, 2048)) == 5 * 22


@given(
    st.integers(1, 17).flatmap(
        lambda groups: st.integers(2, 5000).flatmap(
            lambda size: st.tuples(hnp.arrays(np.int32, st.tuples(st.integers(1, 40), st.just(groups)), elements=st.integers(0, size - 1)),
                                   st.just(size))
        )
    )
)  # fmt: skip
def test_any_codes_come_back(case):
    codes, size = case
    if codes.shape[1] * code_bits(size) >= 8:  # below that the size leaves the number of frames open
        assert np.array_equal(unpack_codes(pack_codes(codes, size), codes.shape[1], size), codes)


def test_the_whole_voice_comes_back(tmp_path):
    voice = Voice(SPEAKER, CODES, "What \u00e9 says.", 0.5)
    voice.save(tmp_path / "a.voice")
    back = Voice.load(tmp_path / "a.voice")
    assert np.array_equal(back.speaker, SPEAKER) and np.array_equal(back.codes, CODES)
    assert (back.text, back.pad_silence_s, back.in_context, back.key()) == ("What \u00e9 says.", 0.5, True, voice.key())
    Voice(SPEAKER).save(tmp_path / "b.voice")
    bare = Voice.load(tmp_path / "b.voice")
    assert bare.codes is None and bare.text is None and not bare.in_context and bare.key() != voice.key()
    voice.save_rvq(tmp_path / "a.rvq")
    voice.save_text(tmp_path / "a.txt")
    parts = Voice.from_files(rvq=tmp_path / "a.rvq", text=tmp_path / "a.txt")
    assert np.array_equal(parts.codes, CODES) and parts.text == voice.text and parts.speaker is None


def test_arrays_are_copies_that_nobody_changes():
    mine = SPEAKER.copy()
    voice = Voice(mine)
    mine[:] = 0
    assert voice.speaker[0] == -1
    with pytest.raises(ValueError, match="read-only"):
        voice.speaker[0] = 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.array([1, np.nan, 2]),), "value 1 of 3 is nan"),
        ((np.array([np.inf]),), "is inf"),
        ((np.zeros(4),), "all 4 values are zero"),
        ((np.zeros((2, 2)),), r"shape \(2, 2\)"),
        ((np.zeros(0),), r"shape \(0,\)"),
        ((np.array(["a"]),), "expected numbers"),
        ((None, np.full((2, 16), 2150)), "code 2150 of frame 0, group 0 is out of range, valid are 0 to 2047"),
        ((None, np.array([[1, -1]])), "code -1 of frame 0, group 1"),
        ((None, np.zeros((2, 2))), "whole numbers"),
        ((None, np.zeros((0, 16), int)), r"shape \(0, 16\)"),
        ((SPEAKER, None, 5), "type int"),
        ((SPEAKER, None, "a\ud800"), "lone surrogate at character 1"),
        ((SPEAKER, None, None, -0.5), "pad_silence_s is -0.5"),
        ((np.array([1e300]),), "value 0 of 1 is inf"),
    ],
)  # fmt: skip
def test_bad_contents_are_named(arguments, message):
    with pytest.raises(ParameterError, match=message):
        Voice(*arguments)


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "0 bytes, which is not a multiple of 4"), (b"12345", "5 bytes, which is not a multiple of 4"),
     (np.array([1, np.nan], "<f4").tobytes(), "value 1 of 2 is nan"), (b"\0" * 8, "all 2 values are zero")],
)  # fmt: skip
def test_damaged_spk_files_are_refused(tmp_path, data, message):
    (tmp_path / "x.spk").write_bytes(data)
    with pytest.raises(ParameterError, match=f"x.spk.*{message}"):
        Voice.from_files(spk=tmp_path / "x.spk")


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        (b"", {}, "0 bytes, which is not a whole number of frames .16 codes of 11 bits each: 22 bytes a frame"),
        (b"\0" * 23, {}, "23 bytes, which is not a whole number"),
        (b"\0" * 21, {}, "21 bytes"),
        (b"\xff" * 2, {"n_groups": 5, "codebook_size": 8}, "bits behind its last code are not zero"),
        (b"\xff" * 3, {"n_groups": 6, "codebook_size": 10}, "code 15 of frame 0, group 0 is out of range, valid are 0 to 9"),
    ],
)  # fmt: skip
def test_damaged_rvq_files_are_refused(tmp_path, data, options, message):
    (tmp_path / "x.rvq").write_bytes(data)
    with pytest.raises(ParameterError, match=f"x.rvq.*{message}"):
        Voice.from_files(rvq=tmp_path / "x.rvq", **options)


@pytest.mark.parametrize(("data", "message"), [(b"", "empty"), (b" \n", "empty"), (b"caf\xe9", "byte 3 is 0xe9")])
def test_damaged_transcripts_are_refused(tmp_path, data, message):
    (tmp_path / "x.txt").write_bytes(data)
    with pytest.raises(ParameterError, match=f"x.txt.*{message}"):
        Voice.from_files(text=tmp_path / "x.txt")


def test_a_missing_file_is_named(tmp_path):
    for load in (lambda p: Voice.load(p), lambda p: Voice.from_files(spk=p), lambda p: Voice.from_files(rvq=p)):
        with pytest.raises(ParameterError, match="none.*No such file"):
            load(tmp_path / "none")


def _npz(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def _zip(shape, *, encrypted=False):
    """A voice file whose speaker embedding says to have this shape."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("speaker.npy", b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(64))
    data = bytearray(out.getvalue())
    if encrypted:
        data[6] |= 1
        data[data.find(b"PK\1\2") + 8] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"hello", "damaged or no voice file"),
        (_npz(other=np.zeros(3)), "neither a speaker embedding nor codes"),
        (_npz(speaker=np.array([1.0, np.nan], np.float32)), "value 1 of 2 is nan"),
        (_npz(codes=np.full((2, 3), 99), codebook_size=np.int64(64)), "code 99 of frame 0"),
        (_npz(speaker=np.array([{}], object)), "damaged or no voice file"),
        (_npz(speaker=SPEAKER, text=np.array([255, 255], np.uint8)), "damaged or no voice file"),
        (_npz(speaker=SPEAKER, codebook_size=np.inf), "damaged or no voice file"),
        (_npz(codes=np.zeros((2, 3), int), codebook_size=np.int64(0)), "codebook_size is 0"),
        (_npz(codes=np.full((2, 3), 1 << 40), codebook_size=np.int64(1 << 50)), "codebook_size is 1125899906842624"),
        (_npz(speaker=SPEAKER, pad_silence_s=np.nan), "pad_silence_s is nan"),
        (_zip("(10000000000000,)"), "damaged or no voice file"),
        (_zip(f"({1 << 70},)"), "damaged or no voice file"),
        (_zip("(3,)", encrypted=True), "damaged or no voice file"),
    ],
)
def test_damaged_voice_files_are_refused(tmp_path, data, message):
    (tmp_path / "x.voice").write_bytes(data)
    with pytest.raises(ParameterError, match=f"x.voice.*{message}"):
        Voice.load(tmp_path / "x.voice")


def test_every_cut_of_a_voice_file_is_refused(tmp_path):
    Voice(SPEAKER, CODES, "words").save(tmp_path / "a.voice")
    whole = (tmp_path / "a.voice").read_bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / "cut.voice").write_bytes(whole[:length])
        with pytest.raises(ParameterError, match="cut.voice"):
            Voice.load(tmp_path / "cut.voice")


def test_a_voice_file_that_unpacks_beyond_reason_is_not_unpacked(tmp_path):
    with zipfile.ZipFile(tmp_path / "bomb.voice", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("speaker.npy", bytes(65 << 20))
    with pytest.raises(ParameterError, match="unpacks to more than"):
        Voice.load(tmp_path / "bomb.voice")


def test_what_is_missing_cannot_be_written(tmp_path):
    voice = Voice(SPEAKER)
    for save, part in ((voice.save_rvq, "codes"), (voice.save_text, "transcript"), (Voice(None, CODES).save_spk, "speaker")):
        with pytest.raises(ParameterError, match=part):
            save(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []
