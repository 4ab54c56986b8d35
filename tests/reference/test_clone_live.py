"""The recorded clones, computed again by the official package, and ours against it."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import GOLDEN, golden_arrays, nmse, tiny_files

pytestmark = pytest.mark.reference
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    import golden_clone

    return golden_clone.load(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def live(model):
    import golden_clone

    return golden_clone.compute(model)


def test_the_recorded_clones_are_what_the_official_code_gives(live):
    listing, arrays = live
    recorded = golden_arrays("clone.npz")
    assert set(arrays) == set(recorded)
    for name, value in arrays.items():
        if value.dtype.kind == "i":
            assert np.array_equal(value, recorded[name]), name
        else:
            assert nmse(value, recorded[name]) < 1e-10, name
    kept = json.loads((GOLDEN / "clone.json").read_text(encoding="utf-8"))
    assert [row["ids"] for row in kept] == [row["ids"] for row in listing]


@pytest.mark.parametrize("rate", [16000, 22050, 44100, 48000])
def test_a_clip_of_another_rate_is_heard_as_upstream_hears_it(model, rate):
    import soxr

    from qwentts import TTS

    clip = soxr.resample(golden_arrays("clone.npz")["clip"] / 32768, 24000, rate).astype(np.float32)
    stereo = np.stack([clip * 1.2, clip * 0.8], axis=1)
    (item,) = model.create_voice_clone_prompt(ref_audio=(stereo.mean(axis=1), rate), ref_text="A tone.")
    with TTS(*tiny_files("base")) as tts:
        voice = tts.clone((stereo, rate), "A tone.", pad_silence=False)
    want = item.ref_spk_embedding.numpy()
    assert voice.speaker @ want / np.linalg.norm(voice.speaker) / np.linalg.norm(want) >= 0.999999
    assert voice.codes.shape == tuple(item.ref_code.shape) and (voice.codes == item.ref_code.numpy()).mean() >= 0.99


@pytest.mark.parametrize("in_context", [False, True])
def test_generate_voice_clone_says_the_same(model, in_context):
    import official

    from qwentts import TTS

    clip = golden_arrays("clone.npz")["clip"] / np.float32(32768)
    text, ref_text = "Nobody knew.", "A tone." if in_context else None
    wavs, rate = model.generate_voice_clone(
        text=text, language="english", ref_audio=(clip, 24000), ref_text=ref_text, x_vector_only_mode=not in_context, max_new_tokens=41,
        **official.GREEDY,
    )  # fmt: skip
    with TTS(*tiny_files("base")) as tts:
        speech = tts.synthesize(
            text, language="english", voice=tts.clone((clip, 24000), ref_text, pad_silence=False), greedy=True, max_new_tokens=40,
            repetition_guard=False,
        )  # fmt: skip
    n = min(wavs[0].size, speech.samples.size)
    assert rate == speech.sample_rate and n == 40 * 480 and nmse(speech.samples[:n], wavs[0][:n]) < 1e-8
