"""Every task of a developer: python dev.py COMMAND [ARGUMENTS]. Standard library only.

build      configure and compile build/dev (warnings are errors, C tests included)
test       build, then pytest: the whole default suite, against the installed package
reference  pytest -m reference against the official qwen-tts 0.1.1, in build/reference-venv (made on first use, about 2 GB)
sanitize   op runner, ABI probe and a tiny end-to-end run under the address and undefined-behaviour sanitizers
emulate    other processors than this one: model tests with the scalar tier forced; C tests and a sentence from the installed package under
           qemu without AVX; C tests cross-compiled for AArch64 under qemu (Debian: qemu-user gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
fuzz       corpus and regressions, then libFuzzer: fuzz [--seconds N] [--target gguf|model] (needs clang; CI gives it 60 s)
golden     make the recorded goldens again with the official package (tools/make_golden.py)
compare    time ours and the qwentts.cpp wheel side by side: compare TALKER.gguf CODEC.gguf [options of tools/compare_peers.py]
"""

from __future__ import annotations

import argparse
import array
import os
import platform
import shutil
import signal
import subprocess
import sys
import venv
import wave
from pathlib import Path

ROOT = Path(__file__).resolve().parent
REFERENCE_VENV = ROOT / "build" / "reference-venv"
TINY = ROOT / "tests" / "golden" / "tiny"
SYSROOT = Path("/usr/aarch64-linux-gnu")
FIRST_X86_64 = ("qemu-x86_64", "-cpu", "qemu64")  # SSE2 and little else
WITHOUT_AVX = ("qemu-x86_64", "-cpu", "Nehalem")  # the oldest that the wheels of numpy run on (x86-64-v2)
AARCH64 = ("qemu-aarch64", "-L", SYSROOT)
FUZZ_TARGETS = ("gguf", "model")
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


def c_tests(folder: Path, tiers: list[str], *launcher: str | Path, env: dict[str, str] | None = None) -> None:
    """Run the C tests of a build, each behind the words of the launcher (an emulator, or nothing)."""
    quick = ["quick"] if launcher else []  # 14 s of computing here are ten minutes on an emulated processor
    binaries = folder / "tests" / "c"
    for tier in tiers:
        run(*launcher, binaries / "op_runner", "test", "--tier", tier, "--quiet", env=env)
    for name in ("abi_c99", "alloc_overlap", "gguf_malformed", "quantize_rows", "codec_snapshots_lru"):
        run(*launcher, binaries / name, env=env)
    files = {name: next((TINY / name).glob("*.gguf")) for name in {*PAIRS, *PAIRS.values()}}
    for talker, codec in PAIRS.items():
        run(*launcher, binaries / "session_run", files[talker], files[codec], env=env)
        if not launcher:
            run(binaries / "codec_beside", files[talker], files[codec], env=env)
    for codec in sorted(set(PAIRS.values())):
        run(*launcher, binaries / "stream_equals_one_pass", files[codec], *quick, env=env)
    run(*launcher, binaries / "hear_run", files["base"], files[PAIRS["base"]], env=env)


def tiers_of(folder: Path, *launcher: str | Path) -> list[str]:
    """Instruction tiers that a build offers on this processor, or on the launcher's."""
    words = [*launcher, folder / "tests" / "c" / "op_runner", "support", "--tiers"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()


def sanitize() -> None:
    folder = ROOT / "build" / "sanitize"
    cmake_build(folder, "-DQT_SANITIZE=ON", "-DCMAKE_BUILD_TYPE=RelWithDebInfo")
    strict = {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1", "ASAN_OPTIONS": "detect_leaks=1"}
    c_tests(folder, tiers_of(folder), env=strict)
    kept = ROOT / "tests" / "fuzz"
    for name in FUZZ_TARGETS:
        places = [folder_ for kind in ("corpus", "regressions") if (folder_ := kept / kind / name).is_dir()]
        run(folder / "tests" / "c" / f"replay_{name}", *places, env=strict | {"ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1"})


def emulate() -> None:
    need_for_emulation()
    env = build()
    run(sys.executable, "-m", "pytest", "-q", "tests/model", env=env | {"QWENTTS_CPU_TIER": "scalar"})
    emulator_refuses_avx()
    expect("tiers without AVX", tiers_of(ROOT / "build" / "dev", *FIRST_X86_64), ["scalar"])
    c_tests(ROOT / "build" / "dev", ["scalar"], *FIRST_X86_64)
    speak_without_avx()

    folder = ROOT / "build" / "aarch64"
    cmake_build(folder, f"-DCMAKE_TOOLCHAIN_FILE={ROOT / 'cmake' / 'aarch64-linux-gnu.cmake'}")
    expect("tiers on AArch64", tiers_of(folder, *AARCH64), ["scalar", "neon", "dotprod"])
    c_tests(folder, ["neon", "dotprod"], *AARCH64)


def expect(what: str, got: object, wanted: object) -> None:
    """End the program unless both are equal."""
    if got != wanted:
        sys.exit(f"dev.py: {what}: {got}, expected {wanted}")
    print(f"{what}: {got}", flush=True)


def need_for_emulation() -> None:
    """End the program with what to install, when something is missing."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        sys.exit(f"dev.py: emulate runs on x86-64 Linux, this is {sys.platform} on {platform.machine()}")
    packages = {"qemu-x86_64": "qemu-user", "qemu-aarch64": "qemu-user", "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu"}
    missing = {package for program, package in packages.items() if not shutil.which(program)}
    if not (SYSROOT / "include" / "stdio.h").exists():
        missing.add("libc6-dev-arm64-cross")
    if missing:
        sys.exit(f"dev.py: emulate needs: apt-get install {' '.join(sorted(missing))} (Debian and Ubuntu names)")


def emulator_refuses_avx() -> None:
    """End the program if the emulated processors run an AVX instruction: then the runs behind them would show nothing."""
    folder = ROOT / "build" / "emulate"
    folder.mkdir(parents=True, exist_ok=True)
    source, program = folder / "avx.c", folder / "avx"
    source.write_text('int main(void) { __asm__ volatile("vxorps %ymm0, %ymm0, %ymm0"); return 0; }\n', encoding="utf-8")
    run(os.environ.get("CC", "cc"), "-static", "-o", program, source)
    for launcher in (FIRST_X86_64, WITHOUT_AVX):
        code = subprocess.run([*launcher, program], stderr=subprocess.DEVNULL).returncode
        expect(f"an AVX instruction on {launcher[-1]} ends with", signal.Signals(-code).name if code < 0 else code, "SIGILL")


def speak_without_avx() -> None:
    """The installed package's voice, from an emulated old processor and from this one with the scalar tier: 16-bit samples within 1."""
    said = []
    for name, launcher in (("native", ()), ("emulated", WITHOUT_AVX)):
        path = ROOT / "build" / "emulate" / f"{name}.wav"
        words = [sys.executable, "-m", "qwentts", "Hello.", "-o", path, "--max-new", "4", "--greedy", "--json", "--quiet"]
        run(*launcher, *words, env={"QWENTTS_CPU_TIER": "" if launcher else "scalar"})
        with wave.open(str(path)) as wav:
            said.append(array.array("h", wav.readframes(wav.getnframes())))
    apart = max(abs(a - b) for a, b in zip(*said, strict=True))
    expect("largest difference of emulated and native samples is at most 1", apart <= 1, True)


def fuzz(*arguments: str) -> None:
    parser = argparse.ArgumentParser(prog="dev.py fuzz")
    parser.add_argument("--seconds", type=int, default=60, help="of fuzzing, in all")
    parser.add_argument("--target", choices=FUZZ_TARGETS, action="append", help="default: each, one after the other")
    parser.add_argument("--corpus", type=Path, help="keep what is found in this folder; default: build/fuzz/corpus")
    options = parser.parse_args(arguments)
    targets = options.target or list(FUZZ_TARGETS)
    clang = next((path for name in ("clang", "clang-19", "clang-16", "clang-14") if (path := shutil.which(name))), None)
    if clang is None:
        sys.exit(
            "fuzz needs clang with libFuzzer, none is on PATH. Debian, Ubuntu: apt-get install clang; Fedora: dnf install clang compiler-rt"
        )
    folder = ROOT / "build" / "fuzz"
    flags = ("-DCMAKE_BUILD_TYPE=RelWithDebInfo", "-DCMAKE_C_FLAGS_RELWITHDEBINFO=-O1 -g1", f"-DPython3_EXECUTABLE={sys.executable}")
    run(tool("cmake"), "-S", ROOT, "-B", folder, "-DQT_FUZZ=ON", f"-DCMAKE_C_COMPILER={clang}", *flags)
    run(tool("cmake"), "--build", folder, "--parallel", str(os.cpu_count() or 2))
    limits = ("-timeout=20", "-malloc_limit_mb=256", "-rss_limit_mb=3000", "-max_len=32768")  # a file of kilobytes takes no more than that
    strict = {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1", "ASAN_OPTIONS": "detect_leaks=1:allocator_may_return_null=1"}
    for name in targets:
        found, kept = (options.corpus or folder / "corpus") / name, ROOT / "tests" / "fuzz"
        found.mkdir(parents=True, exist_ok=True)
        seconds = max(1, options.seconds // len(targets))
        regressions = [kept / "regressions" / name] if (kept / "regressions" / name).is_dir() else []
        places = (found, kept / "corpus" / name, *regressions)
        limits_of = (
            f"-max_total_time={seconds}",
            f"-dict={kept / 'gguf.dict'}",
            f"-artifact_prefix={folder}/{name}-",
            "-print_final_stats=1",
        )
        run(folder / "tests" / "fuzz" / f"fuzz_{name}", *limits, *limits_of, *places, env=strict)


def compare(*arguments: str) -> None:
    run(sys.executable, "tools/compare_peers.py", *arguments)


COMMANDS = {command.__name__: command for command in (build, test, reference, sanitize, emulate, fuzz, golden, compare)}


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in COMMANDS:
        sys.exit(__doc__)
    COMMANDS[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
