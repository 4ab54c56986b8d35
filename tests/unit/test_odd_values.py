"""Model files whose keys have odd kinds of values: refused or shown in one line, never a traceback, never a trick on the terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import tiny_files

from qwentts.output import printable

TALKER, CODEC = tiny_files("custom_voice")


def edited(path: Path, key: str, value: object) -> Path:
    """A copy of the tiny talker with another value for one key, or without it."""
    from gguf import GGUFReader, GGUFValueType, GGUFWriter

    reader = GGUFReader(TALKER)
    writer = GGUFWriter(path, "unused")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == key:
            continue
        kind = field.types[0]
        writer.kv_data[0].pop(name, None)
        writer.add_key_value(name, field.contents(), kind, field.types[-1] if kind == GGUFValueType.ARRAY else None)
    kind = (GGUFValueType.ARRAY, GGUFValueType.INT32) if isinstance(value, list) else (GGUFValueType.get_type(value), None)
    writer.kv_data[0].pop(key, None)
    writer.add_key_value(key, value, *kind)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.array(tensor.data), raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def command(*words: str | os.PathLike[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "qwentts", *map(str, words)], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("tokenizer.ggml.token_type", 1, "tokenizer.ggml.token_type"),
        ("tokenizer.ggml.token_type", [1, 2], "tokenizer.ggml.token_type"),
        ("general.architecture", [1, 2], "general.architecture"),
        ("generation.max_new_tokens", -5, "generation.max_new_tokens is -5"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused_in_a_line(tmp_path, key, value, said):
    file = edited(tmp_path / "odd.gguf", key, value)
    done = command("--model", file, "--codec", CODEC, "Hi.", "-o", tmp_path / "x.wav")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and said in done.stderr, done.stderr
    assert not (tmp_path / "x.wav").exists()
    looked = command("inspect", "--json", "--verify", file)
    assert looked.returncode == 0 and json.loads(looked.stdout)["tensors"] > 0, looked.stderr


@pytest.mark.parametrize("key", ["general.file_type", "general.name", "qwen3-tts.num_code_groups"])
def test_inspect_shows_arrays_where_one_value_is_expected(tmp_path, key):
    file = edited(tmp_path / "odd.gguf", key, [7, 8])
    assert command("inspect", file).returncode == 0
    assert json.loads(command("inspect", "--json", file).stdout)["keys"][key] == [7, 8]


def test_a_name_cannot_trick_the_terminal(tmp_path):
    file = edited(tmp_path / "odd.gguf", "general.name", "a\x1b]0;title\x07\nverified    0 findings")
    shown = command("inspect", file).stdout
    assert "\x1b" not in shown and "\\x1b]0;title\\x07 verified" in shown
    assert printable("tab\tand \u00fc\n") == "tab\tand \u00fc\n"


def test_warnings_of_the_library_reach_the_command_line(tmp_path):
    data = bytearray(TALKER.read_bytes())
    from gguf import GGUFReader

    tensor = next(t for t in GGUFReader(TALKER).tensors if t.name == "talker.blk.1.ffn_down.weight")
    data[tensor.data_offset : tensor.data_offset + tensor.n_bytes] = bytes(int(tensor.n_bytes))
    (tmp_path / "zero.gguf").write_bytes(data)
    done = command("--model", tmp_path / "zero.gguf", "--codec", CODEC, "--max-new", "2", "Hi.", "-o", tmp_path / "x.wav")
    assert "qwentts: warning: " in done.stderr and "talker.blk.1.ffn_down.weight" in done.stderr, done.stderr
