"""What the tests share: where the recorded truth lies, the tiny models, and a model file read without our library."""

from __future__ import annotations

import json
import math
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

# A shell that starts the tests in the background has Ctrl-C ignored, for them and the programs they start; the tests of Ctrl-C need it.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Programs that tests start in another folder import this package, not one that happens to be installed.
os.environ["PYTHONPATH"] = os.pathsep.join(str(Path(p).resolve()) for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p)

GOLDEN = Path(__file__).parent / "golden"
TINY = GOLDEN / "tiny"
CODEC_OF = {"custom_voice": "codec_a", "base": "codec_a", "voice_design": "codec_b"}
MODES = tuple(CODEC_OF)


def tiny_files(mode: str) -> tuple[Path, Path]:
    """Talker and codec GGUF of a tiny model."""
    talker, codec = (sorted((TINY / name).glob("*.gguf")) for name in (mode, CODEC_OF[mode]))
    assert talker and codec, f"no tiny model for {mode} in {TINY}: tools/make_tiny.py makes it"
    return talker[0], codec[0]


def golden_cases() -> list[dict[str, Any]]:
    """Rows of cases.json: settings and token ids of the recorded runs."""
    return json.loads((GOLDEN / "cases.json").read_text(encoding="utf-8"))


def clone_cases() -> list[dict[str, Any]]:
    """Rows of clone.json: settings and token ids of the recorded clones."""
    return json.loads((GOLDEN / "clone.json").read_text(encoding="utf-8"))


def golden_arrays(name: str) -> dict[str, np.ndarray]:
    """An .npz of the golden folder, loaded."""
    with np.load(GOLDEN / name) as arrays:
        return {key: arrays[key] for key in arrays}


def nmse(got: np.ndarray, want: np.ndarray) -> float:
    """Mean square of the difference over that of `want`, in double precision."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    assert got.shape == want.shape
    return float(((got - want) ** 2).mean() / (want**2).mean())


class PlainTalker:
    """A tiny talker file read with the `gguf` package: metadata as ModelFile gives it, embedding rows in float64."""

    def __init__(self, path: Path) -> None:
        from gguf import GGUFReader

        self.path = str(path)
        self._reader = GGUFReader(path)
        self._tensors = {t.name: t.data for t in self._reader.tensors}
        embd, fc = self._tensors["talker.text_embd.weight"], "talker.text_proj.fc"
        self._text = embd.astype(np.float64)
        self._layers = [[self._tensors[f"{fc}{i}.{kind}"].astype(np.float64) for kind in ("weight", "bias")] for i in (1, 2)]

    def get(self, key: str, default: Any = None) -> Any:
        field = self._reader.fields.get(key)
        if field is None:
            return default
        value = field.contents()
        return np.array(value) if isinstance(value, list) and value and not isinstance(value[0], str) else value

    def require(self, key: str, kind: type) -> Any:
        value = self.get(key)
        assert isinstance(value, kind), key
        return value

    def text_embed(self, ids: np.ndarray) -> np.ndarray:
        (w1, b1), (w2, b2) = self._layers
        hidden = self._text[ids] @ w1.T + b1
        return (hidden / (1 + np.exp(-hidden)) @ w2.T + b2).astype(np.float32)  # SiLU

    def code_embed(self, codebook: int, codes: np.ndarray) -> np.ndarray:
        name = "talker.codec_embd.weight" if codebook == 0 else f"code_pred.codec_embd.{codebook - 1}.weight"
        return self._tensors[name][codes].astype(np.float32)


@pytest.fixture(scope="session")
def plain_talkers() -> dict[str, PlainTalker]:
    return {mode: PlainTalker(tiny_files(mode)[0]) for mode in MODES}


class ScriptedStack:
    """A session for the frame loop whose codebook 0 says what it is told, and whose predictor says g at codebook g."""

    def __init__(self, script: list[int] | int, *, n_vocab: int = 3072, n_groups: int = 5, context: int = 4096) -> None:
        self.script, self.n_vocab = script, n_vocab
        self.facts = Facts(n_code_groups=n_groups, codec_vocab_size=n_vocab, code_vocab_size=32, context_length=context)
        self.n_steps, self.calls, self.overlays, self.stepped = 0, [], [], []

    def _answer(self, logits: np.ndarray) -> None:
        token = self.script if isinstance(self.script, int) else self.script[min(self.n_steps, len(self.script) - 1)]
        logits[:] = 0
        logits[token] = 50
        self.n_steps += 1

    def prefill(self, rows: np.ndarray, logits: np.ndarray) -> None:
        self.calls.append("prefill")
        self._answer(logits)

    def step(self, codes: np.ndarray, overlay: np.ndarray, logits: np.ndarray) -> None:
        self.overlays.append(float(overlay[0]))
        self.stepped.append(codes.tolist())
        self._answer(logits)

    def predictor_frame(self, code0: int, uniforms: np.ndarray, settings: Any, codes: np.ndarray) -> None:
        from qwentts.sampling import draw

        assert uniforms.shape == (self.facts.n_code_groups - 1,) and uniforms.dtype == np.float32
        codes[0] = code0
        for g in range(1, self.facts.n_code_groups):
            codes[g] = draw(self._predict(g), settings, uniforms[g - 1])

    def _predict(self, group: int) -> np.ndarray:
        logits = np.zeros(self.facts.code_vocab_size, np.float32)
        logits[group] = 50
        return logits

    def cancel(self) -> None:
        self.calls.append("cancel")


class Facts:
    """The part of engine.Facts that the loop reads, at 12.5 frames a second."""

    frame_hz = 12.5

    def __init__(self, **sizes: int) -> None:
        self.__dict__.update(sizes)
        assert math.isclose(self.frame_hz, 24000 / 1920)
