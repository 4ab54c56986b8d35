"""The `convert` command: a checkpoint folder to GGUF files."""

from __future__ import annotations

import argparse

from .convert import convert
from .errors import ParameterError
from .output import print_result
from .tensor_types import variants


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `qwentts convert`."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT_DIR", help="talker or codec folder with config.json and *.safetensors")
    parser.add_argument("-o", "--output", metavar="DIR", help="folder for the files (default: here)")
    parser.add_argument("--type", default="F32", metavar="TYPE", help=f"of the matrices: {', '.join(variants())} (default F32)")


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    try:
        paths = convert(args.checkpoint, args.output, type=args.type)
    except OSError as error:
        raise ParameterError(f"{error.filename or args.output}: {error.strerror}") from None
    for path in paths:
        print_result(str(path))
