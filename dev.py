"""Every task of a developer: python dev.py COMMAND [ARGUMENTS]. Standard library only.

build      configure and compile build/dev (warnings are errors, C tests included)
test       build, then pytest: the whole default suite, against the installed package
reference  pytest -m reference against the official qwen-tts 0.1.1, in build/reference-venv (made on first use, about 2 GB)
sanitize   op runner, ABI probe and a tiny end-to-end run under the address and undefined-behaviour sanitizers
golden     make the recorded goldens again with the official package (tools/make_golden.py)
compare    time ours and the qwentts.cpp wheel side by side: compare TALKER.gguf CODEC.gguf [options of tools/compare_peers.py]
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
REFERENCE_VENV = ROOT / "build" / "reference-venv"
TINY = ROOT / "tests" / "golden" / "tiny"
PAIRS = {"custom_voice": "codec_a", "base": "codec_a", "voice_design": "codec_b"}  # talkers and the codecs that know their groups


def run(*command: str | Path, env: dict[str, str] | None = None, check: bool = True) -> int:
    """Echo and run a command in the repository; its failure ends the program with its code."""
    words = [str(word) for word in command]
    print("+", " ".join(words), flush=True)
    code = subprocess.run(words, cwd=ROOT, env=os.environ | (env or {})).returncode
    if check and code:
        sys.exit(code)
    return code


def tool(name: str) -> str:
    """A build tool of this environment if it has one, else the system's."""
    local = Path(sys.executable).with_name(name)
    return str(local) if local.exists() else name


def cmake_build(folder: Path, *options: str) -> None:
    """Compile the library and the C tests into folder."""
    run(tool("cmake"), "-S", ROOT, "-B", folder, "-DQT_TESTS=ON", "-DQT_WERROR=ON", f"-DPython3_EXECUTABLE={sys.executable}", *options)
    run(tool("cmake"), "--build", folder, "--parallel", str(os.cpu_count() or 2))


def build() -> dict[str, str]:
    """Compile build/dev and return the environment that makes tests find its binaries."""
    cmake_build(ROOT / "build" / "dev")
    return {"QWENTTS_C_TESTS": str(ROOT / "build" / "dev" / "tests" / "c")}


def test(*arguments: str) -> None:
    run(sys.executable, "-m", "pytest", "-q", *arguments, env=build())


def reference_python() -> Path:
    """The interpreter of an environment that holds the official package, made on first use."""
    python = REFERENCE_VENV / "bin" / "python"
    if not (REFERENCE_VENV / "complete").exists():
        venv.create(REFERENCE_VENV, with_pip=True)
        run(python, "-m", "pip", "install", "-q", ".[reference]")
        run(python, "-m", "pip", "install", "-q", "--no-deps", "qwen-tts==0.1.1")
        (REFERENCE_VENV / "complete").touch()
    else:
        run(python, "-m", "pip", "install", "-q", "--no-deps", "--force-reinstall", ".")
    return python


def reference(*arguments: str) -> None:
    run(reference_python(), "-m", "pytest", "-q", "-m", "reference", *arguments)


def golden(*arguments: str) -> None:
    run(reference_python(), "tools/make_golden.py", *arguments)


def sanitize() -> None:
    folder = ROOT / "build" / "sanitize"
    cmake_build(folder, "-DQT_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
    binaries = folder / "tests" / "c"
    strict = {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1", "ASAN_OPTIONS": "detect_leaks=1"}
    for tier in subprocess.run([binaries / "op_runner", "support", "--tiers"], capture_output=True, text=True, check=True).stdout.split():
        run(binaries / "op_runner", "test", "--tier", tier, "--quiet", env=strict)
    for name in ("abi_c99", "alloc_overlap", "gguf_malformed", "codec_snapshots_lru"):
        run(binaries / name, env=strict)
    for mode, codec_name in PAIRS.items():
        talker, codec = next((TINY / mode).glob("*.gguf")), next((TINY / codec_name).glob("*.gguf"))
        run(binaries / "session_run", talker, codec, env=strict)
        run(binaries / "stream_equals_one_pass", codec, env=strict)
        if mode == "base":
            run(binaries / "hear_run", talker, codec, env=strict)


def compare(*arguments: str) -> None:
    run(sys.executable, "tools/compare_peers.py", *arguments)


COMMANDS = {"build": build, "test": test, "reference": reference, "sanitize": sanitize, "golden": golden, "compare": compare}


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
