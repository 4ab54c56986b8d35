"""Files that appear whole or not at all; `-` for standard output."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from .errors import OutputError, ParameterError

STDOUT = "-"


class Output:
    """A file under construction: opened at once, so that an unwritable path fails early, and renamed when complete.

    Used as a context manager; leaving it by an exception removes what was written. ParameterError: the path is not writable; OutputError: a
    write failed midway. `-` and existing special files are written directly.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.name = os.fspath(path)
        self._target = Path(path)
        self._partial: Path | None = None
        self._stream: BinaryIO | None = None

    def __enter__(self) -> Output:
        try:
            if self.name == STDOUT and sys.stdout is None:
                raise OSError(9, "it is closed")
            if self.name == STDOUT:
                self._stream = sys.stdout.buffer
            elif self._target.exists() and not self._target.is_file() and not self._target.is_dir():
                self._stream = open(self._target, "wb")  # noqa: SIM115  a device or a pipe
            elif not self.name:
                raise FileNotFoundError(2, "it is empty")
            elif self._target.is_dir() or not self._target.name:
                raise IsADirectoryError(21, "it is a folder")
            elif self._target.exists() and not os.access(self._target, os.W_OK):
                raise PermissionError(13, "it is not writable")
            else:
                self._target = self._target.resolve()  # a link keeps pointing at the file that it names
                self._partial = self._target.with_name(f".{self._target.name}.{os.getpid()}.part")
                self._stream = open(self._partial, "wb")  # noqa: SIM115  closed in __exit__
        except OSError as error:
            raise ParameterError(f"output {self.name!r} cannot be written: {error.strerror}") from None
        except RuntimeError as error:  # of resolve, before Python 3.13
            raise ParameterError(f"output {self.name!r} cannot be written: {error}") from None
        return self

    def write(self, data: bytes) -> None:
        """Append bytes."""
        assert self._stream is not None
        try:
            self._stream.write(data)
            self._stream.flush()
        except OSError as error:
            raise self._failed(error) from None

    def end(self) -> int | None:
        """The position behind what was written, for rewrite(); None where the target cannot go back: pipes, devices, `>>`."""
        assert self._stream is not None
        try:
            number = self._stream.fileno()
            if not stat.S_ISREG(os.fstat(number).st_mode) or _appends(number):
                return None
            return self._stream.tell()
        except (OSError, ValueError):
            return None

    def rewrite(self, position: int, data: bytes) -> None:
        """Replace bytes at a position that end() gave."""
        assert self._stream is not None
        try:
            end = self._stream.tell()
            self._stream.seek(position)
            self._stream.write(data)
            self._stream.seek(end)
            self._stream.flush()
        except OSError as error:
            raise self._failed(error) from None

    def __exit__(self, kind: object, *_: object) -> None:
        failure: OSError | None = None
        if self._stream is not None and self.name != STDOUT:
            try:
                self._stream.close()
            except OSError as error:
                failure = error
        if self._partial is not None:
            try:
                if kind is None and failure is None:
                    os.replace(self._partial, self._target)
            except OSError as error:
                failure = error
            finally:
                self._partial.unlink(missing_ok=True)
        if failure is not None and kind is None:
            raise self._failed(failure)

    def _failed(self, error: OSError) -> OSError:
        """What a write that fails midway raises; a reader that went away stays a BrokenPipeError."""
        return error if isinstance(error, BrokenPipeError) else OutputError(f"output {self.name!r} cannot be written: {error.strerror}")


def check_stdout(what: str) -> None:
    """Raise ParameterError where there is no standard output for what is to be printed."""
    if sys.stdout is None:
        raise ParameterError(f"{what} cannot be printed: standard output is closed")


def print_result(text: str, what: str = "the result") -> None:
    """A line or more on standard output, which must be there and take it."""
    check_stdout(what)
    try:
        print(printable(text))
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_stdout()
        raise OutputError(f"{what} cannot be printed: {error.strerror}") from None
    flush_stdout()


def printable(text: str) -> str:
    """The text with control characters, which a file may hold to trick a terminal, as escapes."""
    return "".join(c if c >= " " and c != "\x7f" and not "\x80" <= c <= "\x9f" or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


def flush_stdout() -> None:
    """Give standard output what was printed; raises OutputError where it does not take it."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_stdout()
        raise OutputError(f"standard output cannot be written: {error.strerror}") from None


def drop_stdout() -> None:
    """What could not be written must not be tried again when Python ends."""
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _appends(number: int) -> bool:
    """Whatever is written goes to the end."""
    try:
        import fcntl
    except ImportError:  # Windows: nothing to ask
        return False
    return bool(fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND)
