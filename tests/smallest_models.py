"""The smallest models that load: a talker and a codec of a few kilobytes each, for tests that break one key or tensor at a time.

Every kind of tensor and key is there once, both encoders too. Values are random, from a seed, and tame.
"""

from __future__ import annotations

import zlib

import numpy as np
from gguf_bytes import ARRAY, F32, I32, STRING, U32, Gguf, Tensor

GROUPS, CODES = 3, 7  # code groups, entries of a codebook
D, TEXT, PREDICTOR = 6, 4, 4  # widths of talker, text embedding and predictor


def _tensor(name: str, *ne: int) -> Tensor:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    values = rng.standard_normal(int(np.prod(ne))) * 0.3
    if "norm" in name or name.endswith(("scale", "gamma")):
        values = values * 0.2 + 1
    return Tensor(ne, values.astype(np.float32).tobytes())


def _add(model: Gguf, name: str, *ne: int) -> None:
    model.tensors[name] = _tensor(name, *ne)


def _conv(model: Gguf, name: str, kernel: tuple[int, ...], bias: int | None = None) -> None:
    _add(model, f"{name}.weight", *kernel)
    _add(model, f"{name}.bias", kernel[-1] if bias is None else bias)


def _keys(model: Gguf, prefix: str, **values: int | float | list[int]) -> None:
    for key, value in values.items():
        name = f"{prefix}.{key.replace('__', '.')}"
        if isinstance(value, list):
            model.keys[name] = (ARRAY, (I32, value))
        else:
            model.keys[name] = (F32, value) if isinstance(value, float) else (U32, value)


def _decoder_stack(model: Gguf, prefix: str, width: int, forward: int, heads: int, kv: int, hd: int) -> None:
    for name, shape in (
        *(("attn_norm.weight", (width,)), ("attn_q.weight", (width, heads * hd)), ("attn_k.weight", (width, kv * hd))),
        *(("attn_v.weight", (width, kv * hd)), ("attn_output.weight", (heads * hd, width)), ("ffn_norm.weight", (width,))),
        *(("ffn_gate.weight", (width, forward)), ("ffn_up.weight", (width, forward)), ("ffn_down.weight", (forward, width))),
    ):
        _add(model, f"{prefix}.blk.0.{name}", *shape)


def talker(*, base: bool = False) -> Gguf:
    """A talker with one block, a predictor with one block behind a projection; a base model has a speaker encoder."""
    m = Gguf({"general.architecture": (STRING, "qwen3-tts"), "qwen3-tts.model_type": (STRING, "base" if base else "custom_voice")})
    _keys(m, "qwen3-tts", num_code_groups=GROUPS)
    for part, width, context, vocab in (("talker", D, 256, 12), ("code_pred", PREDICTOR, 8, CODES)):
        _keys(m, f"qwen3-tts.{part}", embedding_length=width, feed_forward_length=5, block_count=1, attention__head_count=2,
              attention__head_count_kv=1, attention__key_length=2, rope__freq_base=1e4, attention__layer_norm_rms_epsilon=1e-6,
              vocab_size=vocab, context_length=context)  # fmt: skip
    _keys(m, "qwen3-tts.talker", text_vocab_size=9, text_hidden_size=TEXT)
    _keys(m, "qwen3-tts.codec", pad_id=7, bos_id=8, eos_id=9, think_id=10, nothink_id=11, think_bos_id=10, think_eos_id=11,
          language_ids=[7, 8])  # fmt: skip
    m.keys["qwen3-tts.codec.language_names"] = (ARRAY, (STRING, ["english", "chinese"]))
    if not base:
        m.keys["qwen3-tts.codec.speaker_names"] = (ARRAY, (STRING, ["ann", "bo"]))
        _keys(m, "qwen3-tts.codec", speaker_ids=[7, 8])
    _keys(m, "qwen3-tts.text", im_start_id=1, im_end_id=2, tts_pad_id=3, tts_bos_id=4, tts_eos_id=5)
    for prefix, width in (("talker", D), ("code_pred", PREDICTOR)):
        _decoder_stack(m, prefix, width, 5, 2, 1, 2)
        _add(m, f"{prefix}.blk.0.attn_q_norm.weight", 2)
        _add(m, f"{prefix}.blk.0.attn_k_norm.weight", 2)
        _add(m, f"{prefix}.output_norm.weight", width)
    _add(m, "talker.text_embd.weight", TEXT, 9)
    _conv(m, "talker.text_proj.fc1", (TEXT, TEXT))
    _conv(m, "talker.text_proj.fc2", (TEXT, D))
    _add(m, "talker.codec_head.weight", D, 12)
    _add(m, "talker.codec_embd.weight", D, 12)
    _conv(m, "code_pred.mtp_proj", (D, PREDICTOR))
    for g in range(GROUPS - 1):
        _add(m, f"code_pred.codec_embd.{g}.weight", D, CODES)
        _add(m, f"code_pred.lm_head.{g}.weight", PREDICTOR, CODES)
    if base:
        _keys(m, "qwen3-tts.spk_enc", embedding_length=D, sample_rate=24000)
        _conv(m, "spk_enc.conv0", (3, 3, 4))
        for name, shape in (
            ("tdnn1", (1, 4, 4)),
            ("res2net.0", (3, 2, 2)),
            ("tdnn2", (1, 4, 4)),
            ("se.conv1", (1, 4, 2)),
            ("se.conv2", (1, 2, 4)),
        ):
            _conv(m, f"spk_enc.blk.1.{name}", shape)
        for name, shape in (("mfa", (1, 4, 3)), ("asp.tdnn", (1, 9, 2)), ("asp.conv", (1, 2, 3)), ("fc", (1, 6, D))):
            _conv(m, f"spk_enc.{name}", shape)
    return m


def codec() -> Gguf:
    """A codec of 2 * 3 samples a frame: decoder with one stage of each kind, encoder with one stage and a downsampling of 2."""
    m = Gguf({"general.architecture": (STRING, "qwen3-tts-tokenizer")})
    _keys(m, "qwen3-tts-tokenizer", input_sample_rate=24000, output_sample_rate=24000, decode_upsample_rate=6, encode_downsample_rate=6,
          encoder_valid_num_quantizers=GROUPS)  # fmt: skip
    _keys(m, "qwen3-tts-tokenizer.decoder", latent_dim=3, codebook_dim=4, codebook_size=CODES, decoder_dim=4, hidden_size=4,
          intermediate_size=5, head_dim=2, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=1, num_quantizers=GROUPS,
          num_semantic_quantizers=1, rms_norm_eps=1e-5, rope_theta=1e4, sliding_window=4, upsample_rates=[3], upsampling_ratios=[2],
          codebook_dim_internal=2)  # fmt: skip
    _keys(m, "qwen3-tts-tokenizer.encoder", num_filters=2, num_residual_layers=1, dilation_growth_rate=2, compress=2, upsampling_ratios=[3],
          hidden_size=4, intermediate_size=5, head_dim=2, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=1, norm_eps=1e-5,
          rope_theta=1e4, codebook_size=CODES, num_semantic_quantizers=1, vector_quantization_hidden_dim=3)  # fmt: skip
    for kind, n in (("first", 1), ("rest", GROUPS - 1)):
        _add(m, f"tok_dec.vq_{kind}.output_proj.weight", 1, 2, 4)
        for i in range(n):
            _add(m, f"tok_dec.vq_{kind}.{i}.codebook", 2, CODES)
    _conv(m, "tok_dec.pre_conv", (2, 4, 3))
    _conv(m, "tok_dec.pre_tfm.input_proj", (3, 4))
    _decoder_stack(m, "tok_dec.pre_tfm", 4, 5, 2, 1, 2)
    _add(m, "tok_dec.pre_tfm.blk.0.attn_scale", 4)
    _add(m, "tok_dec.pre_tfm.blk.0.ffn_scale", 4)
    _add(m, "tok_dec.pre_tfm.norm.weight", 4)
    _conv(m, "tok_dec.pre_tfm.output_proj", (4, 3))
    _conv(m, "tok_dec.upsample.0.conv", (2, 3, 3))
    _conv(m, "tok_dec.upsample.0.dwconv", (3, 1, 3))
    _conv(m, "tok_dec.upsample.0.pwconv1", (3, 12))
    _conv(m, "tok_dec.upsample.0.pwconv2", (12, 3))
    for name in ("norm.weight", "norm.bias", "gamma"):
        _add(m, f"tok_dec.upsample.0.{name}", 3)
    _conv(m, "tok_dec.dec.0.conv", (3, 3, 4))
    _conv(m, "tok_dec.dec.1.conv_t", (6, 2, 4), 2)
    _conv(m, "tok_dec.dec.1.res.0.conv1", (3, 2, 2))
    _conv(m, "tok_dec.dec.1.res.0.conv2", (1, 2, 2))
    _conv(m, "tok_dec.dec.3.conv", (3, 2, 1))
    for name, width in (("1.snake", 4), ("1.res.0.act1", 2), ("1.res.0.act2", 2), ("2.snake", 2)):
        _add(m, f"tok_dec.dec.{name}.alpha", width)
        _add(m, f"tok_dec.dec.{name}.beta", width)
    _conv(m, "tok_enc.conv.0", (3, 1, 2))
    _conv(m, "tok_enc.res.1.blk.1", (3, 2, 1))
    _conv(m, "tok_enc.res.1.blk.3", (1, 1, 2))
    _conv(m, "tok_enc.conv.3", (6, 2, 4))
    _conv(m, "tok_enc.conv.5", (3, 4, 4))
    for name, shape in (
        *(("attn_norm.weight", (4,)), ("attn_norm.bias", (4,)), ("attn_q.weight", (4, 4)), ("attn_k.weight", (4, 4))),
        *(("attn_v.weight", (4, 4)), ("attn_output.weight", (4, 4)), ("attn_scale", (4,)), ("ffn_norm.weight", (4,))),
        *(("ffn_norm.bias", (4,)), ("ffn_up.weight", (4, 5)), ("ffn_down.weight", (5, 4)), ("ffn_scale", (4,))),
    ):
        _add(m, f"tok_enc.blk.0.{name}", *shape)
    _add(m, "tok_enc.downsample.weight", 4, 4, 4)
    for kind, n in (("semantic", 1), ("acoustic", GROUPS - 1)):
        _add(m, f"tok_enc.vq_{kind}.input_proj.weight", 1, 4, 3)
        for i in range(n):
            _add(m, f"tok_enc.vq_{kind}.{i}.codebook", 3, CODES)
    return m
