"""Checkpoint folder to GGUF files in the published layout, one tensor block at a time.

    talker folder  -> qwen-talker-{size}-{mode}-{VARIANT}.gguf     (+ the codec, when speech_tokenizer/ is inside)
    codec folder   -> qwen-tokenizer-12hz-{VARIANT}.gguf

Everything is checked before the first byte is written: configuration, vocabulary, and every tensor by name and shape.
Then header and tensor table are written and the data streamed behind them, so that memory stays at one block of rows (16 MiB
as float32) and its encoding. Types come from the library's policy (tensor_types.py), which the quantizer shares.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from .convert_codec import codec_entries, unused_codec_tensors
from .convert_keys import MODES, add_codec_keys, add_talker_keys, mode, size_label
from .convert_layout import Entry, Section, resolve, talker_entries
from .convert_source import SourceTensor, open_checkpoint, read_json
from .convert_vocab import read_vocabulary
from .errors import ModelFileError
from .gguf_write import GGUFWriter, Keys, Slot
from .tensor_types import choose_types, encode, set_file_type, tensor_bytes, variant_name, variants

TALKER_TYPE, CODEC_TYPE = "qwen3_tts", "qwen3_tts_tokenizer_12hz"
CODEBOOK_EPSILON = 1e-5  # the official codebooks clamp usage counts to this


@dataclass(frozen=True)
class Plan:
    """One file to write, fully checked; a slot for each entry."""

    path: Path
    keys: Keys
    entries: list[Entry]
    slots: list[Slot]
    tensors: dict[str, SourceTensor]


def convert(
    checkpoint_dir: Path | str, out_dir: Path | str | None = None, *, type: str = "f32", progress: bool | None = None
) -> list[Path]:
    """Writes the GGUF files of a checkpoint and returns their paths.

    `out_dir` defaults to the current folder, `type` is one of tensor_types.variants() in any letter case, `progress` None shows a bar on a
    terminal.
    Raises ModelFileError, naming the file, key or tensor, for what is not understood; no partial file is left.
    """
    folder = Path(checkpoint_dir)
    if not folder.is_dir():
        raise ModelFileError(f"{folder}: not a checkpoint folder (one that holds config.json and model.safetensors)")
    out = Path.cwd() if out_dir is None else Path(out_dir)
    plans = _plans(folder, out, type)
    out.mkdir(parents=True, exist_ok=True)
    total = sum(slot.n_bytes for plan in plans for slot in plan.slots)
    show = sys.stderr.isatty() if progress is None else progress
    with tqdm(total=total, unit="B", unit_scale=True, disable=not show, file=sys.stderr) as bar:
        for plan in plans:
            bar.set_description(plan.path.name)
            _write(plan, bar)
    return [plan.path for plan in plans]


def _plans(folder: Path, out: Path, type_name: str) -> list[Plan]:
    variant = variant_name(type_name, variants())
    config = Section(read_json(folder / "config.json"), str(folder / "config.json"))
    model_type = config.values.get("model_type")
    if model_type == CODEC_TYPE:
        return [_codec_plan(folder, config, out, variant)]
    if model_type != TALKER_TYPE:
        raise ModelFileError(f"{config.where}: model_type {model_type!r} is not one of {TALKER_TYPE}, {CODEC_TYPE}")
    plans = [_talker_plan(folder, config, out, variant)]
    inner = folder / "speech_tokenizer"
    if (inner / "config.json").is_file():
        codec_config = Section(read_json(inner / "config.json"), str(inner / "config.json"))
        plans.append(_codec_plan(inner, codec_config, out, variant))
    return plans


def _talker_plan(folder: Path, config: Section, out: Path, variant: str) -> Plan:
    if config.values.get("tokenizer_type") != CODEC_TYPE:
        found = config.values.get("tokenizer_type")
        raise ModelFileError(f"{config.where}: tokenizer_type {found!r} is not {CODEC_TYPE}")
    tensors = open_checkpoint(folder)
    with_encoder = mode(config) == "base" or any(name.startswith("speaker_encoder.") for name in tensors)
    entries = talker_entries(config, with_speaker_encoder=with_encoder)
    resolve(entries, tensors, str(folder), [])
    vocabulary = read_vocabulary(folder)
    rows = config.sub("talker_config").int("text_vocab_size", 151936)
    if len(vocabulary.tokens) > rows:
        raise ModelFileError(f"{folder}: {len(vocabulary.tokens)} tokens, but the text embedding has {rows} rows")
    generation_file = folder / "generation_config.json"
    generation = read_json(generation_file) if generation_file.is_file() else {}
    keys = _keys("qwen3-tts", variant)
    add_talker_keys(keys, config, generation, vocabulary)
    name = f"qwen-talker-{size_label(config)}-{MODES[mode(config)]}-{variant}.gguf"
    return Plan(out / name, keys, entries, _slots(entries, variant), tensors)


def _codec_plan(folder: Path, config: Section, out: Path, variant: str) -> Plan:
    if config.values.get("model_type") != CODEC_TYPE:
        raise ModelFileError(f"{config.where}: model_type {config.values.get('model_type')!r} is not {CODEC_TYPE}")
    tensors = open_checkpoint(folder)
    entries = codec_entries(config)
    resolve(entries, tensors, str(folder), unused_codec_tensors(config))
    keys = _keys("qwen3-tts-tokenizer", variant)
    add_codec_keys(keys, config)
    return Plan(out / f"qwen-tokenizer-12hz-{variant}.gguf", keys, entries, _slots(entries, variant), tensors)


def _keys(architecture: str, variant: str) -> Keys:
    keys = Keys()
    keys.set_string("general.architecture", architecture)
    set_file_type(keys, variant)
    return keys


def _slots(entries: list[Entry], variant: str) -> list[Slot]:
    """A row of the tensor table for each entry: its shape, fastest axis first, and its type in this file."""
    shapes = {entry.target: tuple(reversed(entry.shape)) for entry in entries}
    types = choose_types(shapes, variant)
    return [Slot(name, ne, types[name].type, tensor_bytes(ne, types[name].type)) for name, ne in shapes.items()]


def _write(plan: Plan, bar: tqdm) -> None:
    with GGUFWriter(plan.path, plan.keys, plan.slots) as out:
        for entry, slot in zip(plan.entries, plan.slots, strict=True):
            out.add(_encoded(plan, entry, slot, bar))


def _encoded(plan: Plan, entry: Entry, slot: Slot, bar: tqdm) -> Iterator[memoryview]:
    """The entry's data in its type, block by block; refuses NaN, warns about a matrix of zeros."""
    source, peak = plan.tensors[entry.source], 0.0
    blocks = iter([_codebook(plan, entry)]) if entry.usage is not None else source.rows()
    for rows in blocks:
        peak = max(peak, float(np.abs(rows).max(initial=0.0)))
        data, _ = encode(entry.source, rows, slot.type)
        yield data
        bar.update(len(data))
    if peak == 0.0 and len(entry.shape) > 1:
        warnings.warn(f"{source.file}: tensor {entry.source} is all zero", stacklevel=2)


def _codebook(plan: Plan, entry: Entry) -> np.ndarray:
    """Codebook rows [entries, dim]: sums divided by usage counts, in float32 as the official code computes them."""
    assert entry.usage is not None
    usage = plan.tensors[entry.usage].load()
    sums = plan.tensors[entry.source].load()
    return sums / np.maximum(usage, np.float32(CODEBOOK_EPSILON))[:, None]
