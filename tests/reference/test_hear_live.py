"""The encoders against the official package, computed live on checkpoints and clips of their own: `pytest -m reference`."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from conftest import CODEC_OF, nmse

from qwentts.engine import Engine

pytestmark = pytest.mark.reference
TOOLS = Path(__file__).resolve().parents[2] / "tools"


def tool(name: str) -> ModuleType:
    """A module of tools/; imported late, because these need torch."""
    sys.path.insert(0, str(TOOLS))
    return importlib.import_module(name)


@pytest.fixture(scope="module", params=["base", "voice_design"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """The official model of a tiny checkpoint, and ours on its conversion."""
    root = tmp_path_factory.mktemp("hear")
    make_tiny = tool("make_tiny")
    make_tiny.write_all(root)
    make_tiny.convert_all(root, root / "gguf")
    files = [next((root / "gguf" / name).glob("*.gguf")) for name in (request.param, CODEC_OF[request.param])]
    engine = Engine(*files, threads=2)
    yield tool("official").load(root / request.param), engine.session()
    engine.close()


def clips(rate: int) -> list[np.ndarray]:
    """Lengths around whole frames, tones, noise, silence with a click, and a clip longer than a chunk."""
    make = tool("hear_clip").clip
    t = np.arange(3 * rate) / rate
    tone = (0.3 * np.sin(2 * np.pi * 440 * t)).astype(np.float32)
    click = np.zeros(rate, np.float32)
    click[rate // 2] = 1
    noise = np.random.Generator(np.random.Philox(key=3)).standard_normal(rate).astype(np.float32) * 0.05
    return [make(n, seed=9) for n in (1500, 4799, 4800, 4801, 30_011, 150_001)] + [tone, click, noise]


def mel_in_double(samples: np.ndarray) -> np.ndarray:
    """The mel spectrogram [T, 128] from its definition, in double."""
    import librosa

    padded = np.pad(samples.astype(np.float64), 384, mode="reflect")
    frames = np.lib.stride_tricks.sliding_window_view(padded, 1024)[::256] * (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(1024) / 1024))
    magnitude = np.sqrt(np.abs(np.fft.rfft(frames)) ** 2 + 1e-9)
    filters = librosa.filters.mel(sr=24000, n_fft=1024, n_mels=128, fmin=0, fmax=12000, dtype=np.float64)
    return np.log(np.maximum(1e-5, magnitude @ filters.T))


def test_codes_and_stages(pair) -> None:
    model, session = pair
    hear = tool("golden_hear")
    same = total = 0
    for samples in clips(session.facts.sample_rate):
        want, stages = hear.encode(model, samples)
        got: dict[str, list[np.ndarray]] = {}
        session.set_tap(lambda name, values, got=got: got.setdefault(name, []).append(np.atleast_2d(values)))
        codes = session.codec_encode(samples)
        session.set_tap(None)
        assert codes.shape == want.shape
        clear = np.logical_and.accumulate(hear.margins(model, want, stages) > 1e-6, axis=1)
        assert (codes == want)[clear].all()
        same, total = same + int((codes == want).sum()), total + want.size
        if samples.size < 131_072:  # beyond, the convolutions come in chunks that repeat their context
            for name, value in stages.items():
                assert nmse(np.concatenate(got[name]), value) <= 1e-9, name
    assert same >= 0.999 * total


def test_speaker_embeddings(pair) -> None:
    model, session = pair
    if not session.facts.speaker_size:
        pytest.skip("only base has a speaker encoder")
    for samples in clips(24_000):
        want, stages = tool("golden_hear").embed(model, samples)
        vector = session.speaker_embed(samples).astype(np.float64)
        assert vector @ want / np.linalg.norm(vector) / np.linalg.norm(want) >= 0.999999
        assert nmse(vector, want) <= 1e-9
        got: dict[str, np.ndarray] = {}
        session.set_tap(lambda name, values, got=got: got.__setitem__(name, np.atleast_2d(values)))
        session.speaker_embed(samples)
        session.set_tap(None)
        # beside a pure tone the logarithms of empty bins are rounding: the official ones are 1.1e-9 from the truth there, ours 4e-10
        truth = mel_in_double(samples)
        official_error = nmse(stages["speaker.mel"], truth)
        assert nmse(got["speaker.mel"], truth) <= 1e-9
        assert official_error > 1e-9 or nmse(got["speaker.mel"], stages["speaker.mel"]) <= 1e-9
