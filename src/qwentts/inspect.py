"""What is in a GGUF file: kind of model, sizes, languages, speakers, element types and parameter counts. Foreign files too."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from .errors import ModelFileError
from .language import CODES
from .model_file import ModelFile
from .talker_info import read_talker_info

TALKER_ARCH, CODEC_ARCH = "qwen3-tts", "qwen3-tts-tokenizer"
KINDS = {TALKER_ARCH: "talker", CODEC_ARCH: "codec"}
PARTS = {
    "talker": "talker", "code_pred": "code predictor", "spk_enc": "speaker encoder",
    "tok_dec": "codec decoder", "tok_enc": "codec encoder",
}  # fmt: skip
SHORT_ARRAY = 16  # longer arrays are given by their length


def inspect_file(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Facts about the file, ready for JSON; raises ModelFileError for what is no GGUF file."""
    file = ModelFile.open(path)
    arch = file.get("general.architecture")
    tensors = file.tensors()
    types: dict[str, dict[str, int]] = {}
    parts: dict[str, int] = {}
    for tensor in tensors:
        row = types.setdefault(tensor.type_name, {"tensors": 0, "parameters": 0, "bytes": 0})
        row["tensors"] += 1
        row["parameters"] += tensor.n_elements
        row["bytes"] += tensor.n_bytes
        prefix = tensor.name.split(".", 1)[0]
        part = PARTS.get(prefix, "other") if arch in KINDS else "other"
        parts[part] = parts.get(part, 0) + tensor.n_elements
    facts: dict[str, Any] = {
        "path": os.fspath(path),
        "bytes": os.path.getsize(path),
        "kind": KINDS.get(arch, "other"),
        "architecture": arch,
        "name": file.get("general.name"),
    }
    if arch == TALKER_ARCH:
        facts["talker"] = _talker(file)
    facts |= {
        "parameters": sum(row["parameters"] for row in types.values()),
        "tensors": len(tensors),
        "parts": parts,
        "types": types,
        "keys": {key: _plain(file.get(key)) for key in file.keys()},
    }
    return facts


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
        "code_groups": file.get("qwen3-tts.num_code_groups"),
        "generation": dict(info.generation),
    }


def _plain(value: Any) -> Any:
    if isinstance(value, (list, np.ndarray)):
        items = value.tolist() if isinstance(value, np.ndarray) else value
        return items if len(items) <= SHORT_ARRAY else f"{len(items)} items"
    return value


def report(facts: dict[str, Any]) -> str:
    """The facts as a short text."""
    lines = [
        f"{facts['path']}: {facts['kind']}, architecture {facts['architecture']}, {facts['bytes'] / 1e6:.1f} MB",
        f"name        {facts['name']}",
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
    lines += [f"  {name:<16}{count:>15,}" for name, count in facts["parts"].items()]
    for name, row in facts["types"].items():
        lines.append(f"  {name:<16}{row['parameters']:>15,} in {row['tensors']} tensors, {row['bytes']:,} bytes")
    return "\n".join(lines)
