"""TTS, the class users hold: a loaded talker and codec that turn text into a Speech or a stream of chunks, and a recording into a Voice.

text -> Request (request.py) -> chunks -> all of them (synthesize) or one by one from a worker (stream); audio -> encoders -> Voice.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter, sleep
from typing import Any

import numpy as np

from . import hub
from . import language as languages
from . import prompt as prompts
from .engine import TALKER, Engine, Session, Tap, trim_memory
from .errors import GenerateError, ModeError, ModelFileError, ParameterError
from .generate import interruptible
from .reference import MAX_S, read_recording, remarks
from .request import Call, Request
from .speech import Chunk, Speech, collect
from .streaming import deliver
from .talker_info import read_talker_info
from .tokenizer import TokenizerThread
from .voice import Voice

_log = logging.getLogger("qwentts")
PAD_SILENCE_S = 0.5  # behind a reference, so that the speech does not begin with its last sound
MAX_CLIP_S = 120.0
SPEAKER_RATE_HZ = 24000  # what the speaker encoder hears, whatever the codec's rate
VOICES_KEPT = 16  # voices whose prompt rows are kept; a second of reference is 50 KB at a width of 1024
CLOSE_S = 60.0
DEMO_NOTE = (
    "no model given, so the small demonstration voice speaks; for a real one run `qwentts download 0.6b-customvoice` and add"
    " --model 0.6b-customvoice, or `qwentts convert CHECKPOINT_DIR` and name the two files with --model and --codec"
)


def demo_files() -> tuple[Path, Path]:
    """The talker and codec file of the demonstration voice in the package."""
    folder = Path(__file__).with_name("voices") / "demo"
    found = [sorted(folder.glob(f"{kind}-*.gguf")) for kind in ("qwen-talker", "qwen-tokenizer")]
    if not all(found):
        raise ModelFileError(f"the demonstration voice is missing from {folder}: give a model and a codec file")
    return found[0][0], found[1][0]


class TTS:
    """A voice model, loaded: the demonstration voice, two files, or a name such as `0.6b-customvoice` (hub.py).

    threads is how many compute in all; codec_threads of them decode while the others make frames (0: they take turns; None: a quarter
    of them where this process may use four cores or more, else 0). The bytes are the same with any.

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
        kv_type: str = "f16",
        codec_threads: int | None = None,
    ) -> None:
        model, codec = hub.resolve(model, codec)
        if (model is None) != (codec is None):
            missing = "codec (qwen-tokenizer-*.gguf)" if codec is None else "model (qwen-talker-*.gguf)"
            raise ParameterError(f"{missing} is missing: give both files, or neither for the demonstration voice")
        start = perf_counter()
        self.is_demo = model is None
        if model is None or codec is None:
            _log.info(DEMO_NOTE)
            model, codec = demo_files()
        reading = TokenizerThread(model)  # beside the engine, whose loading needs no interpreter
        try:
            self._engine = Engine(
                model, codec, backend=backend, threads=threads, flash_attention=flash_attention, clamp_fp16=clamp_fp16,
                codec_chunk_s=codec_chunk_s, kv_type=kv_type, codec_threads=codec_threads,
            )  # fmt: skip
        finally:
            reading.join()
        self.info = read_talker_info(self._engine.file(TALKER))
        self.facts, self.flash_attention, self.codec_threads = self._engine.facts, bool(flash_attention), self._engine.codec_threads
        self.tokenizer = reading.result()
        trim_memory()  # what the vocabulary was made from: 18 MB of 40
        self._idle: list[Session] = [self._engine.session()]
        self._busy: list[Call] = []
        self._closing = False
        self._voice_rows: dict[bytes, prompts.VoiceRows] = {}
        self.constants = prompts.ConstantRows(self.info, self._idle[0])
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
        voice: Voice | None = None,
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

        Options that are None come from the model file, then from the documented defaults (settings.py). voice is a clone (see clone).
        streaming_text picks the prompt layout, None is upstream's for the kind of model. split is `none` or `sentences` (None:
        `sentences` for the demonstration voice); piece i is drawn with seed + i. max_new_tokens is a limit in frames, for each piece;
        without one a cap follows from the text (generate.derived_cap_frames). seed None or -1 is random, and reported. cancel stops
        within a frame. progress is called with the number of frames so far, tap with every named stage (slow).
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        chunks: list[Chunk] = []
        self._speak(Request(self, **options, streams=False), chunks.append)
        return collect(chunks)

    def stream(
        self,
        text: str,
        *,
        language: str | None = "auto",
        speaker: str | None = None,
        instruct: str | None = None,
        voice: Voice | None = None,
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
    ) -> Generator[Chunk, None, None]:
        """The speech of `text` as it is made: after its first frame a chunk, then chunks of 2, 4 and 8 frames.

        Options as in synthesize; wrong ones are raised here, before the first chunk. All chunks together are what synthesize gives
        for the same seed, byte for byte. A thread computes ahead of the reader, by up to 64 chunks (40 s of audio). It starts when
        the first chunk is asked for and stops within a frame when the generator is closed or dropped, or `cancel` is set, in
        which case a last chunk says so.
        """
        options = {name: value for name, value in locals().items() if name != "self"}
        request = Request(self, **options)
        return deliver(request, partial(self._speak, request))

    def clone(self, audio: Any, text: str | None = None, *, pad_silence: bool = True, max_clip_s: float = MAX_CLIP_S) -> Voice:
        """The voice of a reference recording, for base models: a path, bytes, a file object or (array, rate), of any rate and channels.

        With its transcript `text` the voice is used in context, without it only the speaker embedding is. Half a second of silence
        is put behind the recording's codes unless pad_silence is False. Voice.warnings says what makes it a poor reference.
        """
        if self.info.model_type != "base":
            raise ModeError(f"--ref-wav is only valid for base models (loaded: {self.info.model_type})")
        if not self.facts.speaker_size:
            raise ModelFileError("this base model file has no speaker encoder (spk_enc.*), so it cannot clone")
        if isinstance(max_clip_s, bool) or not isinstance(max_clip_s, (int, float)) or not 0 < max_clip_s <= MAX_S:
            raise ParameterError(f"max_clip_s is {max_clip_s!r}, valid are seconds above 0 up to {MAX_S}")
        if text is not None and (not isinstance(text, str) or not text.strip()):
            raise ParameterError(f"ref_text is {text!r}, expected what the reference recording says, or None for its timbre alone")
        recording = read_recording(audio)
        if recording.duration_s > max_clip_s:
            raise ParameterError(f"ref_audio is {recording.duration_s:.1f} s long, max_clip_s allows {max_clip_s:g}: 3 to 15 s are good")
        pad_s = PAD_SILENCE_S if pad_silence and text is not None else 0.0
        if recording.duration_s + pad_s > MAX_S:
            raise ParameterError(
                f"ref_audio is {recording.duration_s:.2f} s long, and with {pad_s:g} s of silence behind it more than the {MAX_S} s that"
                " the encoder takes: cut it, or set pad_silence to False"
            )
        codes, timings = None, {}
        with self._session(Call(None)) as session:
            session.reset()
            start = perf_counter()
            samples = recording.resampled(SPEAKER_RATE_HZ)
            speaker = interruptible(session, lambda: session.speaker_embed(samples), None)
            timings["speaker"] = perf_counter() - start
            if text is not None:
                start, rate = perf_counter(), self.facts.sample_rate
                heard = np.concatenate([recording.resampled(rate), np.zeros(round(pad_s * rate), np.float32)])
                codes = interruptible(session, lambda: session.codec_encode(heard), None)
                timings["codes"] = perf_counter() - start
        warnings = remarks(recording, text, 0 if codes is None else len(codes))
        _log.info("cloned %.2f s of audio: %s", recording.duration_s, ", ".join(f"{k} {v:.3f} s" for k, v in timings.items()))
        return Voice(speaker, codes, text, pad_s, tuple(warnings), timings, self.facts.codebook_size)

    def voice_rows(self, voice: Voice, session: Session) -> prompts.VoiceRows:
        """The prompt rows of a voice, kept for the next request with the same contents."""
        key = voice.key()
        rows = self._voice_rows.pop(key, None)
        if rows is None:
            assert voice.speaker is not None
            ids: list[int] = []
            codes = np.zeros((0, self.facts.n_code_groups), np.int32)
            if voice.codes is not None and voice.text is not None:
                ids, codes = self.tokenizer.encode(prompts.transcript(voice.text)), voice.codes
            rows = prompts.voice_rows(session, voice.speaker, ids, codes)
        for old in list(self._voice_rows)[: -VOICES_KEPT + 1]:
            self._voice_rows.pop(old, None)
        self._voice_rows[key] = rows
        return rows

    def _speak(self, request: Request, emit: Callable[[Chunk], None]) -> None:
        """What the request says, the last chunk after the session is free again."""
        with self._session(request) as session:
            try:
                if request.tap is not None:
                    session.set_tap(request.tap)
                request.speak(session, emit)
            finally:
                if request.tap is not None:
                    session.set_tap(None)
        emit(request.last())

    @contextmanager
    def _session(self, call: Call) -> Iterator[Session]:
        """A session that nobody else uses; the call can be interrupted while it is lent."""
        if self._engine.is_closed or self._closing:
            raise ParameterError("this TTS is closed")
        call.thread_id = threading.get_ident()
        self._busy.append(call)
        try:
            try:
                session = self._idle.pop()
            except IndexError:  # another thread speaks
                session = self._engine.session()
            call.own(session)
            try:
                yield session
            finally:
                call.own(None)
                self._idle.append(session)
        finally:
            self._busy.remove(call)

    def close(self) -> None:
        """Interrupt what is being spoken and free the model; closing twice is legal."""
        if any(call.thread_id == threading.get_ident() for call in self._busy):
            raise ParameterError("close() is called from within a call of this TTS, which is still running")
        self._closing = True
        deadline = perf_counter() + CLOSE_S
        while self._busy and perf_counter() < deadline:
            for call in list(self._busy):
                call.interrupt()
            sleep(0.001)
        if self._busy:
            raise GenerateError(f"a call of this TTS did not end within {CLOSE_S:g} s")
        self._idle.clear()
        self._engine.close()

    def __enter__(self) -> TTS:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
