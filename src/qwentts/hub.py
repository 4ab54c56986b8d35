"""Models by name: what their two files are called, and which of them lie on this machine. No network here; download.py has it.

"0.6b-customvoice" -> qwen-talker-0.6b-customvoice-TYPE.gguf and qwen-tokenizer-12hz-TYPE.gguf in model_folder(); a type may be part of
the name ("1.7b-base-Q4_K_M"). Without one Q8_0 is taken, else the most exact type that is there; the codec's type follows the talker's.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from .errors import ModelFileError, ParameterError

PUBLISHED = ("0.6b-base", "0.6b-customvoice", "1.7b-base", "1.7b-customvoice", "1.7b-voicedesign")
CODEC = "12hz"  # the one codec all of them share
DEFAULT_TYPE = "Q8_0"
TYPES = (DEFAULT_TYPE, "F32", "BF16", "F16", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_K_S")  # in the order they are taken
KINDS = {"talker": "qwen-talker-", "codec": "qwen-tokenizer-"}


def file_name(kind: str, name: str, type: str) -> str:
    """What a talker's or codec's file is called."""
    return f"{KINDS[kind]}{name}-{type}.gguf"


def model_folder() -> Path:
    """Where named models are kept: $QWENTTS_MODELS, else qwentts in the user's cache folder."""
    given = os.environ.get("QWENTTS_MODELS")
    if given:
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "qwentts"


def split_name(name: str) -> tuple[str, str | None]:
    """Name in lower case and type of "NAME" or "NAME-TYPE"."""
    match = re.fullmatch(rf"(.*?)(?:-({'|'.join(TYPES)}))?", name, re.IGNORECASE | re.DOTALL)
    assert match is not None
    return match[1].lower(), match[2].upper() if match[2] else None


def check_type(type: str, what: str = "type") -> str:
    """The type as files spell it; raises ParameterError."""
    if not isinstance(type, str) or type.upper() not in TYPES:
        raise ParameterError(f"{what} is {type!r}, valid are {', '.join(TYPES)}")
    return type.upper()


def kept(kind: str, folder: Path) -> dict[str, dict[str, Path]]:
    """name -> type -> file, for the talkers or codecs in a folder."""
    found: dict[str, dict[str, Path]] = {}
    pattern = re.compile(rf"{KINDS[kind]}(.+)-({'|'.join(TYPES)})\.gguf")
    for path in sorted(folder.glob(f"{KINDS[kind]}*.gguf")):
        match = pattern.fullmatch(path.name)
        if match:
            found.setdefault(match[1].lower(), {})[match[2]] = path
    return found


def is_name(model: object) -> bool:
    """Whether it is a name rather than a path: a plain word that no file has."""
    if not isinstance(model, str) or not model or "\0" in model:
        return False
    is_path = os.sep in model or "/" in model or model.startswith((".", "~")) or model.lower().endswith(".gguf")
    return not is_path and not os.path.exists(model)


def find(kind: str, name: str, *, like: str | None = None) -> Path:
    """The file of a named talker, or of a codec, on this machine; `like` is the type to prefer. Raises when it is not there."""
    folder = model_folder()
    name, type = split_name(name)
    there = kept(kind, folder)
    types = there.get(name)
    if types is None and name not in (PUBLISHED if kind == "talker" else (CODEC,)):
        names = sorted({*(PUBLISHED if kind == "talker" else (CODEC,)), *there})
        raise ParameterError(f"{name!r} is neither a file nor the name of a {kind}; names are {', '.join(names)}")
    if not types or (type is not None and type not in types):
        wanted = file_name(kind, name, type or "TYPE")
        others = f" (there: {', '.join(types)})" if types else ""
        model = name if kind == "talker" else "MODEL"
        raise ModelFileError(
            f"{wanted} is not in {folder}{others}: run `qwentts download {model}{f' --type {type}' if type else ''}`,"
            " or set QWENTTS_MODELS to the folder it is in"
        )
    return types[next(t for t in (type, like, *TYPES) if t in types)]


def resolve(
    model: str | os.PathLike[str] | None, codec: str | os.PathLike[str] | None
) -> tuple[str | os.PathLike[str] | None, str | os.PathLike[str] | None]:
    """Talker and codec with names replaced by files; a named talker brings its codec along. Paths are returned as they are."""
    if is_name(model):
        model = find("talker", str(model))
        if codec is None:
            codec = find("codec", CODEC, like=split_name(model.stem)[1])
    if is_name(codec):
        codec = find("codec", str(codec))
    return model, codec
