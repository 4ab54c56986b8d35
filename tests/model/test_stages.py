"""Every recorded stage of talker, predictor and codec decoder equals the official one: the prompt, the first decoded frame, one pass.

Cases MODE/plain/streamed/german of cases.npz; stages by tap name, so that a fault is named by the first stage that differs.
"""

import numpy as np
import pytest
from conftest import MODES, golden_arrays, golden_cases, nmse, tiny_files

from qwentts import TTS

BOUND = 1e-9
KV_BOUND = {"f32": BOUND, "f16": 1e-6}  # keys and values rounded to 11 bits: a relative 2^-12, squared, is 6e-8 of what attention adds


def is_stage(name):
    return name == "text_rows" or "." in name


def compare(seen, want, *, at=0, bound=BOUND):
    """Every stage in `want` against the tapped ones; returns how many."""
    names = [name for name in want if is_stage(name)]
    for name in names:
        error = nmse(seen[name][at].reshape(want[name].shape), want[name])
        assert error <= bound, f"{name}: NMSE {error:.2g}"
    return len(names)


@pytest.mark.parametrize("kv_type", KV_BOUND)
@pytest.mark.parametrize("mode", MODES)
def test_stages_of_prompt_and_first_frame(mode, kv_type):
    case = next(case for case in golden_cases() if case["name"] == f"{mode}/plain/streamed/german")
    prompt, frame = golden_arrays(f"prefill_{mode}.npz"), golden_arrays(f"step_{mode}.npz")
    seen: dict[str, list[np.ndarray]] = {}
    with TTS(*tiny_files(mode), threads=2, kv_type=kv_type) as tts:
        speech = tts.synthesize(
            case["text"], language="german", speaker=case["speaker"], instruct=case["instruct"], streaming_text=True, greedy=True,
            repetition_penalty=case["settings"]["repetition_penalty"], max_new_tokens=2, repetition_guard=False,
            tap=lambda name, values: seen.setdefault(name, []).append(values),
        )  # fmt: skip
        session = tts._engine.session()
        rows = session.text_embed(prompt.pop("ids"))
        session.close()
    assert nmse(rows, prompt.pop("text_rows")) <= BOUND
    assert np.array_equal(speech.codes, frame["codes"])
    n_groups, n_layers = tts.facts.n_code_groups, sum(name.startswith("talker.blk.") for name in prompt)
    bound = KV_BOUND[kv_type]
    assert compare(seen, prompt, bound=bound) == compare(seen, frame, at=1, bound=bound) == n_layers + 3 + n_groups - 1


@pytest.mark.parametrize(("letter", "mode", "n_stages"), [("a", "base", 12), ("b", "voice_design", 10)])
def test_stages_of_the_codec_decoder(letter, mode, n_stages):
    golden = golden_arrays(f"codec_{letter}.npz")
    seen: dict[str, list[np.ndarray]] = {}
    with TTS(*tiny_files(mode), threads=2) as tts:
        session = tts._engine.session()
        session.set_tap(lambda name, values: seen.setdefault(name, []).append(values))
        session.decode(golden["codes"])
        session.close()
    assert compare(seen, golden) == n_stages
