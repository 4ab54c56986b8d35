"""Codec files, and encoders of either file, that are well-formed GGUF and mean nonsense: refused, key or tensor and both values named.

Each row breaks one thing of the smallest models (tests/smallest_models.py). What the GGUF reader itself refuses: tests/c/gguf_malformed.c.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import smallest_models
from gguf_bytes import ARRAY, F32, I32, STRING, U8, U32, Gguf
from model_edits import Edit, Row, blocks, copy, in_type, key, no_tensor, number, rows, shape, values

from qwentts.engine import Engine
from qwentts.errors import ModelFileError, ParameterError

CODEC, C, E = "qwen3-tts-tokenizer.", "qwen3-tts-tokenizer.decoder.", "qwen3-tts-tokenizer.encoder."
NAN = float("nan")


def _unit(model: Gguf, index: int) -> None:
    for part in ("act1.alpha", "act1.beta", "act2.alpha", "act2.beta", "conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias"):
        model.tensors[f"tok_dec.dec.1.res.{index}.{part}"] = model.tensors[f"tok_dec.dec.1.res.0.{part}"]


def _part(model: Gguf, index: int) -> None:
    for part in ("weight", "bias"):
        model.tensors[f"spk_enc.blk.1.res2net.{index}.{part}"] = model.tensors[f"spk_enc.blk.1.res2net.0.{part}"]


DECODER: list[Row] = [
    ("a talker in its place", key("general.architecture", STRING, "qwen3-tts"), "talker and codec are swapped"),
    (
        "a hop that is not the strides' product",
        number(CODEC + "decode_upsample_rate", 7),
        f"the key {CODEC}decode_upsample_rate is 7, but the decoder's strides multiply to 6",
    ),
    ("a stride of 0", key(C + "upsample_rates", ARRAY, (I32, [0])), f"the key {C}upsample_rates is 0, valid: 1 to 1024"),
    ("a negative stride", key(C + "upsampling_ratios", ARRAY, (I32, [-2])), f"the key {C}upsampling_ratios is -2, valid: 1 to 1024"),
    ("no strides", key(C + "upsample_rates", ARRAY, (I32, [])), f"the key {C}upsample_rates has 0 elements, valid: 1 to 8"),
    ("nine strides", key(C + "upsample_rates", ARRAY, (I32, [1] * 9)), f"the key {C}upsample_rates has 9 elements, valid: 1 to 8"),
    ("a stride as a scalar", number(C + "upsample_rates", 3), f"the key {C}upsample_rates is a single value, expected an array"),
    ("strides as floats", key(C + "upsample_rates", ARRAY, (F32, [3.0])), f"the key {C}upsample_rates is of type f32, expected an integer"),
    ("strides that overflow", key(C + "upsample_rates", ARRAY, (U8, [255] * 8)), "but the decoder's strides multiply to 255 or more"),
    ("a width that cannot be halved", number(C + "decoder_dim", 5), f"the key {C}decoder_dim is 5, which 1 blocks cannot halve"),
    ("one codebook", number(C + "num_quantizers", 1), f"the key {C}num_quantizers is 1, valid: 2 to 256"),
    ("fewer codebooks than the file has", number(C + "num_quantizers", 2), "tensor tok_dec.vq_rest.1.codebook is in the file, but"),
    ("more codebooks than the file has", number(C + "num_quantizers", 4), "tensor tok_dec.vq_rest.2.codebook is missing"),
    ("no semantic codebook", number(C + "num_semantic_quantizers", 0), f"the key {C}num_semantic_quantizers is 0, valid: 1 to 2"),
    ("only semantic codebooks", number(C + "num_semantic_quantizers", 3), f"the key {C}num_semantic_quantizers is 3, valid: 1 to 2"),
    (
        "another codebook size",
        number(C + "codebook_size", 8),
        "tensor tok_dec.vq_first.0.codebook has shape [2, 7, 1, 1], the keys imply [2, 8]",
    ),
    ("an absurd window", number(C + "sliding_window", 2**31 - 1), f"the key {C}sliding_window is 2147483647, valid: 1 to 4096"),
    ("a rate of 1 Hz", number(CODEC + "output_sample_rate", 1), f"the key {CODEC}output_sample_rate is 1, valid: 1000 to 384000"),
    ("no heads", number(C + "num_attention_heads", 0), f"the key {C}num_attention_heads is 0, valid: 1 to 4096"),
    (
        "a kernel shorter than its stride",
        shape("tok_dec.dec.1.conv_t.weight", 2, 2, 4),
        "tensor tok_dec.dec.1.conv_t.weight has shape [2, 2, 4, 1], the keys imply [3..4096, 2, 4]",
    ),
    (
        "a kernel of 5000",
        shape("tok_dec.pre_conv.weight", 5000, 4, 3),
        "tensor tok_dec.pre_conv.weight has shape [5000, 4, 3, 1], the keys imply [1..4096, 4, 3]",
    ),
    (
        "a transposed kernel in blocks",
        blocks("tok_dec.dec.1.conv_t.weight"),
        "tensor tok_dec.dec.1.conv_t.weight is of type q8_0, expected f32, f16 or bf16",
    ),
    (
        "a codebook as F16",
        in_type("tok_dec.vq_rest.1.codebook", "f16", np.float16),
        "tensor tok_dec.vq_rest.1.codebook (codebook) is of type f16, expected f32",
    ),
    (
        "a projection as F16",
        in_type("tok_dec.vq_first.output_proj.weight", "f16", np.float16),
        "tensor tok_dec.vq_first.output_proj.weight (codebook projection) is of type f16, expected f32",
    ),
    (
        "Snake as F16",
        in_type("tok_dec.dec.1.snake.alpha", "f16", np.float16),
        "tensor tok_dec.dec.1.snake.alpha (vector) is of type f16, expected f32",
    ),
    ("a codebook of zeros", values("tok_dec.vq_first.0.codebook", 0), "tensor tok_dec.vq_first.0.codebook is all zeros"),
    ("NaN in a codebook", values("tok_dec.vq_rest.0.codebook", NAN, 13), "tensor tok_dec.vq_rest.0.codebook holds NaN or infinity"),
    ("NaN in Snake", values("tok_dec.dec.2.snake.beta", NAN, 1), "tensor tok_dec.dec.2.snake.beta holds NaN or infinity"),
    (
        "Snake that overflows",
        values("tok_dec.dec.1.res.0.act1.alpha", 89, 1),
        "tensor tok_dec.dec.1.res.0.act1.alpha: element 1 is 89, too large to be a logarithm",
    ),
    ("a scale of zeros", values("tok_dec.upsample.0.gamma", 0), "tensor tok_dec.upsample.0.gamma is all zeros"),
    ("no last convolution", no_tensor("tok_dec.dec.3.conv.bias"), "tensor tok_dec.dec.3.conv.bias is missing, expected shape [1]"),
    (
        "a stage too many",
        copy("tok_dec.dec.1.conv_t.weight", "tok_dec.dec.2.conv_t.weight"),
        "tensor tok_dec.dec.2.conv_t.weight is in the file, but",
    ),
    (
        "a residual unit too many",
        lambda m: [_unit(m, u) for u in range(1, 9)],
        "tensor tok_dec.dec.1.res.8.conv1.weight is in the file, but",
    ),
]

ENCODER: list[Row] = [
    ("another rate", number(CODEC + "input_sample_rate", 16000), "the encoder has a sample rate of 16000, the decoder of 24000"),
    ("another hop", number(CODEC + "encode_downsample_rate", 12), "the encoder has a hop of 12, the decoder of 6"),
    (
        "a hop that its strides do not divide",
        number(CODEC + "encode_downsample_rate", 7),
        "the encoder's hop is 7 samples, no multiple of its strides' product 3",
    ),
    ("fewer codebooks", number(CODEC + "encoder_valid_num_quantizers", 2), "the encoder has a number of codebooks of 2, the decoder of 3"),
    ("another codebook size", number(E + "codebook_size", 8), "the encoder has a codebook size of 8, the decoder of 7"),
    (
        "filters that compress does not divide",
        lambda m: m.keys.update({E + "num_filters": (U32, 3)}),
        "the encoder's 3 filters are no multiple of compress, 2",
    ),
    (
        "a dilation past all samples",
        lambda m: m.keys.update({E + "num_residual_layers": (U32, 8), E + "dilation_growth_rate": (U32, 8)}),
        "a dilation_growth_rate of 8 over 8 num_residual_layers passes a dilation of 1024",
    ),
    ("a missing scale", no_tensor("tok_enc.blk.0.attn_scale"), "tensor tok_enc.blk.0.attn_scale is missing, expected shape [4]"),
    (
        "a downsampling shorter than its stride",
        shape("tok_enc.downsample.weight", 1, 4, 4),
        "tensor tok_enc.downsample.weight has shape [1, 4, 4, 1], the keys imply [2..4096, 4, 4]",
    ),
    (
        "a codebook as F16",
        in_type("tok_enc.vq_semantic.0.codebook", "f16", np.float16),
        "tensor tok_enc.vq_semantic.0.codebook (codebook) is of type f16, expected f32",
    ),
    ("a convolution of zeros", values("tok_enc.conv.3.weight", 0), "tensor tok_enc.conv.3.weight is all zeros"),
    ("one NaN at the end of a kernel", values("tok_enc.conv.5.weight", NAN, 47), "tensor tok_enc.conv.5.weight holds NaN or infinity"),
]

SPEAKER: list[Row] = [
    ("1000 mel bands", shape("spk_enc.conv0.weight", 3, 1000, 4), "tensor spk_enc.conv0.weight takes 1000 mel bands, valid: 1 to 513"),
    (
        "a matrix as F16",
        in_type("spk_enc.fc.weight", "f16", np.float16),
        "tensor spk_enc.fc.weight (speaker encoder) is of type f16, expected f32",
    ),
    ("parts that do not divide", lambda m: [_part(m, p) for p in (1,)], "spk_enc.blk.1 is 4 wide, no multiple of its 3 parts"),
    ("too many parts", lambda m: [_part(m, p) for p in range(1, 16)], "tensor spk_enc.blk.1.res2net.15.weight is in the file, but"),
    (
        "a block that narrows",
        lambda m: [shape("spk_enc.blk.1.tdnn1.weight", 1, 4, 2)(m)],
        "tensor spk_enc.blk.1.tdnn1.bias has shape [4, 1, 1, 1], the keys imply [2]",
    ),
    (
        "a last matrix of another width",
        shape("spk_enc.fc.weight", 1, 6, 5),
        "tensor spk_enc.fc.weight has shape [1, 6, 5, 1], the keys imply [1..1, 6, 6]",
    ),
    ("a first convolution that is gone", no_tensor("spk_enc.conv0.weight"), "tensor spk_enc.conv0.weight is missing"),
    ("a matrix of zeros", values("spk_enc.mfa.weight", 0), "tensor spk_enc.mfa.weight is all zeros"),
]


@pytest.mark.parametrize(("edit", "message"), rows(DECODER))
def test_codec_is_refused(tmp_path: Path, edit: Edit, message: str) -> None:
    model = smallest_models.codec()
    edit(model)
    with pytest.raises(ModelFileError, match=re.escape(message)) as caught:
        Engine(None, model.write(tmp_path / "broken.gguf"), threads=1)
    assert "broken.gguf" in str(caught.value)


@pytest.mark.parametrize(("edit", "message"), rows(ENCODER))
def test_encoder_is_refused_when_it_hears(tmp_path: Path, edit: Edit, message: str) -> None:
    model = smallest_models.codec()
    edit(model)
    session = Engine(None, model.write(tmp_path / "broken.gguf"), threads=1).session()
    for _ in range(2):  # and stays refused
        with pytest.raises(ParameterError, match=re.escape(message)):
            session.codec_encode(np.zeros(30, np.float32))


@pytest.mark.parametrize(("edit", "message"), rows(SPEAKER))
def test_speaker_encoder_is_refused_when_it_hears(tmp_path: Path, edit: Edit, message: str) -> None:
    model = smallest_models.talker(base=True)
    edit(model)
    session = Engine(model.write(tmp_path / "broken.gguf"), None, threads=1).session()
    for _ in range(2):
        with pytest.raises(ParameterError, match=re.escape(message)):
            session.speaker_embed(np.zeros(4000, np.float32))


def test_codebooks_of_talker_and_codec_agree(tmp_path: Path) -> None:
    codec = smallest_models.codec()
    codec.keys[C + "num_quantizers"] = (U32, 2)
    with pytest.raises(
        ModelFileError, match=r"the talker has 3 codebooks .*t\.gguf\), the codec 2 .*c\.gguf\): they do not belong together"
    ):
        Engine(smallest_models.talker().write(tmp_path / "t.gguf"), codec.write(tmp_path / "c.gguf"), threads=1)


def test_smallest_models_work(tmp_path: Path) -> None:
    engine = Engine(
        smallest_models.talker(base=True).write(tmp_path / "t.gguf"), smallest_models.codec().write(tmp_path / "c.gguf"), threads=1
    )
    session, logits = engine.session(), np.zeros(12, np.float32)
    session.prefill(session.text_embed(np.array([1, 2], np.int32)), logits)
    codes = session.codec_encode(np.random.default_rng(1).standard_normal(31).astype(np.float32))
    assert np.isfinite(logits).all() and np.ptp(logits) > 0
    assert codes.shape == (6, 3) and np.isfinite(session.decode(codes)).all()
    assert np.isfinite(session.speaker_embed(np.ones(4000, np.float32))).all()
