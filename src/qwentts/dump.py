"""Named stages of a run as raw little-endian float32 files with a JSON index, for comparison with another implementation.

DIR/000000_prompt.f32, DIR/000001_embed.f32, ... and DIR/index.json: [{"name", "file", "shape"}, ...] in the order of computation.
Stages repeat with every step of the loop. Names: docs/model.md; `codes` and `audio` are added at the end of each piece of text.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np

from .errors import OutputError, ParameterError


class StageDump:
    """A folder that takes stages; close() writes the index."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._folder = Path(folder)
        self._index: list[dict[str, object]] = []
        if not str(folder):
            raise ParameterError("dump folder is empty: name one")
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            if any(self._folder.iterdir()):
                raise ParameterError(f"dump folder {str(folder)!r} is not empty")
        except OSError as error:
            raise ParameterError(f"dump folder {str(folder)!r} cannot be written: {error.strerror}") from None

    def add(self, name: str, values: np.ndarray) -> None:
        """Write one stage; shape has the slowest axis first."""
        file = f"{len(self._index):06d}_{re.sub(r'[^A-Za-z0-9.-]+', '_', name)}.f32"
        self._write(file, np.ascontiguousarray(values, "<f4").tobytes())
        self._index.append({"name": name, "file": file, "shape": list(values.shape)})

    def close(self) -> None:
        """Write index.json."""
        self._write("index.json", (json.dumps(self._index, indent=0) + "\n").encode())

    def _write(self, file: str, data: bytes) -> None:
        try:
            (self._folder / file).write_bytes(data)
        except OSError as error:
            raise OutputError(f"dump folder {str(self._folder)!r} cannot be written: {error.strerror}") from None
