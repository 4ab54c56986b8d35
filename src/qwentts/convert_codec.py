"""Tensor names of the codec (Qwen3-TTS-Tokenizer-12Hz): decoder, then encoder, codebooks last.

Decoder: split residual quantizer -> causal conv -> windowed transformer -> [transposed conv + ConvNeXt] per upsampling
ratio -> DAC stages with SnakeBeta. Encoder (Mimi): SEANet convolutions -> transformer -> stride-2 conv -> quantizers, of
which the first `encoder_valid_num_quantizers` are used and written.
Transposed convolutions keep PyTorch's (in, out, K); snake parameters are stored before their exp().
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from .convert_layout import Entry, Section
from .errors import ModelFileError


def codec_entries(config: Section) -> list[Entry]:
    """Every tensor of a codec file."""
    decoder, encoder = config.sub("decoder_config"), config.sub("encoder_config")
    out = [*_decoder_stages(decoder), *_decoder_transformer(decoder), *_decoder_upsampling(decoder)]
    out += _encoder_convolutions(config, encoder)
    out += _encoder_transformer(encoder)
    out += _quantizers(config, decoder, encoder)
    return out


def unused_codec_tensors(config: Section) -> list[re.Pattern[str]]:
    """Encoder quantizers beyond the valid ones: in the checkpoint, never used by the official encode."""
    encoder = config.sub("encoder_config")
    semantic = encoder.int("num_semantic_quantizers", 1)
    first = config.int("encoder_valid_num_quantizers") - semantic
    last = encoder.int("num_quantizers") - semantic
    base = r"encoder\.quantizer\.acoustic_residual_vector_quantizer\.layers\."
    return [re.compile(rf"{base}{i}\.codebook\..*") for i in range(first, last)]


def _conv(target: str, source: str, weight: tuple[int, ...], bias: int | None) -> Iterator[Entry]:
    if bias is not None:
        yield Entry(f"{target}.bias", f"{source}.bias", (bias,))
    yield Entry(f"{target}.weight", f"{source}.weight", weight)


def _snake(target: str, source: str, width: int) -> Iterator[Entry]:
    for part in ("alpha", "beta"):
        yield Entry(f"{target}.{part}", f"{source}.{part}", (width,))


def _decoder_stages(config: Section) -> Iterator[Entry]:
    """tok_dec.dec.0 conv, one stage per rate at half the width each, then snake and the convolution to one channel."""
    latent, width, rates = config.int("latent_dim"), config.int("decoder_dim"), config.ints("upsample_rates")
    t, s = "tok_dec.dec", "decoder.decoder"
    yield from _conv(f"{t}.0.conv", f"{s}.0.conv", (width, latent, 7), width)
    for i, rate in enumerate(rates, 1):
        half = width // 2
        yield from _snake(f"{t}.{i}.snake", f"{s}.{i}.block.0", width)
        yield from _conv(f"{t}.{i}.conv_t", f"{s}.{i}.block.1.conv", (width, half, 2 * rate), half)
        for j in range(3):  # dilations 1, 3, 9
            unit, source = f"{t}.{i}.res.{j}", f"{s}.{i}.block.{j + 2}"
            yield from _snake(f"{unit}.act1", f"{source}.act1", half)
            yield from _snake(f"{unit}.act2", f"{source}.act2", half)
            yield from _conv(f"{unit}.conv1", f"{source}.conv1.conv", (half, half, 7), half)
            yield from _conv(f"{unit}.conv2", f"{source}.conv2.conv", (half, half, 1), half)
        width = half
    n = len(rates)
    yield from _snake(f"{t}.{n + 1}.snake", f"{s}.{n + 1}", width)
    yield from _conv(f"{t}.{n + 2}.conv", f"{s}.{n + 2}.conv", (1, width, 7), 1)


def _decoder_transformer(config: Section) -> Iterator[Entry]:
    latent, hidden, inter = config.int("latent_dim"), config.int("hidden_size"), config.int("intermediate_size")
    heads = config.int("num_attention_heads")
    dim = config.int("head_dim", hidden // max(1, heads))
    q, kv = heads * dim, config.int("num_key_value_heads", heads) * dim
    yield from _conv("tok_dec.pre_conv", "decoder.pre_conv.conv", (latent, config.int("codebook_dim"), 3), latent)
    t, s = "tok_dec.pre_tfm", "decoder.pre_transformer"
    yield from _conv(f"{t}.input_proj", f"{s}.input_proj", (hidden, latent), hidden)
    for i in range(config.int("num_hidden_layers")):
        blk, layer = f"{t}.blk.{i}", f"{s}.layers.{i}"
        yield Entry(f"{blk}.attn_norm.weight", f"{layer}.input_layernorm.weight", (hidden,))
        yield Entry(f"{blk}.ffn_down.weight", f"{layer}.mlp.down_proj.weight", (hidden, inter))
        yield Entry(f"{blk}.ffn_gate.weight", f"{layer}.mlp.gate_proj.weight", (inter, hidden))
        yield Entry(f"{blk}.ffn_up.weight", f"{layer}.mlp.up_proj.weight", (inter, hidden))
        yield Entry(f"{blk}.ffn_scale", f"{layer}.mlp_layer_scale.scale", (hidden,))
        yield Entry(f"{blk}.ffn_norm.weight", f"{layer}.post_attention_layernorm.weight", (hidden,))
        yield Entry(f"{blk}.attn_k.weight", f"{layer}.self_attn.k_proj.weight", (kv, hidden))
        yield Entry(f"{blk}.attn_output.weight", f"{layer}.self_attn.o_proj.weight", (hidden, q))
        yield Entry(f"{blk}.attn_q.weight", f"{layer}.self_attn.q_proj.weight", (q, hidden))
        yield Entry(f"{blk}.attn_v.weight", f"{layer}.self_attn.v_proj.weight", (kv, hidden))
        yield Entry(f"{blk}.attn_scale", f"{layer}.self_attn_layer_scale.scale", (hidden,))
    yield Entry(f"{t}.norm.weight", f"{s}.norm.weight", (hidden,))
    yield from _conv(f"{t}.output_proj", f"{s}.output_proj", (latent, hidden), latent)


def _decoder_upsampling(config: Section) -> Iterator[Entry]:
    width = config.int("latent_dim")
    for i, ratio in enumerate(config.ints("upsampling_ratios")):
        t, s = f"tok_dec.upsample.{i}", f"decoder.upsample.{i}"
        yield from _conv(f"{t}.conv", f"{s}.0.conv", (width, width, ratio), width)
        yield from _conv(f"{t}.dwconv", f"{s}.1.dwconv.conv", (width, 1, 7), width)
        yield Entry(f"{t}.gamma", f"{s}.1.gamma", (width,))
        yield from _conv(f"{t}.norm", f"{s}.1.norm", (width,), width)
        yield from _conv(f"{t}.pwconv1", f"{s}.1.pwconv1", (4 * width, width), 4 * width)
        yield from _conv(f"{t}.pwconv2", f"{s}.1.pwconv2", (width, 4 * width), width)


def _encoder_convolutions(model: Section, config: Section) -> Iterator[Entry]:
    """SEANet; the numbers in the names are upstream's module positions, activations included."""
    width, hidden = config.int("num_filters"), config.int("hidden_size")
    kernel, compress = config.int("residual_kernel_size", 3), max(1, config.int("compress", 2))
    t, s = "tok_enc", "encoder.encoder.layers"
    ratios = config.ints("upsampling_ratios")
    stride, rest = divmod(model.int("encode_downsample_rate", 1920), max(1, math.prod(ratios)))
    if rest or stride < 2:
        raise ModelFileError(f"{model.where}.encode_downsample_rate is not a multiple, at least 2, of the encoder's strides")
    yield from _conv(f"{t}.downsample", "encoder.downsample.conv", (hidden, hidden, 2 * stride), None)
    first = (width, config.int("audio_channels", 1), config.int("kernel_size", 7))
    yield from _conv(f"{t}.conv.0", f"{s}.0.conv", first, width)
    i = 1
    for ratio in reversed(ratios):
        for _ in range(config.int("num_residual_layers", 1)):
            inner = width // compress
            yield from _conv(f"{t}.res.{i}.blk.1", f"{s}.{i}.block.1.conv", (inner, width, kernel), inner)
            yield from _conv(f"{t}.res.{i}.blk.3", f"{s}.{i}.block.3.conv", (width, inner, 1), width)
            i += 1
        i += 1  # the activation
        yield from _conv(f"{t}.conv.{i}", f"{s}.{i}.conv", (2 * width, width, 2 * ratio), 2 * width)
        width, i = 2 * width, i + 1
    i += 1
    yield from _conv(f"{t}.conv.{i}", f"{s}.{i}.conv", (hidden, width, config.int("last_kernel_size", 3)), hidden)


def _encoder_transformer(config: Section) -> Iterator[Entry]:
    hidden, inter, heads = config.int("hidden_size"), config.int("intermediate_size"), config.int("num_attention_heads")
    dim = config.int("head_dim", hidden // max(1, heads))
    q, kv = heads * dim, config.int("num_key_value_heads", heads) * dim
    for i in range(config.int("num_hidden_layers")):
        blk, layer = f"tok_enc.blk.{i}", f"encoder.encoder_transformer.layers.{i}"
        yield from _conv(f"{blk}.attn_norm", f"{layer}.input_layernorm", (hidden,), hidden)
        yield Entry(f"{blk}.ffn_up.weight", f"{layer}.mlp.fc1.weight", (inter, hidden))
        yield Entry(f"{blk}.ffn_down.weight", f"{layer}.mlp.fc2.weight", (hidden, inter))
        yield Entry(f"{blk}.ffn_scale", f"{layer}.mlp_layer_scale.scale", (hidden,))
        yield from _conv(f"{blk}.ffn_norm", f"{layer}.post_attention_layernorm", (hidden,), hidden)
        yield Entry(f"{blk}.attn_k.weight", f"{layer}.self_attn.k_proj.weight", (kv, hidden))
        yield Entry(f"{blk}.attn_output.weight", f"{layer}.self_attn.o_proj.weight", (hidden, q))
        yield Entry(f"{blk}.attn_q.weight", f"{layer}.self_attn.q_proj.weight", (q, hidden))
        yield Entry(f"{blk}.attn_v.weight", f"{layer}.self_attn.v_proj.weight", (kv, hidden))
        yield Entry(f"{blk}.attn_scale", f"{layer}.self_attn_layer_scale.scale", (hidden,))


def _quantizers(config: Section, decoder: Section, encoder: Section) -> Iterator[Entry]:
    """Projections and codebooks of both halves; a codebook is embedding_sum over usage."""
    hidden, dim = encoder.int("hidden_size"), encoder.int("vector_quantization_hidden_dimension", encoder.int("codebook_dim"))
    src = "encoder.quantizer.{}_residual_vector_quantizer"
    for kind in ("acoustic", "semantic"):
        source = src.format(kind)
        yield Entry(f"tok_enc.vq_{kind}.input_proj.weight", f"{source}.input_proj.weight", (dim, hidden, 1))
        yield Entry(f"tok_enc.vq_{kind}.output_proj.weight", f"{source}.output_proj.weight", (hidden, dim, 1))
    d_width = decoder.int("codebook_dim")
    d_dim = d_width // 2  # the official decoder halves it for the two branches
    for kind in ("first", "rest"):
        source = f"decoder.quantizer.rvq_{kind}.output_proj.weight"
        yield Entry(f"tok_dec.vq_{kind}.output_proj.weight", source, (d_width, d_dim, 1))
    d_size, e_size = decoder.int("codebook_size"), encoder.int("codebook_size")
    semantic = decoder.int("num_semantic_quantizers", 1)
    for kind, n in (("first", semantic), ("rest", decoder.int("num_quantizers") - semantic)):
        for i in range(n):
            book = f"decoder.quantizer.rvq_{kind}.vq.layers.{i}._codebook"
            usage = f"{book}.cluster_usage"
            yield Entry(f"tok_dec.vq_{kind}.{i}.codebook", f"{book}.embedding_sum", (d_size, d_dim), usage)
    semantic = encoder.int("num_semantic_quantizers", 1)
    valid = config.int("encoder_valid_num_quantizers")
    if not semantic < valid <= encoder.int("num_quantizers"):
        raise ModelFileError(f"{config.where}.encoder_valid_num_quantizers: {valid} does not fit the encoder's quantizers")
    for kind, n in (("acoustic", valid - semantic), ("semantic", semantic)):
        for i in range(n):
            book = f"{src.format(kind)}.layers.{i}.codebook"
            usage = f"{book}.cluster_usage"
            yield Entry(f"tok_enc.vq_{kind}.{i}.codebook", f"{book}.embed_sum", (e_size, dim), usage)
