"""Write tiny Qwen3-TTS checkpoints in the official layout, without torch.

usage: make_tiny.py OUT_DIR [--gguf DIR]      writes OUT_DIR/{custom_voice,voice_design,base}, each a talker folder with
                                              speech_tokenizer/ inside; --gguf also converts them to F32 files

No size equals a published one or its counterpart in another checkpoint, so that a constant in the code shows: 5 and 4 code
groups, head widths 32, 24 and 16, three DAC stages, unequal grouping of heads, several epsilons and rotary bases.
custom_voice has a predictor narrower than its talker (a linear projection with bias), voice_design one as wide (none);
base shares custom_voice's codec and has a speaker encoder.
Every tensor comes from a counter-based generator keyed by (seed, tensor name): it does not depend on the order or on the
other tensors. Scales are chosen so that greedy codes move and the decoder is loud.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).resolve().parent))
import tiny_vocab  # noqa: E402

from qwentts.convert import convert  # noqa: E402
from qwentts.convert_codec import codec_entries  # noqa: E402
from qwentts.convert_layout import Section, talker_entries  # noqa: E402

N_MERGES, TEXT_ROWS = 400, 680  # 256 + 400 + 10 tokens at most; the embedding has rows to spare, as the published one
SUPPRESSED = 1024  # the official code never says the last 1024 ids, whatever the vocabulary

CODEC_A = dict(
    sample_rate=24000, encoder_valid_num_quantizers=5,
    decoder=dict(codebook_size=64, codebook_dim=32, latent_dim=40, hidden_size=24, intermediate_size=56, head_dim=16,
                 num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=3, num_quantizers=5, sliding_window=5,
                 rope_theta=5000, rms_norm_eps=1e-4, decoder_dim=64, upsample_rates=[5, 4, 3], upsampling_ratios=[2, 2, 2]),
    encoder=dict(num_filters=4, hidden_size=32, intermediate_size=72, head_dim=16, num_attention_heads=2,
                 num_key_value_heads=2, num_hidden_layers=2, num_quantizers=7, codebook_size=64, codebook_dim=24,
                 upsampling_ratios=[5, 4, 4, 3], norm_eps=1e-4, rope_theta=7000.0, sliding_window=250),
)  # fmt: skip
CODEC_B = dict(
    sample_rate=16000, encoder_valid_num_quantizers=4,
    decoder=dict(codebook_size=32, codebook_dim=24, latent_dim=16, hidden_size=32, intermediate_size=40, head_dim=24,
                 num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, num_quantizers=4, sliding_window=9,
                 rope_theta=20000, rms_norm_eps=1e-6, decoder_dim=32, upsample_rates=[5, 4], upsampling_ratios=[3, 2]),
    encoder=dict(num_filters=6, hidden_size=24, intermediate_size=48, head_dim=12, num_attention_heads=2,
                 num_key_value_heads=2, num_hidden_layers=1, num_quantizers=4, codebook_size=32, codebook_dim=20,
                 upsampling_ratios=[5, 4, 3], norm_eps=1e-5, rope_theta=10000.0, sliding_window=250),
)  # fmt: skip
MODELS: dict[str, dict[str, Any]] = {
    "custom_voice": dict(
        size="0b1", seed=11, codec=CODEC_A, speakers={"ada": 130, "bjorn": 131, "cleo": 140},
        dialects={"ada": False, "bjorn": "north_dialect", "cleo": False},
        talker=dict(hidden_size=48, intermediate_size=80, num_hidden_layers=3, num_attention_heads=4,
                    num_key_value_heads=2, head_dim=32, text_hidden_size=40, rope_theta=50000, rms_norm_eps=1e-5),
        predictor=dict(hidden_size=32, intermediate_size=56, num_hidden_layers=2, num_attention_heads=2,
                       num_key_value_heads=1, head_dim=24, rope_theta=20000, rms_norm_eps=2e-6),
        generation=dict(repetition_penalty=1.2, temperature=0.8, top_k=40, subtalker_top_k=30, subtalker_temperature=0.7),
    ),
    "voice_design": dict(
        size="0b2", seed=22, codec=CODEC_B, speakers={}, dialects={},
        talker=dict(hidden_size=32, intermediate_size=104, num_hidden_layers=2, num_attention_heads=6,
                    num_key_value_heads=2, head_dim=16, text_hidden_size=24, rope_theta=1000000, rms_norm_eps=1e-6),
        predictor=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
                       num_key_value_heads=2, head_dim=32, rope_theta=1000000, rms_norm_eps=1e-6),
        generation=dict(repetition_penalty=1.05, temperature=0.9, top_k=50, subtalker_top_k=50, subtalker_temperature=0.9),
    ),
    "base": dict(
        size="0b3", seed=33, codec=CODEC_A, speakers={}, dialects={},
        talker=dict(hidden_size=40, intermediate_size=64, num_hidden_layers=4, num_attention_heads=3,
                    num_key_value_heads=3, head_dim=32, text_hidden_size=32, rope_theta=30000, rms_norm_eps=1e-6),
        predictor=dict(hidden_size=48, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
                       num_key_value_heads=2, head_dim=16, rope_theta=8000, rms_norm_eps=1e-5),
        generation=dict(repetition_penalty=1.1, temperature=0.9, top_k=50, subtalker_top_k=50, subtalker_temperature=0.9),
    ),
}  # fmt: skip
WIDE: dict[str, Any] = dict(  # custom_voice whose rows are whole blocks of 256 values, so that the K types apply
    size="0b4", seed=44, codec=CODEC_A, speakers={"ada": 130}, dialects={"ada": False},
    talker=dict(hidden_size=512, intermediate_size=768, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4, head_dim=64,
                text_hidden_size=256, rope_theta=1000000, rms_norm_eps=1e-6),
    predictor=dict(hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=64,
                   rope_theta=1000000, rms_norm_eps=1e-6),
    generation=MODELS["custom_voice"]["generation"],
)  # fmt: skip
LANGUAGES = {"english": 120, "chinese": 121, "german": 122, "north_dialect": 123}


def tensor(seed: int, name: str, shape: tuple[int, ...]) -> np.ndarray:
    """The float32 weights of one tensor: normal numbers from Philox keyed by seed and name, scaled by role."""
    key = int.from_bytes(hashlib.sha256(f"{seed}:{name}".encode()).digest()[:16], "little")
    draw = np.random.Generator(np.random.Philox(key=key))
    mean, std = _scale(name, shape)
    values = mean + std * draw.standard_normal(shape)
    if name.endswith("cluster_usage"):
        values = np.abs(values) + 0.25
        values[:2] = [0.0, 1e-7]  # counts under the clamp of 1e-5
    if name.endswith(("embedding_sum", "embed_sum")):
        values[:2] *= 1e-5
    return values.astype(np.float32)


def _scale(name: str, shape: tuple[int, ...]) -> tuple[float, float]:
    """(mean, standard deviation) for a tensor's role."""
    fan_in = math.prod(shape[1:])
    if name.endswith(("norm.weight", "layernorm.weight")):
        return 1.0, 0.15
    if name.endswith((".alpha", ".beta")):
        return 0.0, 0.3
    if name.endswith(("layer_scale.scale", ".gamma")):
        return 0.4, 0.1
    if name.endswith("cluster_usage"):
        return 1.0, 0.4
    if name.endswith("embedding_sum"):
        return 0.0, 1.0
    if name.endswith("embed_sum"):
        return 0.0, 0.3
    if name.endswith("codec_embedding.weight") or ".codec_embedding." in name:
        return 0.0, 0.6
    if name.endswith("text_embedding.weight"):
        return 0.0, 1.0
    if name.startswith("encoder.encoder.layers"):  # loud enough that the codes follow the sound, not the biases
        return 0.0, 0.02 if name.endswith("bias") else (6.0 if shape[1] == 1 else 1.5) / fan_in**0.5
    if name.endswith("bias"):
        return 0.0, 0.1
    if "codec_head" in name or "lm_head" in name:
        return 0.0, 3.0 / fan_in**0.5
    if ".self_attn.q_proj" in name:
        return 0.0, 1.5 / fan_in**0.5
    if name.startswith("decoder.upsample") and name.endswith("0.conv.weight"):
        return 0.0, 1.0 / shape[0] ** 0.5
    if name.startswith("decoder.decoder") and ".block.1.conv.weight" in name:  # (in, out, K) at stride K / 2
        return 0.0, 0.6 / shape[0] ** 0.5
    if name.startswith("decoder.decoder") and ".conv2." in name:  # the way back into the residual stream
        return 0.0, 0.4 / fan_in**0.5
    if name.startswith("decoder.decoder") and shape[0] == 1:  # the last convolution
        return 0.0, 0.15 / fan_in**0.5
    return 0.0, 1.0 / fan_in**0.5


def write_codec(folder: Path, codec: dict[str, Any], seed: int) -> None:
    """Writes the codec checkpoint folder."""
    folder.mkdir(parents=True, exist_ok=True)
    d, e = dict(codec["decoder"]), dict(codec["encoder"])
    samples_per_frame = math.prod(d["upsample_rates"] + d["upsampling_ratios"])
    rate = codec["sample_rate"]
    d |= dict(attention_bias=False, attention_dropout=0.0, hidden_act="silu", layer_scale_initial_scale=0.02,
              max_position_embeddings=8000, num_semantic_quantizers=1, semantic_codebook_size=d["codebook_size"],
              vector_quantization_hidden_dimension=d["codebook_dim"])  # fmt: skip
    e |= dict(model_type="mimi", sampling_rate=rate, frame_rate=rate / samples_per_frame, audio_channels=1,
              num_residual_layers=1, kernel_size=7, last_kernel_size=3, residual_kernel_size=3, dilation_growth_rate=2,
              use_causal_conv=True, pad_mode="constant", compress=2, trim_right_ratio=1.0, use_conv_shortcut=False,
              vector_quantization_hidden_dimension=e["codebook_dim"], num_semantic_quantizers=1,
              upsample_groups=e["hidden_size"], hidden_act="gelu", max_position_embeddings=8000, use_cache=False,
              attention_dropout=0.0, layer_scale_initial_scale=0.02, attention_bias=False)  # fmt: skip
    config = dict(architectures=["Qwen3TTSTokenizerV2Model"], model_type="qwen3_tts_tokenizer_12hz", dtype="float32",
                  decoder_config=d, encoder_config=e, input_sample_rate=rate, output_sample_rate=rate,
                  decode_upsample_rate=samples_per_frame, encode_downsample_rate=samples_per_frame,
                  encoder_valid_num_quantizers=codec["encoder_valid_num_quantizers"])  # fmt: skip
    tensors: dict[str, np.ndarray] = {}
    for entry in codec_entries(Section(config, "config")):
        tensors[entry.source] = tensor(seed, entry.source, entry.shape)
        if entry.usage is not None:
            tensors[entry.usage] = tensor(seed, entry.usage, entry.shape[:1])
    # what the published checkpoint holds and nothing reads
    for kind in ("first", "rest"):
        name = f"decoder.quantizer.rvq_{kind}.input_proj.weight"
        tensors[name] = tensor(seed, name, (d["codebook_dim"] // 2, d["codebook_dim"], 1))
    for kind, n in (("semantic", 1), ("acoustic", e["num_quantizers"] - 1)):
        for i in range(n):
            book = f"encoder.quantizer.{kind}_residual_vector_quantizer.layers.{i}.codebook"
            tensors[f"{book}.initialized"] = np.ones(1, np.float32)
            for part, shape in (("embed_sum", (e["codebook_size"], e["codebook_dim"])), ("cluster_usage", (e["codebook_size"],))):
                tensors.setdefault(f"{book}.{part}", tensor(seed, f"{book}.{part}", shape))
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", config)
    _write_json(folder / "preprocessor_config.json", dict(
        chunk_length_s=None, feature_extractor_type="EncodecFeatureExtractor", feature_size=1, overlap=None,
        padding_side="right", padding_value=0.0, return_attention_mask=True, sampling_rate=rate))  # fmt: skip


def write_model(folder: Path, mode: str, spec: dict[str, Any] | None = None) -> None:
    """Writes the checkpoint folder of a mode: talker, tokenizer, codec inside. spec: other sizes than MODELS[mode]."""
    spec = MODELS[mode] if spec is None else spec
    folder.mkdir(parents=True, exist_ok=True)
    ids = tiny_vocab.write(folder, N_MERGES)
    groups, codes = spec["codec"]["decoder"]["num_quantizers"], spec["codec"]["decoder"]["codebook_size"]
    common = dict(num_code_groups=groups, hidden_act="silu", attention_bias=False, attention_dropout=0, use_cache=True,
                  use_sliding_window=False, sliding_window=None, initializer_range=0.02)  # fmt: skip
    predictor = dict(spec["predictor"], vocab_size=codes, max_position_embeddings=256, **common)
    half = spec["talker"]["head_dim"] // 2
    third = half // 3
    talker = dict(
        spec["talker"], vocab_size=codes + SUPPRESSED, text_vocab_size=TEXT_ROWS, max_position_embeddings=4096,
        position_id_per_seconds=13, code_predictor_config=predictor, codec_pad_id=100, codec_bos_id=101,
        codec_eos_token_id=102, codec_think_id=104, codec_nothink_id=105, codec_think_bos_id=106, codec_think_eos_id=107,
        codec_language_id=LANGUAGES, spk_id=spec["speakers"], spk_is_dialect=spec["dialects"],
        rope_scaling=dict(interleaved=True, mrope_section=[half - 2 * third, third, third], rope_type="default", type="default"),
        **common)  # fmt: skip
    encoder = dict(enc_dim=spec["talker"]["hidden_size"], sample_rate=24000, mel_dim=128, enc_channels=[16, 16, 16, 16, 48],
                   enc_kernel_sizes=[5, 3, 3, 3, 1], enc_dilations=[1, 2, 3, 4, 1], enc_attention_channels=12,
                   enc_res2net_scale=4, enc_se_channels=8)  # fmt: skip
    config = dict(
        architectures=["Qwen3TTSForConditionalGeneration"], model_type="qwen3_tts", dtype="float32", talker_config=talker,
        speaker_encoder_config=encoder, tokenizer_type="qwen3_tts_tokenizer_12hz", tts_model_size=spec["size"],
        tts_model_type=mode, im_start_token_id=ids["<|im_start|>"], im_end_token_id=ids["<|im_end|>"],
        tts_pad_token_id=ids["<tts_pad>"], tts_bos_token_id=ids["<tts_text_bos>"], tts_eos_token_id=ids["<tts_text_eod>"],
    )  # fmt: skip
    entries = talker_entries(Section(config, "config"), with_speaker_encoder=mode == "base")
    tensors = {entry.source: tensor(spec["seed"], entry.source, entry.shape) for entry in entries}
    # the end token is possible but never the likeliest at first, so that greedy runs last 64 frames
    tensors["talker.codec_head.weight"][talker["codec_eos_token_id"]] *= 0.3
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write_json(folder / "config.json", config)
    generation = dict(do_sample=True, top_p=1.0, subtalker_dosample=True, subtalker_top_p=1.0, max_new_tokens=400)
    _write_json(folder / "generation_config.json", generation | spec["generation"])
    _write_json(folder / "preprocessor_config.json", dict(processor_class="Qwen3TTSProcessor"))
    write_codec(folder / "speech_tokenizer", spec["codec"], 5 if spec["codec"] is CODEC_A else 6)


def write_all(root: Path) -> None:
    """Writes the three checkpoints."""
    for mode in MODELS:
        write_model(root / mode, mode)


def convert_all(root: Path, out: Path) -> None:
    """Converts them to F32: OUT/{mode}/ holds the talker, OUT/codec_a and OUT/codec_b the codecs (base uses codec_a)."""
    for mode in MODELS:
        # only the talker: three folders share two codecs
        for path in convert(root / mode, out / mode, progress=False):
            if path.name.startswith("qwen-tokenizer"):
                path.unlink()
    convert(root / "custom_voice" / "speech_tokenizer", out / "codec_a", progress=False)
    convert(root / "voice_design" / "speech_tokenizer", out / "codec_b", progress=False)


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gguf", type=Path)
    arguments = parser.parse_args()
    write_all(arguments.out)
    if arguments.gguf is not None:
        convert_all(arguments.out, arguments.gguf)
