"""Cut the cffi declarations out of the public C header and write them as an importable module.

usage: make_cdef.py HEADER OUT.py [MODULE]

The span between the `cdef: begin` and `cdef: end` markers loses its comments, its export macro and every preprocessor line but
integer constants; cffi compiles the rest to an out-of-line ABI-mode module, which needs no compiler and no parser at import.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from cffi import FFI

BEGIN, END = "/* cdef: begin", "/* cdef: end */"
CONSTANT = re.compile(r"#define\s+\w+\s+-?(0x[0-9a-fA-F]+|\d+)\s*$")


def cut(header: str) -> str:
    """The declarations of `header` as cffi reads them."""
    begin, end = header.find(BEGIN), header.find(END)
    if begin < 0 or end < begin:
        raise SystemExit(f"make_cdef: the header lacks the markers {BEGIN!r} and {END!r}, in this order")
    text = re.sub(r"/\*.*?\*/", "", header[begin:end], flags=re.DOTALL)
    lines = [line.rstrip() for line in text.splitlines()]
    lines = [line for line in lines if line and (not line.lstrip().startswith("#") or CONSTANT.match(line))]
    return re.sub(r"\bQT_API\s+", "", "\n".join(lines)) + "\n"


def main(argv: list[str]) -> None:
    """Write the module; the file changes only when the declarations do."""
    if len(argv) not in (2, 3):
        raise SystemExit("usage: make_cdef.py HEADER OUT.py [MODULE]")
    ffi = FFI()
    ffi.set_source(argv[2] if len(argv) == 3 else "qwentts._cdef", None)
    ffi.cdef(cut(Path(argv[0]).read_text(encoding="utf-8")))
    out = Path(argv[1])
    out.parent.mkdir(parents=True, exist_ok=True)
    ffi.emit_python_code(str(out))


if __name__ == "__main__":
    main(sys.argv[1:])
