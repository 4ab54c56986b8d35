"""One call to speak: its options, checked, and the speaking of its pieces as a series of chunks.

options -> Request;  Request.speak(session, emit): pieces of text -> prompt rows -> frame loop -> codec stream -> emit(Chunk), ...
The codec decodes 8 frames at a time, and at the end what is left; for a caller who streams it begins with 1, 2 and 4. Fused attention gives
the same samples however frames are split, bit for bit; without it every caller's pushes begin with 1, 2 and 4.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from . import language as languages
from . import prompt as prompts
from .audio import silence
from .engine import Session, Tap
from .errors import Cancelled, ParameterError
from .generate import CANCELLED, FrameLoop, Limits, frame_limit, interruptible
from .pushes import Pushes
from .settings import DEFAULTS, choose, choose_seed
from .speech import PIECE_SILENCE_S, Chunk, Piece, worst
from .split import sentences
from .voice import Voice, check_code_range

if TYPE_CHECKING:
    from .tts import TTS

SPLITS = ("none", "sentences")
SILENT_PEAK = 1e-4  # -80 dB: nothing that anybody hears
IN_HAND_S = 1.0  # of audio that a reader can play: so long may 8 frames take on the codec's own threads
FIRST_FRAMES, MOST_FRAMES = 1, 8  # a push of 8 frames reads the codec's weights once for 0.64 s of audio


class Stop:
    """Set when the caller's event is, or when the request itself is to end."""

    def __init__(self, event: threading.Event | None) -> None:
        self._event, self._stopped = event, False

    def set(self) -> None:
        """End the request."""
        self._stopped = True

    def is_set(self) -> bool:
        """It is to end."""
        return self._stopped or (self._event is not None and self._event.is_set())


class Call:
    """Something that holds a session and can be interrupted from any thread."""

    def __init__(self, cancel: threading.Event | None) -> None:
        self.stop = Stop(cancel)
        self.thread_id: int | None = None  # of the thread that computes
        self._session: Session | None = None
        self._lock = threading.Lock()

    def interrupt(self) -> None:
        """End within the current computation."""
        self.stop.set()
        with self._lock:
            if self._session is not None:
                self._session.cancel()

    def own(self, session: Session | None) -> None:
        """The session that interrupt() may cancel; None once it is given back."""
        with self._lock:
            self._session = session


class Request(Call):
    """The checked options of one call to speak."""

    def __init__(
        self,
        tts: TTS,
        *,
        text: str,
        language: str | None,
        speaker: str | None,
        instruct: str | None,
        voice: Voice | None,
        streaming_text: bool | None,
        split: str | None,
        seed: int | None,
        max_new_tokens: int | None,
        greedy: bool | None,
        repetition_guard: bool,
        cancel: threading.Event | None,
        progress: Callable[[int], None] | None,
        tap: Tap | None = None,
        streams: bool = True,
        **sampling: float | None,
    ) -> None:
        if cancel is not None and not callable(getattr(cancel, "is_set", None)):
            raise ParameterError(f"cancel is of type {type(cancel).__name__}, expected threading.Event or None")
        super().__init__(cancel)
        self.started = perf_counter()
        self.tts, info = tts, tts.info
        _check_text("text", text)
        for name, value in (("instruct", instruct), ("language", language), ("speaker", speaker)):
            if value is not None:
                _check_text(name, value, may_be_blank=True)
        for name, flag, may_be_none in (
            ("greedy", greedy, True), ("streaming_text", streaming_text, True), ("repetition_guard", repetition_guard, False),
        ):  # fmt: skip
            if not isinstance(flag, bool) and not (flag is None and may_be_none):
                raise ParameterError(f"{name} is of type {type(flag).__name__}, expected bool{' or None' if may_be_none else ''}")
        for name, function in (("progress", progress), ("tap", tap)):
            if function is not None and not callable(function):
                raise ParameterError(f"{name} is of type {type(function).__name__}, expected a function or None")
        self.chosen = choose(sampling, info.generation, greedy=greedy)
        self.warnings = list(self.chosen.warnings)
        if seed not in (None, -1) and self.chosen.talker.greedy and self.chosen.predictor.greedy:
            self.warnings.append("seed has no effect: decoding is greedy (give a temperature to sample)")
        self.seed = choose_seed(seed)
        if speaker is None and tts.is_demo and voice is None:
            speaker = tts.speakers[0]
        prompts.check_mode(info, speaker=speaker, instruct=instruct, reference=voice is not None)
        self.speaker = prompts.find_speaker(info, speaker) if speaker else None
        if instruct and prompts.drops_instruction(info):
            self.warnings.append(f"instruct is ignored: {info.model_size} custom_voice models do not follow instructions")
            instruct = None
        self.voice = self._checked_voice(voice)
        self.language = languages.resolve(language, info.languages)
        self.instruct_ids = tts.tokenizer.encode(prompts.instruction(instruct)) if instruct else []
        self.streaming_text, self.max_new_tokens, self.guard = streaming_text, max_new_tokens, repetition_guard
        self.progress, self.tap = progress, tap
        self.streams = streams
        self._emits_since = self._emitted_s = 0.0
        self.first_frames = FIRST_FRAMES if streams or not tts.flash_attention else MOST_FRAMES
        self.pieces = sentences(text) if self._splits(split) else [text]

    def _splits(self, split: str | None) -> bool:
        if split is not None and split not in SPLITS:
            raise ParameterError(f"split is {split!r}, valid are {', '.join(SPLITS)}")
        return split == "sentences" or (split is None and self.tts.is_demo)

    def _checked_voice(self, voice: Voice | None) -> Voice | None:
        if voice is None:
            return None
        if not isinstance(voice, Voice):
            raise ParameterError(f"voice is of type {type(voice).__name__}, expected Voice (TTS.clone makes one)")
        facts = self.tts.facts
        if voice.speaker is None:
            raise ParameterError("voice has no speaker embedding, which every clone needs (--ref-spk)")
        if voice.speaker.size != facts.hidden_size:
            raise ParameterError(f"voice has a speaker embedding of {voice.speaker.size} values, this model's have {facts.hidden_size}")
        if voice.codes is not None:
            if voice.codes.shape[1] != facts.n_code_groups:
                raise ParameterError(f"voice has {voice.codes.shape[1]} codes a frame, this codec has {facts.n_code_groups}")
            check_code_range(voice.codes, facts.codebook_size)
        if not voice.in_context and (voice.codes is not None or voice.text is not None):
            missing, there = ("transcript", "codes") if voice.text is None else ("codes", "a transcript")
            self.warnings.append(f"voice has {there} but no {missing}: only its speaker embedding is used")
        return voice

    def is_urgent(self) -> bool:
        """What is decoded next must not wait: taking turns, or a reader who plays as it comes would soon have nothing to play."""
        if self.tts.codec_threads == 0 or self.tap is not None:
            return True
        if not self.streams or not self._emits_since:
            return self.streams
        return self._emitted_s - (perf_counter() - self._emits_since) < IN_HAND_S

    def speak(self, session: Session, emit: Callable[[Chunk], None]) -> None:
        """All audio, each chunk as soon as it is there; the caller gives the session back and then makes the last chunk with last()."""

        def tell(chunk: Chunk) -> None:
            self._emits_since = self._emits_since or perf_counter()
            self._emitted_s += chunk.samples.size / rate
            emit(chunk)

        rate = self.tts.facts.sample_rate
        self._runs: list[PieceRun] = []
        self._done: list[Piece] = []
        at = n_frames = 0
        self._tail = (np.empty((0, self.tts.facts.n_code_groups), np.int32), np.empty(0, np.float32))
        for i, text in enumerate(self.pieces):
            session.reset()
            gap = silence(PIECE_SILENCE_S if i else 0, rate)
            run = PieceRun(self, session, text, (self.seed + i) % (1 << 64), n_frames)
            self._runs.append(run)
            run.speak(gap, lambda codes, samples, i=i: tell(Chunk(samples, rate, codes, self.seed, i)))
            self._tail = run.tail
            n_frames += run.n_frames
            start = at + gap.size if run.n_samples else at
            self._done.append(Piece(text, run.seed, run.finish_reason, start, run.n_samples, run.n_frames))
            at = start + run.n_samples
            if run.finish_reason == CANCELLED:
                return
            if i + 1 < len(self.pieces) and run.tail[1].size:
                tell(Chunk(run.tail[1], rate, run.tail[0], self.seed, i))

    def last(self) -> Chunk:
        """The last chunk, with how the speech ended."""
        warnings = list(self.warnings)
        for i, run in enumerate(self._runs):
            if run.n_frames and run.finish_reason != CANCELLED and run.peak < SILENT_PEAK:
                warnings.append("the audio is silent" if len(self._runs) == 1 else f"the audio of piece {i + 1} is silent")
        codes, samples = self._tail
        timings: dict[str, float] = {}
        for run in self._runs:
            for name, value in run.timings.items():
                timings[name] = timings.get(name, 0.0) + value
        if self._runs[0].first_audio is not None:
            timings["first_audio"] = self._runs[0].first_audio - self.started
        return Chunk(
            samples=samples,
            sample_rate=self.tts.facts.sample_rate,
            codes=codes,
            seed=self.seed,
            piece=len(self._runs) - 1,
            finish_reason=worst(run.finish_reason for run in self._runs),
            max_frames=self._runs[-1].max_frames,
            timings={**timings, "total": perf_counter() - self.started},
            warnings=tuple(warnings),
            pieces=tuple(self._done),
            reference_reused=self._runs[0].reused,
        )


class PieceRun:
    """One piece, spoken by a fresh session.

    Afterwards: tail (what did not fill a push, or was not decoded any more), finish_reason, n_frames, n_samples (the gap left out),
    max_frames, timings, peak, first_audio, reused.
    """

    def __init__(self, request: Request, session: Session, text: str, seed: int, frames_before: int) -> None:
        self.request, self.session, self.text, self.seed = request, session, text, seed
        self.timings: dict[str, float] = {"prime": 0.0}
        self.reused: bool | None = None
        self.first_audio: float | None = None
        self.peak, self.n_frames, self.n_samples, self.max_frames = 0.0, 0, 0, 0
        self.finish_reason = CANCELLED
        self._frames_before = frames_before
        facts = request.tts.facts
        self.tail = (np.empty((0, facts.n_code_groups), np.int32), np.empty(0, np.float32))

    def speak(self, gap: np.ndarray, emit: Callable[[np.ndarray, np.ndarray], None]) -> None:
        """Say all: emit gets codes [n, G] and samples [n * hop] of whole pushes, the first of them behind the gap."""
        request = self.request
        pushes = Pushes(self.session, request.stop, emit, gap, request.is_urgent)
        loop: FrameLoop | None = None
        waiting: list[np.ndarray] = []
        try:
            with pushes:
                loop = self.loop()
                self._prime()
                size = request.first_frames
                for codes in loop:
                    waiting.append(codes)
                    self.n_frames += 1
                    if request.progress is not None:
                        request.progress(self._frames_before + self.n_frames)
                    pushes.check()
                    if len(waiting) == size:
                        whole, waiting, size = np.array(waiting), [], min(2 * size, MOST_FRAMES)
                        pushes.add(whole)
                if loop.finish_reason != CANCELLED:
                    pushes.drain()
                    if waiting:
                        self.tail = (np.array(waiting), pushes.decode(np.array(waiting)))
                    self.finish_reason = loop.finish_reason
        except Cancelled:
            pass
        if self.finish_reason == CANCELLED and (pushes.left or waiting):
            self.tail = (np.concatenate([*pushes.left, *(row[None] for row in waiting)]), self.tail[1])
        self.n_samples, self.peak, self.first_audio = pushes.n_samples, pushes.peak, pushes.first_audio
        self.timings |= {"codec": pushes.seconds, "codec_beside": pushes.seconds_beside}
        if loop is not None:
            self.timings.update(loop.timings)

    def loop(self) -> FrameLoop:
        """The frames of this piece, before the first is made."""
        request, tts = self.request, self.request.tts
        prompt = prompts.build(
            tts.info,
            tts.tokenizer.encode(prompts.utterance(self.text)),
            language=request.language,
            speaker=request.speaker,
            instruct_ids=request.instruct_ids,
            streaming_text=request.streaming_text,
            voice=tts.voice_rows(request.voice, self.session) if request.voice else None,
        )
        file_limit = int(tts.info.generation.get("max_new_tokens", DEFAULTS["max_new_tokens"]))
        self.max_frames = frame_limit(request.max_new_tokens, file_limit, prompt.n_text, len(prompt.text_ids), tts.facts)
        return FrameLoop(
            self.session,
            prompts.render(prompt, self.session, tts.constants),
            eos=tts.info.codec["eos"],
            chosen=request.chosen,
            seed=self.seed,
            limits=Limits(self.max_frames, request.guard, request.stop),
        )

    def _prime(self) -> None:
        voice = self.request.voice
        if voice is None or not voice.in_context:
            self.session.stream_reset()
            return
        start, codes = perf_counter(), voice.codes
        assert codes is not None
        self.reused = interruptible(self.session, lambda: self.session.stream_prime(codes), self.request.stop)
        self.timings["prime"] += perf_counter() - start


def _check_text(name: str, text: str, *, may_be_blank: bool = False) -> None:
    if not isinstance(text, str):
        raise ParameterError(f"{name} is of type {type(text).__name__}, expected str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ParameterError(f"{name} is not valid UTF-8 (lone surrogate at character {error.start})") from None
    if not may_be_blank and not text.strip():
        raise ParameterError(f"{name} is {'blank' if text else 'empty'}: give something to speak")
