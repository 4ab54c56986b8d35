"""Record what the official code hears: codec encoder and speaker encoder on the tiny checkpoints.

usage: golden_hear.py [--out tests/golden]        needs the reference environment (tools/official.py)

Writes hear_a.npz (codec_a and the speaker encoder of base) and hear_b.npz (codec_b). The clips are tools/hear_clip.py's.
  codes, margins [T, G]           of the long clip; a margin is the gap between the two nearest entries, |.|^2 in double, over |r|^2 + |e|^2
  stage_codes [T, G]              of the short clip, and its stages by tap name [time, channels]; NAME::STEP keeps every STEP-th row
  silence_codes [T, G], silence   of two seconds of zeros, and every 16th sample of what the decoder makes of them
  speaker.*, speaker_long         stages for the short clip (hear_a only), and the embedding of the long one
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
import make_tiny  # noqa: E402
import official  # noqa: E402
import torch  # noqa: E402
from hear_clip import clip  # noqa: E402

LONG, SHORT = 156_777, 9_677  # samples: longer than a chunk of the encoder, and a few frames; neither a whole number of frames
ROWS_KEPT = 300  # of a stage


def encode(model: Any, samples: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Codes int32 [frames, groups] of samples at the codec's rate, and every stage as float32 [time, channels]."""
    tokenizer = model.model.speech_tokenizer
    net = tokenizer.model.encoder
    stages: dict[str, np.ndarray] = {}
    hooks = []

    def keep(name: str, module: torch.nn.Module, *, channels_first: bool = True) -> None:
        def hook(_module: torch.nn.Module, _inputs: Any, output: Any) -> None:
            value = (output[0] if isinstance(output, tuple) else output)[0]
            stages[name] = (value.T if channels_first else value).detach().numpy().astype(np.float32).copy()

        hooks.append(module.register_forward_hook(hook))

    layers = net.encoder.layers
    strided = [layer for layer in layers if hasattr(layer, "conv") and int(layer.conv.stride[0]) > 1]
    keep("codec_enc.conv", layers[0])
    for i, layer in enumerate(strided):
        keep(f"codec_enc.stage.{i}", layer)
    keep("codec_enc.seanet", layers[-1])
    for i, layer in enumerate(net.encoder_transformer.layers):
        keep(f"codec_enc.blk.{i}", layer, channels_first=False)
    keep("codec_enc.downsample", net.downsample)
    keep("codec_enc.semantic", net.quantizer.semantic_residual_vector_quantizer.input_proj)
    keep("codec_enc.acoustic", net.quantizer.acoustic_residual_vector_quantizer.input_proj)
    with torch.no_grad():
        codes = tokenizer.encode(samples, sr=tokenizer.feature_extractor.sampling_rate).audio_codes[0]
    for hook in hooks:
        hook.remove()
    return codes.numpy().astype(np.int32), stages


def margins(model: Any, codes: np.ndarray, stages: dict[str, np.ndarray]) -> np.ndarray:
    """float32 [frames, groups]: how much nearer the chosen entry is than the next, in double, relative to the terms the search adds up."""
    quantizer = model.model.speech_tokenizer.model.encoder.quantizer
    out = np.zeros(codes.shape)
    group = 0
    for name in ("semantic", "acoustic"):
        branch = getattr(quantizer, f"{name}_residual_vector_quantizer")
        rest = stages[f"codec_enc.{name}"].astype(np.float64)[: len(codes)]
        for layer in branch.layers:
            if group == codes.shape[1]:
                break
            entries = layer.codebook.embed.numpy().astype(np.float64)
            squares = ((rest[:, None] - entries[None]) ** 2).sum(-1)
            chosen = codes[:, group]
            near = squares[np.arange(len(codes)), chosen]
            squares[np.arange(len(codes)), chosen] = np.inf
            out[:, group] = (squares.min(-1) - near) / ((rest**2).sum(-1) + (entries[chosen] ** 2).sum(-1))
            rest = rest - entries[chosen]
            group += 1
    return out.astype(np.float32)


def embed(model: Any, samples: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The x-vector float32 [D] of samples at 24 kHz, and every stage as float32 [time, channels]."""
    net = model.model.speaker_encoder
    stages: dict[str, np.ndarray] = {}
    hooks = []

    def keep(name: str, module: torch.nn.Module) -> None:
        def hook(_module: torch.nn.Module, _inputs: Any, output: torch.Tensor) -> None:
            stages[name] = output[0].T.detach().numpy().astype(np.float32).copy()

        hooks.append(module.register_forward_hook(hook))

    hooks.append(net.register_forward_pre_hook(lambda _m, inputs: stages.__setitem__("speaker.mel", inputs[0][0].numpy().copy())))
    for i, block in enumerate(net.blocks):
        keep(f"speaker.blk.{i}" if i else "speaker.conv0", block)
    keep("speaker.mfa", net.mfa)
    keep("speaker.pooled", net.asp)
    with torch.no_grad():
        vector = model.model.extract_speaker_embedding(samples, 24000)
    for hook in hooks:
        hook.remove()
    return vector.numpy().astype(np.float32), stages


def thin(stages: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Long stages as every STEP-th row, under NAME::STEP."""
    out = {}
    for name, value in stages.items():
        step = -(-len(value) // ROWS_KEPT)
        out[f"{name}::{step}"] = np.ascontiguousarray(value[::step])
    return out


def record(model: Any, path: Path) -> None:
    """Writes one codec's file, with the speaker encoder's stages if the model has one."""
    rate = model.model.speech_tokenizer.feature_extractor.sampling_rate
    codes, stages = encode(model, clip(LONG))
    gaps = margins(model, codes, stages)
    stage_codes, stages = encode(model, clip(SHORT, seed=2))
    zeros = np.zeros(2 * rate, np.float32)
    silence_codes, _ = encode(model, zeros)
    silence, _ = official.decode_once(model, silence_codes)
    arrays = dict(codes=codes, margins=gaps, stage_codes=stage_codes) | thin(stages)
    arrays |= dict(silence_codes=silence_codes, silence=silence[::16].copy())
    if model.model.speaker_encoder is not None:
        vector, speaker = embed(model, clip(SHORT, seed=2))
        arrays |= thin(speaker | {"speaker.embedding": vector[None]}) | {"speaker_long": embed(model, clip(LONG))[0]}
    np.savez_compressed(path, **arrays)
    print(f"{path}: {codes.shape} codes, {len(np.unique(codes))} values, smallest margin {gaps.min():.2g}, {path.stat().st_size} bytes")


def main(out: Path) -> None:
    """Records both files."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        make_tiny.write_all(root)
        for letter, mode in (("a", "base"), ("b", "voice_design")):
            record(official.load(root / mode), out / f"hear_{letter}.npz")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("tests/golden"))
    main(parser.parse_args().out)
