"""The command line: argument trees of `qwentts` (tts, codec, convert, inspect), `qwen-tts` and `qwen-codec`, and how errors end a run.

Bad input: one line `qwentts: error: ...` on stderr and exit code 2. Failed computation: the same line, exit code 1. Ctrl-C: 130.
Warnings are single lines too and leave the exit code 0. Speaking itself is in cli_speak.py, the codec's command in cli_codec.py.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from . import __version__, library_version
from .audio import SUBTYPES
from .cli_codec import run_codec
from .cli_speak import REFERENCE_FLAGS, speak
from .errors import Cancelled, GenerateError, OutOfMemory, QwenTTSError

COMMANDS = ("tts", "codec", "convert", "inspect")


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        fail(message, 2)


def fail(message: object, code: int) -> NoReturn:
    """Print the error as one line and exit."""
    text = " ".join(str(message).split())
    print(f"qwentts: error: {text}", file=sys.stderr)
    sys.exit(code)


def main(argv: Sequence[str] | None = None) -> int:
    """`qwentts`: a first argument that is no subcommand means `tts`."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] not in (*COMMANDS, "-h", "--help", "--version"):
        arguments.insert(0, "tts")
    parser = Parser(prog="qwentts", description="Qwen3-TTS 12 Hz speech synthesis.")
    parser.add_argument("--version", action="version", version=f"qwentts {__version__} (library {library_version()})")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)

    tts = commands.add_parser("tts", help="text to a WAV file (also without the word tts)", description=_TTS_HELP)
    tts.add_argument("text", nargs="?", help="text to speak (default: --text-file, else standard input)")
    tts.add_argument("--text-file", metavar="PATH", help="read the text from a UTF-8 file")
    _add_speak_arguments(tts, model_required=False)
    tts.set_defaults(run=speak)

    codec = commands.add_parser("codec", help="audio to codes and back", description=_CODEC_HELP)
    _add_codec_arguments(codec)
    codec.set_defaults(run=run_codec)

    convert = commands.add_parser("convert", help="a checkpoint folder to GGUF files")
    convert.add_argument("checkpoint", metavar="CHECKPOINT_DIR", help="talker or codec folder with config.json and *.safetensors")
    convert.add_argument("-o", "--output", metavar="DIR", help="folder for the files (default: here)")
    convert.add_argument("--type", default="f32", choices=("f32", "f16", "bf16", "q8_0"), help="element type of the matrices")
    convert.set_defaults(run=_convert)

    inspect = commands.add_parser("inspect", help="what a GGUF file holds")
    inspect.add_argument("file", metavar="FILE")
    inspect.add_argument("--json", action="store_true", help="everything, as JSON")
    inspect.set_defaults(run=_inspect)
    return _run(parser, arguments)


def main_qwen_tts(argv: Sequence[str] | None = None) -> int:
    """`qwen-tts`: the specification's flags, text on standard input."""
    parser = Parser(prog="qwen-tts", description=_TTS_HELP)
    _add_speak_arguments(parser, model_required=True)
    parser.set_defaults(run=speak, text=None, text_file=None)
    return _run(parser, list(sys.argv[1:] if argv is None else argv))


def main_qwen_codec(argv: Sequence[str] | None = None) -> int:
    """`qwen-codec`: audio to codes and back."""
    parser = Parser(prog="qwen-codec", description=_CODEC_HELP)
    _add_codec_arguments(parser)
    parser.set_defaults(run=run_codec)
    return _run(parser, list(sys.argv[1:] if argv is None else argv))


def _run(parser: Parser, arguments: list[str]) -> int:
    if sys.stderr is None:  # closed: notes must not end up in standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    args = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that a partial file goes away
    try:
        args.run(args)
        if sys.stdout is not None:
            sys.stdout.flush()
        return 0
    except (KeyboardInterrupt, Cancelled):
        return 130
    except (GenerateError, OutOfMemory) as error:
        fail(error, 1)
    except MemoryError:
        fail("out of memory", 1)
    except QwenTTSError as error:
        fail(error, 2)
    except BrokenPipeError:  # the reader of standard output went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _convert(args: argparse.Namespace) -> None:
    try:
        from .convert import convert
    except ModuleNotFoundError as error:
        fail(f"convert needs the package {error.name!r}: pip install 'qwentts[convert]'", 2)
    try:
        paths = convert(args.checkpoint, args.output, type=args.type)
    except OSError as error:
        fail(f"{error.filename or args.output}: {error.strerror}", 2)
    for path in paths:
        print(path)


def _inspect(args: argparse.Namespace) -> None:
    from .inspect import inspect_file, report

    facts = inspect_file(args.file)
    print(json.dumps(facts, indent=1, ensure_ascii=False) if args.json else report(facts))


_TTS_HELP = (
    "Text to speech. Surrounding white space of text from a file or standard input is dropped. Options left out come from the"
    " model file (generation.*), then from the defaults given here."
)


_CODEC_HELP = (
    "Audio to codes and back. The output lies next to the input under the same name: clip.wav gives clip.rvq (and clip.spk), clip.rvq"
    " gives clip.wav. The last frame is dropped unless it is whole. Without -i the codec file is loaded and tested with a tone."
)


def _add_codec_arguments(parser: Parser) -> None:
    parser.add_argument("--model", metavar="GGUF", required=True, help="codec file, qwen-tokenizer-*.gguf")
    parser.add_argument("-i", "--input", metavar="PATH", help=".rvq: decode; audio: encode")
    parser.add_argument("--talker", metavar="GGUF", help="talker file of a base model: encoding also writes the speaker embedding (.spk)")
    parser.add_argument("--format", default="wav16", choices=tuple(SUBTYPES), help="16 or 24 bits, or 32-bit float (default wav16)")
    ours = parser.add_argument_group("beyond the specification")
    ours.add_argument("--codec-chunk-dur", type=float, metavar="S", help="seconds of audio decoded at a time (default 24)")
    ours.add_argument("--threads", type=int, metavar="N", help="default: every core this process may use")
    ours.add_argument("--backend", default="auto", metavar="NAME", help="auto or cpu (default auto)")
    ours.add_argument("--json", action="store_true", help="print the figures as JSON")


def _add_speak_arguments(parser: Parser, *, model_required: bool) -> None:
    """The specification's flags, and ours behind them."""
    demo = "" if model_required else " (default: the demonstration voice)"
    parser.add_argument("--model", metavar="GGUF", help=f"talker file, qwen-talker-*.gguf{demo}", required=model_required)
    parser.add_argument("--codec", metavar="GGUF", help=f"codec file, qwen-tokenizer-*.gguf{demo}", required=model_required)
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
    ours.add_argument("--backend", default="auto", metavar="NAME", help="auto or cpu (default auto)")
    ours.add_argument("--json", action="store_true", help="print timings, frames, seed and finish reason as JSON")
    ours.add_argument("--quiet", action="store_true", help="no progress bar, no notes; warnings and errors stay")
