"""The converter: names, keys, types, values, refusals. Checkpoints are the tiny ones, made here without torch."""

from __future__ import annotations

import json
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TINY
from gguf import GGMLQuantizationType as T
from gguf import GGUFReader, GGUFValueType
from gguf.quants import dequantize
from safetensors.numpy import load_file, save_file

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import make_tiny  # noqa: E402

from qwentts import convert as convert_module  # noqa: E402
from qwentts import convert_source  # noqa: E402
from qwentts.convert import convert  # noqa: E402
from qwentts.convert_codec import codec_entries  # noqa: E402
from qwentts.convert_keys import size_label  # noqa: E402
from qwentts.convert_layout import Section, talker_entries  # noqa: E402
from qwentts.convert_vocab import CONTROL, NORMAL, USER_DEFINED, read_vocabulary  # noqa: E402
from qwentts.errors import ModelFileError, QwenTTSError  # noqa: E402
from qwentts.tensor_types import choose_types  # noqa: E402

if not callable(convert_module):  # `qwentts.convert` may be the module or the function, depending on what the package exports
    convert_module = sys.modules["qwentts.convert"]
else:
    convert_module = sys.modules[convert_module.__module__]

TALKER_KEYS = """
general.architecture STRING|general.name STRING|qwen3-tts.tokenizer_type STRING|qwen3-tts.model_size STRING|qwen3-tts.model_type STRING
qwen3-tts.num_code_groups UINT32|qwen3-tts.talker.embedding_length UINT32|qwen3-tts.talker.feed_forward_length UINT32
qwen3-tts.talker.block_count UINT32|qwen3-tts.talker.attention.head_count UINT32|qwen3-tts.talker.attention.head_count_kv UINT32
qwen3-tts.talker.attention.key_length UINT32|qwen3-tts.talker.vocab_size UINT32|qwen3-tts.talker.text_vocab_size UINT32
qwen3-tts.talker.text_hidden_size UINT32|qwen3-tts.talker.context_length UINT32|qwen3-tts.talker.rope.freq_base FLOAT32
qwen3-tts.talker.attention.layer_norm_rms_epsilon FLOAT32|qwen3-tts.talker.position_id_per_seconds UINT32
qwen3-tts.talker.rope.mrope_section ARRAY/INT32|qwen3-tts.talker.mrope_interleaved BOOL|qwen3-tts.code_pred.embedding_length UINT32
qwen3-tts.code_pred.feed_forward_length UINT32|qwen3-tts.code_pred.block_count UINT32|qwen3-tts.code_pred.attention.head_count UINT32
qwen3-tts.code_pred.attention.head_count_kv UINT32|qwen3-tts.code_pred.attention.key_length UINT32|qwen3-tts.code_pred.vocab_size UINT32
qwen3-tts.code_pred.context_length UINT32|qwen3-tts.code_pred.rope.freq_base FLOAT32
qwen3-tts.code_pred.attention.layer_norm_rms_epsilon FLOAT32|qwen3-tts.spk_enc.embedding_length UINT32|qwen3-tts.spk_enc.sample_rate UINT32
qwen3-tts.codec.pad_id UINT32|qwen3-tts.codec.bos_id UINT32|qwen3-tts.codec.eos_id UINT32|qwen3-tts.codec.think_id UINT32
qwen3-tts.codec.nothink_id UINT32|qwen3-tts.codec.think_bos_id UINT32|qwen3-tts.codec.think_eos_id UINT32
qwen3-tts.codec.language_names ARRAY/STRING|qwen3-tts.codec.language_ids ARRAY/INT32|qwen3-tts.codec.speaker_names ARRAY/STRING
qwen3-tts.codec.speaker_ids ARRAY/INT32|qwen3-tts.codec.speaker_dialects ARRAY/STRING|qwen3-tts.text.im_start_id UINT32
qwen3-tts.text.im_end_id UINT32|qwen3-tts.text.tts_pad_id UINT32|qwen3-tts.text.tts_bos_id UINT32|qwen3-tts.text.tts_eos_id UINT32
generation.do_sample BOOL|generation.top_k UINT32|generation.top_p FLOAT32|generation.temperature FLOAT32
generation.repetition_penalty FLOAT32|generation.subtalker_do_sample BOOL|generation.subtalker_top_k UINT32
generation.subtalker_top_p FLOAT32|generation.subtalker_temperature FLOAT32|generation.max_new_tokens UINT32|tokenizer.ggml.model STRING
tokenizer.ggml.tokens ARRAY/STRING|tokenizer.ggml.token_type ARRAY/INT32|tokenizer.ggml.merges ARRAY/STRING
tokenizer.ggml.eos_token_id UINT32
"""
PUBLISHED_CODEC = dict(
    encoder_valid_num_quantizers=16, encode_downsample_rate=1920,
    decoder_config=dict(codebook_size=2048, codebook_dim=512, latent_dim=1024, hidden_size=512, intermediate_size=1024, head_dim=64,
                        num_attention_heads=16, num_hidden_layers=8, num_quantizers=16, decoder_dim=1536,
                        upsample_rates=[8, 5, 4, 3], upsampling_ratios=[2, 2]),
    encoder_config=dict(num_filters=64, hidden_size=512, intermediate_size=2048, head_dim=64, num_attention_heads=8,
                        num_hidden_layers=8, num_quantizers=32, codebook_size=2048, codebook_dim=256, upsampling_ratios=[8, 6, 5, 4]),
)  # fmt: skip
# ggml order, as the published files list them
PUBLISHED_CODEC_SHAPES = {
    "tok_dec.dec.0.conv.weight": [7, 1024, 1536], "tok_dec.dec.1.conv_t.weight": [16, 768, 1536],
    "tok_dec.dec.4.conv_t.weight": [6, 96, 192], "tok_dec.dec.3.res.2.conv1.weight": [7, 192, 192],
    "tok_dec.dec.2.res.0.conv2.weight": [1, 384, 384], "tok_dec.dec.5.snake.alpha": [96], "tok_dec.dec.6.conv.weight": [7, 96, 1],
    "tok_dec.pre_conv.weight": [3, 512, 1024], "tok_dec.pre_tfm.input_proj.weight": [1024, 512],
    "tok_dec.pre_tfm.blk.7.attn_output.weight": [1024, 512], "tok_dec.pre_tfm.output_proj.bias": [1024],
    "tok_dec.vq_rest.output_proj.weight": [1, 256, 512], "tok_dec.upsample.1.conv.weight": [2, 1024, 1024],
    "tok_dec.upsample.0.dwconv.weight": [7, 1, 1024], "tok_dec.upsample.0.pwconv2.weight": [4096, 1024],
    "tok_enc.downsample.weight": [4, 512, 512], "tok_enc.conv.0.weight": [7, 1, 64], "tok_enc.conv.3.weight": [8, 64, 128],
    "tok_enc.conv.6.weight": [10, 128, 256], "tok_enc.conv.9.weight": [12, 256, 512], "tok_enc.conv.12.weight": [16, 512, 1024],
    "tok_enc.conv.14.weight": [3, 1024, 512], "tok_enc.res.1.blk.1.weight": [3, 64, 32], "tok_enc.res.10.blk.3.weight": [1, 256, 512],
    "tok_enc.blk.7.ffn_up.weight": [512, 2048], "tok_enc.vq_acoustic.input_proj.weight": [1, 512, 256],
    "tok_dec.vq_first.0.codebook": [256, 2048], "tok_dec.vq_rest.14.codebook": [256, 2048],
    "tok_enc.vq_acoustic.14.codebook": [256, 2048], "tok_enc.vq_semantic.0.codebook": [256, 2048],
}  # fmt: skip


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("checkpoints")
    make_tiny.write_all(root)
    return root


@pytest.fixture
def talker(checkpoints: Path, tmp_path: Path) -> Path:
    """A copy of the custom_voice checkpoint without its codec, to damage."""
    folder = tmp_path / "checkpoint"
    shutil.copytree(checkpoints / "custom_voice", folder, ignore=shutil.ignore_patterns("speech_tokenizer"))
    return folder


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    reader = GGUFReader(path)
    return {k: f for k, f in reader.fields.items() if not k.startswith("GGUF.")}, {t.name: t for t in reader.tensors}


def values(tensor: Any) -> np.ndarray:
    if tensor.tensor_type == T.F32:
        return np.asarray(tensor.data)
    return dequantize(tensor.data, tensor.tensor_type)


def edit_config(folder: Path, change: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def edit_tensors(folder: Path, change: Any) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def types_of(tensors: dict[str, tuple[int, ...]], variant: str) -> dict[str, T]:
    """The policy's types of tensors with these row-major shapes."""
    return {name: T(c.type) for name, c in choose_types({n: tuple(reversed(shape)) for n, shape in tensors.items()}, variant).items()}


def refused(folder: Path, out: Path, *words: str, type: str = "f32") -> None:
    """Conversion fails with a message that holds the words, and leaves no file."""
    with pytest.raises(QwenTTSError) as error:
        convert(folder, out, type=type, progress=False)
    for word in words:
        assert word in str(error.value), str(error.value)
    assert not out.exists() or not list(out.iterdir())


# what the published files look like


def test_recorded_tiny_files_are_what_the_converter_writes(checkpoints: Path, tmp_path: Path) -> None:
    make_tiny.convert_all(checkpoints, tmp_path)
    made = sorted(p.relative_to(tmp_path) for p in tmp_path.rglob("*.gguf"))
    assert made == sorted(p.relative_to(TINY) for p in TINY.rglob("*.gguf"))
    for name in made:
        (new_keys, new), (old_keys, old) = read(tmp_path / name), read(TINY / name)
        assert {k: f.contents() for k, f in new_keys.items()} == {k: f.contents() for k, f in old_keys.items()}
        assert list(new) == list(old)
        for tensor in new:
            np.testing.assert_allclose(values(new[tensor]), values(old[tensor]), rtol=1e-6, atol=1e-12, err_msg=tensor)


def test_talker_keys_have_the_published_names_types_and_order(checkpoints: Path, tmp_path: Path) -> None:
    path = convert(checkpoints / "custom_voice", tmp_path, progress=False)[0]
    assert path.name == "qwen-talker-0.1b-customvoice-F32.gguf"
    keys, _ = read(path)
    got = [f"{name} " + "/".join(t.name for t in field.types) for name, field in keys.items()]
    assert got == TALKER_KEYS.strip().replace("\n", "|").split("|")
    assert keys["qwen3-tts.codec.speaker_names"].contents() == ["ada", "bjorn", "cleo"]
    assert keys["qwen3-tts.codec.speaker_dialects"].contents() == ["", "north_dialect", ""]
    assert keys["qwen3-tts.codec.language_names"].contents() == ["chinese", "english", "german", "north_dialect"]
    assert keys["general.name"].contents() == "Qwen3-TTS-12Hz-0.1B-custom_voice"
    assert keys["generation.subtalker_top_k"].contents() == 30


def test_codec_tensors_have_the_published_names_and_shapes() -> None:
    entries = {e.target: list(reversed(e.shape)) for e in codec_entries(Section(PUBLISHED_CODEC, "config"))}
    assert len(entries) == 398
    assert {name: entries.get(name) for name in PUBLISHED_CODEC_SHAPES} == PUBLISHED_CODEC_SHAPES


@pytest.mark.parametrize("hidden, inter, encoder, count", [(1024, 3072, False, 402), (2048, 6144, False, 404), (1024, 3072, True, 478)])
def test_talker_tensors_have_the_published_names_and_shapes(hidden: int, inter: int, encoder: bool, count: int) -> None:
    heads = dict(num_attention_heads=16, num_key_value_heads=8, head_dim=128)
    predictor = dict(hidden_size=1024, intermediate_size=3072, num_hidden_layers=5, vocab_size=2048, **heads)
    config = dict(
        talker_config=dict(hidden_size=hidden, intermediate_size=inter, num_hidden_layers=28, num_code_groups=16, vocab_size=3072,
                           text_hidden_size=2048, text_vocab_size=151936, code_predictor_config=predictor, **heads),
        speaker_encoder_config=dict(enc_dim=hidden))  # fmt: skip
    entries = {e.target: list(reversed(e.shape)) for e in talker_entries(Section(config, "c"), with_speaker_encoder=encoder)}
    assert len(entries) == count
    assert entries["talker.blk.27.attn_q.weight"] == [hidden, 2048] and entries["talker.blk.0.attn_k_norm.weight"] == [128]
    assert entries["code_pred.codec_embd.14.weight"] == [hidden, 2048] and entries["code_pred.lm_head.14.weight"] == [1024, 2048]
    assert entries["talker.text_proj.fc2.weight"] == [2048, hidden] and entries["talker.text_proj.fc1.bias"] == [2048]
    assert entries.get("code_pred.mtp_proj.weight") == ([2048, 1024] if hidden == 2048 else None)
    if encoder:
        assert entries["spk_enc.asp.tdnn.weight"] == [1, 4608, 128] and entries["spk_enc.blk.3.res2net.6.weight"] == [3, 64, 64]
        assert entries["spk_enc.conv0.weight"] == [5, 128, 512] and entries["spk_enc.fc.weight"] == [1, 3072, 1024]


@pytest.mark.parametrize("size, label", [("0b6", "0.6b"), ("1b7", "1.7b"), ("1.7B", "1.7b"), ("tiny", "tiny")])
def test_size_label(size: str, label: str) -> None:
    assert size_label(Section({"tts_model_size": size}, "config")) == label


# values and types


@pytest.mark.parametrize("type", ["f32", "f16", "bf16", "q8_0"])
@pytest.mark.parametrize("mode", ["custom_voice", "voice_design", "base"])
def test_every_tensor_holds_the_checkpoint_values(checkpoints: Path, tmp_path: Path, mode: str, type: str) -> None:
    for path in convert(checkpoints / mode, tmp_path, type=type, progress=False):
        folder = checkpoints / mode / ("speech_tokenizer" if "tokenizer" in path.name else "")
        source = load_file(folder / "model.safetensors")
        config = Section(json.loads((folder / "config.json").read_text()), "config")
        entries = codec_entries(config) if "tokenizer" in path.name else talker_entries(config, with_speaker_encoder=mode == "base")
        _, tensors = read(path)
        assert len(tensors) == len(entries)
        types = types_of({entry.target: entry.shape for entry in entries}, type)
        for entry in entries:
            got, want = values(tensors[entry.target]).reshape(entry.shape), source[entry.source]
            assert tensors[entry.target].shape.tolist() == list(reversed(entry.shape))
            if entry.usage is not None:  # counts under 1e-5 are clamped to it
                want = want / np.maximum(source[entry.usage], np.float32(1e-5))[:, None]
            dtype = tensors[entry.target].tensor_type
            assert dtype == types[entry.target]
            if dtype == T.F32:
                np.testing.assert_array_equal(got, want, err_msg=entry.target)
            elif dtype == T.Q8_0:
                step = np.repeat(np.abs(want).reshape(-1, 32).max(1) / 127, 32).reshape(want.shape)
                # half a step of rounding, and the scale is an F16: up to 127 steps off by 2^-11
                assert (np.abs(got - want) <= step * (0.5 + 127 * 2**-11) + 1e-7).all(), entry.target
            else:
                np.testing.assert_allclose(got, want, rtol={T.F16: 2**-11, T.BF16: 2**-8}[dtype], atol=1e-7)


@pytest.mark.parametrize("dtype", ["F16", "BF16", "F64"])
def test_narrow_and_wide_checkpoints_are_widened_exactly(talker: Path, tmp_path: Path, dtype: str) -> None:
    tensors = load_file(talker / "model.safetensors")
    stored, header, data = {}, {}, b""
    for name, value in tensors.items():
        if dtype == "BF16":
            bits = (value.view(np.uint32) >> 16).astype("<u2")
            stored[name], raw = (bits.astype(np.uint32) << 16).view(np.float32), bits.tobytes()
        else:
            narrow = value.astype({"F16": "<f2", "F64": "<f8"}[dtype])
            stored[name], raw = narrow.astype(np.float32), narrow.tobytes()
        header[name] = dict(dtype=dtype, shape=list(value.shape), data_offsets=[len(data), len(data) + len(raw)])
        data += raw
    text = json.dumps(header).encode()
    (talker / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    _, got = read(convert(talker, tmp_path / "out", progress=False)[0])
    np.testing.assert_array_equal(values(got["talker.codec_head.weight"]), stored["talker.codec_head.weight"])
    np.testing.assert_array_equal(values(got["code_pred.mtp_proj.bias"]), stored["talker.code_predictor.small_to_mtp_projection.bias"])


def test_block_size_changes_no_byte(talker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = convert(talker, tmp_path / "a", type="q8_0", progress=False)[0].read_bytes()
    monkeypatch.setattr(convert_source, "BLOCK_VALUES", 100)
    assert convert(talker, tmp_path / "b", type="q8_0", progress=False)[0].read_bytes() == whole


def test_shards_and_one_file_give_the_same(talker: Path, tmp_path: Path) -> None:
    whole = convert(talker, tmp_path / "a", progress=False)[0].read_bytes()
    tensors = load_file(talker / "model.safetensors")
    names, files = sorted(tensors), ("model-1.safetensors", "model-2.safetensors")
    where = {name: files[i % 2] for i, name in enumerate(names)}
    for file in files:
        save_file({n: tensors[n] for n in names if where[n] == file}, talker / file)
    (talker / "model.safetensors").unlink()
    index = talker / "model.safetensors.index.json"
    index.write_text(json.dumps(dict(weight_map=where)))
    assert convert(talker, tmp_path / "b", progress=False)[0].read_bytes() == whole
    index.write_text(json.dumps(dict(weight_map=where | {"talker.codec_head.weight": "../outside.safetensors"})))
    refused(talker, tmp_path / "c", "talker.codec_head.weight", "outside")
    (talker / files[0]).unlink()
    index.write_text(json.dumps(dict(weight_map=where)))
    refused(talker, tmp_path / "d", files[0], "not found")


# vocabulary


def test_every_merge_and_added_token_is_kept(checkpoints: Path) -> None:
    folder = checkpoints / "base"
    vocabulary = read_vocabulary(folder)
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")[1:-1]
    assert vocabulary.merges == lines and {"# #", "## #", "## ##"} <= set(lines)
    by_token = dict(zip(vocabulary.tokens, vocabulary.types, strict=True))
    assert by_token["assistant"] == NORMAL and by_token["##"] == NORMAL
    assert by_token["<|im_start|>"] == CONTROL and by_token["<tts_pad>"] == USER_DEFINED
    assert vocabulary.tokens[vocabulary.eos_id] == "<|endoftext|>"


@pytest.mark.parametrize("pairs", [True, False])
def test_tokenizer_json_gives_the_same_vocabulary(talker: Path, pairs: bool) -> None:
    want = read_vocabulary(talker)
    vocab = json.loads((talker / "vocab.json").read_text(encoding="utf-8"))
    added = json.loads((talker / "tokenizer_config.json").read_text(encoding="utf-8"))["added_tokens_decoder"]
    model = dict(type="BPE", vocab=vocab, merges=[m.split(" ") if pairs else m for m in want.merges])
    listing = [dict(id=int(i), content=t["content"], special=t["special"]) for i, t in added.items()]
    (talker / "tokenizer.json").write_text(json.dumps(dict(model=model, added_tokens=listing)), encoding="utf-8")
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (talker / name).unlink()
    assert read_vocabulary(talker) == want
    (talker / "tokenizer.json").unlink()
    with pytest.raises(ModelFileError, match="tokenizer"):
        read_vocabulary(talker)


def test_bad_vocabularies_are_refused(talker: Path, tmp_path: Path) -> None:
    vocab = json.loads((talker / "vocab.json").read_text(encoding="utf-8"))
    for id_, words in ((5, ("id 5",)), (-1, ("'zz'", "-1")), (1 << 40, ("'zz'",)), (680, ("embedding",))):
        (talker / "vocab.json").write_text(json.dumps(vocab | {"zz": id_}), encoding="utf-8")
        refused(talker, tmp_path / "out", *words)
    (talker / "vocab.json").write_text(json.dumps(vocab), encoding="utf-8")
    (talker / "merges.txt").write_text("#version: 0.2\na b c\n", encoding="utf-8")
    refused(talker, tmp_path / "out", "merges.txt", "'a b c'")


# tables that vary


def test_speaker_tables_tolerate_what_checkpoints_vary(talker: Path, tmp_path: Path) -> None:
    def change(config: dict[str, Any]) -> None:
        config["talker_config"]["spk_id"] = {"d": "133", "a": 130, "c": [132], "b": ["131"], "e": 134}
        config["talker_config"]["spk_is_dialect"] = {"a": "north_dialect", "b": ["north_dialect"], "c": True, "d": 123}

    edit_config(talker, change)
    keys, _ = read(convert(talker, tmp_path, progress=False)[0])
    assert keys["qwen3-tts.codec.speaker_names"].contents() == ["a", "b", "c", "d", "e"]
    assert keys["qwen3-tts.codec.speaker_ids"].contents() == [130, 131, 132, 133, 134]
    assert keys["qwen3-tts.codec.speaker_dialects"].contents() == ["north_dialect", "north_dialect", "", "north_dialect", ""]


@pytest.mark.parametrize("value", [True, [1, 2], "x", None, -1, 1.5])
def test_a_speaker_without_an_id_is_refused(talker: Path, tmp_path: Path, value: Any) -> None:
    edit_config(talker, lambda config: config["talker_config"]["spk_id"].update(eve=value))
    refused(talker, tmp_path / "out", "spk_id.eve", repr(value))


def test_a_missing_speaker_encoder_section_is_allowed(talker: Path, tmp_path: Path) -> None:
    edit_config(talker, lambda config: config.pop("speaker_encoder_config"))
    keys, _ = read(convert(talker, tmp_path / "out", progress=False)[0])
    assert not any("spk_enc" in key for key in keys)


def test_generation_defaults_are_the_published_ones(talker: Path, tmp_path: Path) -> None:
    (talker / "generation_config.json").unlink()
    keys, _ = read(convert(talker, tmp_path / "out", progress=False)[0])
    got = [keys[f"generation.{k}"].contents() for k in ("do_sample", "top_k", "repetition_penalty", "max_new_tokens")]
    assert got == [True, 50, pytest.approx(1.05), 8192] and keys["generation.top_k"].types == [GGUFValueType.UINT32]


# refusals


def test_unknown_missing_and_misshapen_tensors_are_named(talker: Path, tmp_path: Path) -> None:
    out, name = tmp_path / "out", "talker.model.layers.2.mlp.up_proj.weight"
    whole = load_file(talker / "model.safetensors")
    edit_tensors(talker, lambda t: t.pop(name))
    refused(talker, out, f"tensor {name} is missing")
    save_file(whole | {name: whole[name].T.copy()}, talker / "model.safetensors")
    refused(talker, out, f"tensor {name} has shape [48, 80]", "[80, 48]")
    save_file(whole | {"talker.model.layers.3.mlp.up_proj.weight": whole[name]}, talker / "model.safetensors")
    refused(talker, out, "tensor talker.model.layers.3.mlp.up_proj.weight is not understood")
    save_file(whole | {name: np.full_like(whole[name], np.nan)}, talker / "model.safetensors")
    refused(talker, out, name, "NaN")
    save_file(whole | {name: whole[name] * 1e6}, talker / "model.safetensors")
    refused(talker, out, name, "65504", type="f16")
    save_file(whole | {name: np.zeros(whole[name].shape, np.int64)}, talker / "model.safetensors")
    refused(talker, out, name, "I64")
    save_file(whole | {"model.rotary_emb.inv_freq": np.ones(4, np.float32)}, talker / "model.safetensors")
    convert(talker, out, progress=False)


def test_a_matrix_of_zeros_is_warned_about(talker: Path, tmp_path: Path) -> None:
    edit_tensors(talker, lambda t: t["talker.codec_head.weight"].fill(0))
    with pytest.warns(UserWarning, match="talker.codec_head.weight is all zero"):
        convert(talker, tmp_path / "out", progress=False)


def test_damaged_files_are_refused(talker: Path, tmp_path: Path) -> None:
    path, out = talker / "model.safetensors", tmp_path / "out"
    whole = path.read_bytes()
    for damage in (b"", b"\xff" * 7, whole[:5000], struct.pack("<Q", 1 << 60) + whole[8:], whole[:8] + b"?" + whole[9:], whole[:-4]):
        path.write_bytes(damage)
        refused(talker, out, "model.safetensors")
    path.unlink()
    refused(talker, out, "model.safetensors", "is there")
    (talker / "config.json").write_text("{")
    refused(talker, out, "config.json", "JSON")
    (talker / "config.json").unlink()
    refused(talker, out, "config.json", "not found")
    refused(tmp_path / "nowhere", out, "nowhere", "checkpoint folder")


def test_foreign_checkpoints_and_types_are_refused(talker: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    refused(talker, out, "'q3_k'", "F32, F16, BF16, Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_K_S", type="q3_k")
    for section, key, value, words in (
        (None, "model_type", "llama", ("model_type", "'llama'")),
        (None, "tokenizer_type", "qwen3_tts_tokenizer_25hz", ("25hz",)),
        (None, "tts_model_type", "singing", ("singing", "voice_design")),
        (None, "tts_model_size", "../x", ("tts_model_size",)),
        ("talker_config", "num_hidden_layers", "3", ("talker_config.num_hidden_layers", "'3'")),
        ("talker_config", "codec_pad_id", None, ("codec_pad_id",)),
    ):
        before = (talker / "config.json").read_text()
        edit_config(talker, lambda c, s=section, k=key, v=value: (c[s] if s else c).update({k: v}))
        refused(talker, out, *words)
        (talker / "config.json").write_text(before)


def test_a_failure_midway_keeps_the_old_file_and_no_partial_one(talker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    path = convert(talker, out, progress=False)[0]
    before, calls = path.read_bytes(), []

    def failing(name: str, rows: np.ndarray, type: int) -> tuple[bytes, float]:
        calls.append(name)
        if len(calls) > 20:
            raise KeyboardInterrupt
        return rows.tobytes(), 0.0

    monkeypatch.setattr(convert_module, "encode", failing)
    with pytest.raises(KeyboardInterrupt):
        convert(talker, out, progress=False)
    assert list(out.iterdir()) == [path] and path.read_bytes() == before


def test_both_parts_are_checked_before_either_is_written(checkpoints: Path, tmp_path: Path) -> None:
    folder = tmp_path / "both"
    shutil.copytree(checkpoints / "voice_design", folder)
    edit_tensors(folder / "speech_tokenizer", lambda t: t.pop("decoder.pre_conv.conv.bias"))
    refused(folder, tmp_path / "out", "decoder.pre_conv.conv.bias is missing")
