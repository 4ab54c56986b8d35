"""The tokenizer of a checkpoint as GGUF keys: tokens, token types, merges.

Sources: vocab.json + merges.txt (what the official tokenizer reads), or tokenizer.json; added tokens come from
tokenizer_config.json (added_tokens_decoder), added_tokens.json or tokenizer.json. Every merge is kept: only a first
line that starts with `#version` is a comment, merges that start with `#` are merges.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .convert_source import read_json
from .errors import ModelFileError

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # gguf token types
MAX_TOKENS = 1 << 21


@dataclass(frozen=True)
class Vocabulary:
    """Token strings in id order (byte-level alphabet), their types, merges as `left right`."""

    tokens: list[str]
    types: list[int]
    merges: list[str]
    eos_id: int


def read_vocabulary(folder: Path) -> Vocabulary:
    """Returns the tokenizer in a checkpoint folder."""
    fast = read_json(folder / "tokenizer.json") if (folder / "tokenizer.json").is_file() else None
    if (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        vocab, merges, origin = read_json(folder / "vocab.json"), _read_merges(folder / "merges.txt"), "vocab.json"
    elif fast is not None:
        model, origin = fast.get("model"), "tokenizer.json"
        if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict) or model.get("merges") is None:
            raise ModelFileError(f"{folder / origin}: model.vocab and model.merges are missing (byte-level BPE is needed)")
        vocab, merges = model["vocab"], [_pair(m, folder / origin) for m in model["merges"]]
    else:
        raise ModelFileError(f"{folder}: no tokenizer: neither vocab.json with merges.txt nor tokenizer.json is there")
    config = read_json(folder / "tokenizer_config.json") if (folder / "tokenizer_config.json").is_file() else {}
    added = _added_tokens(folder, config, fast)

    by_id: dict[int, str] = {}
    for token, id_ in vocab.items():
        _place(by_id, id_, token, f"{folder / origin}")
    for id_, (token, _) in added.items():
        if by_id.get(id_, token) != token:
            raise ModelFileError(f"{folder}: token id {id_} is both {by_id[id_]!r} and the added token {token!r}")
        _place(by_id, id_, token, f"{folder}")
    size = max(by_id) + 1
    tokens = [by_id.get(i, f"[unused{i}]") for i in range(size)]
    types = [(CONTROL if added[i][1] else USER_DEFINED) if i in added else NORMAL if i in by_id else UNUSED for i in range(size)]
    return Vocabulary(tokens, types, merges, _eos_id(folder, config, by_id))


def _read_merges(path: Path) -> list[str]:
    try:
        # split on "\n" alone: splitlines() also breaks at characters that occur inside byte-level tokens
        lines = path.read_bytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise ModelFileError(f"{path}: not valid UTF-8: {error}") from None
    if lines and lines[0].startswith("#version"):
        lines = lines[1:]
    return [_pair(line.rstrip("\r"), path) for line in lines if line.strip()]


def _pair(merge: Any, path: Path) -> str:
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(p, str) and p for p in parts):
        raise ModelFileError(f"{path}: merge {merge!r} is not a pair of tokens")
    return f"{parts[0]} {parts[1]}"


def _added_tokens(folder: Path, config: dict[str, Any], fast: dict[str, Any] | None) -> dict[int, tuple[str, bool]]:
    """id -> (token, is special), the first source that has an id wins."""
    added: dict[int, tuple[str, bool]] = {}
    try:
        for id_, entry in (config.get("added_tokens_decoder") or {}).items():
            added[int(id_)] = (entry["content"], bool(entry.get("special", False)))
        for entry in (fast or {}).get("added_tokens") or []:
            added.setdefault(int(entry["id"]), (entry["content"], bool(entry.get("special", False))))
        if not added and (folder / "added_tokens.json").is_file():
            for token, id_ in read_json(folder / "added_tokens.json").items():
                added[int(id_)] = (token, token.startswith("<|"))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ModelFileError(f"{folder}: added tokens are not understood: {error!r}") from None
    return added


def _place(by_id: dict[int, str], id_: Any, token: str, origin: str) -> None:
    if not isinstance(id_, int) or isinstance(id_, bool) or not 0 <= id_ < MAX_TOKENS:
        raise ModelFileError(f"{origin}: token {token!r} has id {id_!r}, valid are 0..{MAX_TOKENS - 1}")
    if by_id.get(id_, token) != token:
        raise ModelFileError(f"{origin}: token id {id_} belongs to {by_id[id_]!r} and to {token!r}")
    by_id[id_] = token


def _eos_id(folder: Path, config: dict[str, Any], by_id: dict[int, str]) -> int:
    """The id of <|endoftext|>, else of the configuration's eos_token."""
    ids = {token: id_ for id_, token in by_id.items()}
    eos = config.get("eos_token")
    eos = eos.get("content") if isinstance(eos, dict) else eos
    for token in ("<|endoftext|>", eos):
        if token in ids:
            return ids[token]
    raise ModelFileError(f"{folder}: the vocabulary has neither <|endoftext|> nor an eos_token")
