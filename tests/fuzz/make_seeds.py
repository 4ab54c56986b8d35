"""Write the seeds of the fuzz targets: python tests/fuzz/make_seeds.py FOLDER (FOLDER/gguf and FOLDER/model are made).

The smallest models, as they are and with their matrices in other types, and small files with every type of value and tensor.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import smallest_models  # noqa: E402
from gguf_bytes import ARRAY, BOOL, F32, F64, FORMATS, I32, STRING, TYPES, U32, Gguf, Tensor  # noqa: E402

BLOCKS = {"q4_0": (32, 18), "q4_1": (32, 20), "q5_0": (32, 22), "q5_1": (32, 24), "q8_0": (32, 34),
          "q4_k": (256, 144), "q5_k": (256, 176), "q6_k": (256, 210)}  # fmt: skip
NUMBERS = {"q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "q4_k": 12, "q5_k": 13, "q6_k": 14}


def in_half(model: Gguf) -> Gguf:
    """Every matrix and kernel as F16."""
    for name, tensor in model.tensors.items():
        if len(tensor.ne) > 1 and "codebook" not in name:
            model.tensors[name] = Tensor(tensor.ne, tensor.values().astype(np.float16).tobytes(), "f16")
    return model


def values() -> Gguf:
    """A key of each type, alone and in an array."""
    keys = {f"one.{kind}": (kind, 1) for kind in FORMATS} | {f"many.{kind}": (ARRAY, (kind, [0, 1, 1])) for kind in FORMATS}
    keys |= {
        "text": (STRING, "hello"),
        "texts": (ARRAY, (STRING, ["", "a", "word"])),
        "none": (ARRAY, (I32, [])),
        "no.texts": (ARRAY, (STRING, [])),
    }
    return Gguf(keys | {"nan": (F32, float("nan")), "wide": (F64, 1e300), "flag": (BOOL, 0)})


def tensors() -> Gguf:
    """A tensor of each type, one of each number of dimensions."""
    rng, model = np.random.default_rng(1), Gguf({"general.alignment": (U32, 64)}, alignment=64)
    for name, number in TYPES.items():
        if name not in BLOCKS:
            size = {"f32": 4, "f16": 2, "bf16": 2, "i32": 4}[name]
            model.tensors[name] = Tensor((3, 2), rng.bytes(6 * size), number)
    for name, (block, size) in BLOCKS.items():
        model.tensors[name] = Tensor((2 * block, 1), rng.bytes(2 * size), NUMBERS[name])
    for n in range(5):
        model.tensors[f"{n} dimensions"] = Tensor((2,) * n, b"\0" * 4 * 2**n)
    return model


def main(folder: Path) -> None:
    seeds = {
        "gguf/values": values(), "gguf/tensors": tensors(), "gguf/version2": Gguf({"a": (U32, 1)}, version=2), "gguf/empty": Gguf(),
        "model/talker": smallest_models.talker(), "model/base": smallest_models.talker(base=True), "model/codec": smallest_models.codec(),
        "model/talker_f16": in_half(smallest_models.talker()), "model/codec_f16": in_half(smallest_models.codec()),
    }  # fmt: skip
    for name, model in seeds.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        model.write(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
