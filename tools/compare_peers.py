"""Time this package and the qwentts.cpp CPU wheel alternately on the same files; print ratios with their spread.

usage: compare_peers.py TALKER.gguf CODEC.gguf [--peer-python PYTHON] [--frames 50] [--threads 2] [--runs 5] [--speaker ryan] [--json]

PYTHON is the interpreter of an environment that holds realtimetts-qwen-native-cpu (--no-deps), numpy and huggingface_hub.
Each run is a fresh process of its own, ours and theirs in turn, so that a noisy machine troubles both alike; a figure is the median
of the runs, a ratio the median of the pairs. Text, language, speaker, seed and the number of frames are the same. Synthesis
is the buffered call alone, first audio the time to the first chunk of a stream after it, RSS the process's peak with loading.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys

TEXT = "The quick brown fox jumps over the lazy dog, and then it rests for a while in the warm afternoon sun."

OURS = """
import json, resource, sys, time
talker, codec, speaker, text, frames, threads = *sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6])
from qwentts import TTS
start = time.perf_counter(); tts = TTS(talker, codec, threads=threads); load = time.perf_counter() - start
start = time.perf_counter()
options = dict(language="english", speaker=speaker or None, seed=7, max_new_tokens=frames, repetition_guard=False)
speech = tts.synthesize(text, **options)
synthesis = time.perf_counter() - start
start = time.perf_counter(); chunks = tts.stream(text, **options); next(chunks); first = time.perf_counter() - start; chunks.close()
print(json.dumps({"load_s": load, "synthesis_s": synthesis, "first_audio_s": first, "audio_s": len(speech.samples) / speech.sample_rate,
                  "peak_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, "parts_s": speech.timings}))
"""

PEER = """
import json, resource, sys, time
talker, codec, speaker, text, frames, threads = *sys.argv[1:5], int(sys.argv[5]), int(sys.argv[6])
from qwentts_cpp_cpu import QwenTTS
start = time.perf_counter(); tts = QwenTTS(talker, codec, cpu_threads=threads); load = time.perf_counter() - start
start = time.perf_counter()
options = dict(text=text, lang="english", seed=7, max_new_tokens=frames, **({"speaker": speaker} if speaker else {}))
audio = tts.synthesize(**options)
synthesis = time.perf_counter() - start
samples = audio[0] if isinstance(audio, tuple) else audio
start = time.perf_counter(); chunks = iter(tts.stream(**options)); next(chunks); first = time.perf_counter() - start
print(json.dumps({"load_s": load, "synthesis_s": synthesis, "first_audio_s": first, "audio_s": len(samples) / 24000,
                  "peak_rss_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}))
"""


def measure(python: str, program: str, arguments: list[str]) -> dict[str, float]:
    """The figures one fresh process prints on its last line."""
    done = subprocess.run([python, "-c", program, *arguments], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{python} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def spread(values: list[float]) -> str:
    return f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("talker")
    parser.add_argument("codec")
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--frames", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--speaker", default="ryan", help="empty for a model without speakers")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()

    arguments = [options.talker, options.codec, options.speaker, TEXT, str(options.frames), str(options.threads)]
    ours, peers = [], []
    for number in range(options.runs):
        ours.append(measure(sys.executable, OURS, arguments))
        peers.append(measure(options.peer_python, PEER, arguments))
        print(f"run {number + 1}/{options.runs}", file=sys.stderr)
    if options.json:
        print(json.dumps({"ours": ours, "qwentts.cpp": peers}, indent=1))
        return
    print(f"{options.frames} frames, {options.threads} threads, median (range) of {options.runs} alternating runs")
    print("| | ours | qwentts.cpp wheel | ours / theirs |\n|---|---|---|---|")
    for key in ("synthesis_s", "first_audio_s", "load_s", "peak_rss_gb"):
        mine, theirs = [run[key] for run in ours], [run[key] for run in peers]
        print(f"| {key} | {spread(mine)} | {spread(theirs)} | {spread([a / b for a, b in zip(mine, theirs, strict=True)])} |")
    factors = [[run["synthesis_s"] / run["audio_s"] for run in runs] for runs in (ours, peers)]
    print(f"| real-time factor | {spread(factors[0])} | {spread(factors[1])} | |")
    parts = {name: statistics.median(run["parts_s"].get(name, 0.0) for run in ours) for name in ours[0]["parts_s"]}
    print("ours by part, seconds:", ", ".join(f"{name} {value:.3f}" for name, value in parts.items()))


if __name__ == "__main__":
    main()
