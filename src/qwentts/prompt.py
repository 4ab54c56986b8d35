"""What the talker reads before it speaks: rows as pairs of ids, one text stream and one codec stream, added row by row.

text, language, speaker, instruction -> Prompt: text_ids, codec_ids [rows] (NONE where a stream has no part), overlay_ids, pad_id
Prompt -> render -> rows float32 [rows, D], overlay float32 [steps, D]; the row for later steps is that of pad_id.

Upstream counterpart: Qwen3TTSForConditionalGeneration.generate (prompt part) and the wrappers of Qwen3TTSModel.
The order of rows:  instruction | role | language prefix, speaker, pad | text ... | codec_bos.
Two layouts: all text in the prefill (custom_voice and voice_design by default), or text alongside speech, one row a step (base).
A cloned voice puts its x-vector in the speaker's place; with a transcript and codes (in context) the text begins with the transcript
and codec_bos is followed by the reference's frames, so that the model goes on where the reference ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from .errors import ModeError, ParameterError
from .language import AUTO
from .talker_info import TalkerInfo

NONE = -1  # the stream has no part in this row
SPEAKER = -2  # codec stream: the voice's x-vector
REFERENCE = -3  # the next row of the voice: of its transcript in the text stream, of its frames in the codec stream
ROLE_TOKENS = 3  # <|im_start|> assistant \n
TAIL_TOKENS = 5  # <|im_end|> \n <|im_start|> assistant \n
REF_TAIL_TOKENS = 2  # <|im_end|> \n
SIZES_WITHOUT_INSTRUCT = ("0b6", "0.6b")  # upstream drops the instruction of a custom_voice model of this size


@dataclass(frozen=True)
class VoiceRows:
    """A cloned voice as rows; text and frames are empty for a voice without a transcript."""

    speaker: np.ndarray  # float32 [D]
    text: np.ndarray  # float32 [tokens, D]
    frames: np.ndarray  # float32 [frames, D]


@dataclass
class Prompt:
    """Row specifications; see the head of this file."""

    text_ids: list[int] = field(default_factory=list)
    codec_ids: list[int] = field(default_factory=list)
    overlay_ids: list[int] = field(default_factory=list)  # text id added to step i; afterwards pad_id
    pad_id: int = 0
    n_text: int = 0  # tokens of the text itself
    voice: VoiceRows | None = None

    def add(self, text_ids: Sequence[int], codec_ids: Sequence[int]) -> None:
        """Append rows; one stream may be a single id that is repeated."""
        n = max(len(text_ids), len(codec_ids))
        self.text_ids += list(text_ids) * (n if len(text_ids) == 1 else 1)
        self.codec_ids += list(codec_ids) * (n if len(codec_ids) == 1 else 1)


class Embedder(Protocol):
    """What render needs of a session."""

    def text_embed(self, ids: np.ndarray) -> np.ndarray: ...
    def code_embed(self, codebook: int, codes: np.ndarray) -> np.ndarray: ...


def utterance(text: str) -> str:
    """The template of the text to speak."""
    return f"<|im_start|>assistant\n{text}<|im_end|>\n<|im_start|>assistant\n"


def instruction(instruct: str) -> str:
    """The template of an instruction."""
    return f"<|im_start|>user\n{instruct}<|im_end|>\n"


def transcript(text: str) -> str:
    """The template of what a reference recording says."""
    return f"<|im_start|>assistant\n{text}<|im_end|>\n"


def check_mode(info: TalkerInfo, *, speaker: str | None, instruct: str | None, reference: bool = False, ref_text: bool = False) -> None:
    """The seven mode rules: ParameterError when arguments contradict each other, ModeError when they do not fit the kind of model."""
    kind = info.model_type
    if speaker and reference:
        raise ParameterError("--speaker and --ref-wav are mutually exclusive: a voice is either named or cloned")
    if ref_text and not reference:
        raise ParameterError("--ref-text requires --ref-wav: a transcript alone is no voice")
    if speaker and kind != "custom_voice":
        raise ModeError(f"--speaker is only valid for custom_voice models (loaded: {kind})")
    if instruct and kind == "base":
        raise ModeError(f"--instruct is not valid for base models (loaded: {kind})")
    if reference and kind != "base":
        raise ModeError(f"--ref-wav is only valid for base models (loaded: {kind})")
    if kind == "custom_voice" and not speaker:
        raise ModeError(f"--speaker is required for custom_voice models (loaded: {kind}); valid are {', '.join(info.speakers)}")
    if kind == "voice_design" and not (instruct and instruct.strip()):
        raise ModeError(f"--instruct is required for voice_design models (loaded: {kind})")


def drops_instruction(info: TalkerInfo) -> bool:
    """Upstream ignores the instruction for this model."""
    return info.model_type == "custom_voice" and info.model_size.lower() in SIZES_WITHOUT_INSTRUCT


def find_speaker(info: TalkerInfo, speaker: str) -> str:
    """The table entry of a speaker, whatever the case; raises ParameterError that lists them."""
    name = speaker.strip().lower()
    for entry in info.speakers:
        if entry.lower() == name:
            return entry
    raise ParameterError(f"speaker {speaker!r} is not in this model; valid are {', '.join(info.speakers)}")


def language_id(info: TalkerInfo, language: str, speaker: str | None) -> int | None:
    """The id for the codec prefix, None for `auto`; a speaker's dialect takes the place of `auto` and of `chinese`."""
    dialect = info.dialects.get(speaker) if speaker else None
    if dialect and language in (AUTO, "chinese"):
        if dialect not in info.languages:
            raise ParameterError(f"speaker {speaker!r} has the dialect {dialect!r}, which the language table of the file lacks")
        return info.languages[dialect]
    return None if language == AUTO else info.languages[language]


def build(
    info: TalkerInfo,
    ids: Sequence[int],
    *,
    language: str = AUTO,
    speaker: str | None = None,
    instruct_ids: Sequence[int] = (),
    streaming_text: bool | None = None,
    voice: VoiceRows | None = None,
) -> Prompt:
    """The prompt for the ids of utterance(text); language and speaker are table entries, voice is a clone's."""
    role, text = ids[:ROLE_TOKENS], ids[ROLE_TOKENS:-TAIL_TOKENS]
    if not text:
        raise ParameterError("text has no tokens to speak")
    codec = info.codec
    lang = language_id(info, language, speaker)
    prefix = [codec["nothink"], codec["think_bos"], codec["think_eos"]]
    if lang is not None:
        prefix = [codec["think"], codec["think_bos"], lang, codec["think_eos"]]
    if speaker is not None:
        prefix.append(info.speakers[speaker])
    if voice is not None:
        prefix.append(SPEAKER)

    pad, bos, eos = info.text["tts_pad"], info.text["tts_bos"], info.text["tts_eos"]
    prompt = Prompt(pad_id=pad, n_text=len(text), voice=voice)
    if instruct_ids:
        prompt.add(instruct_ids, [NONE])
    prompt.add(role, [NONE])
    prompt.add([pad], prefix)
    prompt.add([bos], [codec["pad"]])
    streams = info.streams_text if streaming_text is None else streaming_text
    if voice is not None and len(voice.frames):
        words = [*[REFERENCE] * len(voice.text), *text, eos]
        sounds = [codec["bos"], *[REFERENCE] * len(voice.frames)]
        if streams:
            now = words[: len(sounds)]
            prompt.add([*now, *[pad] * (len(sounds) - len(now))], sounds)
            prompt.overlay_ids = words[len(sounds) :]
        else:
            prompt.add(words, [codec["pad"]])
            prompt.add([pad], sounds)
    elif streams:
        prompt.add(text[:1], [codec["bos"]])
        prompt.overlay_ids = [*text[1:], eos]
    else:
        prompt.add([*text, eos], [codec["pad"]])
        prompt.add([pad], [codec["bos"]])
    return prompt


class ConstantRows:
    """Embedding rows that every prompt of a model uses, computed once and always in the same call."""

    def __init__(self, info: TalkerInfo, session: Embedder) -> None:
        text = sorted(set(info.text.values()))
        codec = sorted({*info.codec.values(), *info.languages.values(), *info.speakers.values()})
        self.text = dict(zip(text, session.text_embed(np.array(text)), strict=True))
        self.codec = dict(zip(codec, session.code_embed(0, np.array(codec)), strict=True))


def voice_rows(session: Embedder, speaker: np.ndarray, text_ids: Sequence[int], codes: np.ndarray) -> VoiceRows:
    """The rows of a clone: x-vector [D], ids of transcript(text), codes int32 [frames, G]; ids and codes may be empty.

    The transcript is embedded in a call of its own, so that its rows are the same bytes whatever text follows.
    """
    ids = np.array(text_ids[ROLE_TOKENS:-REF_TAIL_TOKENS], np.int32)
    empty = np.zeros((0, speaker.size), np.float32)
    frames = session.code_embed(0, codes[:, 0]) if len(codes) else empty
    for g in range(1, codes.shape[1] if len(codes) else 0):
        frames += session.code_embed(g, codes[:, g])
    return VoiceRows(speaker, session.text_embed(ids) if ids.size else empty, frames)


def render(prompt: Prompt, session: Embedder, constants: ConstantRows) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows [n, D], overlay [steps, D] and the row [D] of every step after the overlay."""
    fresh = [i for i in (*prompt.text_ids, *prompt.overlay_ids) if i >= 0 and i not in constants.text]
    embedded = iter(session.text_embed(np.array(fresh)) if fresh else ())
    said = iter(prompt.voice.text if prompt.voice else ())
    heard = iter(prompt.voice.frames if prompt.voice else ())
    pad = constants.text[prompt.pad_id]

    def text_row(text_id: int) -> np.ndarray:
        if text_id == REFERENCE:
            return next(said)
        return constants.text[text_id] if text_id in constants.text else next(embedded)

    def codec_row(codec_id: int) -> np.ndarray:
        if codec_id == REFERENCE:
            return next(heard)
        if codec_id == SPEAKER:
            assert prompt.voice is not None
            return prompt.voice.speaker
        return constants.codec[codec_id]

    rows = np.zeros((len(prompt.text_ids), pad.size), np.float32)
    for row, text_id, codec_id in zip(rows, prompt.text_ids, prompt.codec_ids, strict=True):
        if text_id != NONE:
            row += text_row(text_id)
        if codec_id != NONE:
            row += codec_row(codec_id)
    overlay = np.zeros((len(prompt.overlay_ids), pad.size), np.float32)
    for row, text_id in zip(overlay, prompt.overlay_ids, strict=True):
        row += text_row(text_id)
    return rows, overlay, pad
