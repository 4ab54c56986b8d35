"""The `convert` command: a checkpoint folder to GGUF files."""

from __future__ import annotations

import argparse

from .errors import ParameterError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `qwentts convert`."""
    parser.add_argument("checkpoint", metavar="CHECKPOINT_DIR", help="talker or codec folder with config.json and *.safetensors")
    parser.add_argument("-o", "--output", metavar="DIR", help="folder for the files (default: here)")
    parser.add_argument("--type", default="f32", choices=("f32", "f16", "bf16", "q8_0"), help="element type of the matrices")


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    try:
        from .convert import convert
    except ModuleNotFoundError as error:
        raise ParameterError(f"convert needs the package {error.name!r}: pip install 'qwentts[convert]'") from None
    try:
        paths = convert(args.checkpoint, args.output, type=args.type)
    except OSError as error:
        raise ParameterError(f"{error.filename or args.output}: {error.strerror}") from None
    for path in paths:
        print(path)
