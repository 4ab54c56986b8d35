"""The quantizer: types by the policy, values, metadata, refusals, files that appear whole. Sources are made by the `gguf` package."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import TINY, tiny_files
from gguf import GGMLQuantizationType as T
from gguf import GGUFReader, GGUFValueType, GGUFWriter
from gguf.quants import dequantize
from gguf.quants import quantize as gguf_quantize

from qwentts import quantize as module
from qwentts.cli_quantize import facts, table
from qwentts.errors import ModelFileError, ParameterError, QwenTTSError
from qwentts.quantize import quantize, target_variants

if callable(module):  # the name may be the function
    module = sys.modules["qwentts.quantize"]
SHAPES = {  # row-major; 8 blocks of layers, of which 0, 3, 6 and 7 are the deciding ones
    "talker.text_embd.weight": (50, 512), "talker.codec_embd.weight": (9, 256), "talker.codec_head.weight": (12, 256),
    "talker.text_proj.fc1.weight": (16, 1000), "talker.text_proj.fc1.bias": (256,), "talker.output_norm.weight": (256,),
    **{f"talker.blk.{i}.{kind}.weight": (5, 256) for i in range(8) for kind in ("attn_v", "attn_q", "ffn_down")},
    "code_pred.lm_head.0.weight": (7, 256), "code_pred.codec_embd.0.weight": (7, 256), "code_pred.blk.0.ffn_down.weight": (4, 320),
    "code_pred.blk.0.attn_v.weight": (4, 256), "spk_enc.fc.weight": (6, 256, 1), "spk_enc.asp.conv.weight": (4, 256),
    "code_pred.mtp_proj.weight": (3, 18),
}  # fmt: skip
DECIDING = (0, 3, 6, 7)


def weights(name: str, shape: tuple[int, ...]) -> np.ndarray:
    draw = np.random.default_rng(list(name.encode()))
    return draw.standard_normal(shape).astype(np.float32)


Stored = dict[str, T]
Values = dict[str, np.ndarray]
SCALARS = {GGUFValueType.UINT8: 200, GGUFValueType.INT64: -(1 << 40), GGUFValueType.FLOAT64: 0.1, GGUFValueType.BOOL: True}


def make(path: Path, *, stored: Stored | None = None, architecture: str = "qwen3-tts", values: Values | None = None) -> Path:
    """A file of every kind of tensor and key; `stored` gives tensors another type than F32."""
    writer = GGUFWriter(path, architecture)
    writer.add_string("general.name", "näme")
    writer.add_custom_alignment(64)
    writer.add_key_value("odd.strings", ["a", "", "ü"], GGUFValueType.ARRAY, sub_type=GGUFValueType.STRING)
    for kind, value in SCALARS.items():
        writer.add_key_value(f"odd.{kind.name}", value, kind)
        writer.add_key_value(f"odd.{kind.name}s", [value, value], GGUFValueType.ARRAY, sub_type=kind)
    for name, shape in SHAPES.items():
        rows, kind = (values or {}).get(name, weights(name, shape)), (stored or {}).get(name, T.F32)
        if kind == T.F32:
            writer.add_tensor(name, rows)
        else:
            writer.add_tensor(name, gguf_quantize(rows, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("source") / "source.gguf")


def read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    reader = GGUFReader(path)
    keys = {k: ([t.name for t in f.types], f.contents()) for k, f in reader.fields.items() if not k.startswith("GGUF.")}
    return keys, {t.name: t for t in reader.tensors}


def expected(name: str, matrix: T, better: T, embedding: T, predictor: T) -> T:
    shape = SHAPES[name]
    if len(shape) == 1 or name.startswith("spk_enc."):
        return T.F32
    wanted = matrix
    if name.startswith("code_pred."):
        wanted = predictor
    elif name.endswith("_embd.weight"):
        wanted = embedding
    elif name == "talker.codec_head.weight":
        wanted = T.Q6_K if matrix in (T.Q4_K, T.Q5_K) else matrix
    elif name.endswith(("attn_v.weight", "ffn_down.weight")) and int(name.split(".")[2]) in DECIDING:
        wanted = better
    block = {T.F16: 1, T.BF16: 1, T.Q8_0: 32}.get(wanted, 256)
    return wanted if shape[-1] % block == 0 else T.F16


TYPES = {
    "F16": (T.F16, T.F16, T.F16, T.F16),
    "BF16": (T.BF16, T.BF16, T.BF16, T.BF16),
    "Q8_0": (T.Q8_0, T.Q8_0, T.Q8_0, T.Q8_0),
    "Q6_K": (T.Q6_K, T.Q6_K, T.Q6_K, T.Q6_K),
    "Q5_K_M": (T.Q5_K, T.Q6_K, T.Q6_K, T.Q8_0),
    "Q4_K_M": (T.Q4_K, T.Q6_K, T.Q6_K, T.Q8_0),
    "Q4_K_S": (T.Q4_K, T.Q4_K, T.Q4_K, T.Q8_0),
}
FILE_TYPES = {"F16": 1, "Q8_0": 7, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_M": 17, "Q6_K": 18, "BF16": 32}
NMSE = {T.F32: 0.0, T.F16: 1e-7, T.BF16: 4e-6, T.Q8_0: 5e-5, T.Q6_K: 4e-4, T.Q5_K: 1.5e-3, T.Q4_K: 6e-3}  # of normal numbers


def test_every_target_is_listed() -> None:
    assert set(target_variants()) == set(TYPES)


@pytest.mark.parametrize("variant", TYPES)
def test_tensors_get_their_types_and_keep_their_values(source: Path, tmp_path: Path, variant: str) -> None:
    out = tmp_path / "out.gguf"
    result = quantize(source, out, variant.lower())
    keys, tensors = read(out)
    assert list(tensors) == list(SHAPES)
    for name, tensor in tensors.items():
        assert tensor.tensor_type == expected(name, *TYPES[variant]), name
        assert tensor.shape.tolist() == list(reversed(SHAPES[name]))
        want, got = weights(name, SHAPES[name]).ravel(), dequantize(np.asarray(tensor.data), tensor.tensor_type).ravel()
        error = float(((got - want) ** 2).sum() / (want**2).sum())
        assert error <= NMSE[tensor.tensor_type], name
        row = next(r for r in result.tensors if r.name == name)
        assert row.nmse == pytest.approx(error, rel=1e-3, abs=1e-15) and row.type == tensor.tensor_type.name
        assert row.n_bytes == tensor.n_bytes and tensor.data_offset % 64 == 0
    assert keys["general.file_type"] == (["UINT32"], FILE_TYPES[variant])
    assert out.stat().st_size == result.n_bytes


def test_metadata_is_carried_over_and_the_source_recorded(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    quantize(source, out, "Q8_0", predictor_type="F16")
    (before, _), (after, tensors) = read(source), read(out)
    assert list(after)[: len(before)] == list(before) and {k: after[k] for k in before} == before
    added = {k: v[1] for k, v in after.items() if k not in before}
    assert added == {
        "general.file_type": 7,
        "general.quantization_version": 2,
        "qwentts.quantize.source_name": "source.gguf",
        "qwentts.quantize.source_bytes": source.stat().st_size,
        "qwentts.quantize.source_sha256": hashlib.sha256(source.read_bytes()).hexdigest(),
        "qwentts.quantize.source_type": "F32",
        "qwentts.quantize.predictor_type": "F16",
    }
    assert tensors["code_pred.lm_head.0.weight"].tensor_type == T.F16 and tensors["talker.codec_head.weight"].tensor_type == T.Q8_0


@pytest.mark.parametrize("variant", ["F16", "Q8_0", "Q4_K_M"])
def test_threads_and_slices_change_no_byte(source: Path, tmp_path: Path, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = tmp_path / "1.gguf"
    whole = quantize(source, first, variant, threads=1)
    monkeypatch.setattr(module, "SLICE_VALUES", 600)  # one to two rows
    for threads in (2, 5):
        sliced = quantize(source, tmp_path / "n.gguf", variant, threads=threads)
        assert (tmp_path / "n.gguf").read_bytes() == first.read_bytes()
        assert [t.nmse for t in sliced.tensors] == pytest.approx([t.nmse for t in whole.tensors], rel=1e-9)


@pytest.mark.parametrize("kind", [T.F16, T.BF16])
def test_narrow_sources(tmp_path: Path, kind: T) -> None:
    matrices = {name: kind for name, shape in SHAPES.items() if len(shape) > 1}
    narrow = make(tmp_path / "narrow.gguf", stored=matrices)
    out = tmp_path / "out.gguf"
    quantize(narrow, out, kind.name)
    _, before = read(narrow)
    keys, after = read(out)
    assert keys["qwentts.quantize.source_type"][1] == kind.name
    for name, tensor in after.items():
        if name.startswith("spk_enc."):  # widened
            want = dequantize(np.asarray(before[name].data), before[name].tensor_type)
            assert tensor.tensor_type == T.F32
            np.testing.assert_array_equal(np.asarray(tensor.data).ravel(), want.ravel())
        else:
            assert np.asarray(tensor.data).tobytes() == np.asarray(before[name].data).tobytes(), name
    wide = make(tmp_path / "wide.gguf", values={n: dequantize(gguf_quantize(weights(n, SHAPES[n]), k), k) for n, k in matrices.items()})
    for path in (wide, narrow):
        quantize(path, path.with_suffix(".q8"), "Q8_0")
    (_, a), (_, b) = read(wide.with_suffix(".q8")), read(narrow.with_suffix(".q8"))
    assert all(np.asarray(a[n].data).tobytes() == np.asarray(b[n].data).tobytes() for n in a)


def refused(*words: str, error: type[QwenTTSError] = ModelFileError) -> Any:
    return pytest.raises(error, match="(?s)" + ".*".join(words))


def test_a_quantized_source_needs_leave(tmp_path: Path) -> None:
    name = "talker.blk.1.attn_q.weight"
    once, out = make(tmp_path / "once.gguf", stored={name: T.Q8_0}), tmp_path / "out.gguf"
    with refused(name, "Q8_0", "F32, F16, BF16", "allow-requantize"):
        quantize(once, out, "Q4_K_M")
    assert not out.exists()
    quantize(once, out, "Q8_0", allow_requantize=True)
    (_, before), (_, after) = read(once), read(out)
    assert np.asarray(after[name].data).tobytes() == np.asarray(before[name].data).tobytes()  # not rounded twice
    quantize(out, tmp_path / "twice.gguf", "Q4_K_M", allow_requantize=True)
    keys, twice = read(tmp_path / "twice.gguf")
    assert twice[name].tensor_type == T.Q4_K and keys["general.file_type"][1] == 15
    assert keys["qwentts.quantize.source_name"][1] == "out.gguf" and keys["qwentts.quantize.source_type"][1] == "Q8_0"
    again = quantize(tmp_path / "twice.gguf", tmp_path / "thrice.gguf", "Q4_K_M", allow_requantize=True)
    assert all(t.square_error == 0.0 for t in again.tensors)  # the search would not find its own result again


def test_sources_that_are_not_valid_are_refused(source: Path, tmp_path: Path) -> None:
    out, name = tmp_path / "out.gguf", "talker.blk.2.ffn_down.weight"
    with refused("q9", "F16, BF16, Q8_0, Q6_K, Q5_K_M, Q4_K_M, Q4_K_S", error=ParameterError):
        quantize(source, out, "q9")
    with refused("predictor_type", "Q9", "Q5_K", error=ParameterError):
        quantize(source, out, "Q8_0", predictor_type="Q9")
    for threads in (0, 257, True):
        with refused("threads", str(threads), "1 to 256", error=ParameterError):
            quantize(source, out, "Q8_0", threads=threads)
    with refused("missing.gguf"):
        quantize(tmp_path / "missing.gguf", out, "Q8_0")
    with refused("llama", "qwen3-tts"):
        quantize(make(tmp_path / "llama.gguf", architecture="llama"), out, "Q8_0")
    big = weights(name, SHAPES[name])
    for value, variant, words in ((np.nan, "Q8_0", "NaN"), (np.inf, "Q8_0", "infinite"), (np.nan, "F16", "NaN"), (7e4, "F16", "65504")):
        big[3, 17] = value
        with refused(name, words):
            quantize(make(tmp_path / "bad.gguf", values={name: big}), out, variant)
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(source.read_bytes()[:-5000])
    with refused("cut.gguf"):
        quantize(cut, out, "Q8_0")
    assert not out.exists() and not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def test_a_source_that_shrinks_meanwhile_is_named(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy, out = tmp_path / "copy.gguf", tmp_path / "out.gguf"
    copy.write_bytes(source.read_bytes())
    choose = module.choose_types

    def cut(*args: Any) -> Any:
        os.truncate(copy, copy.stat().st_size - 4000)
        return choose(*args)

    monkeypatch.setattr(module, "choose_types", cut)
    with refused("copy.gguf", "tensor", "ends early"):
        quantize(copy, out, "Q8_0")
    assert not out.exists()


def test_the_source_is_never_the_target(source: Path, tmp_path: Path) -> None:
    before, link = source.read_bytes(), tmp_path / "link.gguf"
    link.symlink_to(source)
    for target in (source, link, source.parent / "." / source.name):
        with refused("source itself", error=ParameterError):
            quantize(source, target, "Q8_0")
    with refused("standard output", error=ParameterError):
        quantize(source, "-", "Q8_0")
    assert source.read_bytes() == before


def test_a_failure_midway_keeps_the_old_file(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.gguf"
    out.write_bytes(b"old")
    calls: list[str] = []

    def failing(name: str, *args: Any, **options: Any) -> Any:
        calls.append(name)
        if len(calls) > 5:
            raise KeyboardInterrupt
        return encode(name, *args, **options)

    encode = module.encode
    monkeypatch.setattr(module, "encode", failing)
    with pytest.raises(KeyboardInterrupt):
        quantize(source, out, "Q8_0")
    assert list(tmp_path.iterdir()) == [out] and out.read_bytes() == b"old"
    monkeypatch.setattr(module, "encode", encode)
    quantize(source, out, "Q8_0")
    assert out.read_bytes()[:4] == b"GGUF" and list(tmp_path.iterdir()) == [out]


def test_a_matrix_of_zeros_is_warned_about(tmp_path: Path) -> None:
    name = "talker.codec_head.weight"
    with pytest.warns(UserWarning, match=f"{name} is all zero"):
        result = quantize(make(tmp_path / "zero.gguf", values={name: np.zeros(SHAPES[name], np.float32)}), tmp_path / "out.gguf", "Q4_K_M")
    assert next(r for r in result.tensors if r.name == name).nmse == 0.0


def test_the_report_adds_up(source: Path, tmp_path: Path) -> None:
    result = quantize(source, tmp_path / "out.gguf", "Q4_K_M")
    report = facts(result)
    assert sum(row["tensors"] for row in report["classes"]) == len(SHAPES)
    assert sum(row["bytes"] for row in report["classes"]) == sum(t["n_bytes"] for t in report["tensors"])
    assert report["fallbacks"] == [
        {"reason": "row fits no block of 256", "tensors": ["talker.text_proj.fc1.weight"]},
        {"reason": "row fits no block of 32", "tensors": ["code_pred.mtp_proj.weight"]},
    ]
    values = next(r for r in report["classes"] if (r["part"], r["role"], r["type"]) == ("talker", "attention values", "Q6_K"))
    errors = [t.nmse for t in result.tensors if t.name.endswith("attn_v.weight") and t.type == "Q6_K" and t.name.startswith("talker")]
    assert values["tensors"] == len(DECIDING) and values["worst_nmse"] == max(errors)
    assert values["mean_nmse"] == pytest.approx(np.mean(errors))
    text = table(result)
    assert "row fits no block of 256" in text and "talker.text_proj.fc1.weight" in text and "out.gguf" in text


# the command


def command(*arguments: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "qwentts", "quantize", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, **options)


def test_the_command_prints_a_table_or_json(source: Path, tmp_path: Path) -> None:
    done = command(source, tmp_path / "a.gguf", "q4_k_m")
    assert done.returncode == 0 and done.stderr == "" and "Q4_K_M" in done.stdout and "attention values" in done.stdout
    done = command(source, tmp_path / "b.gguf", "Q4_K_M", "--json", "--threads", "1")
    report = json.loads(done.stdout)
    assert report["variant"] == "Q4_K_M" and len(report["tensors"]) == len(SHAPES)
    assert report["n_bytes"] == (tmp_path / "b.gguf").stat().st_size == (tmp_path / "a.gguf").stat().st_size
    assert (tmp_path / "a.gguf").read_bytes() == (tmp_path / "b.gguf").read_bytes()
    assert command(source, tmp_path / "b.gguf", "Q8_0", "--quiet").stdout == ""


def test_the_command_refuses_in_one_line(source: Path, tmp_path: Path) -> None:
    for arguments, words in (
        ((source, tmp_path / "a.gguf", "Q3_K"), ("'Q3_K'", "Q4_K_M")),
        ((source, source, "Q8_0"), ("source itself",)),
        ((source, tmp_path / "none" / "a.gguf", "Q8_0"), ("none", "cannot be written")),
        ((source, tmp_path / "a.gguf", "Q8_0", "--threads", "0"), ("threads", "0")),
        ((source, tmp_path / "a.gguf"), ("TYPE",)),
    ):
        done = command(*arguments)
        assert done.returncode == 2 and done.stderr.count("\n") == 1 and done.stdout == "", done.stderr
        assert all(word in done.stderr for word in ("qwentts: error", *words)), done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_named(source: Path, tmp_path: Path) -> None:
    done = command(source, "/dev/full", "Q8_0")
    assert done.returncode == 1 and "/dev/full" in done.stderr and "No space left" in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_command_leaves_nothing(tmp_path: Path, number: int, code: int) -> None:
    rows = 30_000
    writer = GGUFWriter(tmp_path / "large.gguf", "qwen3-tts")
    for i in range(2):
        writer.add_tensor(f"talker.blk.{i}.attn_q.weight", np.random.default_rng(i).random((rows, 512), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    out = tmp_path / "out"
    out.mkdir()
    words = [sys.executable, "-m", "qwentts", "quantize", str(tmp_path / "large.gguf"), str(out / "x.gguf"), "Q6_K", "--threads", "1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 60
        while not any(p.stat().st_size > 1000 for p in out.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == code and errors == "" and list(out.iterdir()) == []


@pytest.mark.parametrize("variant", ["F16", "Q8_0"])
def test_quantized_equals_converted(tmp_path: Path, variant: str) -> None:
    """The quantizer's tensors are the converter's, byte for byte."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
    import make_tiny

    from qwentts.convert import convert

    make_tiny.write_model(tmp_path / "model", "custom_voice")
    for path in convert(tmp_path / "model", tmp_path / "direct", type=variant, progress=False):
        (keys, direct) = read(path)
        source = convert(tmp_path / "model", tmp_path / "f32", progress=False)
        f32 = next(p for p in source if p.name.startswith(path.name[:10]))
        quantize(f32, tmp_path / path.name, variant)
        again_keys, again = read(tmp_path / path.name)
        assert [(n, t.tensor_type, np.asarray(t.data).tobytes()) for n, t in direct.items()] == [
            (n, t.tensor_type, np.asarray(t.data).tobytes()) for n, t in again.items()
        ]
        assert {k: v for k, v in again_keys.items() if not k.startswith("qwentts.")} == keys


@pytest.mark.parametrize("mode", ["custom_voice", "base"])
def test_tiny_models_stay_loadable(tmp_path: Path, mode: str) -> None:
    """Whatever the widths: rows that no block fits become F16, and the file speaks."""
    from qwentts import TTS

    talker, codec = tiny_files(mode)
    assert talker.is_relative_to(TINY)
    for variant in target_variants():
        quantize(talker, tmp_path / "talker.gguf", variant)
        quantize(codec, tmp_path / "codec.gguf", variant)
        with TTS(tmp_path / "talker.gguf", tmp_path / "codec.gguf") as tts:
            speech = tts.synthesize("Hello.", seed=1, max_new_tokens=4, speaker="ada" if mode == "custom_voice" else None)
        assert np.isfinite(speech.samples).all() and np.abs(speech.samples).max() > 0
