"""The library's handles as Python objects: one method per qt_* call, numpy in, numpy out, failures raised as exceptions.

Engine holds the weights (shared, read-only); a Session over it holds one utterance's caches. Buffers handed to C are kept alive
by the object that passes them; logits land in arrays that the caller allocates once. Nothing here knows text, prompts or sampling.
"""

from __future__ import annotations

import math
import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._lib import ffi, keep_error, last_error, lib, raise_kept_error
from .errors import ModelFileError, ParameterError, from_status
from .model_file import ModelFile
from .sampling import Settings

INT32_MAX = (1 << 31) - 1
Tap = Callable[[str, np.ndarray], None]
TALKER, CODEC = 0, 1
KV_TYPES = {"f16": lib.QT_KV_F16, "f32": lib.QT_KV_F32}
CORES_TO_SPARE, CODEC_SHARE = 4, 4  # from so many cores on, a frame's products are bound by memory and hardly miss one thread in four


@dataclass(frozen=True)
class Facts:
    """Sizes of the loaded model, from the files' keys; 0 where the part is not loaded."""

    n_code_groups: int
    hidden_size: int
    codec_vocab_size: int
    code_vocab_size: int
    text_vocab_size: int
    context_length: int
    sample_rate: int
    hop_samples: int
    codebook_size: int
    speaker_size: int

    @property
    def frame_hz(self) -> float:
        """Frames a second."""
        return self.sample_rate / self.hop_samples


def _check(status: int) -> None:
    raise_kept_error()
    if status != 0:
        raise from_status(status, last_error())


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _floats(array: np.ndarray) -> Any:
    return ffi.from_buffer("float[]", array, require_writable=False)


def _ints(array: np.ndarray) -> Any:
    return ffi.from_buffer("int32_t[]", array, require_writable=False)


def _planes(codes: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.asarray(codes, np.int32).T)  # [frames, G] -> [G, frames]


def trim_memory() -> None:
    """Give memory that was freed back to the system."""
    lib.qt_trim_memory()


def default_codec_threads(threads: int, cores: int) -> int:
    """How many of all threads decode beside the frames, where the process may use so many cores."""
    return threads // CODEC_SHARE if min(threads, cores) >= CORES_TO_SPARE else 0


class Engine:
    """The weights of a talker and a codec on one backend. codec_threads of all threads decode beside the frames; None: see above."""

    def __init__(
        self,
        talker: str | os.PathLike[str] | None,
        codec: str | os.PathLike[str] | None,
        *,
        backend: str = "auto",
        threads: int | None = None,
        flash_attention: bool = True,
        clamp_fp16: bool = False,
        codec_chunk_s: float | None = None,
        kv_type: str = "f16",
        codec_threads: int | None = None,
    ) -> None:
        if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= 4096):
            raise ParameterError(f"threads is {threads!r}, valid are 1 to 4096 (default: every core this process may use)")
        cores = lib.qt_cpu_default_threads()
        n_threads, has_both = threads or cores, talker is not None and codec is not None
        if codec_threads is not None and (
            isinstance(codec_threads, bool) or not isinstance(codec_threads, int) or not 0 <= codec_threads < n_threads
        ):
            raise ParameterError(f"codec_threads is {codec_threads!r}, valid are 0 to {n_threads - 1}: fewer than the {n_threads} in all")
        if codec_chunk_s is not None and not (_is_number(codec_chunk_s) and math.isfinite(codec_chunk_s) and codec_chunk_s > 0):
            raise ParameterError(f"codec_chunk_s is {codec_chunk_s!r}, valid are seconds above 0")
        if kv_type not in KV_TYPES:
            raise ParameterError(f"kv_type is {kv_type!r}, valid are {', '.join(KV_TYPES)}")
        if not isinstance(backend, str):
            raise ParameterError(f"backend is of type {type(backend).__name__}, expected str")
        for name, path in (("model", talker), ("codec", codec)):
            if path is not None and (not os.fsencode(path) or b"\0" in os.fsencode(path)):
                raise ParameterError(f"{name} is {os.fspath(path)!r}, expected the path of a GGUF file")
        params = ffi.new("struct qt_init_params *")
        _check(lib.qt_init_params_fill(params, lib.QT_ABI_VERSION, ffi.sizeof("struct qt_init_params")))
        keep = [ffi.new("char[]", os.fsencode(p)) if p is not None else ffi.NULL for p in (talker, codec)]
        keep.append(ffi.new("char[]", backend.encode()))
        params.talker_path, params.codec_path, params.backend = keep
        params.n_threads = threads or 0
        params.use_fa, params.clamp_fp16 = bool(flash_attention), bool(clamp_fp16)
        params.kv_type = KV_TYPES[kv_type]
        if codec_chunk_s is not None:
            params.codec_chunk_sec = codec_chunk_s
        handle = lib.qt_init(params)
        if handle == ffi.NULL:
            raise_kept_error()
            raise ModelFileError(last_error())
        self._handle = handle
        self._sessions: weakref.WeakSet[Session] = weakref.WeakSet()
        raise_kept_error()
        self._paths = (talker, codec)
        self.facts = self._read_facts()
        self.backend_name = ffi.string(lib.qt_backend_name(handle)).decode("utf-8", "replace")
        if codec_threads is None:
            codec_threads = default_codec_threads(n_threads, cores) if has_both and self.backend_name.startswith("CPU ") else 0
        self.codec_threads = codec_threads
        if codec_threads:
            _check(lib.qt_set_codec_threads(handle, codec_threads))
            self.backend_name += f", {codec_threads} of them the codec's"

    def _read_facts(self) -> Facts:
        facts = ffi.new("struct qt_facts *")
        _check(lib.qt_facts_get(self._handle, facts, ffi.sizeof("struct qt_facts")))
        return Facts(*(getattr(facts, field) for field in Facts.__dataclass_fields__))

    def file(self, kind: int) -> ModelFile:
        """The loaded talker (TALKER) or codec (CODEC) file."""
        handle = lib.qt_context_file(self._handle, kind)
        if handle == ffi.NULL:
            raise ModelFileError(f"no {'talker' if kind == TALKER else 'codec'} file is loaded")
        return ModelFile(handle, os.fspath(self._paths[kind] or ""), self)

    def session(self) -> Session:
        """A new session over these weights."""
        session = Session(self)
        self._sessions.add(session)
        return session

    @property
    def is_closed(self) -> bool:
        """The weights are gone."""
        return self._handle is None

    def close(self) -> None:
        """Free the sessions, then the weights; closing twice is legal."""
        if self._handle is not None:
            for session in list(self._sessions):
                session.close()
            handle, self._handle = self._handle, None  # first: Ctrl-C right behind the call must not free twice
            lib.qt_free(handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()


class Session:
    """State of one utterance: talker cache, predictor cache, codec stream, cancel flag."""

    def __init__(self, engine: Engine) -> None:
        out = ffi.new("struct qt_session **")
        _check(lib.qt_session_new(engine._handle, out))
        self._handle = out[0]
        self._engine = engine
        self._tap: Any = None
        facts = engine.facts
        self.facts = facts
        self._codes = np.zeros(max(facts.n_code_groups, 1), np.int32)
        self._codes_view = _ints(self._codes)
        self._sampling = ffi.new("struct qt_sampling *")
        self._settings: Settings | None = None  # that _sampling holds
        self._views: dict[int, tuple[np.ndarray, Any]] = {}

    def _view(self, array: np.ndarray) -> Any:
        """The C view of a float32 array that is passed again and again; made once."""
        entry = self._views.get(id(array))
        if entry is None or entry[0] is not array:
            if len(self._views) >= 16:  # overlay rows of a prompt come and go, the hot arrays return at once
                self._views.clear()
            entry = self._views[id(array)] = (array, _floats(array))
        return entry[1]

    def reset(self) -> None:
        """Forget the utterance and a pending cancel."""
        _check(lib.qt_session_reset(self._handle))

    def cancel(self) -> None:
        """From any thread: the running call, or else the next one, raises Cancelled soon."""
        if self._handle is not None:
            lib.qt_session_cancel(self._handle)

    def set_tap(self, tap: Tap | None) -> None:
        """Call `tap(name, values)` with every named stage of the following calls; None ends it."""
        if tap is None:
            _check(lib.qt_session_set_tap(self._handle, ffi.NULL, ffi.NULL))
            self._tap = None
            return

        def forward(name: Any, data: Any, ne: Any, _user_data: Any) -> None:
            shape = [ne[3], ne[2], ne[1], ne[0]]
            while len(shape) > 1 and shape[0] == 1:
                del shape[0]
            count = int(np.prod(shape))
            values = np.frombuffer(ffi.buffer(data, count * 4), np.float32).reshape(shape).copy()
            tap(ffi.string(name).decode("utf-8", "replace"), values)

        callback = ffi.callback("qt_tap_cb", forward, onerror=keep_error)
        _check(lib.qt_session_set_tap(self._handle, callback, ffi.NULL))
        self._tap = callback

    def text_embed(self, ids: np.ndarray) -> np.ndarray:
        """Rows float32 [n, D]: the text projection of the text embedding of ids [n]."""
        ids = np.ascontiguousarray(ids, np.int32)
        rows = np.empty((ids.size, self.facts.hidden_size), np.float32)
        _check(lib.qt_text_embed(self._handle, _ints(ids), ids.size, _floats(rows)))
        return rows

    def code_embed(self, codebook: int, codes: np.ndarray) -> np.ndarray:
        """Rows float32 [n, D] of a codebook's embedding table (0: the talker's, special ids too)."""
        codes = np.ascontiguousarray(codes, np.int32)
        rows = np.empty((codes.size, self.facts.hidden_size), np.float32)
        _check(lib.qt_code_embed(self._handle, codebook, _ints(codes), codes.size, _floats(rows)))
        return rows

    def prefill(self, rows: np.ndarray, logits: np.ndarray) -> None:
        """Append rows [n, D]; logits [codec vocabulary] of codebook 0 after the last row."""
        rows = np.ascontiguousarray(rows, np.float32)
        _check(lib.qt_talker_prefill(self._handle, _floats(rows), rows.shape[0], self._view(logits)))

    def step(self, codes: np.ndarray, overlay: np.ndarray, logits: np.ndarray) -> None:
        """Append one row: the embeddings of codes [G] summed, plus overlay [D]; logits as in prefill."""
        self._codes[:] = codes
        _check(lib.qt_talker_step(self._handle, self._codes_view, self._view(overlay), self._view(logits)))

    def predictor_begin(self, code0: int, logits: np.ndarray) -> None:
        """Start a frame with codebook 0's code; logits [code vocabulary] of codebook 1."""
        _check(lib.qt_predictor_begin(self._handle, code0, self._view(logits)))

    def predictor_step(self, code: int, logits: np.ndarray) -> None:
        """Give the code drawn from the last logits; logits of the next codebook."""
        _check(lib.qt_predictor_step(self._handle, code, self._view(logits)))

    def predictor_frame(self, code0: int, uniforms: np.ndarray, settings: Settings, codes: np.ndarray) -> None:
        """All of a frame: codes int32 [G] = code0, then one draw a codebook with uniforms float32 [G - 1]."""
        if settings is not self._settings:
            self._settings, sampling = settings, self._sampling
            sampling.greedy, sampling.top_k = settings.greedy, min(settings.top_k, INT32_MAX)
            sampling.temperature, sampling.top_p = settings.temperature, settings.top_p
        _check(lib.qt_predictor_frame(self._handle, code0, _floats(uniforms), self._sampling, self._codes_view))
        codes[:] = self._codes

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Samples float32 [frames * hop] in [-1, 1] of codes int32 [frames, G], in one pass."""
        planes = _planes(codes)
        audio = ffi.new("struct qt_audio *")
        _check(lib.qt_codec_decode(self._handle, _ints(planes), planes.shape[1], audio))
        try:
            return np.frombuffer(ffi.buffer(audio.samples, audio.n_samples * 4), np.float32).copy()
        finally:
            lib.qt_audio_free(audio)

    def stream_reset(self) -> None:
        """Forget the decoder's stream: the next push starts an utterance."""
        _check(lib.qt_stream_reset(self._handle))

    def stream_prime(self, codes: np.ndarray) -> bool:
        """Reset, then take in codes int32 [frames, G] without giving their samples; whether a kept state was copied instead."""
        planes = _planes(codes)
        reused = ffi.new("bool *")
        _check(lib.qt_stream_prime(self._handle, _ints(planes), planes.shape[1], reused))
        return bool(reused[0])

    def stream_push(self, codes: np.ndarray, *, beside: bool = False) -> np.ndarray:
        """Samples float32 [frames * hop] of the next codes int32 [frames, G]: those of the one-pass decode, however they are split.

        beside: on the codec's own threads, so that another thread may call step and predictor_* of this session meanwhile.
        """
        planes = _planes(codes)
        samples = np.empty(planes.shape[1] * self.facts.hop_samples, np.float32)
        push = lib.qt_stream_push_beside if beside else lib.qt_stream_push
        _check(push(self._handle, _ints(planes), planes.shape[1], _floats(samples)))
        return samples

    def codec_encode(self, samples: np.ndarray) -> np.ndarray:
        """Codes int32 [frames, G] of mono samples at facts.sample_rate; the last frame is padded with silence."""
        samples = np.ascontiguousarray(samples, np.float32)
        if samples.ndim != 1:
            raise ParameterError(f"samples have {samples.ndim} axes, valid is 1: [n_samples]")
        hop, n_groups = self.facts.hop_samples, self.facts.n_code_groups
        capacity = -(-samples.size // hop) if hop else 0
        planes = np.zeros((max(n_groups, 1), max(capacity, 1)), np.int32)
        n_frames = ffi.new("int *")
        _check(lib.qt_codec_encode(self._handle, _floats(samples), samples.size, _ints(planes), capacity, n_frames))
        return np.ascontiguousarray(planes[:, : n_frames[0]].T)

    def speaker_embed(self, samples: np.ndarray) -> np.ndarray:
        """The speaker embedding float32 [D] of mono samples at 24 kHz."""
        samples = np.ascontiguousarray(samples, np.float32)
        if samples.ndim != 1:
            raise ParameterError(f"samples have {samples.ndim} axes, valid is 1: [n_samples]")
        embedding = np.zeros(max(self.facts.speaker_size, 1), np.float32)
        _check(lib.qt_speaker_embed(self._handle, _floats(samples), samples.size, _floats(embedding)))
        return embedding

    def close(self) -> None:
        """Free the caches; closing twice is legal."""
        if self._handle is not None:
            handle, self._handle = self._handle, None
            lib.qt_session_free(handle)
            self._tap = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None and self._engine._handle is not None:
            self.close()
