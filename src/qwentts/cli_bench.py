"""The `bench` command: figures as a table, as JSON, as a plot."""

from __future__ import annotations

import argparse
import json
import os
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from tqdm import tqdm

from .bench import PARTS, bench, n_steps
from .errors import ParameterError
from .output import Output, print_result
from .tts import TTS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `qwentts bench`."""
    parser.description = "Time loading, first audio and frames of a model on this machine."
    parser.add_argument("--model", metavar="GGUF", help="talker file, qwen-talker-*.gguf (default: the demonstration voice)")
    parser.add_argument("--codec", metavar="GGUF", help="codec file, qwen-tokenizer-*.gguf")
    parser.add_argument("--frames", type=int, default=50, metavar="N", help="frames of a run; 12.5 are a second of audio (default 50)")
    parser.add_argument("--runs", type=int, default=3, metavar="N", help="runs of which the median is given (default 3)")
    parser.add_argument("--threads", type=int, metavar="N", help="default: every core this process may use")
    parser.add_argument(
        "--codec-threads", type=int, metavar="N",
        help="of all threads, decoding while the others make frames; 0: in turn (default: a quarter on four cores or more)",
    )  # fmt: skip
    parser.add_argument(
        "--tier", metavar="NAME", help="instruction tier instead of the best one: scalar, avx2, avxvnni, avx512, amx, neon, dotprod"
    )
    parser.add_argument("--plot", metavar="PNG", help="also draw the figures (needs matplotlib)")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    for name, least in (("frames", 2), ("runs", 1)):
        if getattr(args, name) < least:
            raise ParameterError(f"--{name} is {getattr(args, name)}, valid are whole numbers from {least}")
    if args.plot and find_spec("matplotlib") is None:
        raise ParameterError("--plot needs the package 'matplotlib': pip install matplotlib")
    if args.tier:
        os.environ["QWENTTS_CPU_TIER"] = args.tier
    with TTS(args.model, args.codec, threads=args.threads, codec_threads=args.codec_threads) as tts:
        with tqdm(total=n_steps(args.runs), unit="part", leave=False, disable=None) as bar:
            figures = bench(tts, frames=args.frames, runs=args.runs, step=bar.update)
    print_result(json.dumps(figures, indent=1) if args.json else report(figures))
    if args.plot:
        with Output(args.plot) as out:
            out.write(plot(figures))


def report(figures: dict[str, Any]) -> str:
    """The figures as a table for people."""
    frame, gaps, grown = figures["frame_ms"], figures["interval_ms"], figures["frame_ms_at"]
    lines = [
        f"{figures['backend']}; {figures['runs']} runs of {figures['frames']} frames, medians",
        f"real-time factor   {figures['real_time_factor']:8.2f}   (below 1 is faster than the speech lasts)",
        f"first audio        {figures['first_audio_ms']:8.0f} ms, of it prefill {figures['prefill_ms']:.0f} ms",
        f"load               {figures['load_s']:8.2f} s",
        f"peak memory        {figures['peak_rss_mb']:8.0f} MB, loading and speaking",
        f"a frame            {frame['all']:8.1f} ms  = " + " + ".join(f"{name} {frame[name]:.1f}" for name in (*PARTS, "python")),
    ]
    if figures["codec_beside_ms"]:
        lines.append(f"                   of the codec, {figures['codec_beside_ms']:.1f} ms beside the next frames")
    if gaps:
        lines.append(
            "between frames     " + ", ".join(f"{name} {value:.1f}" for name, value in gaps.items()) + " ms (codec pushes included)"
        )
    if grown:
        first, *_, last = grown
        by_rows = ", ".join(f"{n} rows {value:.1f}" for n, value in grown.items())
        ratio = grown[last] / grown[first]
        codec = frame["codec"] - figures["codec_beside_ms"]
        lines.append(f"a frame behind     {by_rows} ms, of it the codec {codec:.1f}; {last} / {first}: {ratio:.2f}")
    return "\n".join(lines)


def plot(figures: dict[str, Any]) -> bytes:
    """A PNG: what a frame consists of, and how its time grows with the length of the utterance."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    at = 0.0
    for name in (*PARTS, "python"):
        value = max(figures["frame_ms"][name], 0.0)
        left.barh(0, value, left=at, label=f"{name} {value:.1f} ms")
        at += value
    audio_ms = figures["audio_ms"]
    left.axvline(audio_ms, color="black", linestyle="--", linewidth=1)
    left.text(audio_ms, 0.55, "real time ", ha="right", va="center")
    left.set(xlabel=f"ms a frame ({audio_ms:g} ms of speech)", yticks=[], ylim=(-0.6, 0.7), title=figures["backend"])
    left.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), ncols=3, frameon=False)
    grown = figures["frame_ms_at"]
    right.plot([int(n) for n in grown], list(grown.values()), marker="o")
    right.set(xlabel="rows before the frame", ylabel="ms a frame", ylim=(0, None), title="growth with length")
    png = BytesIO()
    figure.savefig(png, format="png", dpi=150)
    return png.getvalue()
