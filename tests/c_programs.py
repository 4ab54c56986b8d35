"""Where the compiled C tests are: the folder QWENTTS_C_TESTS names, else build/tests, compiled on first use."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROGRAMS = (
    *("op_runner", "abi_c99", "alloc_overlap", "attention_tiles", "conv_pair", "exact_columns", "gguf_malformed", "quantize_rows"),
    *("session_run", "stream_equals_one_pass", "codec_beside", "codec_snapshots_lru", "cpu_cores", "hear_run"),
    *("replay_gguf", "replay_model"),
)


def compiler() -> str:
    """A C compiler; the test is skipped where there is none."""
    found = next((path for name in (os.environ.get("CC", "cc"), "gcc", "clang") if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no C compiler (cc, gcc or clang) on PATH")
    return found


@functools.cache
def _build() -> Path:
    beside = Path(sys.executable).parent
    cmake = shutil.which("cmake", path=f"{beside}{os.pathsep}{os.environ.get('PATH', '')}")
    if cmake is None:
        pytest.skip("QWENTTS_C_TESTS is not set, and no cmake is on PATH or beside this Python (pip install 'qwentts[test]' has it)")
    compiler()
    folder = ROOT / "build" / "tests"
    configure = [cmake, "-S", ROOT, "-B", folder, "-DQT_TESTS=ON", f"-DPython3_EXECUTABLE={sys.executable}"]
    for command in (configure, [cmake, "--build", folder, "--parallel", str(os.cpu_count() or 1)]):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, f"the C tests do not compile:\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return folder / "tests" / "c"


def program(name: str) -> Path:
    """Path of a C test."""
    assert name in PROGRAMS
    given = os.environ.get("QWENTTS_C_TESTS")
    path = (Path(given) if given else _build()) / name
    assert path.is_file(), f"{path} is missing: QWENTTS_C_TESTS must name the tests/c folder of a build with -DQT_TESTS=ON"
    return path


def run(name: str, *arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """What a C test printed and its exit code."""
    clean = {key: value for key, value in os.environ.items() if key != "QWENTTS_CPU_TIER"}
    return subprocess.run([program(name), *arguments], capture_output=True, text=True, env=clean | (env or {}), timeout=300)
