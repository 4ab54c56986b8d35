"""Tensor names: for each network of a checkpoint, the list of (GGUF name, checkpoint name, shape) its configuration implies.

Shapes are row-major, as PyTorch has them: a Linear is (out, in), a Conv1d (out, in, K), a ConvTranspose1d (in, out, K);
GGUF readers see them reversed. The lists are complete, so that a missing, misshapen or unknown tensor is found by name
before anything is written.

Upstream: Qwen3TTSForConditionalGeneration (talker, code predictor, ECAPA speaker encoder) and
Qwen3TTSTokenizerV2Model (Mimi encoder, decoder with split residual quantizer, ConvNeXt and DAC stages).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from .convert_source import SourceTensor
from .errors import ModelFileError

# in checkpoints, never read by synthesis or encoding; anything else that is not in the lists is refused
UNUSED = [
    re.compile(r"(.*\.)?rotary_emb\.inv_freq"),
    re.compile(r"decoder\.quantizer\.rvq_(first|rest)\.input_proj\.weight"),
    re.compile(r"encoder\.quantizer\..*\.codebook\.initialized"),
    re.compile(r"encoder\.upsample\..*"),
]


@dataclass(frozen=True)
class Entry:
    """One tensor to write. A codebook names the sums; its usage counts lie beside them."""

    target: str
    source: str
    shape: tuple[int, ...]
    usage: str | None = None


class Section:
    """A configuration section whose missing or odd values become errors that name the key."""

    def __init__(self, values: Any, where: str) -> None:
        if not isinstance(values, Mapping):
            raise ModelFileError(f"{where}: section is missing or not an object")
        self.values, self.where = values, where

    def sub(self, key: str) -> Section:
        """The section `key` inside this one."""
        return Section(self.values.get(key), f"{self.where}.{key}")

    def int(self, key: str, default: int | None = None) -> int:
        """A whole number from 0 up to 2^31 - 1."""
        value = self.values.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
            raise ModelFileError(f"{self.where}.{key}: {value!r} is not a whole number")
        return value

    def float(self, key: str, default: float | None = None) -> float:
        """A number."""
        value = self.values.get(key)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise ModelFileError(f"{self.where}.{key}: {value!r} is not a number")
        return float(value)

    def ints(self, key: str, default: list[int] | None = None) -> list[int]:
        """A list of whole numbers."""
        value = self.values.get(key)
        value = default if value is None else value
        if not isinstance(value, list) or not all(isinstance(v, int) and not isinstance(v, bool) for v in value):
            raise ModelFileError(f"{self.where}.{key}: {value!r} is not a list of whole numbers")
        return value


def resolve(entries: list[Entry], tensors: Mapping[str, SourceTensor], where: str, unused: list[re.Pattern[str]]) -> None:
    """Refuses, by tensor name, whatever the checkpoint lacks, shapes differently or holds beyond the entries."""
    known = set()
    for entry in entries:
        wanted = [(entry.source, entry.shape)]
        if entry.usage is not None:
            wanted.append((entry.usage, entry.shape[:1]))
        for name, shape in wanted:
            if name not in tensors:
                raise ModelFileError(f"{where}: tensor {name} is missing ({list(shape)} expected, for {entry.target})")
            if tensors[name].shape != shape:
                found = list(tensors[name].shape)
                raise ModelFileError(f"{where}: tensor {name} has shape {found}, the configuration implies {list(shape)}")
            known.add(name)
    for name in sorted(set(tensors) - known):
        if not any(pattern.fullmatch(name) for pattern in [*UNUSED, *unused]):
            raise ModelFileError(f"{where}: tensor {name} is not understood (shape {list(tensors[name].shape)})")


def talker_entries(config: Section, *, with_speaker_encoder: bool) -> list[Entry]:
    """Every tensor of a talker file, code predictor first, in the order of the published files."""
    talker = config.sub("talker_config")
    predictor = talker.sub("code_predictor_config")
    hidden, groups, text_hidden = talker.int("hidden_size"), talker.int("num_code_groups"), talker.int("text_hidden_size")
    p_hidden, p_vocab = predictor.int("hidden_size"), predictor.int("vocab_size")
    src = "talker.code_predictor"
    out = [Entry(f"code_pred.lm_head.{i}.weight", f"{src}.lm_head.{i}.weight", (p_vocab, p_hidden)) for i in range(groups - 1)]
    for i in range(groups - 1):
        out.append(Entry(f"code_pred.codec_embd.{i}.weight", f"{src}.model.codec_embedding.{i}.weight", (p_vocab, hidden)))
    out += _qwen3_stack("code_pred", f"{src}.model", predictor)
    if p_hidden != hidden:
        out.append(Entry("code_pred.mtp_proj.bias", f"{src}.small_to_mtp_projection.bias", (p_hidden,)))
        out.append(Entry("code_pred.mtp_proj.weight", f"{src}.small_to_mtp_projection.weight", (p_hidden, hidden)))
    out.append(Entry("talker.codec_head.weight", "talker.codec_head.weight", (talker.int("vocab_size"), hidden)))
    out.append(Entry("talker.codec_embd.weight", "talker.model.codec_embedding.weight", (talker.int("vocab_size"), hidden)))
    out += _qwen3_stack("talker", "talker.model", talker)
    text_vocab = talker.int("text_vocab_size", 151936)
    out.append(Entry("talker.text_embd.weight", "talker.model.text_embedding.weight", (text_vocab, text_hidden)))
    for n, width in ((1, text_hidden), (2, hidden)):
        for part, shape in (("bias", (width,)), ("weight", (width, text_hidden))):
            out.append(Entry(f"talker.text_proj.fc{n}.{part}", f"talker.text_projection.linear_fc{n}.{part}", shape))
    if with_speaker_encoder:
        out += _speaker_encoder(config.sub("speaker_encoder_config"))
    return out


def _qwen3_stack(target: str, source: str, config: Section) -> Iterator[Entry]:
    """Layers and final norm of a Qwen3 decoder: grouped queries, per-head q and k norms, SwiGLU, no biases."""
    hidden, inter, heads = config.int("hidden_size"), config.int("intermediate_size"), config.int("num_attention_heads")
    kv_heads = config.int("num_key_value_heads", heads)
    dim = config.int("head_dim", hidden // max(1, heads))
    parts = [
        ("attn_norm", "input_layernorm", (hidden,)),
        ("ffn_down", "mlp.down_proj", (hidden, inter)),
        ("ffn_gate", "mlp.gate_proj", (inter, hidden)),
        ("ffn_up", "mlp.up_proj", (inter, hidden)),
        ("ffn_norm", "post_attention_layernorm", (hidden,)),
        ("attn_k_norm", "self_attn.k_norm", (dim,)),
        ("attn_k", "self_attn.k_proj", (kv_heads * dim, hidden)),
        ("attn_output", "self_attn.o_proj", (hidden, heads * dim)),
        ("attn_q_norm", "self_attn.q_norm", (dim,)),
        ("attn_q", "self_attn.q_proj", (heads * dim, hidden)),
        ("attn_v", "self_attn.v_proj", (kv_heads * dim, hidden)),
    ]
    for layer in range(config.int("num_hidden_layers")):
        for name, upstream, shape in parts:
            yield Entry(f"{target}.blk.{layer}.{name}.weight", f"{source}.layers.{layer}.{upstream}.weight", shape)
    yield Entry(f"{target}.output_norm.weight", f"{source}.norm.weight", (hidden,))


def _speaker_encoder(config: Section) -> Iterator[Entry]:
    """ECAPA-TDNN: first convolution, squeeze-excite Res2Net blocks, aggregation, attentive pooling, output."""
    channels = config.ints("enc_channels", [512, 512, 512, 512, 1536])
    kernels = config.ints("enc_kernel_sizes", [5, 3, 3, 3, 1])
    if len(channels) != len(kernels) or len(channels) < 3:
        raise ModelFileError(f"{config.where}: enc_channels and enc_kernel_sizes must have one length, at least 3")
    scale, se = config.int("enc_res2net_scale", 8), config.int("enc_se_channels", 128)
    attention, last = config.int("enc_attention_channels", 128), channels[-1]
    if scale < 2:
        raise ModelFileError(f"{config.where}.enc_res2net_scale: {scale} is under 2")
    src = "speaker_encoder"
    convs = [("conv0", "blocks.0.conv", channels[0], config.int("mel_dim", 128), kernels[0])]
    for i in range(1, len(channels) - 1):
        width = channels[i]
        convs.append((f"blk.{i}.tdnn1", f"blocks.{i}.tdnn1.conv", width, channels[i - 1], 1))
        for j in range(scale - 1):
            part = width // scale
            convs.append((f"blk.{i}.res2net.{j}", f"blocks.{i}.res2net_block.blocks.{j}.conv", part, part, kernels[i]))
        convs.append((f"blk.{i}.tdnn2", f"blocks.{i}.tdnn2.conv", width, width, 1))
        convs.append((f"blk.{i}.se.conv1", f"blocks.{i}.se_block.conv1", se, width, 1))
        convs.append((f"blk.{i}.se.conv2", f"blocks.{i}.se_block.conv2", width, se, 1))
    convs.append(("mfa", "mfa.conv", last, last, kernels[-1]))
    convs.append(("asp.tdnn", "asp.tdnn.conv", attention, 3 * last, 1))
    convs.append(("asp.conv", "asp.conv", last, attention, 1))
    convs.append(("fc", "fc", config.int("enc_dim", 1024), 2 * last, 1))
    for target, source, n_out, n_in, kernel in convs:
        yield Entry(f"spk_enc.{target}.bias", f"{src}.{source}.bias", (n_out,))
        yield Entry(f"spk_enc.{target}.weight", f"{src}.{source}.weight", (n_out, n_in, kernel))
