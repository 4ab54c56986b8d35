"""The `tts` command: text in, WAV files out, with notes and warnings on stderr and figures as JSON."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

from . import prompt as prompts
from .audio import SUBTYPES, WavStream, wav_bytes
from .dump import StageDump
from .errors import ParameterError
from .output import STDOUT, Output, check_stdout, print_result
from .speech import Chunk, Speech
from .tts import DEMO_NOTE, TTS
from .voice import Voice

REFERENCE_FLAGS = (
    ("--ref-wav", "PATH", "reference recording of a voice to clone (base models)"),
    ("--ref-spk", "PATH", "its speaker embedding instead, as `qwen-codec --talker` writes it"),
    ("--ref-rvq", "PATH", "its codes, as qwen-codec writes them: in-context cloning, with --ref-spk and --ref-text"),
    ("--ref-text", "PATH", "file with what the recording says: in-context cloning"),
)
REASONS = {
    "length": "the frame limit ({max_frames}) was reached before the speech ended; --max-new sets another",
    "repetition": "the speech only repeated itself and was ended; try another --seed",
    "cancelled": "cancelled",
}


HELP = (
    "Text to speech. Surrounding white space of text from a file or standard input is dropped. Options left out come from the"
    " model file (generation.*), then from the defaults given here."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `qwentts tts`."""
    parser.add_argument("text", nargs="?", help="text to speak (default: --text-file, else standard input)")
    parser.add_argument("--text-file", metavar="PATH", help="read the text from a UTF-8 file")
    _add_options(parser, model_required=False)


def add_qwen_tts_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `qwen-tts`: the specification's, which takes its text from standard input."""
    parser.set_defaults(text=None, text_file=None)
    _add_options(parser, model_required=True)


def _add_options(parser: argparse.ArgumentParser, *, model_required: bool) -> None:
    """The specification's flags, and ours behind them."""
    parser.description = HELP
    demo = "" if model_required else " (default: the demonstration voice)"
    parser.add_argument(
        "--model", metavar="GGUF", help=f"talker: qwen-talker-*.gguf, or a name: 0.6b-customvoice{demo}", required=model_required
    )
    parser.add_argument("--codec", metavar="GGUF", help=f"codec file, qwen-tokenizer-*.gguf; a named model brings its own{demo}")
    parser.add_argument("-o", "--output", metavar="PATH", required=True, help="WAV file to write, - for standard output, as it is made")
    parser.add_argument("--format", default="wav16", choices=tuple(SUBTYPES), help="16 or 24 bits, or 32-bit float (default wav16)")
    parser.add_argument(
        "--lang", "--language", dest="lang", default="auto", metavar="NAME", help="name, code or tag: english, en, en-US (default auto)"
    )  # fmt: skip
    parser.add_argument("--instruct", metavar="TEXT", help="style instruction: required for voice_design, optional for custom_voice")
    parser.add_argument("--speaker", metavar="NAME", help="speaker of a custom_voice model")
    for flag, kind, text in REFERENCE_FLAGS:
        parser.add_argument(flag, metavar=kind, help=text)
    parser.add_argument("--max-new", type=int, metavar="N", help="limit in frames, for each utterance (default: from the text's length)")
    parser.add_argument(
        "--codec-chunk-dur",
        type=float,
        metavar="S",
        help="seconds of audio in one pass of the codec: speech is decoded as a stream and needs none",
    )
    parser.add_argument(
        "--stream-by-line", action="store_true",
        help="one utterance per input line as it comes: WAV after WAV on standard output, or PATH-0001.wav, PATH-0002.wav, ...",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, default=-1, metavar="N", help="0 to 2^64-1, -1 is random (default)")
    parser.add_argument("--greedy", action="store_true", default=None, help="no sampling in either stack")
    parser.add_argument("--temp", type=float, metavar="F", help="talker temperature (default 0.9)")
    parser.add_argument("--top-k", type=int, metavar="N", help="talker top-k, 0 is off (default 50)")
    parser.add_argument("--top-p", type=float, metavar="F", help="talker top-p (default 1.0, off)")
    parser.add_argument("--rep-pen", type=float, metavar="F", help="talker repetition penalty (default 1.05)")
    parser.add_argument("--sub-temp", type=float, metavar="F", help="sub-talker temperature (default 0.9)")
    parser.add_argument("--sub-top-k", type=int, metavar="N", help="sub-talker top-k (default 50)")
    parser.add_argument("--sub-top-p", type=float, metavar="F", help="sub-talker top-p (default 1.0)")
    parser.add_argument("--no-fa", action="store_true", help="attention as product, softmax, product")
    parser.add_argument("--clamp-fp16", action="store_true", help="keep hidden states within the range of half floats")
    parser.add_argument("--dump", metavar="DIR", help="write every named stage as raw f32, with index.json (slow)")
    ours = parser.add_argument_group("beyond the specification")
    ours.add_argument(
        "--streaming-text", action=argparse.BooleanOptionalAction, default=None,
        help="feed the text alongside the speech instead of before it (default: as the official code does for the kind of model)",
    )  # fmt: skip
    ours.add_argument("--voice", metavar="PATH", help="a cloned voice in one file, as Voice.save writes it")
    ours.add_argument("--no-pad-silence", action="store_true", help="do not put half a second of silence behind the codes of --ref-wav")
    ours.add_argument("--split", choices=("none", "sentences"), help="speak sentence by sentence (default: only the demonstration voice)")
    ours.add_argument("--no-repetition-guard", action="store_true", help="do not end speech that only repeats itself for 4 s")
    ours.add_argument("--threads", type=int, metavar="N", help="default: every core this process may use")
    ours.add_argument(
        "--codec-threads", type=int, metavar="N",
        help="of all threads, decoding while the others make frames; 0: in turn (default: a quarter on four cores or more)",
    )  # fmt: skip
    ours.add_argument("--backend", default="auto", metavar="NAME", help="auto or cpu (default auto)")
    ours.add_argument("--json", action="store_true", help="print timings, frames, seed and finish reason as JSON")
    ours.add_argument("--quiet", action="store_true", help="no progress bar, no notes; warnings and errors stay")


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    if args.codec_chunk_dur is not None and not (math.isfinite(args.codec_chunk_dur) and args.codec_chunk_dur > 0):
        raise ParameterError(f"--codec-chunk-dur is {args.codec_chunk_dur}, valid are seconds above 0")
    check_reference_flags(args)
    if args.json and args.output != STDOUT:
        check_stdout("--json")
    texts = _lines(args) if args.stream_by_line else iter([_whole_text(args)])
    with ExitStack() as stack:
        # one file: open it before anything slow, so that an unwritable path is known at once
        single = None if args.stream_by_line else stack.enter_context(Output(args.output))
        dump = StageDump(args.dump) if args.dump is not None else None
        if dump is not None:
            stack.callback(dump.close)
        if args.model is None and args.codec is None and not args.quiet:
            note(DEMO_NOTE)
        tts = stack.enter_context(
            TTS(
                args.model, args.codec, backend=args.backend, threads=args.threads, flash_attention=not args.no_fa,
                clamp_fp16=args.clamp_fp16, codec_chunk_s=args.codec_chunk_dur, codec_threads=args.codec_threads,
            )
        )  # fmt: skip
        voice = read_voice(tts, args)
        for warning in voice.warnings if voice else ():
            note(f"warning: {warning}")
        for number, text in enumerate(texts, 1):
            if single is not None and dump is None:
                said: Speech | Chunk = _stream(tts, text, args, voice, WavStream(single, tts.facts.sample_rate, format=args.format))
            else:
                said = speech = _say(tts, text, args, voice, dump)
                data = wav_bytes(speech.samples, speech.sample_rate, format=args.format)
                if single is not None:
                    single.write(data)
                else:
                    with Output(_numbered(args.output, number)) as out:
                        out.write(data)
            _report(tts, said, voice, args)


def note(message: str) -> None:
    """One line on stderr."""
    print(f"qwentts: {message}", file=sys.stderr, flush=True)


def check_reference_flags(args: argparse.Namespace) -> None:
    """Raise ParameterError where the flags contradict each other, whatever the model."""
    for flag in ("--voice", *(flag for flag, _, _ in REFERENCE_FLAGS)):
        if getattr(args, flag[2:].replace("-", "_")) == "":
            raise ParameterError(f"{flag} is empty, expected a path")
    any_reference = args.voice or args.ref_wav or args.ref_spk or args.ref_rvq
    if args.speaker and any_reference:
        raise ParameterError("--speaker and --ref-wav are mutually exclusive: a voice is either named or cloned")
    if args.voice and (args.ref_wav or args.ref_spk or args.ref_rvq or args.ref_text):
        raise ParameterError("--voice holds a whole voice: it does not go with --ref-wav, --ref-spk, --ref-rvq or --ref-text")
    if args.ref_wav and (args.ref_spk or args.ref_rvq):
        raise ParameterError("--ref-wav and --ref-spk are mutually exclusive: a recording, or what was made of it")
    if args.ref_text and not any_reference:
        raise ParameterError("--ref-text requires --ref-wav: a transcript alone is no voice")
    if args.ref_rvq and not (args.ref_spk and args.ref_text):
        raise ParameterError("--ref-rvq requires --ref-spk and --ref-text")
    if args.ref_spk and args.ref_text and not args.ref_rvq:
        raise ParameterError("--ref-text with --ref-spk requires --ref-rvq")


def read_voice(tts: TTS, args: argparse.Namespace) -> Voice | None:
    """The voice that the flags describe."""
    if not (args.voice or args.ref_wav or args.ref_spk):
        return None
    prompts.check_mode(tts.info, speaker=None, instruct=args.instruct, reference=True)
    if args.voice:
        return Voice.load(args.voice)
    sizes = {"n_groups": tts.facts.n_code_groups, "codebook_size": tts.facts.codebook_size}
    if args.ref_spk:
        return Voice.from_files(spk=args.ref_spk, rvq=args.ref_rvq, text=args.ref_text, **sizes)
    text = Voice.from_files(text=args.ref_text).text if args.ref_text else None
    return tts.clone(args.ref_wav, text, pad_silence=not args.no_pad_silence)


def _options(args: argparse.Namespace, voice: Voice | None) -> dict[str, Any]:
    return {
        "language": args.lang, "speaker": args.speaker, "instruct": args.instruct, "voice": voice,
        "streaming_text": args.streaming_text, "split": args.split, "seed": args.seed, "max_new_tokens": args.max_new,
        "greedy": args.greedy, "temperature": args.temp, "top_k": args.top_k, "top_p": args.top_p, "repetition_penalty": args.rep_pen,
        "subtalker_temperature": args.sub_temp, "subtalker_top_k": args.sub_top_k, "subtalker_top_p": args.sub_top_p,
        "repetition_guard": not args.no_repetition_guard,
    }  # fmt: skip


def _stream(tts: TTS, text: str, args: argparse.Namespace, voice: Voice | None, wav: WavStream) -> Chunk:
    """The last chunk, after all of them were written as they came."""
    chunks = tts.stream(text, **_options(args, voice))
    with closing(chunks), _progress(args) as bar:
        for chunk in chunks:
            if chunk.samples.size:
                wav.write(chunk.samples)
            bar.update(len(chunk.codes))
        wav.finish()
    return chunk


def _say(tts: TTS, text: str, args: argparse.Namespace, voice: Voice | None, dump: StageDump | None) -> Speech:
    with _progress(args) as bar:
        speech = tts.synthesize(
            text,
            **_options(args, voice),
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


def _report(tts: TTS, said: Speech | Chunk, voice: Voice | None, args: argparse.Namespace) -> None:
    for warning in said.warnings:
        note(f"warning: {warning}")
    if said.finish_reason in REASONS:
        note(f"warning: finish reason {said.finish_reason}: {REASONS[said.finish_reason].format(max_frames=said.max_frames)}")
    if args.json:
        figures = json.dumps(_figures(tts, said, voice))
        if args.output == STDOUT:  # standard output is the WAV
            print(figures, file=sys.stderr)
        else:
            print_result(figures)


def _figures(tts: TTS, said: Speech | Chunk, voice: Voice | None) -> dict[str, Any]:
    """What --json prints, for all of a text."""
    timings = dict(said.timings)
    total_s, first_s = timings["total"], timings.pop("first_audio", None)
    n_samples = said.pieces[-1].start_samples + said.pieces[-1].n_samples
    duration_s = n_samples / said.sample_rate
    figures: dict[str, Any] = {
        "finish_reason": said.finish_reason,
        "seed": said.seed,
        "frames": sum(piece.n_frames for piece in said.pieces),
        "max_frames": said.max_frames,
        "samples": n_samples,
        "sample_rate": said.sample_rate,
        "duration_s": round(duration_s, 4),
        "first_audio": round(first_s, 4) if first_s is not None else None,  # seconds from the text to the first samples
        "timings_s": {"load": round(tts.load_s, 4), **{name: round(value, 4) for name, value in timings.items()}},
        "real_time_factor": round(total_s / duration_s, 4) if n_samples else None,
        "backend": tts.backend_name,
        "warnings": list(said.warnings),
        "pieces": [
            {
                "text": piece.text, "seed": piece.seed, "finish_reason": piece.finish_reason, "frames": piece.n_frames,
                "start_s": round(piece.start_samples / said.sample_rate, 4), "duration_s": round(piece.n_samples / said.sample_rate, 4),
            }
            for piece in said.pieces
        ],
    }  # fmt: skip
    if voice is not None:
        figures["voice"] = {
            "in_context": voice.in_context,
            "frames": len(voice.codes) if voice.codes is not None else 0,
            "reference_reused": said.reference_reused,
            "encode_s": {name: round(value, 4) for name, value in voice.timings.items()},
            "warnings": list(voice.warnings),
        }
    return figures


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
