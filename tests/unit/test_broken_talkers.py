"""Talker files that are well-formed GGUF and mean nonsense: each is refused with a message that names key or tensor and both values.

Each row breaks one thing of the smallest models (tests/smallest_models.py). What the GGUF reader itself refuses: tests/c/gguf_malformed.c.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import smallest_models
from gguf_bytes import ARRAY, BOOL, F32, F64, I32, I64, STRING, U32, U64
from model_edits import Edit, Row, copy, in_type, key, no_key, no_tensor, number, rows, shape, values

from qwentts.engine import Engine
from qwentts.errors import ModelFileError
from qwentts.model_file import ModelFile
from qwentts.talker_info import read_talker_info

T, P = "qwen3-tts.talker.", "qwen3-tts.code_pred."
NAN, INF = float("nan"), float("inf")

TALKER: list[Row] = [
    ("no architecture", no_key("general.architecture"), "the key general.architecture is missing"),
    ("architecture as a number", number("general.architecture", 3), "the key general.architecture is not a text"),
    (
        "architecture as an array",
        key("general.architecture", ARRAY, (STRING, ["qwen3-tts"])),
        "general.architecture is an array, expected a single value",
    ),
    ("another architecture", key("general.architecture", STRING, "llama"), "general.architecture is 'llama', expected 'qwen3-tts'"),
    ("a codec in its place", key("general.architecture", STRING, "qwen3-tts-tokenizer"), "talker and codec are swapped"),
    ("no tensors", lambda model: model.tensors.clear(), "the file holds no tensors"),
    ("no layers", number(T + "block_count", 0), f"the key {T}block_count is 0, valid: 1 to 512"),
    ("1000000000 layers", number(T + "block_count", 10**9), f"the key {T}block_count is 1000000000, valid: 1 to 512"),
    ("more layers than tensors", number(T + "block_count", 2), "tensor talker.blk.1.attn_norm.weight is missing, expected shape [6]"),
    (
        "more tensors than layers",
        copy("talker.blk.0.attn_norm.weight", "talker.blk.1.attn_norm.weight"),
        "tensor talker.blk.1.attn_norm.weight is in the file, but",
    ),
    ("no heads", number(T + "attention.head_count", 0), f"the key {T}attention.head_count is 0, valid: 1 to 4096"),
    ("no key/value heads", number(T + "attention.head_count_kv", 0), f"the key {T}attention.head_count_kv is 0, valid: 1 to 4096"),
    ("heads that do not divide", number(T + "attention.head_count_kv", 3), f"{T[:-1]}: 2 heads are no multiple of 3 key/value heads"),
    ("an odd head", number(T + "attention.key_length", 3), f"{T[:-1]}: the head width 3 is odd"),
    ("a head of 2^31", key(T + "attention.key_length", I64, 2**31), f"the key {T}attention.key_length is 2147483648, valid: 2 to 4096"),
    (
        "heads far wider than the model",
        number(T + "attention.head_count", 4096),
        "4096 heads of width 2 are more than 32 times the hidden width 6",
    ),
    ("no width", number(T + "embedding_length", 0), f"the key {T}embedding_length is 0, valid: 1 to 65536"),
    ("a negative width", key(T + "embedding_length", I32, -6), f"the key {T}embedding_length is -6, valid: 1 to 65536"),
    (
        "a width of 2^64 - 1",
        key(T + "embedding_length", U64, 2**64 - 1),
        f"the key {T}embedding_length is 9223372036854775807, valid: 1 to 65536",
    ),
    ("another width", number(T + "embedding_length", 8), "tensor talker.blk.0.attn_norm.weight has shape [6, 1, 1, 1], the keys imply [8]"),
    ("a width as text", key(T + "embedding_length", STRING, "6"), f"the key {T}embedding_length is of type str, expected an integer"),
    ("a width as a float", key(T + "embedding_length", F32, 6.0), f"the key {T}embedding_length is of type f32, expected an integer"),
    ("a width as a bool", key(T + "embedding_length", BOOL, 1), f"the key {T}embedding_length is of type bool, expected an integer"),
    (
        "a width as an array",
        key(T + "embedding_length", ARRAY, (U32, [6])),
        f"the key {T}embedding_length is an array, expected a single value",
    ),
    (
        "another feed-forward width",
        number(T + "feed_forward_length", 7),
        "tensor talker.blk.0.ffn_gate.weight has shape [6, 5, 1, 1], the keys imply [6, 7]",
    ),
    (
        "epsilon NaN",
        key(T + "attention.layer_norm_rms_epsilon", F32, NAN),
        f"the key {T}attention.layer_norm_rms_epsilon is nan, valid: 0 to 1",
    ),
    (
        "epsilon negative",
        key(T + "attention.layer_norm_rms_epsilon", F32, -1e-6),
        f"the key {T}attention.layer_norm_rms_epsilon is -1e-06, valid: 0 to 1",
    ),
    (
        "epsilon 1000",
        key(P + "attention.layer_norm_rms_epsilon", F64, 1e3),
        f"the key {P}attention.layer_norm_rms_epsilon is 1000, valid: 0 to 1",
    ),
    (
        "epsilon as text",
        key(T + "attention.layer_norm_rms_epsilon", STRING, "1e-6"),
        f"the key {T}attention.layer_norm_rms_epsilon is of type str, expected a number",
    ),
    ("rotary base 0", key(T + "rope.freq_base", F32, 0.0), f"the key {T}rope.freq_base is 0, valid: 1 to 1e+12"),
    ("rotary base infinite", key(T + "rope.freq_base", F32, INF), f"the key {T}rope.freq_base is inf, valid: 1 to 1e+12"),
    ("rotary base NaN", key(P + "rope.freq_base", F32, NAN), f"the key {P}rope.freq_base is nan, valid: 1 to 1e+12"),
    ("no context", number(T + "context_length", 0), f"the key {T}context_length is 0, valid: 1 to 16777216"),
    ("a context of 2^31", number(T + "context_length", 2**31), f"the key {T}context_length is 2147483648, valid: 1 to 16777216"),
    ("a predictor shorter than a frame", number(P + "context_length", 2), f"the key {P}context_length is 2, but a frame takes 3 positions"),
    ("one code group", number("qwen3-tts.num_code_groups", 1), "the key qwen3-tts.num_code_groups is 1, valid: 2 to 256"),
    ("a million code groups", number("qwen3-tts.num_code_groups", 10**6), "the key qwen3-tts.num_code_groups is 1000000, valid: 2 to 256"),
    ("fewer groups than heads", number("qwen3-tts.num_code_groups", 2), "tensor code_pred.lm_head.1.weight is in the file, but"),
    ("more groups than tables", number("qwen3-tts.num_code_groups", 4), "tensor code_pred.codec_embd.2.weight is missing"),
    ("no groups key", no_key("qwen3-tts.num_code_groups"), "the key qwen3-tts.num_code_groups is missing"),
    ("no vocabulary", number(T + "vocab_size", 0), f"the key {T}vocab_size is 0, valid: 1 to 16777216"),
    ("another vocabulary", number(T + "vocab_size", 13), "tensor talker.codec_head.weight has shape [6, 12, 1, 1], the keys imply [6, 13]"),
    (
        "another text vocabulary",
        number(T + "text_vocab_size", 10),
        "tensor talker.text_embd.weight has shape [4, 9, 1, 1], the keys imply [4, 10]",
    ),
    ("an end token past the vocabulary", number("qwen3-tts.codec.eos_id", 12), "the key qwen3-tts.codec.eos_id is 12, valid: 0 to 11"),
    ("a text id past the vocabulary", number("qwen3-tts.text.tts_pad_id", 9), "the key qwen3-tts.text.tts_pad_id is 9, valid: 0 to 8"),
    (
        "speakers as numbers",
        key("qwen3-tts.codec.speaker_names", ARRAY, (I32, [1, 2])),
        "the key qwen3-tts.codec.speaker_names is no array of up to",
    ),
    (
        "speakers as one text",
        key("qwen3-tts.codec.speaker_names", STRING, "ann"),
        "the key qwen3-tts.codec.speaker_names is a single value, expected an array",
    ),
    (
        "a speaker without an id",
        key("qwen3-tts.codec.speaker_ids", ARRAY, (I32, [7])),
        "the key qwen3-tts.codec.speaker_names has 2 entries, qwen3-tts.codec.speaker_ids 1",
    ),
    (
        "a speaker id past the vocabulary",
        key("qwen3-tts.codec.speaker_ids", ARRAY, (I32, [7, 12])),
        "qwen3-tts.codec.speaker_ids is 12, valid: 0 to 11",
    ),
    (
        "a negative language id",
        key("qwen3-tts.codec.language_ids", ARRAY, (I32, [-1, 7])),
        "qwen3-tts.codec.language_ids is -1, valid: 0 to 11",
    ),
    (
        "a language without an id",
        key("qwen3-tts.codec.language_ids", ARRAY, (I32, [7])),
        "the key qwen3-tts.codec.language_names has 2 entries, qwen3-tts.codec.language_ids 1",
    ),
    ("a missing norm", no_tensor("talker.output_norm.weight"), "tensor talker.output_norm.weight is missing, expected shape [6]"),
    (
        "a matrix that is turned",
        shape("talker.blk.0.ffn_down.weight", 6, 5),
        "tensor talker.blk.0.ffn_down.weight has shape [6, 5, 1, 1], the keys imply [5, 6]",
    ),
    (
        "a matrix with a third axis",
        shape("talker.codec_head.weight", 6, 12, 2),
        "tensor talker.codec_head.weight has shape [6, 12, 2, 1], the keys imply [6, 12]",
    ),
    (
        "a matrix flat",
        shape("talker.text_proj.fc1.weight", 16),
        "tensor talker.text_proj.fc1.weight has shape [16, 1, 1, 1], the keys imply [4, 4]",
    ),
    (
        "no projection between unequal widths",
        no_tensor("code_pred.mtp_proj.weight"),
        "tensor code_pred.mtp_proj.weight is missing, expected shape [6, 4]",
    ),
    (
        "a norm as F16",
        in_type("talker.output_norm.weight", "f16", np.float16),
        "tensor talker.output_norm.weight (vector) is of type f16, expected f32",
    ),
    (
        "a matrix of integers",
        in_type("talker.codec_head.weight", "i32", np.int32),
        "tensor talker.codec_head.weight (matrix) is of type i32, expected a floating-point or block type",
    ),
    ("a norm of zeros", values("talker.blk.0.attn_norm.weight", 0), "tensor talker.blk.0.attn_norm.weight is all zeros"),
    (
        "one NaN in a norm",
        values("code_pred.blk.0.attn_q_norm.weight", NAN, 1, 2),
        "tensor code_pred.blk.0.attn_q_norm.weight holds NaN or infinity",
    ),
    ("an infinite bias", values("talker.text_proj.fc2.bias", -INF, 0, 1), "tensor talker.text_proj.fc2.bias holds NaN or infinity"),
]

BASE: list[Row] = [
    (
        "a speaker embedding of another width",
        number("qwen3-tts.spk_enc.embedding_length", 5),
        "the key qwen3-tts.spk_enc.embedding_length is 5, but the talker is 6 wide",
    ),
    (
        "a speaker embedding without a width",
        no_key("qwen3-tts.spk_enc.embedding_length"),
        "the key qwen3-tts.spk_enc.embedding_length is missing",
    ),
]


@pytest.mark.parametrize(("edit", "message"), rows(TALKER))
def test_talker_is_refused(tmp_path: Path, edit: Edit, message: str) -> None:
    model = smallest_models.talker()
    edit(model)
    with pytest.raises(ModelFileError, match=re.escape(message)) as caught:
        Engine(model.write(tmp_path / "broken.gguf"), None, threads=1)
    assert "broken.gguf" in str(caught.value)


@pytest.mark.parametrize(("edit", "message"), rows(BASE))
def test_base_talker_is_refused(tmp_path: Path, edit: Edit, message: str) -> None:
    model = smallest_models.talker(base=True)
    edit(model)
    with pytest.raises(ModelFileError, match=re.escape(message)):
        Engine(model.write(tmp_path / "broken.gguf"), None, threads=1)


PROMPT: list[Row] = [
    (
        "another mode",
        key("qwen3-tts.model_type", STRING, "song"),
        "qwen3-tts.model_type is 'song', known are base, custom_voice, voice_design",
    ),
    ("a mode as a number", number("qwen3-tts.model_type", 1), "the key qwen3-tts.model_type is of type int, expected str"),
    ("languages as numbers", key("qwen3-tts.codec.language_names", ARRAY, (I32, [1, 2])), "language_names and language_ids do not"),
    (
        "a dialect as one text",
        key("qwen3-tts.codec.speaker_dialects", STRING, "beijing"),
        "speaker_dialects is 'beijing', expected an array",
    ),
    ("a dialect too few", key("qwen3-tts.codec.speaker_dialects", ARRAY, (STRING, [""])), "speaker_dialects has 1 entries for 2 speakers"),
    ("a temperature as text", key("generation.temperature", STRING, "hot"), "generation.temperature is 'hot', expected a number"),
    ("sampling as a number", number("generation.do_sample", 1), "generation.do_sample is 1, expected true or false"),
    ("half a top_k", key("generation.subtalker_top_k", F32, 1.5), "generation.subtalker_top_k is 1.5, expected a whole number"),
]


@pytest.mark.parametrize(("edit", "message"), rows(PROMPT))
def test_facts_of_the_prompt_are_refused(tmp_path: Path, edit: Edit, message: str) -> None:
    model = smallest_models.talker()
    edit(model)
    with pytest.raises(ModelFileError, match=re.escape(message)) as caught:
        read_talker_info(ModelFile.open(model.write(tmp_path / "broken.gguf")))
    assert "broken.gguf" in str(caught.value)
