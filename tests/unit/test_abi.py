"""The public interface: what the library exports, what the header declares, and what both mean by a struct."""

import os
import re
import shutil
import subprocess
import threading
from pathlib import Path

import pytest
from c_programs import ROOT, compiler, program, run
from conftest import MODES, tiny_files

from qwentts import _lib

HEADER = ROOT / "csrc" / "include" / "qwentts.h"
OPAQUE = {"qt_context", "qt_session", "qt_file", "qt_vocabulary"}
STRICT = ("-std=c99", "-Wall", "-Werror", "-pedantic")


def declared() -> set[str]:
    """Every entry that the header declares."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(encoding="utf-8"), flags=re.DOTALL)
    return set(re.findall(r"\bQT_API\b[^;]*?\b(qt_\w+)\(", text))


def exported(library: Path) -> set[str]:
    """Every symbol that the library gives to others."""
    nm = shutil.which("nm")
    if nm is None:
        pytest.skip("no nm (binutils) on PATH")
    lines = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def test_exports_equal_declarations() -> None:
    assert exported(_lib.library_path()) == declared()
    assert len(declared()) > 30


def test_header_is_strict_c99(tmp_path: Path) -> None:
    source = tmp_path / "only.c"
    source.write_text('#include "qwentts.h"\n#include "qwentts.h"\n')
    for options in (STRICT, ("-x", "c++", "-std=c++11", "-Wall", "-Werror", "-pedantic")):
        if "c++" in options and shutil.which("g++") is None:
            continue
        done = subprocess.run([compiler(), *options, "-fsyntax-only", "-I", HEADER.parent, source], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert set(re.findall(r"#include\s*(\S+)", HEADER.read_text(encoding="utf-8"))) == {"<stdbool.h>", "<stdint.h>", "<stddef.h>"}


def test_probe_passes() -> None:
    done = run("abi_c99")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"abi_c99: \d{2,} checks, 0 failed", done.stdout)


@pytest.mark.parametrize(
    ("replacement", "complaint"),
    [
        ("int qt_abi_version(void) { return 7; }", "accept the same range"),
        ('const char * qt_last_error(void) { return ""; }', "does not name"),
        ("void qt_init_default_params(void * p) { if (p) __builtin_memset(p, 0, 56); }", "writes version 4's fields and no more"),
        ("int qt_talker_step(void * s, void * c, void * o, void * l) { return 0; }", "qt_talker_step: status 0, expected -1"),
    ],
)
def test_probe_can_fail(tmp_path: Path, replacement: str, complaint: str) -> None:
    source, library = tmp_path / "broken.c", tmp_path / "libbroken.so"
    source.write_text(replacement)
    subprocess.run([compiler(), "-shared", "-fPIC", "-w", "-o", library, source], check=True)
    done = run("abi_c99", env={"LD_PRELOAD": str(library)})
    assert done.returncode > 0 and complaint in done.stdout, done.stdout + done.stderr


def test_probe_calls_every_entry() -> None:
    probe = (ROOT / "tests" / "c" / "abi_c99.c").read_text(encoding="utf-8")
    called = set(re.findall(r"\b(qt_\w+)\)?\(", re.sub(r'"[^"]*"', '""', probe)))
    assert declared() <= called, declared() - called


def test_struct_sizes_agree() -> None:
    structs = set(_lib.ffi.list_types()[1])
    assert OPAQUE < structs
    for name in structs:
        size = _lib.lib.qt_struct_size(name.encode())
        assert size == (0 if name in OPAQUE else _lib.ffi.sizeof(f"struct {name}")), name


def test_cdef_has_every_entry() -> None:
    assert declared() <= set(dir(_lib.lib))


def test_last_error_is_per_thread() -> None:
    seen: list[str] = []

    def fail_elsewhere() -> None:
        seen.append(_lib.last_error())
        _lib.lib.qt_init_params_fill(_lib.ffi.NULL, 77, 0)
        seen.append(_lib.last_error())

    params = _lib.ffi.new("struct qt_init_params *")
    assert _lib.lib.qt_init_params_fill(params, 3, 0) == _lib.lib.QT_STATUS_INVALID_PARAMS
    thread = threading.Thread(target=fail_elsewhere)
    thread.start()
    thread.join()
    assert seen[0] == "" and "params is NULL" in seen[1]
    assert "abi_version is 3" in _lib.last_error()


@pytest.mark.parametrize("mode", MODES)
def test_utterance_from_c(mode: str) -> None:
    done = run("session_run", *(str(path) for path in tiny_files(mode)))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("mode", MODES)
def test_the_codec_beside_frames_from_c(mode: str) -> None:
    done = run("codec_beside", *(str(path) for path in tiny_files(mode)))
    assert done.returncode == 0, done.stdout + done.stderr


def test_library_never_prints(tmp_path: Path) -> None:
    """A failed load with no log callback leaves both streams empty."""
    source, binary = tmp_path / "quiet.c", tmp_path / "quiet"
    source.write_text(
        '#include "qwentts.h"\n'
        "int main(void) {\n"
        "    struct qt_init_params p;\n"
        "    qt_init_default_params(&p);\n"
        '    p.talker_path = "/nonexistent.gguf";\n'
        "    return qt_init(&p) != NULL;\n"
        "}\n"
    )
    library = next(program("abi_c99").parents[2].glob("csrc/libqwentts.*"), None) or _lib.library_path()
    subprocess.run([compiler(), *STRICT, "-I", HEADER.parent, "-o", binary, source, library, f"-Wl,-rpath,{library.parent}"], check=True)
    done = subprocess.run([binary], capture_output=True, env=dict(os.environ))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
