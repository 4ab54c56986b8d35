"""Prompt rows against the official ones, for all modes and layouts, and the rules of modes, speakers and dialects."""

import numpy as np
import pytest
from conftest import clone_cases, golden_arrays, golden_cases, nmse

from qwentts import prompt as prompts
from qwentts.errors import ModeError, ParameterError
from qwentts.talker_info import TalkerInfo, read_talker_info
from qwentts.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def models(plain_talkers):
    out = {}
    for mode, file in plain_talkers.items():
        tokenizer = Tokenizer(*(file.get(f"tokenizer.ggml.{key}") for key in ("tokens", "token_type", "merges")))
        info = read_talker_info(file)
        out[mode] = (file, info, tokenizer, prompts.ConstantRows(info, file))
    return out


@pytest.fixture(scope="module")
def recorded():
    return golden_arrays("cases.npz")


@pytest.mark.parametrize("case", golden_cases(), ids=lambda case: case["name"])
def test_rows_equal_the_official_prompt(models, recorded, case):
    file, info, tokenizer, constants = models[case["mode"]]
    ids = tokenizer.encode(prompts.utterance(case["text"]))
    assert ids == case["ids"]
    instruct_ids = tokenizer.encode(prompts.instruction(case["instruct"])) if case["instruct"] else []
    assert instruct_ids == (case["instruct_ids"] or [])
    prompt = prompts.build(
        info,
        ids,
        language=case["language"],
        speaker=prompts.find_speaker(info, case["speaker"]) if case["speaker"] else None,
        instruct_ids=instruct_ids,
        streaming_text=not case["non_streaming"],
    )
    rows, overlay, pad = prompts.render(prompt, file, constants)
    assert nmse(rows, recorded[f"{case['name']}/prompt"]) < 1e-12
    assert nmse(pad[None], recorded[f"{case['name']}/pad"]) < 1e-12
    # upstream's overlay of the full layout is one pad row: the same as none, with the pad row ever after
    want = recorded[f"{case['name']}/overlay"]
    assert nmse(np.concatenate([overlay, pad[None]])[: len(want)], want) < 1e-12
    assert len(overlay) == (0 if case["non_streaming"] else len(want))


@pytest.mark.parametrize("case", clone_cases(), ids=lambda case: case["name"])
def test_rows_of_a_clone_equal_the_official_prompt(models, case):
    file, info, tokenizer, constants = models["base"]
    recorded, name = golden_arrays("clone.npz"), case["name"]
    ids = tokenizer.encode(prompts.utterance(case["text"]))
    ref_ids = tokenizer.encode(prompts.transcript(case["ref_text"])) if case["ref_text"] else []
    assert (ids, ref_ids) == (case["ids"], case["ref_ids"] or [])
    codes = recorded["codes_bare" if case["bare"] else "codes"]
    voice = prompts.voice_rows(file, recorded["speaker"], ref_ids, codes if ref_ids else codes[:0])
    prompt = prompts.build(info, ids, language=case["language"], streaming_text=not case["non_streaming"], voice=voice)
    rows, overlay, pad = prompts.render(prompt, file, constants)
    assert nmse(rows, recorded[f"{name}/prompt"]) < 1e-12
    want = recorded[f"{name}/overlay"]  # one pad row where the text has run out: the same as none
    assert nmse(np.concatenate([overlay, pad[None]])[: len(want)], want) < 1e-12
    assert len(overlay) == (len(want) if len(want) > 1 else 0)


def test_clones_are_recorded_with_text_longer_and_shorter_than_the_reference():
    recorded = golden_arrays("clone.npz")
    lengths = {case["name"]: len(recorded[f"{case['name']}/overlay"]) for case in clone_cases() if not case["non_streaming"]}
    assert lengths["icl/streamed/german"] == 1 < lengths["icl_long/streamed/english"]
    longref = next(case for case in clone_cases() if case["name"] == "icl_longref/streamed/english")
    assert lengths[longref["name"]] > len(longref["ids"]) - 8, "the transcript itself outlasts its frames"


def test_every_mode_and_layout_is_recorded():
    seen = {(case["mode"], case["non_streaming"], case["language"] == "auto") for case in golden_cases()}
    assert len(seen) == 3 * 2 * 2


def _info(kind="custom_voice", size="1b7") -> TalkerInfo:
    speakers = {"Ryan": 3061, "eric": 2875} if kind == "custom_voice" else {}
    codec = {"pad": 2148, "bos": 2149, "eos": 2150, "think": 2154, "nothink": 2155, "think_bos": 2156, "think_eos": 2157}
    return TalkerInfo(
        kind, size, {"english": 2050, "chinese": 2055, "sichuan_dialect": 2062}, speakers, {"eric": "sichuan_dialect"} if speakers else {},
        codec, {"tts_pad": 151671, "tts_bos": 151672, "tts_eos": 151673},
    )  # fmt: skip


IDS = [1, 2, 3, 10, 11, 12, 4, 5, 6, 7, 8]  # role, text, tail


def test_layout_of_the_full_prompt():
    prompt = prompts.build(_info(), IDS, language="english", speaker="Ryan", instruct_ids=[90, 91])
    pad, bos, eos, none = 151671, 151672, 151673, prompts.NONE
    assert prompt.text_ids == [90, 91, 1, 2, 3, pad, pad, pad, pad, pad, bos, 10, 11, 12, eos, pad]
    assert prompt.codec_ids == [none] * 5 + [2154, 2156, 2050, 2157, 3061, 2148, 2148, 2148, 2148, 2148, 2149]
    assert prompt.overlay_ids == [] and prompt.n_text == 3


def test_layout_of_the_streaming_prompt():
    prompt = prompts.build(_info("base"), IDS)
    pad, bos, eos, none = 151671, 151672, 151673, prompts.NONE
    assert prompt.text_ids == [1, 2, 3, pad, pad, pad, bos, 10]
    assert prompt.codec_ids == [none] * 3 + [2155, 2156, 2157, 2148, 2149]
    assert prompt.overlay_ids == [11, 12, eos]


@pytest.mark.parametrize(("kind", "streams"), [("base", True), ("custom_voice", False), ("voice_design", False)])
def test_layout_defaults_to_the_official_one_of_the_mode(kind, streams):
    assert bool(prompts.build(_info(kind), IDS).overlay_ids) == streams
    assert bool(prompts.build(_info(kind), IDS, streaming_text=True).overlay_ids)
    assert not prompts.build(_info(kind), IDS, streaming_text=False).overlay_ids


@pytest.mark.parametrize(
    ("language", "speaker", "want"),
    [
        ("auto", "eric", 2062), ("chinese", "eric", 2062), ("english", "eric", 2050),
        ("auto", "Ryan", None), ("chinese", "Ryan", 2055), ("auto", None, None),
    ],
)  # fmt: skip
def test_dialect_takes_the_place_of_auto_and_chinese(language, speaker, want):
    assert prompts.language_id(_info(), language, speaker) == want


def test_speakers_are_found_in_any_case_and_listed_otherwise():
    assert prompts.find_speaker(_info(), "RYAN") == "Ryan"
    with pytest.raises(ParameterError, match=r"'chelsie' is not in this model; valid are Ryan, eric"):
        prompts.find_speaker(_info(), "chelsie")


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        ("base", {"speaker": "ryan"}, r"--speaker is only valid for custom_voice models \(loaded: base\)"),
        ("voice_design", {"speaker": "ryan", "instruct": "x"}, r"--speaker is only valid .* \(loaded: voice_design\)"),
        ("base", {"instruct": "calm"}, r"--instruct is not valid for base models"),
        ("custom_voice", {}, r"--speaker is required for custom_voice .* valid are Ryan, eric"),
        ("voice_design", {}, r"--instruct is required for voice_design"),
        ("voice_design", {"instruct": " "}, r"--instruct is required for voice_design"),
        ("custom_voice", {"reference": True}, r"--ref-wav is only valid for base models \(loaded: custom_voice\)"),
        ("voice_design", {"instruct": "x", "reference": True}, r"--ref-wav is only valid for base models \(loaded: voice_design\)"),
    ],
)  # fmt: skip
def test_mode_rules_name_the_flag(kind, given, message):
    with pytest.raises(ModeError, match=message):
        prompts.check_mode(_info(kind), **{"speaker": None, "instruct": None, **given})


@pytest.mark.parametrize("kind", ["base", "custom_voice", "voice_design"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"speaker": "ryan", "reference": True}, "--speaker and --ref-wav are mutually exclusive"),
        ({"ref_text": True}, "--ref-text requires --ref-wav"),
    ],
)
def test_contradictions_are_bad_parameters_whatever_the_model(kind, given, message):
    with pytest.raises(ParameterError, match=message):
        prompts.check_mode(_info(kind), **{"speaker": None, "instruct": None, **given})


@pytest.mark.parametrize(
    ("kind", "given"),
    [("base", {}), ("base", {"reference": True}), ("custom_voice", {"speaker": "x", "instruct": "y"}), ("voice_design", {"instruct": "y"})],
)
def test_mode_rules_let_valid_calls_pass(kind, given):
    prompts.check_mode(_info(kind), **{"speaker": None, "instruct": None, **given})


@pytest.mark.parametrize(
    ("kind", "size", "drops"),
    [("custom_voice", "0b6", True), ("custom_voice", "0.6b", True), ("custom_voice", "1b7", False), ("voice_design", "0b6", False)],
)
def test_only_the_small_custom_voice_model_drops_the_instruction(kind, size, drops):
    assert prompts.drops_instruction(_info(kind, size)) == drops


def test_text_without_tokens_is_refused():
    with pytest.raises(ParameterError, match="no tokens"):
        prompts.build(_info(), IDS[:3] + IDS[6:])
