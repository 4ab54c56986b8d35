"""WAV bytes and files that appear whole or not at all."""

import dataclasses
import io
import os
import stat

import numpy as np
import pytest
import soundfile

from qwentts.audio import save_wav, wav_bytes
from qwentts.dump import StageDump
from qwentts.errors import OutputError, ParameterError
from qwentts.output import Output
from qwentts.speech import PIECE_SILENCE_S, Chunk, Piece, collect, worst

TONE = np.sin(np.arange(2400) / 10).astype(np.float32)


@pytest.mark.parametrize(
    ("format", "subtype", "step"), [("wav16", "PCM_16", 2.0**-15), ("wav24", "PCM_24", 2.0**-23), ("wav32", "FLOAT", 0)]
)
def test_formats_round_trip_within_one_step(format, subtype, step):
    data = wav_bytes(TONE, 24000, format=format)
    info = soundfile.info(io.BytesIO(data))
    assert (info.subtype, info.samplerate, info.channels, info.frames) == (subtype, 24000, 1, 2400)
    back, _ = soundfile.read(io.BytesIO(data), dtype="float64")
    assert np.abs(back - TONE).max() <= step


def test_samples_beyond_full_scale_are_clipped_not_wrapped():
    back, _ = soundfile.read(io.BytesIO(wav_bytes(np.array([2, -2, 1.0001], np.float32), 24000)))
    assert np.allclose(back, [1, -1, 1], atol=1e-4)


def test_an_unknown_format_lists_the_valid_ones():
    with pytest.raises(ParameterError, match="wav16, wav24, wav32"):
        wav_bytes(TONE, 24000, format="mp3")


def test_no_file_is_left_when_the_work_fails(tmp_path):
    target = tmp_path / "x.wav"
    with pytest.raises(RuntimeError), Output(target) as out:
        out.write(b"half")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []
    target.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), Output(target) as out:
        out.write(b"half")
        raise KeyboardInterrupt
    assert [p.name for p in tmp_path.iterdir()] == ["x.wav"] and target.read_bytes() == b"old"


def test_a_complete_file_replaces_the_old_one_with_usual_permissions(tmp_path):
    target = tmp_path / "x.wav"
    target.write_bytes(b"old")
    save_wav(target, TONE, 24000)
    assert soundfile.info(target).frames == 2400
    fresh = tmp_path / "plain"
    fresh.write_bytes(b"")
    assert stat.S_IMODE(target.stat().st_mode) == stat.S_IMODE(fresh.stat().st_mode)


def test_a_link_keeps_pointing_at_its_file(tmp_path):
    (tmp_path / "real.wav").write_bytes(b"old")
    (tmp_path / "link.wav").symlink_to("real.wav")
    save_wav(tmp_path / "link.wav", TONE, 24000)
    assert (tmp_path / "link.wav").is_symlink() and soundfile.info(tmp_path / "real.wav").frames == 2400


def test_samples_beyond_full_scale_are_clipped_and_none_is_undefined():
    samples = np.array([0, 2, -2, 0.5, np.nan], np.float32)
    for format, top in (("wav16", 1 - 2**-15), ("wav24", 1 - 2**-23)):
        back, _ = soundfile.read(io.BytesIO(wav_bytes(samples, 24000, format=format)))
        assert back.tolist() == [0, top, -1, 0.5, 0]


def test_a_dump_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(ParameterError, match="dump folder"):
        StageDump("")
    dump = StageDump(tmp_path / "d")
    (tmp_path / "d").rmdir()
    for write in (lambda: dump.add("stage", np.zeros(3, np.float32)), dump.close):
        with pytest.raises(OutputError, match="dump folder .* cannot be written: No such file"):
            write()


def test_unwritable_paths_are_named_before_any_work(tmp_path):
    for bad in (tmp_path / "none" / "x.wav", tmp_path):
        with pytest.raises(ParameterError, match="cannot be written"), Output(bad):
            raise AssertionError("the work began")


def test_a_device_is_written_directly():
    save_wav(os.devnull, TONE, 24000)
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def _chunks(*parts):
    """The chunks of pieces (reason, samples, seed), two a piece and one last, as a request makes them."""
    at, chunks, pieces = 0, [], []
    for i, (reason, n_samples, seed) in enumerate(parts):
        gap = round(PIECE_SILENCE_S * 24000) if i else 0
        samples = np.concatenate([np.zeros(gap, np.float32), np.ones(n_samples, np.float32)])
        cut = gap + n_samples // 2
        chunks.append(Chunk(samples[:cut], 24000, np.full((1, 3), seed, np.int32), 7, i))
        pieces.append(Piece(f"t{seed}", seed, reason, at + gap, n_samples, 2))
        at += gap + n_samples
        chunks.append(Chunk(samples[cut:], 24000, np.full((1, 3), seed, np.int32), 7, i))
    end = dataclasses.replace(
        chunks.pop(), finish_reason=worst(p.finish_reason for p in pieces), max_frames=50, timings={"total": 9.0}, warnings=("w",),
        pieces=tuple(pieces),
    )  # fmt: skip
    return [*chunks, end]


def test_chunks_are_collected_with_a_short_silence_between_pieces_and_the_worst_reason():
    speech = collect(_chunks(("stop", 100, 7), ("length", 200, 8), ("stop", 50, 9)))
    gap = round(PIECE_SILENCE_S * 24000)
    assert speech.samples.size == 350 + 2 * gap and speech.finish_reason == "length" and speech.seed == 7
    assert [p.start_samples for p in speech.pieces] == [0, 100 + gap, 300 + 2 * gap]
    for piece in speech.pieces:
        assert (speech.samples[piece.start_samples : piece.start_samples + piece.n_samples] == 1).all()
    assert speech.samples.sum() == 350 and speech.codes.tolist() == [[7] * 3] * 2 + [[8] * 3] * 2 + [[9] * 3] * 2
    assert speech.timings == {"total": 9.0} and speech.warnings == ("w",)
    assert speech.duration_s == speech.samples.size / 24000


def test_the_audio_of_a_cancelled_piece_is_dropped_and_its_codes_stay():
    speech = collect(_chunks(("stop", 100, 7), ("cancelled", 60, 8)))
    assert speech.finish_reason == "cancelled" and speech.samples.tolist() == [1.0] * 100 and len(speech.codes) == 4
    assert (speech.pieces[1].start_samples, speech.pieces[1].n_samples) == (100, 0)
    assert collect(_chunks(("cancelled", 60, 8))).samples.size == 0
