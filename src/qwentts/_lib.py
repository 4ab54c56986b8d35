"""The compiled library: found, opened and compared with the declarations this package was built from.

`ffi` and `lib` are what engine.py and model_file.py call. The library lies beside this file; QWENTTS_LIBRARY names another one.
An import fails with both version ranges and the path when the library does not speak this package's version of the interface.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

try:
    from ._cdef import ffi
except ModuleNotFoundError as error:
    raise ImportError(
        "qwentts: the module qwentts._cdef, generated from csrc/include/qwentts.h at build time, is missing: build the package"
    ) from error

LIBRARY_NAMES = {"darwin": "libqwentts.dylib", "win32": "qwentts.dll"}
_log = logging.getLogger("qwentts")
_log.addHandler(logging.NullHandler())  # silent unless the program configures logging
_LEVELS = {0: logging.DEBUG, 1: logging.INFO, 2: logging.WARNING, 3: logging.ERROR}


def library_path() -> Path:
    """Where the library is expected: QWENTTS_LIBRARY, else beside this file."""
    override = os.environ.get("QWENTTS_LIBRARY")
    return Path(override) if override else Path(__file__).with_name(LIBRARY_NAMES.get(sys.platform, "libqwentts.so"))


def open_library(path: Path) -> Any:
    """The library at `path`, after its version range, its entries and its struct sizes were compared with this package's."""
    if not path.is_file():
        raise ImportError(f"qwentts: no library at {path} (built with the package; QWENTTS_LIBRARY names another one)")
    try:
        library = ffi.dlopen(str(path))
    except OSError as error:
        raise ImportError(f"qwentts: {path} cannot be opened: {error}") from None
    try:
        low, high = library.qt_abi_min_version(), library.qt_abi_version()
    except (AttributeError, ffi.error):
        raise ImportError(
            f"qwentts: {path} has no qt_abi_version: it is not this package's library or it is older than its version range check"
        ) from None
    own, own_low = library.QT_ABI_VERSION, library.QT_ABI_MIN_VERSION
    if not low <= own <= high:
        raise ImportError(
            f"qwentts: {path} accepts interface versions {low}..{high}, this package speaks {own} (its header: {own_low}..{own}):"
            " install a matching pair"
        )
    missing = [name for name in dir(library) if not _has(library, name)]
    if missing:
        raise ImportError(f"qwentts: {path} (interface {low}..{high}) lacks {', '.join(missing)}")
    for kind in ffi.list_types()[1]:
        size = library.qt_struct_size(kind.removeprefix("struct ").encode())  # 0: opaque
        if size and size != ffi.sizeof(f"struct {kind}"):
            raise ImportError(
                f"qwentts: {path}: struct {kind} has {size} bytes, this package's has {ffi.sizeof(f'struct {kind}')}"
                f" (interface {low}..{high} against {own_low}..{own})"
            )
    return library


def _has(library: Any, name: str) -> bool:
    try:
        getattr(library, name)
    except (AttributeError, ffi.error):
        return False
    return True


_kept = threading.local()


def keep_error(_kind: Any, error: BaseException, _traceback: Any) -> None:
    """What a callback raised, Ctrl-C included, waits in this thread until the library has returned: no exception passes through C."""
    _kept.error = error


def raise_kept_error() -> None:
    """Raise what a callback of this thread's last call raised."""
    error = getattr(_kept, "error", None)
    if error is not None:
        _kept.error = None
        raise error


@ffi.callback("qt_log_cb", onerror=keep_error)
def _forward(level: int, message: Any, _user_data: Any) -> None:
    _log.log(_LEVELS.get(level, logging.INFO), "%s", ffi.string(message).decode("utf-8", "replace"))


lib = open_library(library_path())
lib.qt_log_set(_forward, ffi.NULL)


def last_error() -> str:
    """Text of this thread's last failure."""
    return ffi.string(lib.qt_last_error()).decode("utf-8", "replace")


def library_version() -> str:
    """What the library says about itself."""
    return ffi.string(lib.qt_version()).decode("utf-8", "replace")
