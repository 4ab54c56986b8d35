"""The `quantize` command: a GGUF file in another element type, then a table of tensor classes, or everything as JSON.

A class is a part of the model, a role in it and the type it got. Errors are NMSE: the mean square of the error over that of the values.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from dataclasses import asdict
from typing import Any

from .output import print_result
from .quantize import QuantizeResult, TensorResult, quantize, target_variants

PARTS = {  # by the first word of a tensor's name
    "talker": "talker", "code_pred": "code predictor", "spk_enc": "speaker encoder", "tok_dec": "codec decoder", "tok_enc": "codec encoder",
}  # fmt: skip
ROLES = (  # first match wins: role, then endings of the tensor's name
    ("codebook", (".codebook",)),
    ("embedding", ("text_embd.weight", "codec_embd.weight")),
    ("attention values", (".attn_v.weight",)),
    ("attention", (".attn_q.weight", ".attn_k.weight", ".attn_output.weight")),
    ("feed-forward down", (".ffn_down.weight",)),
    ("feed-forward", (".ffn_gate.weight", ".ffn_up.weight")),
)


DESCRIPTION = (
    "Write a talker or codec file with its matrices in another type. Vectors, codebooks, their projections and the speaker encoder stay"
    " F32, the code predictor Q8_0 in 4- and 5-bit files. The output appears when it is complete and replaces a file of that name."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `qwentts quantize` and `qwen-quantize`."""
    parser.description = DESCRIPTION
    parser.add_argument("source", metavar="IN.gguf", help="F32, F16 or BF16 file, as `qwentts convert` writes it")
    parser.add_argument("target", metavar="OUT.gguf", help="file to write")
    parser.add_argument("type", metavar="TYPE", help=f"one of {', '.join(target_variants())}, in any letter case")
    parser.add_argument("--predictor-type", metavar="TYPE", help="type of the code predictor's matrices: F32, one of these, Q5_K or Q4_K")
    parser.add_argument("--allow-requantize", action="store_true", help="accept a source that was quantized before, which loses more")
    parser.add_argument("--threads", type=int, metavar="N", help="default: every core this process may use")
    parser.add_argument("--json", action="store_true", help="print what was done to every tensor as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress bar and no table; warnings and errors stay")


def run(args: argparse.Namespace) -> None:
    """Run the command."""
    warnings.showwarning = _one_line
    result = quantize(
        args.source,
        args.target,
        args.type,
        predictor_type=args.predictor_type,
        allow_requantize=args.allow_requantize,
        threads=args.threads,
        progress=False if args.quiet or args.json else None,
    )
    if args.json:
        print_result(json.dumps(facts(result), indent=1, ensure_ascii=False))
    elif not args.quiet:
        print_result(table(result))


def _one_line(message: Warning | str, *_: Any) -> None:
    print(f"qwentts: warning: {message}", file=sys.stderr)


def classes(result: QuantizeResult) -> list[dict[str, Any]]:
    """Rows of the closing table: parts, then roles in the order of first appearance."""
    rows: dict[tuple[str, str, str], dict[str, Any]] = {}
    for tensor in result.tensors:
        key = (PARTS.get(tensor.name.split(".", 1)[0], "other"), _role(tensor), tensor.type)
        row = rows.setdefault(key, dict(part=key[0], role=key[1], type=key[2], tensors=0, source_bytes=0, bytes=0, nmse=[]))
        row["tensors"] += 1
        row["source_bytes"] += tensor.source_bytes
        row["bytes"] += tensor.n_bytes
        row["nmse"].append(tensor.nmse)
    for row in rows.values():
        nmse = row.pop("nmse")
        row["worst_nmse"], row["mean_nmse"] = max(nmse), sum(nmse) / len(nmse)
    first: dict[Any, int] = {}
    for i, (part, role, _) in enumerate(rows):
        first.setdefault(part, i)
        first.setdefault((part, role), i)
    return sorted(rows.values(), key=lambda row: (first[row["part"]], first[row["part"], row["role"]]))


def fallbacks(result: QuantizeResult) -> list[dict[str, Any]]:
    """Matrices of a block variant that became F16, by the policy's reason."""
    rows: dict[str, dict[str, Any]] = {}
    for tensor in result.tensors:
        if result.variant not in ("F16", "BF16") and tensor.type == "F16":
            rows.setdefault(tensor.reason, dict(reason=tensor.reason, tensors=[]))["tensors"].append(tensor.name)
    return list(rows.values())


def facts(result: QuantizeResult) -> dict[str, Any]:
    """Everything about the run, ready for JSON."""
    rest = asdict(result)
    tensors = rest.pop("tensors")
    for row, tensor in zip(tensors, result.tensors, strict=True):
        row["nmse"] = tensor.nmse
    return rest | {"classes": classes(result), "fallbacks": fallbacks(result), "tensors": tensors}


def table(result: QuantizeResult) -> str:
    """The classes, what could not be quantized and both sizes, as text."""
    lines = [f"{'part':<16} {'role':<18} {'type':<5} {'tensors':>7} {'before':>10} {'after':>10} {'worst NMSE':>11} {'mean NMSE':>10}"]
    for row in classes(result):
        sizes = f"{_size(row['source_bytes']):>10} {_size(row['bytes']):>10}"
        errors = f"{row['worst_nmse']:>11.2e} {row['mean_nmse']:>10.2e}" if row["worst_nmse"] else f"{'exact':>11} {'exact':>10}"
        lines.append(f"{row['part']:<16} {row['role']:<18} {row['type']:<5} {row['tensors']:>7} {sizes} {errors}")
    for row in fallbacks(result):
        names = row["tensors"]
        listed = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        lines.append(f"F16 instead of a block type ({row['reason']}): {listed}")
    ratio = f"{result.n_bytes / result.source_bytes:.1%}" if result.source_bytes else ""
    lines.append(
        f"{result.target}: {result.variant}, {_size(result.source_bytes)} -> {_size(result.n_bytes)} ({ratio}) in {result.duration_s:.1f} s"
    )
    return "\n".join(lines)


def _role(tensor: TensorResult) -> str:
    for role, endings in ROLES:
        if tensor.name.endswith(endings):
            return role
    if ".codec_embd." in tensor.name:
        return "embedding"
    if "_head." in tensor.name:
        return "head"
    if all(n == 1 for n in tensor.ne[1:]):
        return "vector"
    return "convolution" if len(tensor.ne) > 2 else "projection"


def _size(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:.2f} GB"
