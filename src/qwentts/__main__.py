"""`python -m qwentts` and the console scripts: Ctrl-C while the program is still being imported ends it quietly, with 130."""

from __future__ import annotations

import os
import signal
import sys


def _enter(name: str) -> int:
    interrupted = signal.getsignal(signal.SIGINT)
    if interrupted is signal.default_int_handler:  # not where a shell has Ctrl-C ignored
        signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # nothing is open yet; an exception within an import may be lost or wrapped
    from . import cli

    return getattr(cli, name)(ready=lambda: signal.signal(signal.SIGINT, interrupted))


def main() -> int:
    """`qwentts`."""
    return _enter("main")


def main_qwen_tts() -> int:
    """`qwen-tts`."""
    return _enter("main_qwen_tts")


def main_qwen_codec() -> int:
    """`qwen-codec`."""
    return _enter("main_qwen_codec")


def main_qwen_quantize() -> int:
    """`qwen-quantize`."""
    return _enter("main_qwen_quantize")


if __name__ == "__main__":
    sys.exit(main())
