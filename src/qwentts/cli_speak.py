"""The `tts` command: text in, WAV files out, with notes and warnings on stderr and figures as JSON."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from .audio import STDOUT, Output, wav_bytes
from .dump import StageDump
from .errors import ModeError, ParameterError
from .speech import Speech
from .tts import DEMO_NOTE, TTS

# the reference flags come with cloning; --ref-wav is known so that the mode rule can name it
MODE_FLAGS = (("--ref-wav", "PATH", "reference recording (base models; not in this version)"),)
REASONS = {
    "length": "the frame limit ({max_frames}) was reached before the speech ended; --max-new sets another",
    "repetition": "the speech only repeated itself and was ended; try another --seed",
    "cancelled": "cancelled",
}


def speak(args: argparse.Namespace) -> None:
    """Run the command."""
    if args.codec_chunk_dur is not None and not (math.isfinite(args.codec_chunk_dur) and args.codec_chunk_dur > 0):
        raise ParameterError(f"--codec-chunk-dur is {args.codec_chunk_dur}, valid are seconds above 0")
    texts = _lines(args) if args.stream_by_line else iter([_whole_text(args)])
    with ExitStack() as stack:
        # one file: open it before anything slow, so that an unwritable path is known at once
        single = None if args.stream_by_line else stack.enter_context(Output(args.output))
        dump = StageDump(args.dump) if args.dump else None
        if dump is not None:
            stack.callback(dump.close)
        if args.model is None and args.codec is None and not args.quiet:
            note(DEMO_NOTE)
        tts = stack.enter_context(
            TTS(
                args.model, args.codec, backend=args.backend, threads=args.threads, flash_attention=not args.no_fa,
                clamp_fp16=args.clamp_fp16, codec_chunk_s=args.codec_chunk_dur,
            )
        )  # fmt: skip
        if args.ref_wav is not None:
            if tts.info.model_type != "base":
                raise ModeError(f"--ref-wav is only valid for base models (loaded: {tts.info.model_type})")
            raise ParameterError("--ref-wav: cloning a voice is not part of this version")
        for number, text in enumerate(texts, 1):
            speech = _say(tts, text, args, dump)
            data = wav_bytes(speech.samples, speech.sample_rate, format=args.format)
            if single is not None:
                single.write(data)
            else:
                with Output(_numbered(args.output, number)) as out:
                    out.write(data)
            _report(tts, speech, args)


def note(message: str) -> None:
    """One line on stderr."""
    print(f"qwentts: {message}", file=sys.stderr, flush=True)


def _say(tts: TTS, text: str, args: argparse.Namespace, dump: StageDump | None) -> Speech:
    with _progress(args) as bar:
        speech = tts.synthesize(
            text,
            language=args.lang,
            speaker=args.speaker,
            instruct=args.instruct,
            streaming_text=args.streaming_text,
            split=args.split,
            seed=args.seed,
            max_new_tokens=args.max_new,
            greedy=args.greedy,
            temperature=args.temp,
            top_k=args.top_k,
            top_p=args.top_p,
            repetition_penalty=args.rep_pen,
            subtalker_temperature=args.sub_temp,
            subtalker_top_k=args.sub_top_k,
            subtalker_top_p=args.sub_top_p,
            repetition_guard=not args.no_repetition_guard,
            progress=lambda frames: bar.update(frames - bar.n),
            tap=dump.add if dump is not None else None,
        )
    if dump is not None:
        dump.add("codes", speech.codes.astype(np.float32))
        dump.add("audio", speech.samples)
    return speech


def _progress(args: argparse.Namespace) -> Any:
    from tqdm import tqdm

    hidden = args.quiet or args.json or not sys.stderr.isatty()
    return tqdm(desc="speaking", unit=" frames", file=sys.stderr, disable=hidden, leave=False)


def _report(tts: TTS, speech: Speech, args: argparse.Namespace) -> None:
    for warning in speech.warnings:
        note(f"warning: {warning}")
    if speech.finish_reason in REASONS:
        note(f"warning: finish reason {speech.finish_reason}: {REASONS[speech.finish_reason].format(max_frames=speech.max_frames)}")
    if args.json:
        print(json.dumps(_figures(tts, speech)), file=_json_stream(args), flush=True)


def _json_stream(args: argparse.Namespace) -> TextIO:
    return sys.stderr if args.output == STDOUT else sys.stdout  # standard output may be the WAV


def _figures(tts: TTS, speech: Speech) -> dict[str, Any]:
    total_s = speech.timings["total"]
    return {
        "finish_reason": speech.finish_reason,
        "seed": speech.seed,
        "frames": len(speech.codes),
        "max_frames": speech.max_frames,
        "samples": speech.samples.size,
        "sample_rate": speech.sample_rate,
        "duration_s": round(speech.duration_s, 4),
        "timings_s": {"load": round(tts.load_s, 4), **{name: round(value, 4) for name, value in speech.timings.items()}},
        "real_time_factor": round(total_s / speech.duration_s, 4) if speech.samples.size else None,
        "backend": tts.backend_name,
        "warnings": list(speech.warnings),
        "pieces": [
            {
                "text": piece.text, "seed": piece.seed, "finish_reason": piece.finish_reason, "frames": piece.n_frames,
                "start_s": round(piece.start_samples / speech.sample_rate, 4), "duration_s": round(piece.n_samples / speech.sample_rate, 4),
            }
            for piece in speech.pieces
        ],
    }  # fmt: skip


def _numbered(output: str, number: int) -> str:
    if output == STDOUT:
        return output
    path = Path(output)
    return str(path.with_name(f"{path.stem}-{number:04d}{path.suffix}"))


def _input(args: argparse.Namespace) -> tuple[str, Any]:
    """Name and binary stream of the text's source."""
    if args.text_file is not None:
        try:
            return f"text file {args.text_file!r}", open(args.text_file, "rb")  # noqa: SIM115  read to the end, then dropped
        except OSError as error:
            raise ParameterError(f"text file {args.text_file!r} cannot be read: {error.strerror}") from None
    if sys.stdin is None or sys.stdin.isatty():
        raise ParameterError("text is missing: give it as an argument, with --text-file or on standard input")
    return "text on standard input", sys.stdin.buffer


def _decode(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ParameterError(f"{source} is not valid UTF-8: byte {error.start} is 0x{data[error.start]:02x}") from None


def _whole_text(args: argparse.Namespace) -> str:
    if args.text is not None:
        if args.text_file is not None:
            raise ParameterError("text is given twice: as an argument and with --text-file")
        if not args.text.strip():
            raise ParameterError("text is empty: give something to speak")
        return args.text
    source, stream = _input(args)
    try:
        text = _decode(stream.read(), source)
    except OSError as error:
        raise ParameterError(f"{source} cannot be read: {error.strerror}") from None
    if not text:
        raise ParameterError(f"{source} is empty: give something to speak")
    return text


def _lines(args: argparse.Namespace) -> Iterator[str]:
    if args.text is not None:
        yield from (line.strip() for line in args.text.splitlines() if line.strip())
        return
    source, stream = _input(args)
    for line in stream:
        text = _decode(line, source)
        if text:
            yield text
