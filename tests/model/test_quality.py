"""What the quantizer makes still says the same: teacher-forced logits of each type against F32, on a tiny checkpoint whose rows are whole
blocks of 256. tools/quality.py does this over 64 frames and on full-size checkpoints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
import make_tiny  # noqa: E402
import quality  # noqa: E402

from qwentts.convert import convert  # noqa: E402
from qwentts.quantize import quantize  # noqa: E402

FRAMES = 6


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, quality.Forward]:
    root = tmp_path_factory.mktemp("wide")
    make_tiny.write_model(root / "wide", "custom_voice", make_tiny.WIDE)
    path = next(p for p in convert(root / "wide", root, progress=False) if "talker" in p.name)
    return path, quality.Forward(path, FRAMES)


@pytest.mark.parametrize("variant", quality.BARS)
def test_forced_logits_stay_near(source: tuple[Path, quality.Forward], tmp_path: Path, variant: str) -> None:
    path, truth = source
    result = quantize(path, tmp_path / "out.gguf", variant)
    assert not [t.name for t in result.tensors if t.type == "F16"]  # every matrix has the type under test
    forced = quality.Forward(tmp_path / "out.gguf", FRAMES, truth.codes)
    talker = quality.cosines(forced.talker, truth.talker)
    predictor = quality.cosines(forced.predictor.reshape(FRAMES, -1), truth.predictor.reshape(FRAMES, -1))
    assert talker.min() >= quality.BARS[variant]
    # the predictor adds its own error to that of the hidden state it is given: up to 1.6 times the bar's distance here
    assert 1 - predictor.min() <= 2 * (1 - quality.BARS[variant])
    assert 1 > talker.max() and 1 > predictor.max()


def test_the_truth_repeats(source: tuple[Path, quality.Forward]) -> None:
    path, truth = source
    again = quality.Forward(path, FRAMES, truth.codes)
    assert (again.talker == truth.talker).all() and (again.predictor == truth.predictor).all()


@pytest.mark.parametrize("variant", quality.BARS)
def test_weights_used_in_the_file_say_the_same(
    source: tuple[Path, quality.Forward], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    """Copied matrices are packed where the processor multiplies them faster so. Then a prompt's activations are rounded to 8 bits,
    as a frame's are, and those of K types in blocks of 32, not of 256."""
    path, truth = source
    quantize(path, tmp_path / "out.gguf", variant)
    forward = {}
    for weights in ("mapped", "copied"):
        monkeypatch.setenv("QWENTTS_WEIGHTS", weights)
        forward[weights] = quality.Forward(tmp_path / "out.gguf", FRAMES, truth.codes)
    assert quality.cosines(forward["copied"].talker, forward["mapped"].talker).min() >= 1 - 1e-3
    predictor = {weights: f.predictor.reshape(FRAMES, -1) for weights, f in forward.items()}
    assert quality.cosines(predictor["copied"], predictor["mapped"]).min() >= 1 - 1e-3
