"""Arrays of strings in a file: those read at once equal those read one by one, and what cannot be read so is left to the loop."""

import struct

import numpy as np
import pytest

from qwentts.model_file import _strings, _strings_at_once


def packed(strings):
    return b"".join(struct.pack("<Q", len(s.encode())) + s.encode() for s in strings)


def test_vocabularies_are_read_at_once():
    rng = np.random.default_rng(3)
    letters = np.array([*"abĠĊ漢\x01\x7f ", "\U0001f600"])
    strings = ["".join(rng.choice(letters, n)) for n in (1, 2, 3, 254, 255, 256, 257, 600, 20_000, *rng.integers(1, 30, 500))]
    data = packed(strings)
    assert _strings_at_once(data, len(strings)) == strings == _strings(data, len(strings))


@pytest.mark.parametrize("odd", ["", "a\nb", "\n", "a\0b", "\0" * 9, "x" * 65536, "y" * 70_000])
def test_strings_that_could_be_mistaken_are_read_one_by_one(odd):
    for strings in ([odd, "b", "c"], ["b", odd, "c"], ["b", "c", odd]):
        assert _strings_at_once(packed(strings), 3) in (None, strings)
        assert _strings(packed(strings), 3) == strings


def test_bytes_that_are_not_text_become_replacement_characters():
    data = struct.pack("<Q", 2) + b"\xff\xfe" + struct.pack("<Q", 1) + b"b"
    assert _strings(data, 2) == ["\ufffd\ufffd", "b"]
