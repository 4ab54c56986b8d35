"""TTS, the class users hold: a loaded talker and codec that turn text into a Speech.

text -> checks and defaults -> pieces -> token ids -> prompt rows -> frame loop -> codes -> codec -> samples.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

from . import language as languages
from . import prompt as prompts
from .engine import TALKER, Engine, Session, Tap
from .errors import Cancelled, ModelFileError, ParameterError
from .generate import CANCELLED, FrameLoop, Limits, frame_limit, interruptible
from .settings import DEFAULTS, Chosen, choose, choose_seed
from .speech import Piece, Speech, join
from .split import sentences
from .talker_info import read_talker_info
from .tokenizer import Tokenizer

_log = logging.getLogger("qwentts")
SPLITS = ("none", "sentences")
DEMO_NOTE = (
    "no model given, so the small demonstration voice speaks; for a real one download a Qwen3-TTS-12Hz checkpoint,"
    " run `qwentts convert CHECKPOINT_DIR`, and name the two files with --model and --codec"
)


def demo_files() -> tuple[Path, Path]:
    """The talker and codec file of the demonstration voice in the package."""
    folder = Path(__file__).with_name("voices") / "demo"
    found = [sorted(folder.glob(f"{kind}-*.gguf")) for kind in ("qwen-talker", "qwen-tokenizer")]
    if not all(found):
        raise ModelFileError(f"the demonstration voice is missing from {folder}: give a model and a codec file")
    return found[0][0], found[1][0]


class TTS:
    """A voice model, loaded.

    >>> from qwentts import TTS
    >>> with TTS() as tts:                         # the demonstration voice in the package
    ...     speech = tts.synthesize("Hello world.")
    >>> speech.finish_reason, speech.sample_rate
    ('stop', 24000)
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        codec: str | os.PathLike[str] | None = None,
        *,
        backend: str = "auto",
        threads: int | None = None,
        flash_attention: bool = True,
        clamp_fp16: bool = False,
        codec_chunk_s: float | None = None,
    ) -> None:
        if (model is None) != (codec is None):
            missing = "codec (qwen-tokenizer-*.gguf)" if codec is None else "model (qwen-talker-*.gguf)"
            raise ParameterError(f"{missing} is missing: give both files, or neither for the demonstration voice")
        start = perf_counter()
        self.is_demo = model is None
        if model is None or codec is None:
            _log.info(DEMO_NOTE)
            model, codec = demo_files()
        self._engine = Engine(
            model, codec, backend=backend, threads=threads, flash_attention=flash_attention, clamp_fp16=clamp_fp16,
            codec_chunk_s=codec_chunk_s,
        )  # fmt: skip
        file = self._engine.file(TALKER)
        self.info = read_talker_info(file)
        self.facts = self._engine.facts
        self._tokenizer = Tokenizer.from_file(file)
        self._idle: list[Session] = [self._engine.session()]
        self._constants = prompts.ConstantRows(self.info, self._idle[0])
        self.load_s = perf_counter() - start

    @property
    def backend_name(self) -> str:
        """Where it computes, such as `CPU avx2, 2 threads`."""
        return self._engine.backend_name

    @property
    def languages(self) -> list[str]:
        """Names that `language` accepts; codes and tags work too."""
        return languages.offered(self.info.languages)

    @property
    def speakers(self) -> list[str]:
        """Names that `speaker` accepts; empty for models without named speakers."""
        return list(self.info.speakers)

    def synthesize(
        self,
        text: str,
        *,
        language: str | None = "auto",
        speaker: str | None = None,
        instruct: str | None = None,
        streaming_text: bool | None = None,
        split: str | None = None,
        seed: int | None = None,
        max_new_tokens: int | None = None,
        greedy: bool | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        repetition_penalty: float | None = None,
        subtalker_temperature: float | None = None,
        subtalker_top_k: int | None = None,
        subtalker_top_p: float | None = None,
        repetition_guard: bool = True,
        cancel: threading.Event | None = None,
        progress: Callable[[int], None] | None = None,
        tap: Tap | None = None,
    ) -> Speech:
        """The speech of `text`.

        Options that are None come from the model file, then from the documented defaults (settings.py). streaming_text picks the
        prompt layout, None is upstream's for the kind of model. split is `none` or `sentences` (None: `sentences` for the demonstration
        voice); piece i is drawn with seed + i. max_new_tokens is a limit in frames, for each piece; without one a cap follows from the
        text (generate.derived_cap_frames). seed None or -1 is random, and reported. cancel stops within a frame. progress is called
        with the number of frames so far, tap with every named stage (slow).
        """
        start = perf_counter()
        caller = {
            "temperature": temperature, "top_k": top_k, "top_p": top_p, "repetition_penalty": repetition_penalty,
            "subtalker_temperature": subtalker_temperature, "subtalker_top_k": subtalker_top_k, "subtalker_top_p": subtalker_top_p,
        }  # fmt: skip
        _check_text("text", text)
        if instruct is not None:
            _check_text("instruct", instruct, may_be_blank=True)
        chosen = choose(caller, self.info.generation, greedy=greedy)
        warnings = list(chosen.warnings)
        if seed not in (None, -1) and chosen.talker.greedy and chosen.predictor.greedy:
            warnings.append("seed has no effect: decoding is greedy (give a temperature to sample)")
        seed = choose_seed(seed)
        if speaker is None and self.is_demo:
            speaker = self.speakers[0]
        prompts.check_mode(self.info, speaker=speaker, instruct=instruct)
        if speaker:
            speaker = prompts.find_speaker(self.info, speaker)
        if instruct and prompts.drops_instruction(self.info):
            warnings.append(f"instruct is ignored: {self.info.model_size} custom_voice models do not follow instructions")
            instruct = None
        request = _Request(
            self,
            language=languages.resolve(language, self.info.languages),
            speaker=speaker or None,
            instruct_ids=self._tokenizer.encode(prompts.instruction(instruct)) if instruct else [],
            streaming_text=streaming_text,
            chosen=chosen,
            max_new_tokens=max_new_tokens,
            guard=repetition_guard,
            cancel=cancel,
            progress=progress,
        )
        pieces = sentences(text) if self._splits(split) else [text]
        session = self._take_session()
        try:
            if tap is not None:
                session.set_tap(tap)
            parts: list[Speech] = []
            for i, piece in enumerate(pieces):
                session.reset()
                parts.append(request.speak(session, piece, (seed + i) % (1 << 64)))
                if parts[-1].finish_reason == CANCELLED:
                    break
        finally:
            if tap is not None:
                session.set_tap(None)
            self._idle.append(session)
        for i, part in enumerate(parts):
            if part.samples.size and float(np.abs(part.samples).max()) < SILENT_PEAK:
                warnings.append("the audio is silent" if len(parts) == 1 else f"the audio of piece {i + 1} is silent")
        return join(parts, seed=seed, total_s=perf_counter() - start, warnings=tuple(warnings))

    def _splits(self, split: str | None) -> bool:
        if split is not None and split not in SPLITS:
            raise ParameterError(f"split is {split!r}, valid are {', '.join(SPLITS)}")
        return split == "sentences" or (split is None and self.is_demo)

    def _take_session(self) -> Session:
        if self._engine.is_closed:
            raise ParameterError("this TTS is closed")
        try:
            return self._idle.pop()
        except IndexError:  # another thread speaks
            return self._engine.session()

    def close(self) -> None:
        """Free the model; closing twice is legal."""
        self._idle.clear()
        self._engine.close()

    def __enter__(self) -> TTS:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


SILENT_PEAK = 1e-4  # -80 dB: nothing that anybody hears


class _Request:
    """The options of one call, checked, and the speaking of one piece with them."""

    def __init__(
        self,
        tts: TTS,
        *,
        language: str,
        speaker: str | None,
        instruct_ids: list[int],
        streaming_text: bool | None,
        chosen: Chosen,
        max_new_tokens: int | None,
        guard: bool,
        cancel: threading.Event | None,
        progress: Callable[[int], None] | None,
    ) -> None:
        self.tts, self.chosen = tts, chosen
        self.language, self.speaker, self.instruct_ids, self.streaming_text = language, speaker, instruct_ids, streaming_text
        self.max_new_tokens, self.guard, self.cancel, self.progress = max_new_tokens, guard, cancel, progress
        self.frames_done = 0

    def speak(self, session: Session, text: str, seed: int) -> Speech:
        """One piece, spoken by a fresh session."""
        start = perf_counter()
        tts, info = self.tts, self.tts.info
        prompt = prompts.build(
            info,
            tts._tokenizer.encode(prompts.utterance(text)),
            language=self.language,
            speaker=self.speaker,
            instruct_ids=self.instruct_ids,
            streaming_text=self.streaming_text,
        )
        file_limit = int(info.generation.get("max_new_tokens", DEFAULTS["max_new_tokens"]))
        max_frames = frame_limit(self.max_new_tokens, file_limit, prompt.n_text, len(prompt.text_ids), tts.facts)
        loop = FrameLoop(
            session,
            prompts.render(prompt, session, tts._constants),
            eos=info.codec["eos"],
            chosen=self.chosen,
            seed=seed,
            limits=Limits(max_frames, self.guard, self.cancel),
        )
        frames = []
        for codes in loop:
            frames.append(codes)
            self.frames_done += 1
            if self.progress is not None:
                self.progress(self.frames_done)
        codes = np.array(frames, np.int32).reshape(len(frames), tts.facts.n_code_groups)
        decode_start = perf_counter()
        reason, samples = loop.finish_reason, np.empty(0, np.float32)
        if frames and reason != CANCELLED:
            try:
                samples = interruptible(session, lambda: session.decode(codes), self.cancel)
            except Cancelled:
                reason = CANCELLED
        end = perf_counter()
        return Speech(
            samples=samples,
            sample_rate=tts.facts.sample_rate,
            codes=codes,
            seed=seed,
            finish_reason=reason,
            max_frames=max_frames,
            timings={**loop.timings, "codec": end - decode_start, "total": end - start},
            pieces=(Piece(text, seed, reason, 0, samples.size, len(frames)),),
        )


def _check_text(name: str, text: str, *, may_be_blank: bool = False) -> None:
    if not isinstance(text, str):
        raise ParameterError(f"{name} is of type {type(text).__name__}, expected str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ParameterError(f"{name} is not valid UTF-8 (lone surrogate at character {error.start})") from None
    if not may_be_blank and not text.strip():
        raise ParameterError(f"{name} is {'blank' if text else 'empty'}: give something to speak")
