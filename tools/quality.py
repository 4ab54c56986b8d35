"""What each element type costs in quality: logits of the quantized model against those of its F32 source, teacher-forced.

usage: quality.py [TALKER-F32.gguf ...] [--trained TALKER-F32.gguf] [--types TYPE,...] [--frames 64] [--files DIR]
                  [--results build/quality.json] [--docs docs]

A tiny checkpoint with K-quantizable widths is made here; full-size F32 talkers with random weights are given as files, and that of the
demonstration voice as --trained. Every type is made of the source with
the quantizer. The F32 model speaks FRAMES frames with sampling; its codes are then forced through each quantized model, which computes its
own prompt rows. Compared by cosine are, for each frame, the logits of codebook 0 (talker) and those of all other codebooks together
(predictor); the worst single vector of a codebook is given too. Free-running codes drift apart after the first different draw and say
nothing about the forward pass.
Writes DOCS/img/quality.png and the table between the markers of DOCS/quantization.md. Figures are kept in RESULTS; what is there already
is not computed again. Exit code 1 if a bar is missed.
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

from qwentts import prompt as prompts  # noqa: E402
from qwentts.convert import convert  # noqa: E402
from qwentts.engine import TALKER, Engine  # noqa: E402
from qwentts.philox import UniformStream  # noqa: E402
from qwentts.quantize import quantize, target_variants  # noqa: E402
from qwentts.sampling import Codebook0, draw  # noqa: E402
from qwentts.settings import choose  # noqa: E402
from qwentts.talker_info import read_talker_info  # noqa: E402
from qwentts.tensor_types import variant_name  # noqa: E402
from qwentts.tokenizer import Tokenizer  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
TEXT = "The quick brown fox jumps over the lazy dog, and then it rests for a while in the warm afternoon sun."
SEED = 7
BARS = {"Q8_0": 0.9995, "Q6_K": 0.995, "Q5_K_M": 0.99, "Q4_K_M": 0.98}  # for every frame
BEGIN, END = "<!-- quality: begin -->", "<!-- quality: end -->"


class Forward:
    """A talker fed with codes: its own (drawn, codes None) or given ones; collects the logits."""

    def __init__(self, path: Path, n_frames: int, codes: np.ndarray | None = None) -> None:
        engine = Engine(path, None)
        try:
            session, facts = engine.session(), engine.facts
            info = read_talker_info(engine.file(TALKER))
            ids = Tokenizer.from_file(engine.file(TALKER)).encode(prompts.utterance(TEXT))
            speaker = next(iter(info.speakers), None)
            built = prompts.build(info, ids, language="english", speaker=speaker)
            rows, overlay, pad_row = prompts.render(built, session, prompts.ConstantRows(info, session))
            chosen = choose({}, info.generation)
            uniforms, G = UniformStream(SEED, facts.n_code_groups), facts.n_code_groups
            codebook0 = Codebook0(facts.codec_vocab_size, info.codec["eos"], penalty=chosen.repetition_penalty)
            self.codes = np.zeros((n_frames, G), np.int32) if codes is None else codes
            self.talker = np.empty((n_frames, facts.codec_vocab_size), np.float32)
            self.predictor = np.empty((n_frames, G - 1, facts.code_vocab_size), np.float32)
            logits, code_logits = self.talker[0].copy(), self.predictor[0, 0].copy()
            for frame in range(n_frames):
                if frame == 0:
                    session.prefill(rows, logits)
                else:
                    session.step(self.codes[frame - 1], overlay[frame - 1] if frame <= len(overlay) else pad_row, logits)
                self.talker[frame] = logits
                frame_codes, uniform = self.codes[frame], uniforms.frame(frame)
                if codes is None:
                    logits[info.codec["eos"]] = -np.inf  # it must not end
                    frame_codes[0] = draw(codebook0.process(logits), chosen.talker, uniform[0])
                    codebook0.accept(int(frame_codes[0]))
                session.predictor_begin(int(frame_codes[0]), code_logits)
                for g in range(1, G):
                    self.predictor[frame, g - 1] = code_logits
                    if codes is None:
                        frame_codes[g] = draw(code_logits, chosen.predictor, uniform[g])
                    if g < G - 1:
                        session.predictor_step(int(frame_codes[g]), code_logits)
        finally:
            engine.close()


def cosines(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """Cosine of each pair of vectors on the last axis, in double precision."""
    a, b = got.astype(np.float64), want.astype(np.float64)
    return (a * b).sum(-1) / np.sqrt((a * a).sum(-1) * (b * b).sum(-1))


def measure(name: str, source: Path, types: list[str], n_frames: int, results: dict[str, Any], save: Any, *, files: Path) -> None:
    """Fills results[name][type] for every type that is missing there."""
    rows = results.setdefault(name, {})
    truth: Forward | None = None
    for variant in types:
        if rows.get(variant, {}).get("frames") == n_frames:
            continue
        truth = Forward(source, n_frames) if truth is None else truth
        path = files / source.name.replace("F32", variant)
        if not path.exists():
            quantize(source, path, variant, progress=False)
        forced = Forward(path, n_frames, truth.codes)
        size = path.stat().st_size
        row: dict[str, Any] = {"bytes": size, "frames": n_frames}
        for part in ("talker", "predictor"):
            got, want = getattr(forced, part), getattr(truth, part)
            frames = cosines(got.reshape(n_frames, -1), want.reshape(n_frames, -1))
            row[part] = {"mean": float(frames.mean()), "least": float(frames.min()), "least_vector": float(cosines(got, want).min())}
        rows[variant] = row
        save()
        print(f"{name} {variant}: talker {row['talker']}, predictor {row['predictor']}", file=sys.stderr, flush=True)


def missed(results: dict[str, Any]) -> list[str]:
    """Bars that are not reached, in words."""
    return [
        f"{name}, {variant}, {part}: cosine {rows[variant][part]['mean']:.5f} (least {rows[variant][part]['least']:.5f}), bar {bar}"
        for name, rows in results.items()
        for variant, bar in BARS.items()
        for part in ("talker", "predictor")
        if variant in rows and rows[variant][part]["least"] < bar
    ]


def table(results: dict[str, Any]) -> str:
    """The figures as a table for documents."""
    lines = [
        "| checkpoint | type | file | talker: mean | least frame | predictor: mean | least frame | least codebook of a frame | bar |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, rows in results.items():
        for variant in filter(rows.__contains__, target_variants()):
            row = rows[variant]
            figures = " | ".join(f"{row[part][kind]:.6f}" for part in ("talker", "predictor") for kind in ("mean", "least"))
            figures += f" | {row['predictor']['least_vector']:.6f}"
            lines.append(f"| {name} | {variant} | {row['bytes'] / 1e6:.1f} MB | {figures} | {BARS.get(variant, '')} |")
    return "\n".join(lines)


def plot(results: dict[str, Any], path: Path) -> None:
    """Distance from F32 by type: a dot for the mean, a line up to the worst frame, a grey step for the bar."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    order = list(next(iter(results.values())))
    colours = ("#3b6fb6", "#d1743b", "#4c9a6a")
    plt.rcParams.update({"font.size": 9, "font.family": "DejaVu Sans"})
    figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.9), sharey=True, constrained_layout=True)
    titles = {"talker": "Talker: logits of codebook 0", "predictor": "Predictor: logits of the other codebooks"}
    for axis, (part, title) in zip(axes, titles.items(), strict=True):
        for i, (name, rows) in enumerate(results.items()):
            here = [v for v in order if v in rows]
            at = np.array([order.index(v) for v in here]) + (i - (len(results) - 1) / 2) * 0.2
            mean, worst = ([1 - rows[v][part][kind] for v in here] for kind in ("mean", "least"))
            axis.vlines(at, mean, worst, color=colours[i % 3], linewidth=1.6)
            axis.plot(at, mean, "o", color=colours[i % 3], markersize=5, label=name)
        for variant, bar in ((v, b) for v, b in BARS.items() if v in order):
            x, label = order.index(variant), "bar for every frame" if variant == "Q8_0" else None
            axis.hlines(1 - bar, x - 0.4, x + 0.4, color="#888888", linewidth=1.2, label=label)
        axis.set_yscale("log")
        axis.set_ylim(bottom=1e-7)  # what is nearer is as good as equal
        axis.set_xticks(range(len(order)), order)
        axis.set_xlim(-0.6, len(order) - 0.4)
        axis.set_title(title, fontsize=10, loc="left")
        axis.grid(axis="y", color="#e4e4e4", linewidth=0.7)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(axis="x", length=0)
    axes[0].set_ylabel("1 - cosine to F32: mean frame (dot) to worst")
    axes[0].legend(frameon=False, loc="upper left", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def insert(document: Path, text: str) -> None:
    """Puts the text between the markers, which stand at the end of a document that has none."""
    old = document.read_text(encoding="utf-8") if document.exists() else ""
    if BEGIN not in old:
        old += f"\n## Quality by type\n\n{BEGIN}\n{END}\n"
    before, after = old.split(BEGIN)[0], old.split(END)[1]
    document.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("talkers", nargs="*", type=Path)
    parser.add_argument("--trained", type=Path, metavar="TALKER", help="the demonstration voice's F32 talker, whose weights are trained")
    parser.add_argument("--types", default=",".join(target_variants()), help="a part of the types: more can be added by another run")
    parser.add_argument("--frames", type=int, default=64)
    parser.add_argument("--files", type=Path, metavar="DIR", help="keep the quantized files here, and use those that are here already")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "quality.json")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    options = parser.parse_args()

    types = [variant_name(name, target_variants()) for name in options.types.split(",")]
    results: dict[str, Any] = json.loads(options.results.read_text()) if options.results.exists() else {}

    def save() -> None:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        options.results.write_text(json.dumps(results, indent=1))

    with tempfile.TemporaryDirectory() as folder:
        make_tiny.write_model(Path(folder) / "wide", "custom_voice", make_tiny.WIDE)
        talker = next(p for p in convert(Path(folder) / "wide", folder, progress=False) if "talker" in p.name)
        measure("tiny, random weights", talker, types, options.frames, results, save, files=Path(folder))
        for path in options.talkers:
            size = path.name.removeprefix("qwen-talker-").removesuffix("-F32.gguf").replace("-", " ")
            kept = options.files or Path(folder)
            measure(f"{size}, random weights", path, types, options.frames, results, save, files=kept)
        if options.trained:
            measure("demonstration voice, trained", options.trained, types, options.frames, results, save, files=Path(folder) / "wide")
    plot(results, options.docs / "img" / "quality.png")
    text = f"![1 - cosine to F32 by type](img/quality.png)\n\n{table(results)}"
    insert(options.docs / "quantization.md", text)
    print(table(results))
    for line in missed(results):
        print(f"missed: {line}", file=sys.stderr)
    return 1 if missed(results) else 0


if __name__ == "__main__":
    sys.exit(main())
