"""The facts of a talker file that decide prompts and defaults, read from its metadata keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import ModelFileError

if TYPE_CHECKING:
    from .model_file import ModelFile

MODEL_TYPES = ("base", "custom_voice", "voice_design")
CODEC_IDS = ("pad", "bos", "eos", "think", "nothink", "think_bos", "think_eos")
TEXT_IDS = ("tts_pad", "tts_bos", "tts_eos")
GENERATION = (
    "do_sample", "temperature", "top_k", "top_p", "repetition_penalty", "max_new_tokens",
    "subtalker_do_sample", "subtalker_temperature", "subtalker_top_k", "subtalker_top_p",
)  # fmt: skip


@dataclass(frozen=True)
class TalkerInfo:
    """Kind of model, tables and special ids of a talker file."""

    model_type: str  # one of MODEL_TYPES
    model_size: str  # "0b6", "1b7", in some files "0.6b", "1.7b"
    languages: Mapping[str, int]
    speakers: Mapping[str, int]
    dialects: Mapping[str, str]  # speaker -> language entry, only for speakers that have one
    codec: Mapping[str, int]  # the ids of CODEC_IDS
    text: Mapping[str, int]  # the ids of TEXT_IDS
    generation: Mapping[str, Any] = field(default_factory=dict)  # the file's sampling defaults, of GENERATION

    @property
    def streams_text(self) -> bool:
        """The prompt layout upstream uses for this kind of model when none is asked for."""
        return self.model_type == "base"


def read_talker_info(file: ModelFile) -> TalkerInfo:
    """The facts in `file`; raises ModelFileError that names the key."""
    model_type = file.require("qwen3-tts.model_type", str)
    if model_type not in MODEL_TYPES:
        raise ModelFileError(f"{file.path}: qwen3-tts.model_type is {model_type!r}, known are {', '.join(MODEL_TYPES)}")
    speakers = _table(file, "speaker")
    dialects = file.get("qwen3-tts.codec.speaker_dialects", [])
    if not isinstance(dialects, list):
        raise ModelFileError(f"{file.path}: qwen3-tts.codec.speaker_dialects is {dialects!r:.80}, expected an array of texts")
    if len(dialects) not in (0, len(speakers)):
        raise ModelFileError(f"{file.path}: qwen3-tts.codec.speaker_dialects has {len(dialects)} entries for {len(speakers)} speakers")
    generation = {name: _setting(file, name) for name in GENERATION}
    return TalkerInfo(
        model_type=model_type,
        model_size=str(file.get("qwen3-tts.model_size", "")),
        languages={name.lower(): id_ for name, id_ in _table(file, "language").items()},
        speakers=speakers,
        dialects={speaker: d.lower() for speaker, d in zip(speakers, dialects, strict=False) if d},
        codec={name: file.require(f"qwen3-tts.codec.{name}_id", int) for name in CODEC_IDS},
        text={name: file.require(f"qwen3-tts.text.{name}_id", int) for name in TEXT_IDS},
        generation={name: value for name, value in generation.items() if value is not None},
    )


def _setting(file: ModelFile, name: str) -> Any:
    """A sampling default of the file, None if it has none."""
    key, value = f"generation.{name}", file.get(f"generation.{name}")
    kinds, expected = (bool, "true or false") if name.endswith("do_sample") else ((int, float), "a number")
    if name.endswith(("top_k", "max_new_tokens")):
        kinds, expected = int, "a whole number"
    if value is not None and not (isinstance(value, kinds) and isinstance(value, bool) == (kinds is bool)):
        raise ModelFileError(f"{file.path}: {key} is {value!r:.80}, expected {expected}")
    if value is not None and name == "max_new_tokens" and value < 1:
        raise ModelFileError(f"{file.path}: {key} is {value}, valid are whole numbers from 1 (frames)")
    return value


def _table(file: ModelFile, what: str) -> dict[str, int]:
    names = file.get(f"qwen3-tts.codec.{what}_names", [])
    ids = file.get(f"qwen3-tts.codec.{what}_ids", [])
    if not isinstance(names, list) or not isinstance(ids, np.ndarray | list) or len(names) != len(ids):
        raise ModelFileError(f"{file.path}: qwen3-tts.codec.{what}_names and {what}_ids do not have the same length")
    return {name: int(id_) for name, id_ in zip(names, ids, strict=True)}
