"""The `codec` command: audio to .rvq (and .spk), .rvq to WAV, and a load test that hears what it says."""

from __future__ import annotations

import argparse
import json
import math
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from . import hub
from .audio import SUBTYPES, save_wav
from .engine import CODEC, TALKER, Engine
from .errors import GenerateError, ModeError, ParameterError
from .output import check_stdout, print_result
from .reference import read_recording
from .talker_info import read_talker_info
from .voice import Voice

SPEAKER_RATE_HZ = 24000
TEST_S = 1.0  # length of the load test's tone


HELP = (
    "Audio to codes and back. The output lies next to the input under the same name: clip.wav gives clip.rvq (and clip.spk), clip.rvq"
    " gives clip.wav; a file that exists stays unless --force is given. The last frame is dropped unless it is whole. Without -i the"
    " codec file is loaded and tested with a tone."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `qwentts codec` and `qwen-codec`."""
    parser.description = HELP
    parser.add_argument("--model", metavar="GGUF", required=True, help="codec file, qwen-tokenizer-*.gguf, or 12hz: the downloaded one")
    parser.add_argument("-i", "--input", metavar="PATH", help=".rvq: decode; audio: encode")
    parser.add_argument("--talker", metavar="GGUF", help="base model, file or name: encoding also writes the speaker embedding (.spk)")
    parser.add_argument("--format", default="wav16", choices=tuple(SUBTYPES), help="16 or 24 bits, or 32-bit float (default wav16)")
    ours = parser.add_argument_group("beyond the specification")
    ours.add_argument("--codec-chunk-dur", type=float, metavar="S", help="seconds of audio decoded at a time (default 24)")
    ours.add_argument("--threads", type=int, metavar="N", help="default: every core this process may use")
    ours.add_argument("--backend", default="auto", metavar="NAME", help="auto or cpu (default auto)")
    ours.add_argument("-f", "--force", action="store_true", help="replace files that exist")
    ours.add_argument("--json", action="store_true", help="print the figures as JSON")


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    if args.codec_chunk_dur is not None and not (math.isfinite(args.codec_chunk_dur) and args.codec_chunk_dur > 0):
        raise ParameterError(f"--codec-chunk-dur is {args.codec_chunk_dur}, valid are seconds above 0")
    source = Path(args.input) if args.input is not None else None
    decodes = source is not None and source.suffix.lower() == ".rvq"
    if args.talker is not None and (source is None or decodes):
        raise ParameterError("--talker is for encoding: give audio with -i")
    if args.json:
        check_stdout("--json")
    recording = read_recording(source) if source is not None and not decodes else None
    start = perf_counter()
    talker = hub.find("talker", args.talker) if hub.is_name(args.talker) else args.talker
    codec = hub.find("codec", args.model) if hub.is_name(args.model) else args.model
    engine = Engine(talker, codec, backend=args.backend, threads=args.threads, codec_chunk_s=args.codec_chunk_dur)
    try:
        figures: dict[str, Any] = {"load_s": perf_counter() - start, "backend": engine.backend_name}
        if args.talker is not None:
            kind = read_talker_info(engine.file(TALKER)).model_type
            if kind != "base":
                raise ModeError(f"--talker must be a base model, which has a speaker encoder (loaded: {kind})")
        if source is not None and not args.force:
            _check_new(source, (".wav",) if decodes else (".rvq", ".spk") if args.talker is not None else (".rvq",))
        if source is None:
            figures |= self_test(engine)
        elif decodes:
            figures |= decode(engine, source, args.format)
        else:
            figures |= encode(engine, source, recording, speaker=args.talker is not None)
    finally:
        engine.close()
    _report(figures, as_json=args.json)


def _check_new(source: Path, suffixes: tuple[str, ...]) -> None:
    """Raise ParameterError where an output is there already: clip.wav may be the recording that clip.rvq was made of."""
    for path in map(source.with_suffix, suffixes):
        if path.exists():
            raise ParameterError(f"output {str(path)!r} exists: --force replaces it")


def encode(engine: Engine, source: Path, recording: Any, *, speaker: bool) -> dict[str, Any]:
    """Write the codes of whole frames, and with a talker the speaker embedding, next to the recording."""
    facts, session = engine.facts, engine.session()
    samples = recording.resampled(facts.sample_rate)
    n_frames = samples.size // facts.hop_samples
    if not n_frames:
        raise ParameterError(f"{str(source)!r} has {samples.size} samples at {facts.sample_rate} Hz, a frame needs {facts.hop_samples}")
    samples = samples[: n_frames * facts.hop_samples]
    start = perf_counter()
    codes = session.codec_encode(samples)
    figures: dict[str, Any] = {"encode_s": perf_counter() - start, "frames": n_frames, "duration_s": samples.size / facts.sample_rate}
    embedding = None
    if speaker:
        start = perf_counter()
        heard = recording.resampled(SPEAKER_RATE_HZ)
        embedding = session.speaker_embed(heard[: samples.size * SPEAKER_RATE_HZ // facts.sample_rate])
        figures["speaker_s"] = perf_counter() - start
    voice = Voice(embedding, codes, codebook_size=facts.codebook_size)
    figures["written"] = [str(source.with_suffix(".rvq"))]
    voice.save_rvq(source.with_suffix(".rvq"))
    if speaker:
        figures["written"].append(str(source.with_suffix(".spk")))
        voice.save_spk(source.with_suffix(".spk"))
    return figures


def decode(engine: Engine, source: Path, format: str) -> dict[str, Any]:
    """Write the audio of codes next to them."""
    facts = engine.facts
    codes = Voice.from_files(rvq=source, n_groups=facts.n_code_groups, codebook_size=facts.codebook_size).codes
    assert codes is not None
    start = perf_counter()
    samples = engine.session().decode(codes)
    figures = {"decode_s": perf_counter() - start, "frames": len(codes), "duration_s": samples.size / facts.sample_rate}
    save_wav(source.with_suffix(".wav"), samples, facts.sample_rate, format=format)
    return {**figures, "written": [str(source.with_suffix(".wav"))]}


def self_test(engine: Engine) -> dict[str, Any]:
    """Encode a rising tone, decode its codes, encode that again: figures that show both halves at work."""
    facts, session = engine.facts, engine.session()
    n_frames = math.ceil(TEST_S * facts.frame_hz)
    t = np.arange(n_frames * facts.hop_samples) / facts.sample_rate
    tone = (0.3 * np.sin(2 * np.pi * (150 * t + 400 * t**2)) * (1 + 0.5 * np.sin(2 * np.pi * 4 * t))).astype(np.float32)
    start = perf_counter()
    codes = session.codec_encode(tone)
    encoded = perf_counter()
    samples = session.decode(codes)
    decoded = perf_counter()
    again = session.codec_encode(samples)
    if len(codes) != n_frames or samples.size != tone.size or again.shape != codes.shape or not np.isfinite(samples).all():
        raise GenerateError(f"self-test: {tone.size} samples became {codes.shape} codes and {samples.size} samples")
    return {
        "self_test": "ok",
        "tensors": len(engine.file(CODEC).tensors()),
        "frames": n_frames,
        "code_groups": facts.n_code_groups,
        "duration_s": t.size / facts.sample_rate,
        "encode_s": encoded - start,
        "decode_s": decoded - encoded,
        "rms_in": _rms(tone),
        "rms_out": _rms(samples),
        "codes_used": int(np.unique(codes).size),
        "codes_kept": float((codes == again).mean()),
    }


def _rms(samples: np.ndarray) -> float:
    return float(np.sqrt(np.mean(samples.astype(np.float64) ** 2)))


def _report(figures: dict[str, Any], *, as_json: bool) -> None:
    figures = {name: round(value, 4) if isinstance(value, float) else value for name, value in figures.items()}
    if as_json:
        print_result(json.dumps(figures))
        return
    for path in figures.pop("written", []):
        print_result(path)
    print(", ".join(f"{name} {value}" for name, value in figures.items()), file=sys.stderr if not figures.get("self_test") else sys.stdout)
