"""The encoders equal the official ones: codes, stages, embeddings; loaded late, damaged files refused, any file type in F32."""

import logging
import mmap
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from c_programs import run
from conftest import golden_arrays, nmse, tiny_files

from qwentts import ModeError, ParameterError
from qwentts._lib import ffi, last_error, lib
from qwentts.convert import convert
from qwentts.engine import CODEC, Engine

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
from hear_clip import clip  # noqa: E402

LONG, SHORT = clip(156_777), clip(9_677, seed=2)  # as tools/golden_hear.py recorded them
MODE = {"a": "base", "b": "voice_design"}


@pytest.fixture(scope="module")
def engines():
    opened = {letter: Engine(*tiny_files(mode), threads=2) for letter, mode in MODE.items()}
    yield opened
    for engine in opened.values():
        engine.close()


@pytest.fixture
def sessions(engines):
    opened = {letter: engine.session() for letter, engine in engines.items()}
    yield opened
    for session in opened.values():
        session.close()


def cosine(a, b):
    a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def staged(session, call):
    """What `call` returns, and every stage that it computed."""
    stages = {}
    session.set_tap(lambda name, values: stages.setdefault(name, []).append(np.atleast_2d(values)))
    result = call()
    session.set_tap(None)
    return result, {name: np.concatenate(parts) for name, parts in stages.items()}


@pytest.mark.parametrize("flash", [True, False])
@pytest.mark.parametrize("letter", ["a", "b"])
def test_codes_equal_the_official_ones(letter, flash):
    golden = golden_arrays(f"hear_{letter}.npz")
    engine = Engine(*tiny_files(MODE[letter]), threads=2, flash_attention=flash)
    codes = engine.session().codec_encode(LONG)
    engine.close()
    want = golden["codes"]
    assert codes.shape == want.shape and len(np.unique(want)) >= 0.9 * engine.facts.codebook_size, "the clip would prove little"
    same = codes == want
    assert same.mean() >= 0.999
    clear = np.logical_and.accumulate(golden["margins"] > 1e-6, axis=1)  # a near tie decides what the later codebooks see
    assert same[clear].all() and clear.mean() > 0.99


@pytest.mark.parametrize("letter", ["a", "b"])
def test_every_stage_of_the_encoder_equals_the_official_one(sessions, letter):
    golden = golden_arrays(f"hear_{letter}.npz")
    codes, stages = staged(sessions[letter], lambda: sessions[letter].codec_encode(SHORT))
    assert np.array_equal(codes, golden["stage_codes"])
    names = [name for name in golden if name.startswith("codec_enc.")]
    assert len(names) >= 9
    for name in names:
        stage, step = name.split("::")
        assert nmse(stages[stage][:: int(step)], golden[name]) <= 1e-9, stage


def test_every_stage_of_the_speaker_encoder_equals_the_official_one(sessions):
    golden = golden_arrays("hear_a.npz")
    vector, stages = staged(sessions["a"], lambda: sessions["a"].speaker_embed(SHORT))
    names = [name for name in golden if name.startswith("speaker.")]
    assert len(names) == 8
    for name in names:
        stage, step = name.split("::")
        assert nmse(stages[stage][:: int(step)], golden[name]) <= 1e-9, stage
    assert cosine(vector, golden["speaker.embedding::1"][0]) >= 0.999999
    assert cosine(sessions["a"].speaker_embed(LONG), golden["speaker_long"]) >= 0.999999
    assert cosine(vector, golden["speaker_long"]) < 0.9999, "two clips, two voices"


@pytest.mark.parametrize("letter", ["a", "b"])
def test_silence_comes_back_as_from_the_official_codec(sessions, letter):
    golden, session = golden_arrays(f"hear_{letter}.npz"), sessions[letter]
    codes = session.codec_encode(np.zeros(2 * session.facts.sample_rate, np.float32))
    assert np.array_equal(codes, golden["silence_codes"])
    difference = session.decode(codes)[::16] - golden["silence"]
    assert np.sqrt((difference.astype(np.float64) ** 2).mean()) < 0.001


def test_absurdly_loud_sound_gives_codes_of_the_codebook(sessions):
    for loud in (1e6, 1e30, 3e38):
        codes = sessions["b"].codec_encode(np.float32(loud) * np.sign(SHORT[:2000]))
        assert codes.min() >= 0 and codes.max() < sessions["b"].facts.codebook_size


def test_results_do_not_depend_on_the_number_of_threads():
    runs = []
    for threads in (1, 2, 4):
        engine = Engine(*tiny_files("base"), threads=threads)
        session = engine.session()
        codes, stages = staged(session, lambda s=session: s.codec_encode(SHORT))
        vector, more = staged(session, lambda s=session: s.speaker_embed(SHORT))
        runs.append((codes.tobytes(), vector.tobytes(), {n: v.tobytes() for n, v in (stages | more).items()}))
        engine.close()
    assert runs[0] == runs[1] == runs[2]


def test_a_tap_changes_nothing(sessions):
    session = sessions["a"]
    codes, _ = staged(session, lambda: session.codec_encode(SHORT))
    assert np.array_equal(codes, session.codec_encode(SHORT))


def test_a_frame_never_depends_on_what_follows(sessions):
    """Also: chunks of the convolutions, of 131072 samples, meet without a seam."""
    session, hop = sessions["a"], sessions["a"].facts.hop_samples
    whole = session.codec_encode(LONG)
    for n in (1, 100, 280):
        assert np.array_equal(session.codec_encode(LONG[: n * hop]), whole[:n]), n


def test_a_frame_begun_is_a_frame(sessions):
    session, hop = sessions["a"], sessions["a"].facts.hop_samples
    for n, frames in ((1, 1), (hop - 1, 1), (hop, 1), (hop + 1, 2), (7 * hop, 7)):
        assert session.codec_encode(SHORT[:n]).shape == (frames, session.facts.n_code_groups)


def test_a_cancelled_session_hears_again_after_a_reset(sessions):
    from qwentts import Cancelled

    session = sessions["a"]
    session.cancel()
    for call in (session.codec_encode, session.speaker_embed):
        with pytest.raises(Cancelled):
            call(SHORT)
    session.reset()
    assert len(session.codec_encode(SHORT)) == 21


def resident(path):
    """Offsets of the pages of `path` that this process has mapped in."""
    page, found = mmap.PAGESIZE, []
    with open("/proc/self/maps") as maps, open("/proc/self/pagemap", "rb") as pagemap:
        for line in maps:
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) r\S+ ([0-9a-f]+) \S+ \d+ +(.*)", line)
            if match and match[4] == str(path):
                start, end, offset = (int(match[i], 16) for i in (1, 2, 3))
                pagemap.seek(start // page * 8)
                present = np.frombuffer(pagemap.read((end - start) // page * 8), np.uint64) >> np.uint64(63)
                found += [offset + int(i) * page for i in np.flatnonzero(present)]
    return found


@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="needs /proc/self/pagemap")
def test_the_encoder_is_not_mapped_in_before_something_is_encoded(tmp_path):
    """On a codec whose encoder is large: the kernel maps in some 100 KB around each page that is read."""
    import make_tiny
    from gguf import GGUFReader

    encoder = make_tiny.CODEC_A["encoder"] | dict(num_filters=16, hidden_size=128, intermediate_size=512)
    make_tiny.write_codec(tmp_path / "codec", make_tiny.CODEC_A | dict(encoder=encoder), 5)
    (codec,) = convert(tmp_path / "codec", tmp_path, progress=False)
    tensors = [t for t in GGUFReader(codec).tensors if re.match(r"tok_enc\.(conv|res|blk)\.", t.name)]
    around = 512 * 1024
    first = min(int(t.data_offset) for t in tensors) + around
    last = max(int(t.data_offset + t.n_bytes) for t in tensors) - around
    assert last - first > 1_000_000
    engine = Engine(None, codec)
    session = engine.session()
    session.decode(np.zeros((3, engine.facts.n_code_groups), np.int32))
    pages = resident(codec)
    assert pages and not [at for at in pages if first <= at < last]
    session.codec_encode(SHORT)
    assert len([at for at in resident(codec) if first <= at < last]) > 0.99 * (last - first) / mmap.PAGESIZE
    engine.close()


def damaged(tmp_path, kind, tensor, value):
    """Talker and codec of base with one tensor of one of them overwritten."""
    from gguf import GGUFReader

    talker, codec = (Path(shutil.copy(path, tmp_path)) for path in tiny_files("base"))
    reader = GGUFReader(codec if kind == "codec" else talker, "r+")
    (found,) = [t for t in reader.tensors if t.name == tensor]
    found.data.reshape(-1)[:] = value if np.ndim(value) == 0 else [*value, *found.data.reshape(-1)[len(value) :]]
    reader.data.flush()
    return talker, codec


@pytest.mark.parametrize(
    ("kind", "tensor", "value", "fault"),
    [
        ("codec", "tok_enc.conv.3.weight", 0, "is all zeros"),
        ("codec", "tok_enc.vq_acoustic.2.codebook", 0, "is all zeros"),
        ("codec", "tok_enc.blk.1.ffn_up.weight", [np.nan], "holds NaN or infinity"),
        ("codec", "tok_enc.conv.0.bias", [np.inf], "holds NaN or infinity"),
        ("talker", "spk_enc.blk.2.res2net.1.weight", 0, "is all zeros"),
        ("talker", "spk_enc.fc.bias", [np.nan], "holds NaN or infinity"),
    ],
)
def test_damaged_encoders_are_reported_and_refused_and_the_rest_still_speaks(tmp_path, caplog, kind, tensor, value, fault):
    engine = Engine(*damaged(tmp_path, kind, tensor, value))
    session = engine.session()
    bad, good = (session.codec_encode, session.speaker_embed) if kind == "codec" else (session.speaker_embed, session.codec_encode)
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "qwentts"), pytest.raises(ParameterError, match=f"{re.escape(tensor)} {fault}"):
            bad(SHORT)
    warnings = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(warnings) == 1 and tensor in warnings[0] and fault in warnings[0], "said once, when it is loaded"
    good(SHORT)
    assert np.isfinite(session.decode(np.zeros((2, engine.facts.n_code_groups), np.int32))).all()
    engine.close()


def test_a_bias_of_zeros_is_no_damage(tmp_path):
    engine = Engine(*damaged(tmp_path, "codec", "tok_enc.conv.0.bias", 0))
    engine.session().codec_encode(SHORT)
    engine.close()


def test_a_missing_encoder_tensor_is_named(tmp_path):
    talker, codec = tiny_files("base")
    path = tmp_path / "codec.gguf"
    path.write_bytes(Path(codec).read_bytes().replace(b"tok_enc.downsample.weight", b"tok_enc.downsamplf.weight"))
    engine = Engine(talker, path)
    for _ in range(2):
        with pytest.raises(ParameterError, match=r"tok_enc\.downsample\.weight is missing"):
            engine.session().codec_encode(SHORT)
    engine.close()


@pytest.mark.parametrize("kind", ["q8_0", "f16", "bf16"])
def test_any_file_type_is_computed_in_f32(tmp_path, kind):
    """The codes of a small file are those of an F32 file that holds its values."""
    import make_tiny
    from gguf import GGUFReader

    make_tiny.write_codec(tmp_path / "codec", make_tiny.CODEC_A, 5)
    (small,) = convert(tmp_path / "codec", tmp_path, type=kind, progress=False)
    engine = Engine(None, small)
    file = engine.file(CODEC)
    rows = file.tensors()
    kinds = {row.type_name for row in rows if row.name.startswith("tok_enc.blk.")}
    assert kind in kinds
    wide = tmp_path / "wide.gguf"
    shutil.copy(tiny_files("base")[1], wide)
    reader = GGUFReader(wide, "r+")
    of_name = {t.name: t for t in reader.tensors}
    assert set(of_name) == {row.name for row in rows}
    for i, row in enumerate(rows):
        of_name[row.name].data.reshape(-1)[:] = file.tensor(i).reshape(-1)
    reader.data.flush()
    reference = Engine(None, wide)
    session, wide_session = engine.session(), reference.session()
    for n in (400, SHORT.size):  # few columns and many take different paths through a product
        codes, stages = staged(session, lambda n=n: session.codec_encode(SHORT[:n]))
        wide_codes, wide_stages = staged(wide_session, lambda n=n: wide_session.codec_encode(SHORT[:n]))
        assert np.array_equal(codes, wide_codes)
        for name, values in wide_stages.items():
            assert nmse(stages[name], values) < 1e-12, name
    engine.close()
    reference.close()


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (np.zeros(0, np.float32), "0 samples, valid: 1 to 7200000"),
        (np.array([0, np.nan, 0], np.float32), r"samples\[1\] is -?nan"),
        (np.array([np.inf] * 3, np.float32), r"samples\[0\] is inf"),
        (np.zeros((2, 500), np.float32), "samples have 2 axes"),
        (np.zeros(7_200_001, np.float32), "7200001 samples, valid: 1 to 7200000"),
    ],
)
def test_bad_clips_are_named(sessions, samples, message):
    for call in (sessions["a"].codec_encode, sessions["a"].speaker_embed):
        with pytest.raises(ParameterError, match=message):
            call(samples)


def test_a_clip_too_short_for_the_speaker_encoder_is_named(sessions):
    with pytest.raises(ParameterError, match="n_samples is 1279, the speaker encoder needs 1280 or more"):
        sessions["a"].speaker_embed(SHORT[:1279])
    assert np.isfinite(sessions["a"].speaker_embed(SHORT[:1280])).all()


def test_models_that_cannot_hear_say_so(sessions):
    assert sessions["a"].facts.speaker_size == sessions["a"].facts.hidden_size and sessions["b"].facts.speaker_size == 0
    with pytest.raises(ModeError, match="no speaker encoder, only base models have one"):
        sessions["b"].speaker_embed(SHORT)
    deaf = Engine(tiny_files("base")[0], None)
    with pytest.raises(ModeError, match="no codec is loaded"):
        deaf.session().codec_encode(SHORT)
    deaf.close()


def extract(engine, samples):
    """qt_extract_voice_ref as a C caller has it: status, embedding, codes."""
    out = ffi.new("struct qt_voice_ref *")
    samples = np.ascontiguousarray(samples, np.float32)
    status = lib.qt_extract_voice_ref(engine._handle, ffi.from_buffer("float[]", samples), samples.size, out)
    if status != 0:
        assert out.ref_spk_emb == ffi.NULL and out.ref_codes == ffi.NULL and out.ref_T == 0
        return status, None, None
    n, T, D = out.num_codebooks, out.ref_T, out.ref_spk_dim
    codes = np.frombuffer(ffi.buffer(out.ref_codes, n * T * 4), np.int32).reshape(n, T).copy()
    vector = np.frombuffer(ffi.buffer(out.ref_spk_emb, D * 4), np.float32).copy()
    lib.qt_voice_ref_free(out)
    assert out.ref_codes == ffi.NULL and out.num_codebooks == 0
    lib.qt_voice_ref_free(out)
    return status, vector, codes


def test_extract_voice_ref_cuts_to_whole_frames(engines, sessions):
    engine, session, hop = engines["a"], sessions["a"], sessions["a"].facts.hop_samples
    status, vector, codes = extract(engine, SHORT)
    whole = SHORT[: SHORT.size // hop * hop]
    assert status == 0 and whole.size < SHORT.size
    assert np.array_equal(codes.T, session.codec_encode(whole)) and np.array_equal(vector, session.speaker_embed(whole))
    assert extract(engine, SHORT[: hop - 1])[0] == -1 and f"{hop - 1} samples, valid: {hop} to" in last_error()
    assert extract(engine, SHORT[: 2 * hop])[0] == -1 and "needs 1280 or more" in last_error()
    assert extract(engines["b"], SHORT)[0] == -2 and "only base models" in last_error()
    lib.qt_voice_ref_free(ffi.NULL)


def test_capacity_is_checked(engines, sessions):
    samples, frames = np.ascontiguousarray(SHORT), ffi.new("int *")
    codes = np.full((sessions["a"].facts.n_code_groups, 20), -7, np.int32)
    arguments = (ffi.from_buffer("float[]", samples), samples.size, ffi.from_buffer("int32_t[]", codes), 20, frames)
    assert lib.qt_codec_encode(sessions["a"]._handle, *arguments) == -1
    assert "capacity_frames is 20, 9677 samples take 21" in last_error() and frames[0] == 0 and (codes == -7).all()


def test_hearing_from_c():
    done = run("hear_run", *tiny_files("base"))
    assert done.returncode == 0 and "\n0 failures" in "\n" + done.stdout, done.stdout + done.stderr
