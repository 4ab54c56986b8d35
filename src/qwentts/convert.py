"""Checkpoint folder to GGUF files in the published layout, one tensor block at a time.

    talker folder  -> qwen-talker-{size}-{mode}-{VARIANT}.gguf     (+ the codec, when speech_tokenizer/ is inside)
    codec folder   -> qwen-tokenizer-12hz-{VARIANT}.gguf

Everything is checked before the first byte is written: configuration, vocabulary, and every tensor by name and shape.
Then header and tensor table are written with the `gguf` package and the data streamed behind them, so that memory stays
at one block of rows (16 MiB as float32) and its encoding. A file appears under its name only when it is complete.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter
from tqdm import tqdm

from .convert_codec import codec_entries, unused_codec_tensors
from .convert_keys import MODES, add_codec_keys, add_talker_keys, mode, size_label
from .convert_layout import Entry, Section, resolve, talker_entries
from .convert_quant import encode, tensor_bytes, tensor_type, variant_type
from .convert_source import SourceTensor, open_checkpoint, read_json
from .convert_vocab import read_vocabulary
from .errors import ModelFileError

TALKER_TYPE, CODEC_TYPE = "qwen3_tts", "qwen3_tts_tokenizer_12hz"
CODEBOOK_EPSILON = 1e-5  # the official codebooks clamp usage counts to this
ALIGNMENT_BYTES = 32


@dataclass(frozen=True)
class Plan:
    """One file to write, fully checked."""

    path: Path
    architecture: str
    add_keys: Callable[[GGUFWriter], None]
    entries: list[Entry]
    tensors: dict[str, SourceTensor]
    variant: GGMLQuantizationType

    def type_of(self, entry: Entry) -> GGMLQuantizationType:
        """The element type the entry gets in this file."""
        return tensor_type(entry.target, entry.shape, self.variant)

    def bytes_of(self, entry: Entry) -> int:
        """Bytes of the entry's data, without padding."""
        return tensor_bytes(entry.shape, self.type_of(entry))


def convert(
    checkpoint_dir: Path | str, out_dir: Path | str | None = None, *, type: str = "f32", progress: bool | None = None
) -> list[Path]:
    """Writes the GGUF files of a checkpoint and returns their paths.

    `out_dir` defaults to the current folder, `type` is f32, f16, bf16 or q8_0, `progress` None shows a bar on a terminal.
    Raises ModelFileError, naming the file, key or tensor, for what is not understood; no partial file is left.
    """
    folder = Path(checkpoint_dir)
    if not folder.is_dir():
        raise ModelFileError(f"{folder}: not a checkpoint folder (one that holds config.json and model.safetensors)")
    out = Path.cwd() if out_dir is None else Path(out_dir)
    plans = _plans(folder, out, type)
    out.mkdir(parents=True, exist_ok=True)
    total = sum(plan.bytes_of(entry) for plan in plans for entry in plan.entries)
    show = sys.stderr.isatty() if progress is None else progress
    with tqdm(total=total, unit="B", unit_scale=True, disable=not show, file=sys.stderr) as bar:
        for plan in plans:
            bar.set_description(plan.path.name)
            _write(plan, bar)
    return [plan.path for plan in plans]


def _plans(folder: Path, out: Path, type_name: str) -> list[Plan]:
    variant = variant_type(type_name)
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


def _talker_plan(folder: Path, config: Section, out: Path, variant: GGMLQuantizationType) -> Plan:
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

    def add_keys(writer: GGUFWriter) -> None:
        add_talker_keys(writer, config, generation, vocabulary)

    add_keys(GGUFWriter(None, "qwen3-tts"))  # refusals come before the first file is opened
    name = f"qwen-talker-{size_label(config)}-{MODES[mode(config)]}-{variant.name}.gguf"
    return Plan(out / name, "qwen3-tts", add_keys, entries, tensors, variant)


def _codec_plan(folder: Path, config: Section, out: Path, variant: GGMLQuantizationType) -> Plan:
    if config.values.get("model_type") != CODEC_TYPE:
        raise ModelFileError(f"{config.where}: model_type {config.values.get('model_type')!r} is not {CODEC_TYPE}")
    tensors = open_checkpoint(folder)
    entries = codec_entries(config)
    resolve(entries, tensors, str(folder), unused_codec_tensors(config))

    def add_keys(writer: GGUFWriter) -> None:
        add_codec_keys(writer, config)

    add_keys(GGUFWriter(None, "qwen3-tts-tokenizer"))
    return Plan(out / f"qwen-tokenizer-12hz-{variant.name}.gguf", "qwen3-tts-tokenizer", add_keys, entries, tensors, variant)


def _write(plan: Plan, bar: tqdm) -> None:
    """Writes one file under a temporary name beside its own and renames it when it is complete."""
    partial = plan.path.with_name(f".{plan.path.name}.{os.getpid()}.partial")
    try:
        writer = GGUFWriter(partial, plan.architecture)
        plan.add_keys(writer)
        for entry in plan.entries:
            dtype = plan.type_of(entry)
            writer.add_tensor_info(entry.target, entry.shape, np.dtype(np.float32), plan.bytes_of(entry), raw_dtype=dtype)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        writer.close()
        with open(partial, "ab") as file:
            file.write(b"\0" * (-file.tell() % ALIGNMENT_BYTES))
            for entry in plan.entries:
                for block in _encoded(plan, entry):
                    file.write(block)
                    bar.update(len(block))
                file.write(b"\0" * (-file.tell() % ALIGNMENT_BYTES))
        os.replace(partial, plan.path)
    finally:
        partial.unlink(missing_ok=True)


def _encoded(plan: Plan, entry: Entry) -> Iterator[bytes]:
    """The entry's data in its type, block by block; refuses NaN, warns about a matrix of zeros."""
    source, dtype, peak = plan.tensors[entry.source], plan.type_of(entry), 0.0
    blocks = iter([_codebook(plan, entry)]) if entry.usage is not None else source.rows()
    for rows in blocks:
        peak = max(peak, float(np.abs(rows).max(initial=0.0)))
        yield encode(entry.source, rows, dtype)
    if peak == 0.0 and len(entry.shape) > 1:
        warnings.warn(f"{source.file}: tensor {entry.source} is all zero", stacklevel=2)


def _codebook(plan: Plan, entry: Entry) -> np.ndarray:
    """Codebook rows [entries, dim]: sums divided by usage counts, in float32 as the official code computes them."""
    assert entry.usage is not None
    usage = plan.tensors[entry.usage].load()
    sums = plan.tensors[entry.source].load()
    return sums / np.maximum(usage, np.float32(CODEBOOK_EPSILON))[:, None]
