"""Weights copied at load against weights used in the file: the same bytes, whatever types the joined matrices have."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from conftest import MODES, tiny_files
from gguf import GGMLQuantizationType, GGUFReader, GGUFValueType, GGUFWriter

import qwentts
from qwentts import ModelFileError, ParameterError
from qwentts.engine import Engine

# name -> type of the matrices whose name the expression finds; q, k and v have three, two or one type
TYPES = {
    "as_stored": {},
    "all_f16": {r"blk\.\d+\..*(attn_[qkv]|ffn_(gate|up))\.weight": np.float16},
    "v_differs": {r"attn_v\.weight": np.float16},
    "k_differs": {r"attn_k\.weight": np.float16, r"ffn_up\.weight": np.float16},
}


def retyped(source, target, types):
    """The file with the matrices of `types` in another type; keys and order stay."""
    reader = GGUFReader(source)
    writer = GGUFWriter(target, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        kind = field.types[0]
        writer.add_key_value(name, field.contents(), kind, sub_type=field.types[-1] if kind == GGUFValueType.ARRAY else None)
    n_changed = 0
    for tensor in reader.tensors:
        wanted = [kind for expression, kind in types.items() if re.search(expression, tensor.name)]
        n_changed += bool(wanted)
        assert not wanted or tensor.tensor_type == GGMLQuantizationType.F32
        writer.add_tensor(tensor.name, np.array(tensor.data, dtype=wanted[0] if wanted else None))
    assert bool(n_changed) == bool(types)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return target


def speak(path):
    """Every logit of a prompt of 9 rows and 3 frames."""
    engine = Engine(path, None, threads=2)
    session, facts, rng = engine.session(), engine.facts, np.random.default_rng(5)
    heard = []

    def answer(size, call, *arguments):
        logits = np.empty(size, np.float32)
        call(*arguments, logits)
        heard.append(logits)
        return int(logits[: facts.code_vocab_size].argmax())

    codes = np.zeros(facts.n_code_groups, np.int32)
    codes[0] = answer(facts.codec_vocab_size, session.prefill, session.text_embed(rng.integers(0, facts.text_vocab_size, 9)))
    for _ in range(3):
        codes[1] = answer(facts.code_vocab_size, session.predictor_begin, int(codes[0]))
        for g in range(2, facts.n_code_groups):
            codes[g] = answer(facts.code_vocab_size, session.predictor_step, int(codes[g - 1]))
        codes[0] = answer(facts.codec_vocab_size, session.step, codes, np.zeros(facts.hidden_size, np.float32))
    engine.close()
    return np.concatenate(heard)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("types", TYPES)
def test_copied_and_mapped_weights_give_the_same_bytes(monkeypatch, tmp_path, mode, types):
    path = retyped(tiny_files(mode)[0], tmp_path / "talker.gguf", TYPES[types])
    monkeypatch.setenv("QWENTTS_WEIGHTS", "mapped")
    mapped = speak(path)
    monkeypatch.setenv("QWENTTS_WEIGHTS", "copied")
    assert np.isfinite(mapped).all() and np.unique(mapped).size > 100
    assert np.array_equal(speak(path), mapped)


def test_packed_and_mapped_kernels_of_the_codec_give_the_same_bytes(monkeypatch):
    path = next((Path(qwentts.__file__).parent / "voices" / "demo").glob("qwen-tokenizer-*.gguf"))
    heard = []
    for wish in ("mapped", "copied"):
        monkeypatch.setenv("QWENTTS_WEIGHTS", wish)
        engine = Engine(None, path, threads=2)
        codes = np.random.default_rng(5).integers(0, 64, (9, engine.facts.n_code_groups), dtype=np.int32)
        heard.append(engine.session().decode(codes))
        engine.close()
    assert np.unique(heard[0]).size > 100 and np.array_equal(heard[0], heard[1])


def test_copied_weights_outlive_a_file_that_is_cut_in_the_middle_of_a_call(monkeypatch, tmp_path):
    """What frames read is not in the mapping; only embedding tables and the prompt's projection still are. The next call is refused."""
    source = tiny_files("custom_voice")[0]
    path = tmp_path / "talker.gguf"
    path.write_bytes(source.read_bytes())
    monkeypatch.setenv("QWENTTS_WEIGHTS", "copied")
    engine = Engine(path, None, threads=1)
    session, facts = engine.session(), engine.facts
    logits, again = (np.empty(facts.codec_vocab_size, np.float32) for _ in range(2))
    rows = np.random.default_rng(6).standard_normal((600, facts.hidden_size)).astype(np.float32)  # three graphs of up to 256 rows
    session.prefill(rows, logits)
    session.reset()
    stages = []

    def cut(name, values):
        if not stages:  # the first graph has run, two follow
            os.truncate(path, 0)
        stages.append(name)

    session.set_tap(cut)
    session.prefill(rows, again)
    assert stages.count("talker.embd") == 3 and np.array_equal(again, logits)
    with pytest.raises(ParameterError, match=r"talker\.gguf: the file has 0 bytes, it was opened with"):
        session.prefill(rows[:1], again)
    engine.close()


def test_an_unknown_wish_is_refused(monkeypatch):
    monkeypatch.setenv("QWENTTS_WEIGHTS", "elsewhere")
    with pytest.raises(ModelFileError, match="QWENTTS_WEIGHTS is 'elsewhere', valid: mapped, copied"):
        Engine(tiny_files("base")[0], None)


@pytest.mark.parametrize(
    ("part", "name", "reason"),
    [
        ("codec", "tok_dec.vq_rest.0.codebook", "codebook"),
        ("codec", "tok_dec.vq_first.output_proj.weight", "codebook projection"),
        ("codec", "tok_enc.vq_semantic.0.codebook", "codebook"),
        ("codec", "tok_dec.pre_tfm.norm.weight", "vector"),
        ("talker", "talker.blk.1.attn_norm.weight", "vector"),
        ("talker", "spk_enc.mfa.weight", "speaker encoder"),
    ],
)
def test_what_must_be_f32_is_refused_in_another_type(tmp_path, part, name, reason):
    """The loader asks the quantizer's own table, also for the encoders, which are loaded at the first clip."""
    files = dict(zip(("talker", "codec"), tiny_files("base"), strict=True))
    files[part] = retyped(files[part], tmp_path / "other.gguf", {f"^{re.escape(name)}$": np.float16})
    message = rf"other.gguf: tensor {re.escape(name)} \({reason}\) is of type f16, expected f32"
    with pytest.raises((ModelFileError, ParameterError), match=message):
        engine = Engine(files["talker"], files["codec"], threads=1)
        session, clip = engine.session(), np.sin(np.arange(8000, dtype=np.float32) * 0.1)
        session.speaker_embed(clip)
        session.codec_encode(clip)
