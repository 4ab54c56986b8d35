"""What becomes of a loaded model when somebody cuts, rewrites, replaces or deletes its file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import smallest_models
from model_edits import values

from qwentts.engine import Engine
from qwentts.errors import ModelFileError, ParameterError
from qwentts.model_file import ModelFile


def test_file_that_is_cut_or_written_to_while_it_is_mapped(tmp_path: Path) -> None:
    path, codec = smallest_models.talker().write(tmp_path / "t.gguf"), smallest_models.codec().write(tmp_path / "c.gguf")
    session, file, logits = Engine(path, codec, threads=1).session(), ModelFile.open(path), np.zeros(12, np.float32)
    rows_ = session.text_embed(np.array([1], np.int32))
    before, speakers = path.stat(), file.get("qwen3-tts.codec.speaker_names")
    with path.open("r+b") as f:
        f.truncate(100)  # every page of it is gone: touching one would be a SIGBUS
    codes = np.zeros((2, 3), np.int32)
    for call in (
        lambda: session.text_embed(np.array([1], np.int32)),
        lambda: session.prefill(rows_, logits),
        lambda: session.decode(codes),
    ):
        with pytest.raises(ParameterError, match=rf"t\.gguf: the file has 100 bytes, it was opened with {before.st_size}"):
            call()
    with pytest.raises(ModelFileError, match="the file has 100 bytes"):
        file.tensor(0)
    assert file.get("qwen3-tts.codec.speaker_names") == speakers == ["ann", "bo"]  # keys are copies


def test_file_that_is_written_anew_is_refused_until_it_is_loaded_again(tmp_path: Path) -> None:
    path = smallest_models.talker().write(tmp_path / "t.gguf")
    session = Engine(path, None, threads=1).session()
    ids = np.array([1], np.int32)
    first = session.text_embed(ids)
    other = smallest_models.talker()
    values("talker.text_proj.fc2.bias", 1.0)(other)
    other.write(path)  # in place, of the same size
    with pytest.raises(ParameterError, match=r"t\.gguf: the file was written to after it was opened"):
        session.text_embed(ids)
    assert not np.array_equal(Engine(path, None, threads=1).session().text_embed(ids), first)


def test_file_that_is_deleted_or_replaced_stays_whole(tmp_path: Path) -> None:
    path = smallest_models.talker().write(tmp_path / "t.gguf")
    session = Engine(path, None, threads=1).session()
    ids = np.array([1], np.int32)
    first = session.text_embed(ids)
    (tmp_path / "new.gguf").write_bytes(b"nothing")
    (tmp_path / "new.gguf").replace(path)
    assert np.array_equal(session.text_embed(ids), first)
    path.unlink()
    assert np.array_equal(session.text_embed(ids), first)
