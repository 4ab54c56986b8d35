"""The GGUF vocabulary as the official tokenizer: Qwen2 byte-level BPE.

text -> added tokens cut out -> NFC -> Qwen2 split expression -> bytes as printable characters (all by the `tokenizers` library)
     -> merges -> ids (csrc/vocabulary.c: the library needs 0.2 s and 22 MB to take in 151,000 tokens and merges, that file 0.03 to 0.06 s)

Trap: published files lack the merges whose line starts with `#` (their writer took them for comments), so `##` or `#include` would
fall apart; vocabulary.c derives them again from the tokens, whose ids are in merge order. test_tokenizer catches it.
The split expression is the one of the Qwen2 tokenizer itself. transformers 4.57.3 can swap in Mistral's for vocabularies over
100,000 tokens (`fix_mistral_regex`); the models were trained with Qwen2's.
"""

from __future__ import annotations

import os
import struct
import threading
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from ._lib import ffi, last_error, lib
from .errors import ModelFileError
from .model_file import STRING, ModelFile

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CONTROL, USER_DEFINED = ADDED = 3, 4  # token types of the added tokens
MOST_TYPE = 6  # normal, unknown, control, user defined, unused, byte


class Vocabulary:
    """Tokens and merges of a file, in the library: words to ids. Merges that begin with `#` and are missing are made from the tokens."""

    def __init__(self, tokens: Any, types: np.ndarray, merges: Any, *, path: str) -> None:
        added = np.ascontiguousarray(np.isin(types, ADDED).astype(np.uint8))
        out = ffi.new("struct qt_vocabulary **")
        if lib.qt_vocabulary_new(tokens, merges, ffi.from_buffer("uint8_t[]", added), added.size, out) != 0:
            raise ModelFileError(f"{path}: tokenizer.ggml.tokens and tokenizer.ggml.merges do not fit together: {last_error()}")
        self._handle = ffi.gc(out[0], lib.qt_vocabulary_free)
        self.n_derived: int = lib.qt_vocabulary_n_derived(self._handle)

    def find(self, token: str) -> int:
        """The id of `token`, -1 when there is none."""
        text = token.encode()
        return lib.qt_vocabulary_find(self._handle, text, len(text))

    def token(self, token_id: int) -> str:
        """The text of a token."""
        n_bytes = ffi.new("int64_t *")
        text = lib.qt_vocabulary_token(self._handle, token_id, n_bytes)
        return bytes(ffi.buffer(text, n_bytes[0])).decode("utf-8", "replace")

    def encode(self, word: str) -> list[int]:
        """The ids of a word whose bytes are written as printable characters."""
        text = word.encode()
        ids, n_ids = ffi.new("int32_t[]", len(text)), ffi.new("int64_t *")
        if lib.qt_vocabulary_encode(self._handle, text, len(text), ids, n_ids) != 0:
            raise MemoryError(last_error())
        return ffi.unpack(ids, n_ids[0])


class Tokenizer:
    """Text to the official token ids."""

    def __init__(self, tokens: list[str], types: np.ndarray, merges: list[str], *, path: str = "vocabulary") -> None:
        (token_strings, _), (merge_strings, _) = keep = packed_strings(tokens), packed_strings(merges)
        self._build(token_strings, types, merge_strings, path)
        del keep  # not before

    def _build(self, tokens: Any, types: np.ndarray, merges: Any, path: str) -> None:
        import tokenizers  # here, because the command line's help does not need it
        from tokenizers import models, normalizers, pre_tokenizers

        self._vocabulary = Vocabulary(tokens, types, merges, path=path)
        self._bytes = sorted(pre_tokenizers.ByteLevel.alphabet())
        self._cutter = tokenizers.Tokenizer(models.BPE({char: i for i, char in enumerate(self._bytes)}, []))
        self._cutter.normalizer = normalizers.NFC()
        self._cutter.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(tokenizers.Regex(SPLIT), behavior="isolated", invert=False),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
        self._added: dict[int, int] = {}
        for token_id in np.flatnonzero(np.isin(types, ADDED)).tolist():
            text, is_control = self._vocabulary.token(token_id), types[token_id] == CONTROL
            if self._vocabulary.find(text) != token_id:
                raise ModelFileError(f"{path}: the added token {text!r} has id {token_id}, which belongs to an equal token too")
            added = tokenizers.AddedToken(text, normalized=False, special=is_control)
            (self._cutter.add_special_tokens if is_control else self._cutter.add_tokens)([added])
            cut_id = self._cutter.token_to_id(text)
            if cut_id is not None and cut_id >= len(self._bytes):
                self._added[cut_id] = token_id

    @classmethod
    def from_file(cls, file: ModelFile) -> Tokenizer:
        """The tokenizer of a talker file."""
        tokens, merges = file.strings("tokenizer.ggml.tokens"), file.strings("tokenizer.ggml.merges")
        types = file.get("tokenizer.ggml.token_type")
        if not are_token_types(types, tokens.n):
            raise ModelFileError(
                f"{file.path}: tokenizer.ggml.token_type is {types!r:.60}, expected a whole number from 1 to {MOST_TYPE} for each of"
                f" {tokens.n} tokens"
            )
        tokenizer = cls.__new__(cls)
        tokenizer._build(tokens, types, merges, file.path)
        return tokenizer

    @property
    def n_derived(self) -> int:
        """How many merges the file lacks that were made from its tokens."""
        return self._vocabulary.n_derived

    def encode(self, text: str) -> list[int]:
        """Token ids of `text`; added tokens spelled out in it become their ids, as in the official tokenizer."""
        cut = self._cutter.encode(text, add_special_tokens=False)
        ids: list[int] = []
        for _, word in groupby(zip(cut.word_ids, cut.ids, strict=True), key=itemgetter(0)):
            parts = [i for _, i in word]
            if parts[0] in self._added:
                ids.append(self._added[parts[0]])
            else:
                ids += self._vocabulary.encode("".join([self._bytes[i] for i in parts]))
        return ids


def packed_strings(strings: list[str]) -> tuple[Any, Any]:
    """The strings as a file would hold them: a qt_value, and the memory that it needs."""
    data = ffi.from_buffer(b"".join(struct.pack("<Q", len(text)) + text for text in map(str.encode, strings)))
    return ffi.new("struct qt_value *", {"type": STRING, "is_array": True, "n": len(strings), "data": data, "n_bytes": len(data)}), data


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
