"""inspect: parts, memory, fallbacks and warnings; --verify; files of other models and broken ones."""

import json

import numpy as np
import pytest
from conftest import tiny_files
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter

from qwentts.cli import main
from qwentts.inspect import inspect_file, report
from qwentts.quantize import quantize
from qwentts.verify import verify_file

TALKER, CODEC = tiny_files("base")


def write(path, tensors, *, arch="llama", types=None, **keys):
    writer = GGUFWriter(path, arch)
    for key, value in keys.items():
        writer.add_uint32(key, value)
    for name, values in tensors.items():
        writer.add_tensor(name, values, raw_dtype=(types or {}).get(name))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    return path


def changed(path, source, name, change):
    """A copy of a file with the float32 values of one tensor changed."""
    data = bytearray(source.read_bytes())
    tensor = next(t for t in GGUFReader(source).tensors if t.name == name)
    values = np.frombuffer(data, np.float32, tensor.n_elements, tensor.data_offset)
    change(values)
    path.write_bytes(data)
    return path


def test_parts_and_memory_add_up_to_the_file():
    expected = {TALKER: {"talker", "code predictor", "speaker encoder"}, CODEC: {"codec decoder", "codec encoder", "codebooks"}}
    for path, names in expected.items():
        facts, tensors = inspect_file(path), GGUFReader(path).tensors
        assert names <= set(facts["parts"]) and "other" not in facts["parts"] and facts["variant"] == "F32"
        assert sum(part["parameters"] for part in facts["parts"].values()) == facts["parameters"] == sum(t.n_elements for t in tensors)
        n_bytes = sum(int(t.n_bytes) for t in tensors)
        assert sum(part["bytes"] for part in facts["parts"].values()) == sum(row["bytes"] for row in facts["types"].values()) == n_bytes
        memory = facts["memory"]
        tables = sum(table["all_bytes"] for table in memory["tables"].values())
        assert memory["speaking_bytes"] + memory["cloning_more_bytes"] + tables == n_bytes and memory["cloning_more_bytes"] > 0
    talker = inspect_file(TALKER)["memory"]
    assert talker["tables"]["text embedding"]["row_bytes"] == 32 * 4 and talker["cache_bytes_per_frame"] == 2 * 2 * 4 * 3 * 32
    assert talker["copied_bytes"] == sum(
        t.n_bytes for t in GGUFReader(TALKER).tensors if t.name.startswith(("talker.blk", "talker.codec_head", "talker.output_norm"))
        or (t.name.startswith("code_pred.") and "codec_embd" not in t.name)
    )  # fmt: skip


def test_rows_that_fit_no_block_are_fallbacks(tmp_path):
    quantize(TALKER, tmp_path / "q4.gguf", "Q4_K_M", progress=False)
    facts = inspect_file(tmp_path / "q4.gguf")
    assert facts["variant"] == "Q4_K_M" and facts["other_types"] == []
    f16 = {t.name for t in GGUFReader(tmp_path / "q4.gguf").tensors if t.tensor_type == GGMLQuantizationType.F16}
    assert f16 and {row["tensor"] for row in facts["fallbacks"]} == f16
    assert "rows that fit no block" in report(facts) and "row fits no block of 256" in report(facts)


def test_tensors_of_another_type_than_the_policys_are_named(tmp_path):
    blocks = {"talker.blk.0.attn_q.weight": np.ones((2, 64), np.float16), "talker.blk.1.attn_q.weight": np.ones((2, 64), np.float32)}
    path = write(tmp_path / "mixed.gguf", blocks, arch="qwen3-tts", **{"general.file_type": 1})
    facts = inspect_file(path)
    assert facts["variant"] == "F16" and [row["tensor"] for row in facts["other_types"]] == ["talker.blk.1.attn_q.weight"]
    assert "problem" in facts["talker"] and "this file cannot speak" in facts["warnings"][-1]


def test_zero_tensors_and_missing_merges_are_warnings(tmp_path):
    name = "talker.blk.2.ffn_norm.weight"
    facts = inspect_file(changed(tmp_path / "zero.gguf", TALKER, name, lambda v: v.fill(0)))
    assert any("1 tensors are all zero" in text and name in text for text in facts["warnings"])
    assert inspect_file(TALKER)["warnings"] == []
    tokens = {"tokenizer.ggml.tokens": ["a", "#", "##", "aa"], "tokenizer.ggml.merges": ["a a"]}
    writer = GGUFWriter(tmp_path / "merges.gguf", "qwen3-tts")
    for key, value in tokens.items():
        writer.add_array(key, value)
    writer.add_array("tokenizer.ggml.token_type", [1, 1, 1, 1])
    writer.add_tensor("talker.blk.0.attn_q.weight", np.ones((2, 32), np.float32))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    assert any("1 merges that begin with # are missing" in text for text in inspect_file(tmp_path / "merges.gguf")["warnings"])


def test_verify_finds_what_no_voice_survives(tmp_path, capsys):
    assert verify_file(TALKER) == verify_file(CODEC) == []
    name = "code_pred.blk.1.ffn_up.weight"

    def spoil(values):
        values[5], values[9], values[11] = np.nan, np.inf, np.nan

    bad = changed(tmp_path / "nan.gguf", TALKER, name, spoil)
    assert verify_file(bad) == [{"tensor": name, "finding": "2 NaN and 1 infinite of 1,920 values, the first at 5"}]
    with pytest.raises(SystemExit) as end:
        main(["inspect", "--verify", str(bad)])
    out, err = capsys.readouterr()
    assert end.value.code == 1 and f"finding     {name}: 2 NaN" in out and "verified    148 tensors, 1 findings" in out
    assert err.startswith("qwentts: error: ") and name in err and err.count("\n") == 1
    assert verify_file(changed(tmp_path / "zero.gguf", CODEC, "tok_dec.vq_rest.1.codebook", lambda v: v.fill(0)))[0]["finding"] == (
        "all 1,024 values are zero"
    )
    half = write(tmp_path / "half.gguf", {"spk_enc.fc.weight": np.ones((2, 32), np.float16)}, arch="qwen3-tts")
    assert verify_file(half)[0]["finding"] == "is of type f16, the loader wants f32 (speaker encoder)"
    assert main(["inspect", "--verify", "--json", str(TALKER)]) == 0
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_verify_reads_in_slices(monkeypatch):
    monkeypatch.setattr("qwentts.verify.SLICE_VALUES", 100)
    sizes = []
    assert verify_file(CODEC, sizes.append) == [] and sum(sizes) == sum(int(t.n_bytes) for t in GGUFReader(CODEC).tensors)
    assert max(sizes) <= max(100, 224) * 4


def test_other_models_are_shown_politely(tmp_path, capsys):
    tensors = {"blk.0.w": np.ones((2, 32), np.float32), "n": np.arange(5, dtype=np.int32), "d": np.array([1.0, np.nan])}
    path = write(tmp_path / "llama.gguf", tensors)
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "architecture llama" in shown and "not a Qwen3-TTS file" in shown and "memory" not in shown
    assert verify_file(path) == [{"tensor": "d", "finding": "1 NaN of 2 values, the first at 1"}]


@pytest.mark.parametrize("content", [b"", b"GGUF", b"hello, this is no model", None])
def test_broken_files_are_one_line(tmp_path, capsys, content):
    path = tmp_path / "x.gguf"
    path.write_bytes(TALKER.read_bytes()[:40000] if content is None else content)
    for more in ([], ["--verify"], ["--json"]):
        with pytest.raises(SystemExit) as end:
            main(["inspect", str(path), *more])
        out, err = capsys.readouterr()
        assert end.value.code == 2 and out == "" and err.startswith("qwentts: error: ") and "x.gguf" in err and err.count("\n") == 1
