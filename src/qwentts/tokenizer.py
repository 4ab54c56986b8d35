"""The GGUF vocabulary as the official tokenizer: Qwen2 byte-level BPE, run by the `tokenizers` library.

text -> added tokens cut out -> NFC -> Qwen2 split expression -> bytes as printable characters -> merges -> ids.

Trap: published files lack the merges whose line starts with `#` (their writer took them for comments), so `##` or `#include` would
fall apart; `missing_merges` derives them again from the vocabulary, whose ids are in merge order. test_tokenizer catches it.
The split expression is the one of the Qwen2 tokenizer itself. transformers 4.57.3 can swap in Mistral's for vocabularies over
100,000 tokens (`fix_mistral_regex`); the models were trained with Qwen2's.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Container, Mapping
from operator import methodcaller
from typing import Any

import numpy as np

from .errors import ModelFileError
from .model_file import ModelFile

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_SPACE = methodcaller("partition", " ")
CONTROL, USER_DEFINED = 3, 4  # token types of the added tokens
MOST_TYPE = 6  # normal, unknown, control, user defined, unused, byte


def missing_merges(ids: Mapping[str, int], added: Container[int], merges: list[str]) -> list[tuple[int, str]]:
    """The merges that start with `#` and are not in `merges`, as (token id, `left right`), in id order.

    A token made by merges was, at its rank, the join of the two pieces that the earlier merges reduce it to.
    """
    products = {m.replace(" ", "", 1) for m in merges if m[:1] == "#"}
    candidates = sorted(i for t, i in ids.items() if t[:1] == "#" and len(t) > 1 and t not in products and i not in added)
    if not candidates:
        return []
    tokens = {i: t for t, i in ids.items() if t[:1] == "#"}
    present = set(merges)
    found: list[tuple[int, str]] = []
    for token_id in candidates:
        parts = list(tokens[token_id])
        while len(parts) > 2:
            joins = [
                (ids[a + b], at) for at, (a, b) in enumerate(zip(parts, parts[1:], strict=False)) if f"{a} {b}" in present and a + b in ids
            ]
            rank, at = min(joins, default=(token_id, -1))
            if rank >= token_id:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if len(parts) == 2:
            found.append((token_id, f"{parts[0]} {parts[1]}"))
            present.add(found[-1][1])
    return found


def complete_merges(ids: Mapping[str, int], added: Container[int], merges: list[str]) -> list[str]:
    """`merges` with the missing `#` merges put where the ids of their products say."""
    missing = missing_merges(ids, added, merges)
    if not missing:
        return merges
    result, start = [], 0
    for token_id, merge in missing:
        at = bisect_left(merges, token_id, lo=start, key=lambda m: ids.get(m.replace(" ", "", 1), -1))
        result += [*merges[start:at], merge]
        start = at
    return result + merges[start:]


class Tokenizer:
    """Text to the official token ids."""

    def __init__(self, tokens: list[str], types: np.ndarray, merges: list[str], *, path: str = "vocabulary") -> None:
        import tokenizers  # here, because the command line's help does not need it
        from tokenizers import models, normalizers, pre_tokenizers

        added = np.flatnonzero(np.isin(types, (CONTROL, USER_DEFINED))).tolist()
        vocabulary = dict(zip(tokens, range(len(tokens)), strict=True))
        merges = complete_merges(vocabulary, set(added), merges)
        try:
            model = models.BPE(vocabulary, [(left, right) for left, _, right in map(_SPACE, merges)], fuse_unk=False, byte_fallback=False)
        except Exception as error:  # the library raises bare exceptions
            raise ModelFileError(f"{path}: tokenizer.ggml.tokens and tokenizer.ggml.merges do not fit together: {error}") from None
        self._tokenizer = tokenizers.Tokenizer(model)
        self._tokenizer.normalizer = normalizers.NFC()
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(SPLIT), behavior="isolated", invert=False),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        for token_id in added:
            token = tokenizers.AddedToken(tokens[token_id], normalized=False, special=types[token_id] == CONTROL)
            (self._tokenizer.add_special_tokens if types[token_id] == CONTROL else self._tokenizer.add_tokens)([token])
            if self._tokenizer.token_to_id(tokens[token_id]) != token_id:
                raise ModelFileError(f"{path}: the added token {tokens[token_id]!r} has id {token_id}, which belongs to an equal token too")

    @classmethod
    def from_file(cls, file: ModelFile) -> Tokenizer:
        """The tokenizer of a talker file."""
        tokens = file.require("tokenizer.ggml.tokens", list)
        merges = file.require("tokenizer.ggml.merges", list)
        types = file.get("tokenizer.ggml.token_type")
        if not are_token_types(types, len(tokens)):
            raise ModelFileError(
                f"{file.path}: tokenizer.ggml.token_type is {types!r:.60}, expected a whole number from 1 to {MOST_TYPE} for each of"
                f" {len(tokens)} tokens"
            )
        return cls(tokens, types, merges, path=file.path)

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`; added tokens spelled out in it become their ids, as in the official tokenizer."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids


def are_token_types(types: Any, n_tokens: int) -> bool:
    """The value of tokenizer.ggml.token_type is one known number for each token."""
    is_array = isinstance(types, np.ndarray) and types.dtype.kind in "iu" and types.size == n_tokens
    return is_array and bool(((types >= 1) & (types <= MOST_TYPE)).all())


class TokenizerThread(threading.Thread):
    """Makes the tokenizer of the talker file at `path` while the caller does something else."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(name="qwentts-tokenizer")
        self._path = path
        self._made: Tokenizer | None = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """The thread's work."""
        try:
            self._made = Tokenizer.from_file(ModelFile.open(self._path))
        except BaseException as error:  # raised by result()
            self._error = error

    def result(self) -> Tokenizer:
        """The tokenizer, waited for; raises what making it raised."""
        self.join()
        if self._error is not None:
            raise self._error
        assert self._made is not None
        return self._made
