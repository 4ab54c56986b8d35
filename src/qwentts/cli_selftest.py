"""The `self-test` command, and `--caps`."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from . import caps, selftest
from .errors import GenerateError
from .output import print_result

HELP = (
    "Compute every operation of the library on this machine with each set of kernels that it can run, compare with plain loops in double"
    " precision, and let the demonstration voice speak with 1, 2 and 4 threads, which must give the same bytes. Takes under a minute. Exit"
    " code 1 when anything differs."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `qwentts self-test`."""
    parser.description = HELP
    parser.add_argument("--tier", metavar="NAME", help="only this set of kernels (default: each that the processor can run)")
    parser.add_argument("--caps", action="store_true", help="test nothing: show processor, kernels, threads, memory")
    parser.add_argument("--json", action="store_true", help="everything, as JSON")


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    if args.caps:
        facts = caps.capabilities()
        print_result(json.dumps(facts, indent=1) if args.json else caps.report(facts))
        return
    from tqdm import tqdm

    with tqdm(file=sys.stderr, disable=not sys.stderr.isatty(), leave=False, unit=" cases") as bar:

        def progress(tier: str, done: int, total: int) -> None:
            bar.set_description(tier, refresh=False)
            bar.total = total
            bar.update(done - bar.n)

        result: dict[str, Any] = selftest.self_test(args.tier, progress)
    if args.json:
        print_result(json.dumps(result, indent=1))
    else:
        print_result(f"{caps.report(result['machine'])}\n\n{selftest.report(result)}")
    if not result["ok"]:
        failed = sum(row["failed"] for row in result["rows"])
        raise GenerateError(f"self-test: {failed} of {sum(row['cases'] for row in result['rows'])} cases failed")
