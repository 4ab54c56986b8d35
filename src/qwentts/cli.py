"""The command line: the table of commands of `qwentts`, the programs `qwen-tts`, `qwen-codec` and `qwen-quantize`, and how errors end a
run.

Bad input: one line `qwentts: error: ...` on stderr and exit code 2. Failed computation or a write that fails midway: the same line, exit
code 1. Ctrl-C: 130. Warnings are single lines too and leave the exit code 0.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NoReturn

from . import __version__

# command: (module with add_arguments(parser) and run(args), imported only when it is asked for; what --help says)
COMMANDS = {
    "tts": ("cli_speak", "text to a WAV file (also without the word tts)"),
    "codec": ("cli_codec", "audio to codes and back"),
    "convert": ("cli_convert", "a checkpoint folder to GGUF files"),
    "quantize": ("cli_quantize", "a GGUF file in another element type"),
    "inspect": ("cli_inspect", "what a GGUF file holds"),
    "self-test": ("cli_selftest", "is what this machine computes right? A table to paste into a report"),
    "bench": ("cli_bench", "how fast a model speaks on this machine"),
    "download": ("cli_download", "the files of a named model, from the hub"),
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        fail(message, 2)


class _Version(argparse.Action):
    """--version; the library is asked only here."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from . import library_version
        from .output import print_result

        print_result(f"qwentts {__version__} (library {library_version()})")
        sys.exit(0)


def fail(message: object, code: int) -> NoReturn:
    """Print the error as one line and exit."""
    from .output import printable

    text = printable(" ".join(str(message).split()))
    print(f"qwentts: error: {text}", file=sys.stderr)
    sys.exit(code)


def _nothing() -> None:
    pass


def main(argv: Sequence[str] | None = None, *, ready: Callable[[], Any] = _nothing) -> int:
    """`qwentts`: a first argument that is no command means `tts`. ready is called when nothing slow is left to import."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments[:1] == ["--caps"]:
        arguments.insert(0, "self-test")
    elif arguments and arguments[0] not in (*COMMANDS, "-h", "--help", "--version"):
        arguments.insert(0, "tts")

    def parser() -> Parser:
        whole = Parser(prog="qwentts", description="Qwen3-TTS 12 Hz speech synthesis.")
        whole.add_argument("--version", action=_Version, nargs=0, help="show the versions of package and library, and exit")
        whole.add_argument("--caps", action="store_true", help="show processor, kernels, threads and memory (with --json: as JSON)")
        commands = whole.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
        for name, (module, help) in COMMANDS.items():
            sub = commands.add_parser(name, help=help)
            if arguments[:1] == [name]:
                _fill(sub, module)
        return whole

    return _run(parser, arguments, ready)


def main_qwen_tts(argv: Sequence[str] | None = None, *, ready: Callable[[], Any] = _nothing) -> int:
    """`qwen-tts`: the specification's flags, text on standard input."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    return _run(lambda: _fill(Parser(prog="qwen-tts"), "cli_speak", "add_qwen_tts_arguments"), arguments, ready)


def main_qwen_codec(argv: Sequence[str] | None = None, *, ready: Callable[[], Any] = _nothing) -> int:
    """`qwen-codec`: audio to codes and back."""
    return _run(lambda: _fill(Parser(prog="qwen-codec"), "cli_codec"), list(sys.argv[1:] if argv is None else argv), ready)


def main_qwen_quantize(argv: Sequence[str] | None = None, *, ready: Callable[[], Any] = _nothing) -> int:
    """`qwen-quantize`: a GGUF file in another element type."""
    return _run(lambda: _fill(Parser(prog="qwen-quantize"), "cli_quantize"), list(sys.argv[1:] if argv is None else argv), ready)


def _fill(parser: Parser, module: str, add: str = "add_arguments") -> Parser:
    command = import_module(f".{module}", __package__)
    getattr(command, add)(parser)
    parser.set_defaults(run=command.run)
    return parser


def _run(make_parser: Callable[[], Parser], arguments: list[str], ready: Callable[[], Any]) -> int:
    from .errors import Cancelled, DownloadError, GenerateError, OutOfMemory, OutputError, QwenTTSError
    from .output import drop_stdout, flush_stdout

    if sys.stderr is None:  # closed: notes must not end up in standard output
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a path or a file's text may hold what the terminal's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    for number in (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup sets it
            signal.signal(number, lambda number, _: sys.exit(128 + number))  # so that a partial file goes away
    warnings = logging.StreamHandler(sys.stderr)  # what the library warns of, such as a damaged tensor
    warnings.addFilter(lambda record: record.levelno == logging.WARNING)  # an error is raised as well
    warnings.setFormatter(logging.Formatter("qwentts: warning: %(message)s"))
    logging.getLogger("qwentts").addHandler(warnings)
    try:
        args = make_parser().parse_args(arguments)
        ready()
        args.run(args)
        flush_stdout()
        return 0
    except (KeyboardInterrupt, Cancelled):
        return 130
    except BrokenPipeError:  # the reader of standard output went away
        drop_stdout()
        return 1
    except ImportError as error:  # the library, or a package that it needs
        fail(str(error).removeprefix("qwentts: "), 2)
    except (DownloadError, GenerateError, OutOfMemory, OutputError) as error:
        fail(error, 1)
    except MemoryError:
        fail("out of memory", 1)
    except QwenTTSError as error:
        fail(error, 2)
    finally:
        logging.getLogger("qwentts").removeHandler(warnings)
