"""The fuzz targets over their corpus and over every finding of the past, without a fuzzer (python dev.py fuzz runs one)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from c_programs import ROOT, run

FUZZ = ROOT / "tests" / "fuzz"
TARGETS = ("gguf", "model")


@pytest.mark.parametrize("target", TARGETS)
def test_corpus_and_regressions_replay(target: str) -> None:
    folders = [folder for kind in ("corpus", "regressions") if (folder := FUZZ / kind / target).is_dir()]
    n_files = sum(len(list(folder.iterdir())) for folder in folders)
    done = run(f"replay_{target}", *map(str, folders))
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-2000:]}"
    assert f": {n_files} files, 0 failures" in done.stdout and n_files >= 4


def test_seeds_are_those_of_the_script(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, FUZZ / "make_seeds.py", tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    made = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert len(made) >= 9
    for path in made:
        assert (tmp_path / path).read_bytes() == (FUZZ / "corpus" / path).read_bytes(), f"make_seeds.py tests/fuzz/corpus makes {path} anew"


def test_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in (FUZZ / "corpus").rglob("*")) < 300_000


def test_without_clang_says_what_to_install(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "dev.py", "fuzz"], capture_output=True, text=True, env=os.environ | {"PATH": str(tmp_path)}
    )
    assert done.returncode == 1 and "apt-get install clang" in done.stderr
