"""What is in a GGUF file: kind of model, languages, speakers, element types, parts, memory, fallbacks, warnings. Foreign files too."""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

import numpy as np

from .errors import ModelFileError
from .language import CODES
from .model_file import ModelFile, TensorInfo
from .talker_info import read_talker_info
from .tensor_types import FILE_TYPES, choose_types, type_name
from .tokenizer import Tokenizer

TALKER_ARCH, CODEC_ARCH = "qwen3-tts", "qwen3-tts-tokenizer"
KINDS = {TALKER_ARCH: "talker", CODEC_ARCH: "codec"}
# How a part's weights come into memory. copied: every frame reads them, so the loader copies them into memory of its own; whole: used in
# the file, all of it; rows: used in the file, a row a token or code; cloning: used in the file, first when a recording is heard.
PARTS = {
    "talker": (
        ("text embedding", r"talker\.text_embd\.", "rows"),
        ("text projection", r"talker\.text_proj\.", "whole"),
        ("code embeddings", r"talker\.codec_embd\.|code_pred\.codec_embd\.", "rows"),
        ("talker", r"talker\.", "copied"),
        ("code predictor", r"code_pred\.", "copied"),
        ("speaker encoder", r"spk_enc\.", "cloning"),
    ),
    "codec": (
        ("codebooks", r"tok_dec\.vq_", "rows"),
        ("encoder codebooks", r"tok_enc\.vq_", "cloning"),
        ("codec decoder", r"tok_dec\.", "whole"),
        ("codec encoder", r"tok_enc\.", "cloning"),
    ),
    "other": (),
}
SHORT_ARRAY = 16  # longer arrays are given by their length
SMALL_BYTES = 1 << 18  # tensors up to this size are read for zeros here, larger ones by --verify
VARIANT_OF = {"q8_0": "Q8_0", "q6_K": "Q6_K", "q5_K": "Q5_K_M", "q4_K": "Q4_K_M", "f16": "F16", "bf16": "BF16", "f32": "F32"}
CACHE_BYTES = 2  # the talker keeps its keys and values in F16 unless it is told otherwise


def inspect_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Facts about the file, ready for JSON; raises ModelFileError for what is no GGUF file."""
    file = ModelFile.open(path)
    arch = file.get("general.architecture")
    kind = KINDS.get(arch, "other") if isinstance(arch, str) else "other"
    tensors = file.tensors()
    types: dict[str, dict[str, int]] = {}
    parts: dict[str, dict[str, Any]] = {}
    for tensor in tensors:
        name, use = _part(kind, tensor.name)
        part = parts.setdefault(name, {"tensors": 0, "parameters": 0, "bytes": 0, "use": use, "types": []})
        row = types.setdefault(tensor.type_name, {"tensors": 0, "parameters": 0, "bytes": 0})
        for counts in (part, row):
            counts["tensors"] += 1
            counts["parameters"] += tensor.n_elements
            counts["bytes"] += tensor.n_bytes
        if tensor.type_name not in part["types"]:
            part["types"].append(tensor.type_name)
    facts: dict[str, Any] = {
        "path": os.fspath(path),
        "bytes": os.path.getsize(path),
        "kind": kind,
        "architecture": _plain(arch),
        "name": _plain(file.get("general.name")),
    }
    if kind == "talker":
        facts["talker"] = _talker(file)
    facts |= {
        "parameters": sum(row["parameters"] for row in types.values()),
        "tensors": len(tensors),
        "parts": parts,
        "types": types,
    }
    if kind != "other":
        facts["memory"] = _memory(file, tensors, parts)
        facts |= _fallbacks(file, tensors)
        facts["warnings"] = _warnings(file, kind, tensors)
    facts["keys"] = {key: _plain(file.get(key)) for key in file.keys()}
    return facts


def _part(kind: str, name: str) -> tuple[str, str]:
    found = next(((part, use) for part, pattern, use in PARTS[kind] if re.match(pattern, name)), None)
    return found or ("other", "unused" if PARTS[kind] else "unknown")


def _talker(file: ModelFile) -> dict[str, Any]:
    try:
        info = read_talker_info(file)
    except ModelFileError as error:  # shown, not raised: looking into a broken file is what this is for
        return {"problem": str(error)}
    return {
        "mode": info.model_type,
        "size": info.model_size,
        "languages": [name for name in info.languages if "dialect" not in name],
        "speakers": [{"name": name, "dialect": info.dialects.get(name)} for name in info.speakers],
        "code_groups": _plain(file.get("qwen3-tts.num_code_groups")),
        "generation": dict(info.generation),
    }


def _memory(file: ModelFile, tensors: list[TensorInfo], parts: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Bytes of this file's weights that stay in memory, by how they are used; activations are not counted."""

    def used(*uses: str) -> int:
        return sum(part["bytes"] for part in parts.values() if part["use"] in uses)

    rows = {}
    for part in (name for name, part in parts.items() if part["use"] == "rows"):
        of = [t for t in tensors if _part(KINDS[file.get("general.architecture")], t.name)[0] == part and len(t.shape) > 1]
        if of:
            rows[part] = {"row_bytes": max(t.n_bytes // (t.n_elements // t.shape[0]) for t in of), "all_bytes": parts[part]["bytes"]}
    facts: dict[str, Any] = {
        "speaking_bytes": used("copied", "whole"),
        "copied_bytes": used("copied"),
        "cloning_more_bytes": used("cloning"),
        "tables": rows,
    }
    sizes = [file.get(f"qwen3-tts.talker.{key}") for key in ("block_count", "attention.head_count_kv", "attention.key_length")]
    if all(isinstance(size, int) for size in sizes):
        facts["cache_bytes_per_frame"] = 2 * CACHE_BYTES * int(np.prod(sizes, dtype=np.int64))
    return facts


def _variant(file: ModelFile, tensors: list[TensorInfo]) -> str | None:
    """The variant by its key, else by the type most matrices of blocks have."""
    number = file.get("general.file_type")
    by_key = next((name for name, value in FILE_TYPES.items() if isinstance(number, int) and value == number), None)
    if by_key is not None:
        return by_key
    counts: Counter[str] = Counter()
    for tensor in tensors:
        if ".blk." in tensor.name and len(tensor.shape) == 2:
            counts[tensor.type_name] += tensor.n_elements
    return VARIANT_OF.get(counts.most_common(1)[0][0]) if counts else None


def _fallbacks(file: ModelFile, tensors: list[TensorInfo]) -> dict[str, Any]:
    """The variant, the tensors whose rows fit no block of it, and those of another type than the policy gives."""
    variant = _variant(file, tensors)
    if variant is None:
        return {"variant": None, "fallbacks": [], "other_types": []}
    choices = choose_types({t.name: t.shape for t in tensors}, variant)
    fallbacks, others = [], []
    for tensor in tensors:
        choice = choices[tensor.name]
        row = {"tensor": tensor.name, "shape": list(tensor.shape), "type": tensor.type_name, "reason": choice.reason}
        if choice.reason.startswith("row fits no block"):
            fallbacks.append(row)
        elif type_name(choice.type).lower() != tensor.type_name.lower():
            others.append({**row, "policy": type_name(choice.type).lower()})
    return {"variant": variant, "fallbacks": fallbacks, "other_types": others}


def _warnings(file: ModelFile, kind: str, tensors: list[TensorInfo]) -> list[str]:
    found = []
    zeros = [
        tensor.name
        for i, tensor in enumerate(tensors)
        if tensor.n_bytes <= SMALL_BYTES and not tensor.name.endswith(".bias") and not file.tensor(i).any()
    ]
    if zeros:
        found.append(f"{len(zeros)} tensors are all zero: {_some(zeros)}")
    unused = [tensor.name for tensor in tensors if _part(kind, tensor.name)[1] == "unused"]
    if unused:
        found.append(f"{len(unused)} tensors have names that no part of the model reads: {_some(unused)}")
    if kind == "talker":
        try:
            n_derived = Tokenizer.from_file(file).n_derived
        except ModelFileError as error:
            found.append(f"the tokenizer cannot be made, so this file cannot speak: {error}")
        else:
            if n_derived:
                found.append(f"{n_derived} merges that begin with # are missing, as in published files: they are made from the tokens")
    return found


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _plain(value: Any) -> Any:
    if isinstance(value, (list, np.ndarray)):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        return items if len(items) <= SHORT_ARRAY else f"{len(items)} items"
    return value


def report(facts: dict[str, Any]) -> str:
    """The facts as a short text."""
    lines = [
        f"{facts['path']}: {facts['kind']}, architecture {facts['architecture']}, {facts['bytes'] / 1e6:.1f} MB",
        f"name        {' '.join(str(facts['name']).split())}",
    ]
    talker = facts.get("talker")
    if talker and "problem" in talker:
        lines.append(f"problem     {talker['problem']}")
    elif talker:
        speakers = [s["name"] + (f" ({s['dialect']})" if s["dialect"] else "") for s in talker["speakers"]]
        lines += [
            f"mode        {talker['mode']}, size {talker['size']}, {talker['code_groups']} code groups",
            f"languages   {', '.join(f'{n} ({CODES[n][0]})' if n in CODES else n for n in talker['languages'])}",
            f"speakers    {', '.join(speakers) or 'none'}",
            f"generation  {', '.join(f'{k} {v:.4g}' for k, v in talker['generation'].items())}",
        ]
    elif facts["kind"] == "other":
        lines.append("            not a Qwen3-TTS file: only its tables are shown")
    lines.append(f"parameters  {facts['parameters']:,} in {facts['tensors']} tensors")
    for name, row in facts["parts"].items():
        lines.append(f"  {name:<18}{row['parameters']:>15,}{row['bytes']:>15,} bytes  {' '.join(row['types'])}")
    lines.append("types")
    for name, row in facts["types"].items():
        lines.append(f"  {name:<18}{row['parameters']:>15,}{row['bytes']:>15,} bytes  {row['tensors']} tensors")
    if facts["kind"] != "other":
        lines += _model_lines(facts)
    return "\n".join(lines)


def _model_lines(facts: dict[str, Any]) -> list[str]:
    memory = facts["memory"]
    speaking, copied = memory["speaking_bytes"] / 1e6, memory["copied_bytes"] / 1e6
    lines = [f"memory      weights when speaking {speaking:,.1f} MB, {copied:,.1f} MB of them copied"]
    if memory["cloning_more_bytes"]:
        lines.append(f"            for cloning {memory['cloning_more_bytes'] / 1e6:,.1f} MB more")
    for name, table in memory["tables"].items():
        lines.append(f"            {name}: {table['row_bytes']:,} bytes a row that is read, of {table['all_bytes'] / 1e6:,.1f} MB")
    if "cache_bytes_per_frame" in memory:
        lines.append(f"            cache {memory['cache_bytes_per_frame'] / 1e3:,.1f} kB a frame or prompt row; activations come on top")
    lines.append(f"variant     {facts['variant']}")
    if facts["fallbacks"]:
        lines.append(f"fallbacks   {len(facts['fallbacks'])} tensors have rows that fit no block")
        for row in facts["fallbacks"]:
            lines.append(f"  {row['tensor']} {row['shape']}: {row['type']}, {row['reason']}")
    if facts["other_types"]:
        names = [f"{row['tensor']} ({row['type']}, here {row['policy']})" for row in facts["other_types"]]
        lines.append(f"other types {len(names)} tensors are not of the type that quantize gives: {_some(names)}")
    return lines + [f"warning     {text}" for text in facts["warnings"]]
