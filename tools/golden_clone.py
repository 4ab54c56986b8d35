"""Record what the official code computes for cloned voices on the tiny base checkpoint.

usage: golden_clone.py [--out tests/golden]        needs the reference environment (tools/official.py)

Writes clone.npz and clone.json:
  clip [n] int16 at 24 kHz       the reference recording, /32768 is what the official code hears
  speaker [D]                    its x-vector (of the clip as it is)
  codes, codes_bare [T, G]       its codes with half a second of silence behind it, and without
  NAME/prompt [T, D], NAME/overlay [n, D], NAME/codes int32 [frames, G]   of each case, as in cases.npz
  NAME/audio [n]                 of AUDIO_CASE: the decoder over reference and generated frames in one pass, reference cut off
clone.json lists the cases: settings, token ids of text and transcript, stopped, smallest_margin.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import make_tiny  # noqa: E402
import official  # noqa: E402
import torch  # noqa: E402

FRAMES = 64
RATE = 24000
TEXT = "Hello world, this is a tiny test."
LONG = "She said that they'd been there before; # 12 Gr\u00fc\u00dfe, \u4f60\u597d and \u3053\u3093\u306b\u3061\u306f. " * 2
REF_TEXT = "A tone that rises."
AUDIO_CASE = "icl/streamed/german"


def clip() -> np.ndarray:
    """0.4 s of a rising, vibrating tone with some noise, int16: cut at full amplitude, not a whole number of frames."""
    n = 9677
    t = np.arange(n) / RATE
    noise = np.random.Generator(np.random.Philox(key=5)).standard_normal(n)
    wave = np.sin(2 * np.pi * (180 * t + 700 * t**2) + np.sin(40 * t)) + 0.4 * np.sin(2 * np.pi * 1900 * t) + 0.1 * noise
    return np.round(wave / np.abs(wave).max() * 0.7 * 32767).astype(np.int16)


def cases() -> list[dict[str, Any]]:
    """Both kinds of clone in both layouts; in-context with transcript and text shorter and longer than the reference frames."""
    out = []
    for layout, non_streaming in (("full", True), ("streamed", False)):
        for language in ("auto", "german"):
            common = dict(non_streaming=non_streaming, language=language, text=TEXT, ref_text=None, bare=False)
            out.append(common | dict(name=f"xvec/{layout}/{language}"))
            out.append(common | dict(name=f"icl/{layout}/{language}", ref_text=REF_TEXT))
        common["language"] = "english"
        out.append(common | dict(name=f"icl_long/{layout}/english", ref_text=REF_TEXT, text=LONG, bare=True))
        out.append(common | dict(name=f"icl_longref/{layout}/english", ref_text=LONG, text="A", bare=True))
    return out


def generate(model: Any, case: dict[str, Any], speaker: torch.Tensor, codes: np.ndarray) -> official.Trace:
    """One greedy clone by the official code."""
    in_context = case["ref_text"] is not None
    prompt = dict(
        ref_code=[torch.from_numpy(codes.astype(np.int64)) if in_context else None], ref_spk_embedding=[speaker],
        x_vector_only_mode=[not in_context], icl_mode=[in_context],
    )  # fmt: skip
    ref_ids = [model._tokenize_texts([model._build_ref_text(case["ref_text"])])[0] if in_context else None]
    settings = model._merge_generate_kwargs(**official.GREEDY)
    settings["max_new_tokens"] = FRAMES + 1
    trace = official.Trace()
    with torch.no_grad(), official._capture(model.model.talker, trace):
        got, _ = model.model.generate(
            input_ids=model._tokenize_texts([model._build_assistant_text(case["text"])]), ref_ids=ref_ids, voice_clone_prompt=prompt,
            languages=[case["language"]], non_streaming_mode=case["non_streaming"], **settings,
        )  # fmt: skip
    got = got[0].numpy().astype(np.int32)
    trace.stopped = len(got) < FRAMES
    trace.codes = got[:FRAMES]
    return trace


def encode(model: Any, wave: np.ndarray) -> np.ndarray:
    """The official codes int32 [T, G] of samples at RATE."""
    return model.model.speech_tokenizer.encode(wave, sr=RATE).audio_codes[0].numpy().astype(np.int32)


def compute(model: Any) -> tuple[list[dict[str, Any]], dict[str, np.ndarray]]:
    """The listing and the arrays; see the head of this file."""
    pcm = clip()
    wave = pcm.astype(np.float32) / 32768
    with torch.no_grad():
        speaker = model.model.extract_speaker_embedding(wave, RATE)
    padded = np.concatenate([wave, np.zeros(RATE // 2, np.float32)])
    arrays = dict(clip=pcm, speaker=speaker.numpy(), codes=encode(model, padded), codes_bare=encode(model, wave))
    listing = []
    for case in cases():
        name, codes = case["name"], arrays["codes_bare" if case["bare"] else "codes"]
        trace = generate(model, case, speaker, codes)
        arrays |= {f"{name}/prompt": trace.prompt, f"{name}/overlay": trace.overlay, f"{name}/codes": trace.codes}
        if name == AUDIO_CASE:
            samples, _ = official.decode_once(model, np.concatenate([codes, trace.codes]))
            arrays[f"{name}/audio"] = samples[len(samples) * len(codes) // (len(codes) + len(trace.codes)) :]
        ids = model._tokenize_texts([model._build_assistant_text(case["text"])])[0][0].tolist()
        ref_ids = model._tokenize_texts([model._build_ref_text(case["ref_text"])])[0][0].tolist() if case["ref_text"] else None
        settings = model.generate_defaults | dict(do_sample=False, subtalker_dosample=False)
        listing.append(case | dict(ids=ids, ref_ids=ref_ids, stopped=trace.stopped, n_frames=len(trace.codes), settings=settings,
                                   smallest_margin=min(trace.margins)))  # fmt: skip
    return listing, arrays


def load(scratch: Path) -> Any:
    """The tiny base checkpoint in the official code."""
    make_tiny.write_model(scratch / "base", "base")
    return official.load(scratch / "base")


def main(out: Path) -> None:
    """Writes both files."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        listing, arrays = compute(load(Path(scratch)))
    for row in listing:
        print(f"{row['name']}: {row['n_frames']} frames, stopped {row['stopped']}, margin {row['smallest_margin']:.2g}")
    np.savez_compressed(out / "clone.npz", **arrays)
    (out / "clone.json").write_text(json.dumps(listing, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")
    print({name: value.shape for name, value in arrays.items() if "/" not in name}, (out / "clone.npz").stat().st_size, "bytes")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("tests/golden"))
    main(parser.parse_args().out)
