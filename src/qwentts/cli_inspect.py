"""The `inspect` command: what a GGUF file holds, and with --verify whether its values are sound."""

from __future__ import annotations

import argparse
import json
import sys

from .errors import GenerateError
from .inspect import inspect_file, report
from .output import print_result
from .verify import verify_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `qwentts inspect`."""
    parser.description = "What a GGUF file holds; files of other models too. With --verify the exit code is 1 when anything is found."
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")
    parser.add_argument("--verify", action="store_true", help="read every tensor: NaN, infinity, all zero, types that the loader refuses")


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    facts = inspect_file(args.file)
    if args.verify:
        from tqdm import tqdm

        total = sum(row["bytes"] for row in facts["types"].values())
        hidden = not sys.stderr.isatty()
        with tqdm(total=total, unit="B", unit_scale=True, desc="verify", file=sys.stderr, disable=hidden, leave=False) as bar:
            facts["findings"] = verify_file(args.file, bar.update)
    text = json.dumps(facts, indent=1, ensure_ascii=False) if args.json else report(facts)
    findings = facts.get("findings")
    if findings is not None and not args.json:
        lines = [f"finding     {row['tensor']}: {row['finding']}" for row in findings]
        text = "\n".join([text, *lines, f"verified    {facts['tensors']} tensors, {len(findings)} findings"])
    print_result(text)
    if findings:
        raise GenerateError(f"{args.file}: {len(findings)} findings, the first: tensor {findings[0]['tensor']} {findings[0]['finding']}")
