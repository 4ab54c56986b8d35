"""The import refuses a library that does not speak this package's interface, and says which versions met."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from qwentts import _lib

HEADER = Path(__file__).parents[2] / "csrc" / "include" / "qwentts.h"
MAKE_CDEF = Path(__file__).parents[2] / "tools" / "make_cdef.py"
OWN = _lib.lib.QT_ABI_VERSION

SOURCE = """
#include <string.h>
int qt_abi_version(void) { return HIGH; }
int qt_abi_min_version(void) { return LOW; }
unsigned long qt_struct_size(const char * name) { return strcmp(name, "qt_audio") ? 0 : SIZE; }
OTHERS
"""


def _compile(folder: Path, *, low: int, high: int, size: int = 24, others: str = "") -> Path:
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler to make another library with")
    source, library = folder / "other.c", folder / "libother.so"
    text = SOURCE.replace("HIGH", str(high)).replace("LOW", str(low)).replace("SIZE", str(size)).replace("OTHERS", others)
    source.write_text(text)
    subprocess.run([compiler, "-shared", "-fPIC", "-w", "-o", library, source], check=True)
    return library


def _import(library: Path) -> subprocess.CompletedProcess:
    environment = os.environ | {"QWENTTS_LIBRARY": str(library)}
    return subprocess.run([sys.executable, "-c", "from qwentts import TTS"], env=environment, capture_output=True, text=True)


@pytest.mark.parametrize(("low", "high"), [(OWN + 1, OWN + 3), (1, OWN - 1)])
def test_a_library_outside_the_range_is_refused_with_both_ranges(tmp_path, low, high):
    library = _compile(tmp_path, low=low, high=high)
    result = _import(library)
    message = result.stderr.splitlines()[-1]
    assert result.returncode == 1 and message.startswith("ImportError: qwentts:")
    assert f"versions {low}..{high}" in message and f"speaks {OWN}" in message and str(library) in message


def test_a_library_without_an_entry_is_refused(tmp_path):
    result = _import(_compile(tmp_path, low=OWN, high=OWN))
    assert result.returncode == 1 and "lacks" in result.stderr and "qt_session_new" in result.stderr


def test_a_library_with_another_struct_layout_is_refused(tmp_path):
    entries = [name for name in dir(_lib.lib) if name.startswith("qt_")]
    own = ("qt_abi_version", "qt_abi_min_version", "qt_struct_size")
    others = "\n".join(f"int {name}(void) {{ return 0; }}" for name in entries if name not in own)
    result = _import(_compile(tmp_path, low=OWN, high=OWN, size=4, others=others))
    assert result.returncode == 1 and "struct qt_audio has 4 bytes, this package's has 24" in result.stderr


@pytest.mark.parametrize("content", [None, b"no library"])
def test_a_missing_or_broken_library_is_named(tmp_path, content):
    library = tmp_path / "libqwentts.so"
    if content is not None:
        library.write_bytes(content)
    result = _import(library)
    assert result.returncode == 1 and "ImportError: qwentts:" in result.stderr and str(library) in result.stderr


def test_the_loaded_library_says_what_it_is():
    assert _lib.library_version()
    assert _lib.lib.qt_abi_min_version() <= OWN <= _lib.lib.qt_abi_version()


def _make_cdef(tmp_path, header: str) -> subprocess.CompletedProcess:
    (tmp_path / "h.h").write_text(header)
    command = [sys.executable, MAKE_CDEF, tmp_path / "h.h", tmp_path / "cut.py", "cut"]
    return subprocess.run(command, capture_output=True, text=True)


def test_declarations_are_cut_between_the_markers(tmp_path):
    header = """int outside;
/* cdef: begin (why) */
#define QT_X 5 /* a constant */
#ifdef Y
#define QT_MACRO(a) (a)
#endif
/* a comment over
   lines */
struct qt_s { int a; /* b */ };
QT_API int qt_f(struct qt_s * s);
/* cdef: end */
int after;
"""
    assert _make_cdef(tmp_path, header).returncode == 0
    sys.path.insert(0, str(tmp_path))
    try:
        import cut
    finally:
        sys.path.pop(0)
    assert cut.ffi.list_types() == ([], ["qt_s"], [])
    assert dir(cut.ffi.dlopen(None)) == ["QT_X", "qt_f"]


def test_a_header_without_markers_is_refused(tmp_path):
    result = _make_cdef(tmp_path, "int a;")
    assert result.returncode != 0 and "cdef: begin" in result.stderr
