"""Exchange .spk and .rvq files of one clip with the qwentts.cpp CPU wheel: each side loads what the other wrote and speaks with it.

usage: exchange_voices.py BASE_TALKER.gguf CODEC.gguf --peer-python PYTHON [--clip CLIP.wav]

PYTHON is the interpreter of compare_peers.py. The clip is mono WAV of 16 bits at 24 kHz; without one the demonstration voice makes it.
Prints how far both agree on it; exits with 1 unless everything was accepted and the speaker embeddings have a cosine of 0.999 or more.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from qwentts import TTS, Voice
from qwentts.cli import main_qwen_codec

TEXT, SAID = "Hello there.", "The quick brown fox jumps over the lazy dog."
LEAST_COSINE = 0.999

PEER = """
import json, sys, wave, numpy as np
from qwentts_cpp_cpu import QwenTTS
talker, codec, folder, text, said = sys.argv[1:]
with wave.open(folder + "/clip.wav") as clip:
    samples = np.frombuffer(clip.readframes(clip.getnframes()), "<i2").astype(np.float32) / 32768
tts = QwenTTS(talker, codec, cpu_threads=2)
theirs = tts.load_voice_ref(folder + "/clip.spk", folder + "/clip.rvq")
tts.save_voice_ref(samples, folder + "/peer.spk", folder + "/peer.rvq")
reference = dict(ref_spk_emb=theirs.ref_spk_emb, ref_codes=theirs.ref_codes, ref_text=said)
audio, _ = tts.synthesize(text=text, lang="english", seed=3, max_new_tokens=6, **reference)
print(json.dumps({"codes_loaded": list(theirs.ref_codes.shape), "samples_spoken": len(audio)}))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("talker")
    parser.add_argument("codec")
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--clip")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, TTS(args.talker, args.codec) as tts:
        here = Path(folder)
        if args.clip:
            (here / "clip.wav").write_bytes(Path(args.clip).read_bytes())
        else:
            with TTS() as demo:
                demo.synthesize(SAID, seed=1).save(here / "clip.wav")
        main_qwen_codec(["--model", args.codec, "--talker", args.talker, "-i", str(here / "clip.wav")])
        command = [args.peer_python, "-c", PEER, args.talker, args.codec, folder, TEXT, SAID]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"the peer failed:\n{done.stderr[-2000:]}")
        figures = json.loads(done.stdout.strip().splitlines()[-1])
        (here / "said.txt").write_text(SAID)
        mine, peers = (
            Voice.from_files(
                spk=here / f"{name}.spk", rvq=here / f"{name}.rvq", text=here / "said.txt",
                n_groups=tts.facts.n_code_groups, codebook_size=tts.facts.codebook_size,
            )
            for name in ("clip", "peer")
        )  # fmt: skip
        a, b = mine.speaker, peers.speaker
        figures["cosine"] = round(float(a @ b / np.linalg.norm(a) / np.linalg.norm(b)), 7)
        figures["codes_equal"] = round(float((mine.codes == peers.codes).mean()), 4)
        speech = tts.synthesize(TEXT, voice=peers, language="english", seed=3, max_new_tokens=6)
        figures["frames_spoken_with_the_peers"] = len(speech.codes)
        print(json.dumps(figures))
        accepted = figures["codes_loaded"][::-1] == list(mine.codes.shape) and figures["samples_spoken"] and len(speech.codes)
        sys.exit(not (accepted and figures["cosine"] >= LEAST_COSINE))


if __name__ == "__main__":
    main()
