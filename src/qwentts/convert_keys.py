"""GGUF keys of talker and codec files, in the order and with the types of the published ones.

Input: config.json (and generation_config.json for a talker); output: every key, encoded.
Defaults are those of the official configuration classes, for keys that checkpoints leave out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .convert_layout import Section
from .convert_vocab import Vocabulary
from .errors import ModelFileError
from .gguf_write import Keys

MODES = {"custom_voice": "customvoice", "voice_design": "voicedesign", "base": "base"}
GENERATION = [  # GGUF key, checkpoint key, published value
    ("do_sample", "do_sample", True),
    ("top_k", "top_k", 50),
    ("top_p", "top_p", 1.0),
    ("temperature", "temperature", 0.9),
    ("repetition_penalty", "repetition_penalty", 1.05),
    ("subtalker_do_sample", "subtalker_dosample", True),
    ("subtalker_top_k", "subtalker_top_k", 50),
    ("subtalker_top_p", "subtalker_top_p", 1.0),
    ("subtalker_temperature", "subtalker_temperature", 0.9),
    ("max_new_tokens", "max_new_tokens", 8192),
]
CODEC_IDS = [  # GGUF key, checkpoint key
    ("pad_id", "codec_pad_id"),
    ("bos_id", "codec_bos_id"),
    ("eos_id", "codec_eos_token_id"),
    ("think_id", "codec_think_id"),
    ("nothink_id", "codec_nothink_id"),
    ("think_bos_id", "codec_think_bos_id"),
    ("think_eos_id", "codec_think_eos_id"),
]
TEXT_IDS = [  # GGUF key, checkpoint key, published value
    ("im_start_id", "im_start_token_id", 151644),
    ("im_end_id", "im_end_token_id", 151645),
    ("tts_pad_id", "tts_pad_token_id", 151671),
    ("tts_bos_id", "tts_bos_token_id", 151672),
    ("tts_eos_id", "tts_eos_token_id", 151673),
]


def size_label(config: Section) -> str:
    """`0.6b` for the model size `0b6`; other spellings in lower case as they are."""
    size = _text(config, "tts_model_size").lower()
    match = re.fullmatch(r"(\d+)b(\d+)", size)
    label = f"{match[1]}.{match[2]}b" if match else size
    if not re.fullmatch(r"[a-z0-9.]+", label):
        raise ModelFileError(f"{config.where}.tts_model_size: {size!r} cannot be part of a file name")
    return label


def mode(config: Section) -> str:
    """The mode of a talker: custom_voice, voice_design or base."""
    value = _text(config, "tts_model_type")
    if value not in MODES:
        raise ModelFileError(f"{config.where}.tts_model_type: {value!r} is not one of {', '.join(MODES)}")
    return value


def add_talker_keys(keys: Keys, config: Section, generation: Mapping[str, Any], vocabulary: Vocabulary) -> None:
    """Adds every key of a talker file."""
    p = "qwen3-tts"
    talker = config.sub("talker_config")
    predictor = talker.sub("code_predictor_config")
    keys.set_string("general.name", f"Qwen3-TTS-12Hz-{size_label(config).upper()}-{mode(config)}")
    keys.set_string(f"{p}.tokenizer_type", _text(config, "tokenizer_type"))
    keys.set_string(f"{p}.model_size", _text(config, "tts_model_size"))
    keys.set_string(f"{p}.model_type", mode(config))
    keys.set_uint32(f"{p}.num_code_groups", talker.int("num_code_groups"))

    for prefix, section in ((f"{p}.talker", talker), (f"{p}.code_pred", predictor)):
        heads, hidden = section.int("num_attention_heads"), section.int("hidden_size")
        keys.set_uint32(f"{prefix}.embedding_length", hidden)
        keys.set_uint32(f"{prefix}.feed_forward_length", section.int("intermediate_size"))
        keys.set_uint32(f"{prefix}.block_count", section.int("num_hidden_layers"))
        keys.set_uint32(f"{prefix}.attention.head_count", heads)
        keys.set_uint32(f"{prefix}.attention.head_count_kv", section.int("num_key_value_heads", heads))
        keys.set_uint32(f"{prefix}.attention.key_length", section.int("head_dim", hidden // max(1, heads)))
        keys.set_uint32(f"{prefix}.vocab_size", section.int("vocab_size"))
        if section is talker:
            keys.set_uint32(f"{prefix}.text_vocab_size", talker.int("text_vocab_size", 151936))
            keys.set_uint32(f"{prefix}.text_hidden_size", talker.int("text_hidden_size"))
        keys.set_uint32(f"{prefix}.context_length", section.int("max_position_embeddings", 32768))
        keys.set_float32(f"{prefix}.rope.freq_base", section.float("rope_theta", 10000.0))
        keys.set_float32(f"{prefix}.attention.layer_norm_rms_epsilon", section.float("rms_norm_eps", 1e-6))
        if section is talker:
            keys.set_uint32(f"{prefix}.position_id_per_seconds", talker.int("position_id_per_seconds", 13))
            scaling = talker.values.get("rope_scaling")
            if isinstance(scaling, Mapping) and scaling.get("mrope_section"):
                keys.set_int32s(f"{prefix}.rope.mrope_section", Section(scaling, talker.where).ints("mrope_section"))
                keys.set_bool(f"{prefix}.mrope_interleaved", bool(scaling.get("interleaved", False)))
    if isinstance(config.values.get("speaker_encoder_config"), Mapping):
        encoder = config.sub("speaker_encoder_config")
        keys.set_uint32(f"{p}.spk_enc.embedding_length", encoder.int("enc_dim", 1024))
        keys.set_uint32(f"{p}.spk_enc.sample_rate", encoder.int("sample_rate", 24000))

    for key, source in CODEC_IDS:
        keys.set_uint32(f"{p}.codec.{key}", talker.int(source))
    _add_tables(keys, f"{p}.codec", talker)
    for key, source, default in TEXT_IDS:
        keys.set_uint32(f"{p}.text.{key}", config.int(source, default))
    for key, source, published in GENERATION:
        _add_generation(keys, key, generation.get(source, published), published)

    keys.set_string("tokenizer.ggml.model", "gpt2")
    keys.set_strings("tokenizer.ggml.tokens", vocabulary.tokens)
    keys.set_int32s("tokenizer.ggml.token_type", vocabulary.types)
    keys.set_strings("tokenizer.ggml.merges", vocabulary.merges)
    keys.set_uint32("tokenizer.ggml.eos_token_id", vocabulary.eos_id)


def add_codec_keys(keys: Keys, config: Section) -> None:
    """Adds every key of a codec file."""
    p = "qwen3-tts-tokenizer"
    keys.set_string("general.name", "Qwen3-TTS-Tokenizer-12Hz")
    for key, default in (
        ("input_sample_rate", 24000),
        ("output_sample_rate", 24000),
        ("decode_upsample_rate", 1920),
        ("encode_downsample_rate", 1920),
        ("encoder_valid_num_quantizers", 16),
    ):
        keys.set_uint32(f"{p}.{key}", config.int(key, default))
    d, e = config.sub("decoder_config"), config.sub("encoder_config")
    heads = d.int("num_attention_heads")
    for key, value in (
        ("latent_dim", d.int("latent_dim")),
        ("codebook_dim", d.int("codebook_dim")),
        ("codebook_size", d.int("codebook_size")),
        ("decoder_dim", d.int("decoder_dim")),
        ("hidden_size", d.int("hidden_size")),
        ("intermediate_size", d.int("intermediate_size")),
        ("head_dim", d.int("head_dim", d.int("hidden_size") // max(1, heads))),
        ("num_attention_heads", heads),
        ("num_key_value_heads", d.int("num_key_value_heads", heads)),
        ("num_hidden_layers", d.int("num_hidden_layers")),
        ("num_quantizers", d.int("num_quantizers")),
        ("num_semantic_quantizers", d.int("num_semantic_quantizers", 1)),
    ):
        keys.set_uint32(f"{p}.decoder.{key}", value)
    keys.set_float32(f"{p}.decoder.rms_norm_eps", d.float("rms_norm_eps", 1e-5))
    keys.set_float32(f"{p}.decoder.rope_theta", d.float("rope_theta", 10000.0))
    keys.set_uint32(f"{p}.decoder.sliding_window", d.int("sliding_window", 72))
    keys.set_float32(f"{p}.decoder.layer_scale_initial_scale", d.float("layer_scale_initial_scale", 0.01))
    keys.set_int32s(f"{p}.decoder.upsample_rates", d.ints("upsample_rates"))
    keys.set_int32s(f"{p}.decoder.upsampling_ratios", d.ints("upsampling_ratios"))
    vq_dim = d.int("vector_quantization_hidden_dimension", d.int("codebook_dim"))
    keys.set_uint32(f"{p}.decoder.vector_quantization_hidden_dim", vq_dim)
    keys.set_uint32(f"{p}.decoder.codebook_dim_internal", d.int("codebook_dim") // 2)

    heads = e.int("num_attention_heads")
    for key, default in (
        ("num_filters", None),
        ("kernel_size", 7),
        ("last_kernel_size", 3),
        ("residual_kernel_size", 3),
        ("num_residual_layers", 1),
        ("dilation_growth_rate", 2),
        ("compress", 2),
    ):
        keys.set_uint32(f"{p}.encoder.{key}", e.int(key, default))
    keys.set_int32s(f"{p}.encoder.upsampling_ratios", e.ints("upsampling_ratios"))
    for key, default in (
        ("hidden_size", None),
        ("intermediate_size", None),
        ("head_dim", e.int("hidden_size") // max(1, heads)),
        ("num_attention_heads", None),
        ("num_key_value_heads", heads),
        ("num_hidden_layers", None),
    ):
        keys.set_uint32(f"{p}.encoder.{key}", e.int(key, default))
    keys.set_float32(f"{p}.encoder.norm_eps", e.float("norm_eps", 1e-5))
    keys.set_float32(f"{p}.encoder.rope_theta", e.float("rope_theta", 10000.0))
    keys.set_float32(f"{p}.encoder.layer_scale_initial_scale", e.float("layer_scale_initial_scale", 0.01))
    for key, default in (
        ("codebook_dim", e.int("vector_quantization_hidden_dimension", e.int("codebook_dim"))),
        ("codebook_size", None),
        ("num_quantizers", None),
        ("num_semantic_quantizers", 1),
    ):
        keys.set_uint32(f"{p}.encoder.{key}", e.int(key, default))
    vq_dim = e.int("vector_quantization_hidden_dimension", e.int("codebook_dim"))
    keys.set_uint32(f"{p}.encoder.vector_quantization_hidden_dim", vq_dim)


def _add_tables(keys: Keys, prefix: str, talker: Section) -> None:
    """Language and speaker tables, sorted by name."""
    languages = talker.sub("codec_language_id").values
    names = sorted(languages)
    ids = [_id(languages[n], f"{talker.where}.codec_language_id.{n}") for n in names]
    if names:
        keys.set_strings(f"{prefix}.language_names", names)
        keys.set_int32s(f"{prefix}.language_ids", ids)
    speakers, dialects = talker.values.get("spk_id") or {}, talker.values.get("spk_is_dialect") or {}
    if not speakers:
        return
    for key, table in (("spk_id", speakers), ("spk_is_dialect", dialects)):
        if not isinstance(table, Mapping):
            raise ModelFileError(f"{talker.where}.{key}: {table!r} is not a table of speakers")
    by_id = dict(zip(ids, names, strict=True))
    order = sorted(speakers)
    keys.set_strings(f"{prefix}.speaker_names", order)
    keys.set_int32s(f"{prefix}.speaker_ids", [_id(speakers[n], f"{talker.where}.spk_id.{n}") for n in order])
    keys.set_strings(f"{prefix}.speaker_dialects", [_dialect(dialects.get(n), by_id) for n in order])


def _id(value: Any, where: str) -> int:
    """A table entry as a number: 3061, [3061] or "3061"."""
    original = value
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise ModelFileError(f"{where}: {original!r} is not a token id (a number, a one-element list or a numeric string)")
    return value


def _dialect(value: Any, languages: Mapping[int, str]) -> str:
    """The dialect's language name, empty for none: false, "name", ["name"], or the language's id; true names none."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if isinstance(value, int) and not isinstance(value, bool):
        return languages.get(value, "")
    if isinstance(value, str):
        text = value.strip()
        return "" if text.lower() in ("", "false", "none", "true") else text
    return ""


def _add_generation(keys: Keys, key: str, value: Any, published: Any) -> None:
    where = f"generation_config.{key}"
    if isinstance(published, bool):
        if not isinstance(value, bool):
            raise ModelFileError(f"{where}: {value!r} is not true or false")
        keys.set_bool(f"generation.{key}", value)
    elif isinstance(published, int):
        keys.set_uint32(f"generation.{key}", Section({key: value}, "generation_config").int(key))
    else:
        keys.set_float32(f"generation.{key}", Section({key: value}, "generation_config").float(key))


def _text(config: Section, key: str) -> str:
    value = config.values.get(key)
    if not isinstance(value, str) or not value:
        raise ModelFileError(f"{config.where}.{key}: {value!r} is not a text")
    return value
