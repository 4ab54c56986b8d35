"""The `inspect` command: what a GGUF file holds."""

from __future__ import annotations

import argparse
import json

from .inspect import inspect_file, report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `qwentts inspect`."""
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    facts = inspect_file(args.file)
    print(json.dumps(facts, indent=1, ensure_ascii=False) if args.json else report(facts))
