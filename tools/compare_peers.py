"""Time this package and its peers alternately on the same checkpoints; print ratios with their spread.

usage: compare_peers.py TALKER.gguf CODEC.gguf --wheel-python PYTHON [options]   (--help lists them)

PYTHON is the interpreter of an environment with numpy, huggingface_hub and realtimetts-qwen-native-cpu (--no-deps): the qwentts.cpp wheel.
--vox-python with --vox-model add vox-tts (a .tmod of the same checkpoint), --large a talker of 1.7B, --small-types TALKER in fewer
bits (one file or several), and --codec-talker with --codec-frames the decode of many frames: both sides speak through CODEC with
that talker, which should be tiny so that the codec is what is left. Each measurement is a fresh process, all subjects in turn,
--runs times, so that a noisy machine troubles them alike; a figure is the median of the runs, a ratio the median of the ratios
within a run. Text, language, speaker, seed and the number of frames are the same. Synthesis is the buffered call alone, first audio
the time to the first chunk of a stream after it, RSS the process's peak with loading. The wheel's share of the codec is what it
logs of itself. --growth adds the time of a frame of ours behind 64 and 2,000 rows, by `qwentts bench` in a process of its own:
talker, predictor and Python there and the codec's share of a synthesis of --frames, since its window has the same length
everywhere.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

TEXT = "The quick brown fox jumps over the lazy dog, and then it rests for a while in the warm afternoon sun."
STREAM_FRAMES = 4  # the first chunk is what is timed; a stream that is left running may crash the wheel at exit

OURS = """
import json, resource, sys, time
talker, codec, speaker, text, frames, threads, stream_frames = *sys.argv[1:5], *map(int, sys.argv[5:8])
from qwentts import TTS
start = time.perf_counter(); tts = TTS(talker, codec, threads=threads); load = time.perf_counter() - start
options = dict(language="english", speaker=speaker or None, seed=7, repetition_guard=False, split="none")
start = time.perf_counter()
speech = tts.synthesize(text, max_new_tokens=frames, **options)
synthesis = time.perf_counter() - start
first = None
if stream_frames:
    start = time.perf_counter(); chunks = tts.stream(text, max_new_tokens=stream_frames, **options); next(chunks)
    first = time.perf_counter() - start; chunks.close()
print(json.dumps({"load_s": load, "synthesis_s": synthesis, "first_audio_s": first, "audio_s": len(speech.samples) / speech.sample_rate,
                  "codec_s": speech.timings["codec"], "peak_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
                  "parts_s": dict(speech.timings)}))
"""

GROWTH = """
import json, sys
from qwentts import TTS
from qwentts.bench import bench
talker, codec, speaker, text, frames, threads, stream_frames = *sys.argv[1:5], *map(int, sys.argv[5:8])
figures = bench(TTS(talker, codec, threads=threads), frames=frames, runs=1)
print(json.dumps({f"frame_{n}_ms": value for n, value in figures["frame_ms_at"].items()}))
"""

WHEEL = """
import json, resource, sys, time
talker, codec, speaker, text, frames, threads, stream_frames = *sys.argv[1:5], *map(int, sys.argv[5:8])
from qwentts_cpp_cpu import QwenTTS
start = time.perf_counter(); tts = QwenTTS(talker, codec, cpu_threads=threads); load = time.perf_counter() - start
options = dict(text=text, lang="english", seed=7, **({"speaker": speaker} if speaker else {}))
start = time.perf_counter()
audio = tts.synthesize(max_new_tokens=frames, **options)
synthesis = time.perf_counter() - start
samples = audio[0] if isinstance(audio, tuple) else audio
first = None
if stream_frames:
    start = time.perf_counter()
    for chunk in tts.stream(max_new_tokens=stream_frames, **options):
        first = first or time.perf_counter() - start
print(json.dumps({"load_s": load, "synthesis_s": synthesis, "first_audio_s": first, "audio_s": len(samples) / 24000,
                  "peak_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}))
"""

VOX = """
import json, os, resource, sys, time
model, speaker, text, frames, threads, stream_frames = *sys.argv[1:4], *map(int, sys.argv[4:7])
import vox
start = time.perf_counter(); tts = vox.Engine(model, device="cpu"); voice = tts.speaker_voice(speaker); load = time.perf_counter() - start
options = dict(seed=7, language="english")
tts.synthesize(text, voice, max_frames=2, **options)
start = time.perf_counter(); samples = tts.synthesize(text, voice, max_frames=frames, **options); synthesis = time.perf_counter() - start
first = None
start = time.perf_counter()
for chunk in tts.stream(text, voice, max_frames=stream_frames, **options):
    first = first or time.perf_counter() - start
print(json.dumps({"load_s": load, "synthesis_s": synthesis, "first_audio_s": first, "audio_s": len(samples) / 24000,
                  "peak_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}))
"""

Figures = dict[str, float]
Subject = Callable[[], Figures]


def measure(python: str, program: str, arguments: list[object], tier: str = "") -> Figures:
    """The figures that one fresh process prints on its last line, and the codec's share if it logs that."""
    environment = os.environ | ({"QWENTTS_CPU_TIER": tier} if tier else {})
    done = subprocess.run([python, "-c", program, *map(str, arguments)], capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{python} failed with {done.returncode}:\n{done.stderr[-2000:]}")
    figures = json.loads(done.stdout.strip().splitlines()[-1])
    if logged := re.search(r"CodecDecode\s+([0-9.]+) ms", done.stderr):
        figures["codec_s"] = float(logged[1]) / 1000
    return figures


def small_name(path: str) -> str:
    """The subject that speaks with one of --small-types."""
    return f"ours {Path(path).stem}"


def subjects(options: argparse.Namespace) -> dict[str, Subject]:
    """What is timed in each round, by name."""

    def run(side: tuple[str, str], talker: str, frames: int = options.frames, stream: int = STREAM_FRAMES, tier: str = "") -> Subject:
        arguments = [talker, options.codec, options.speaker, TEXT, frames, options.threads, stream]
        return lambda: measure(*side, arguments, tier)

    ours, wheel = (sys.executable, OURS), (options.wheel_python, WHEEL)
    found = {"ours": run(ours, options.talker), "wheel": run(wheel, options.talker), "ours avx2": run(ours, options.talker, tier="avx2")}
    if options.vox_python:
        vox_arguments = [options.vox_model, options.speaker, TEXT, options.frames, options.threads, STREAM_FRAMES]
        found["vox"] = lambda: measure(options.vox_python, VOX, vox_arguments)
    if options.large:
        found["ours large"], found["wheel large"] = run(ours, options.large, stream=0), run(wheel, options.large, stream=0)
    for path in options.small_types:
        found[small_name(path)] = run(ours, path, stream=0)
    if options.growth:
        found["growth"] = run((sys.executable, GROWTH), options.talker)
    if options.codec_talker:
        for name, side in (("ours", ours), ("wheel", wheel)):
            found[f"{name} codec"] = run(side, options.codec_talker, options.codec_frames, stream=0)
    return found


def rows(options: argparse.Namespace) -> list[tuple[str, str | tuple[str, str], str, str]]:
    """(what, figure, subject, its measure), as the subjects allow; two figures where they are of one subject."""
    table = [
        ("synthesis, ours / wheel", "synthesis_s", "ours", "wheel"),
        ("synthesis, ours / vox-tts", "synthesis_s", "ours", "vox"),
        ("first audio, ours / wheel", "first_audio_s", "ours", "wheel"),
        ("first audio, ours / vox-tts", "first_audio_s", "ours", "vox"),
        ("synthesis, ours with AVX2 / wheel", "synthesis_s", "ours avx2", "wheel"),
        ("synthesis of the large model, ours / wheel", "synthesis_s", "ours large", "wheel large"),
        *((f"synthesis, {small_name(path)} / ours", "synthesis_s", small_name(path), "ours") for path in options.small_types),
        (f"codec, {options.codec_frames} frames, ours / wheel", "codec_s", "ours codec", "wheel codec"),
        ("load, ours / wheel", "load_s", "ours", "wheel"),
        ("peak RSS, ours / wheel", "peak_rss_gb", "ours", "wheel"),
        ("peak RSS, ours / vox-tts", "peak_rss_gb", "ours", "vox"),
        ("peak RSS of the large model, ours / wheel", "peak_rss_gb", "ours large", "wheel large"),
        *((f"peak RSS, {small_name(path)} / ours", "peak_rss_gb", small_name(path), "ours") for path in options.small_types),
        ("ms a frame, 2,000 / 64 rows before", ("frame_2000_ms", "frame_64_ms"), "growth", "growth"),
    ]
    return table


def warm(path: str) -> None:
    """Read a file once, so that no subject waits for the disk."""
    with open(path, "rb") as file:
        while file.read(1 << 24):
            pass


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("talker")
    parser.add_argument("codec")
    parser.add_argument("--wheel-python", required=True, metavar="PYTHON")
    parser.add_argument("--vox-python", metavar="PYTHON")
    parser.add_argument("--vox-model", metavar="TMOD")
    parser.add_argument("--large", metavar="GGUF", help="a 1.7B talker for the same codec")
    parser.add_argument("--small-types", metavar="GGUF", nargs="+", default=[], help="TALKER in fewer bits")
    parser.add_argument("--codec-talker", metavar="GGUF", help="a tiny talker with CODEC's code groups, to time the decode")
    parser.add_argument("--codec-frames", type=int, default=200, metavar="N", help="frames of that decode")
    parser.add_argument("--growth", action="store_true", help="also how a frame of ours grows with the length of the utterance")
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--speaker", default="ryan", help="empty for a model without speakers")
    parser.add_argument("--save", metavar="JSON", type=Path, help="also write every figure of every run")
    options = parser.parse_args()
    if bool(options.vox_python) != bool(options.vox_model):
        parser.error("--vox-python and --vox-model go together")

    for path in (options.talker, options.codec, options.vox_model, options.large, *options.small_types, options.codec_talker):
        if path:
            warm(path)
    timed, figures = subjects(options), []
    for number in range(options.runs):
        figures.append({name: subject() for name, subject in timed.items()})
        print(f"run {number + 1}/{options.runs}", file=sys.stderr)
        if options.save:
            options.save.write_text(json.dumps(figures, indent=1), encoding="utf-8")

    print(f"{options.frames} frames, {options.threads} threads, median (range) of {options.runs} alternating runs")
    print("| | ours | theirs | ratio |\n|---|---|---|---|")
    for what, key, mine, theirs in rows(options):
        if mine in timed and theirs in timed:
            first, second = key if isinstance(key, tuple) else (key, key)
            a, b = [run[mine][first] for run in figures], [run[theirs][second] for run in figures]
            print(f"| {what} | {spread(a)} | {spread(b)} | {spread([x / y for x, y in zip(a, b, strict=True)])} |")
    for name in (name for name in timed if name != "growth"):
        factors = [run[name]["synthesis_s"] / run[name]["audio_s"] for run in figures]
        print(f"{name}: real-time factor {spread(factors)}, peak RSS {spread([run[name]['peak_rss_gb'] for run in figures])} GB")
    parts = {name: statistics.median(run["ours"]["parts_s"][name] for run in figures) for name in figures[0]["ours"]["parts_s"]}
    print("ours by part, seconds:", ", ".join(f"{name} {value:.3f}" for name, value in parts.items()))


if __name__ == "__main__":
    main()
