"""The `download` command: the two files of a named model, from the hub into the folder where names are looked up."""

from __future__ import annotations

import argparse
import json
import sys

from . import hub
from .download import REPO, download
from .output import print_result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `qwentts download`."""
    parser.description = (
        "Fetch talker and codec of a model, checked against the hub's SHA-256. An interrupted download goes on where it stopped. Afterwards"
        " `qwentts --model NAME` and TTS(NAME) find them; neither downloads anything by itself."
    )
    parser.add_argument("model", metavar="MODEL", help=", ".join(hub.PUBLISHED))
    parser.add_argument("--type", default=hub.DEFAULT_TYPE, help=f"element type: {', '.join(hub.TYPES)} (default {hub.DEFAULT_TYPE})")
    parser.add_argument("--codec-type", metavar="TYPE", help="that of the codec (default: the same)")
    parser.add_argument("--to", metavar="DIR", help="folder for the files (default: $QWENTTS_MODELS, else ~/.cache/qwentts)")
    parser.add_argument("--repo", metavar="OWNER/NAME", help=f"repository of the hub (default: $QWENTTS_HUB_REPO, else {REPO})")
    parser.add_argument("--revision", default="main", metavar="NAME", help="branch, tag or commit of the repository (default main)")
    parser.add_argument("--json", action="store_true", help="print paths, sizes and checksums as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    _progress(shown=sys.stderr.isatty() and not args.json and not args.quiet)
    fetched = download(args.model, type=args.type, codec_type=args.codec_type, to=args.to, repo=args.repo, revision=args.revision)
    if args.json:
        rows = {
            row.kind: {"path": str(row.path), "bytes": row.n_bytes, "bytes_loaded": row.n_bytes_loaded, "sha256": row.sha256}
            for row in fetched
        }
        print_result(json.dumps(rows, indent=1))
        return
    for row in fetched:
        print_result(str(row.path))
    folder = fetched[0].path.parent
    if folder.resolve() != hub.model_folder().resolve() and not args.quiet:
        print(f"qwentts: names are looked up there with QWENTTS_MODELS={folder.resolve()}", file=sys.stderr)


def _progress(*, shown: bool) -> None:
    """The hub's client draws the bar and reports retries; what ends the run is said by us alone."""
    try:
        from huggingface_hub.utils import disable_progress_bars, enable_progress_bars, logging
    except ModuleNotFoundError:  # download() says so
        return
    logging.set_verbosity_error()
    (enable_progress_bars if shown else disable_progress_bars)()
