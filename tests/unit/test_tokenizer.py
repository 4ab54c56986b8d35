"""Token ids against the official tokenizer, with complete merges and without those that start with `#`."""

import json

import numpy as np
import pytest
from conftest import GOLDEN

from qwentts.errors import ModelFileError
from qwentts.tokenizer import Tokenizer, complete_merges

TABLE = json.loads((GOLDEN / "tokenizer.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def vocabulary(plain_talkers):
    file = plain_talkers["custom_voice"]
    return [file.get(f"tokenizer.ggml.{key}") for key in ("tokens", "token_type", "merges")]


def _ids(tokens):
    return {token: i for i, token in enumerate(tokens)}


def test_ids_equal_the_official_tokenizer(vocabulary):
    tokenizer = Tokenizer(*vocabulary)
    for text, ids in zip(TABLE["texts"], TABLE["tiny"], strict=True):
        assert tokenizer.encode(text) == ids, repr(text)


def test_ids_do_not_need_the_merges_that_published_files_lack(vocabulary):
    tokens, types, merges = vocabulary
    without = [m for m in merges if not m.startswith("#")]
    assert len(without) < len(merges)
    assert complete_merges(_ids(tokens), set(np.flatnonzero(types != 1)), without) == merges
    tokenizer = Tokenizer(tokens, types, without)
    for text, ids in zip(TABLE["texts"], TABLE["tiny"], strict=True):
        assert tokenizer.encode(text) == ids, repr(text)


def test_complete_merges_are_left_alone(vocabulary):
    tokens, types, merges = vocabulary
    assert complete_merges(_ids(tokens), set(np.flatnonzero(types != 1)), merges) is merges


def test_a_missing_merge_is_the_join_of_what_earlier_merges_leave():
    tokens = ["#", "a", "b", "ab", "##", "#ab", "###", "####"]  # ids are merge order
    merges = complete_merges(_ids(tokens), set(), ["a b"])
    assert merges == ["a b", "# #", "# ab", "## #", "## ##"]


def test_added_tokens_in_text_become_their_ids(vocabulary):
    tokens, types, _ = vocabulary
    tokenizer = Tokenizer(*vocabulary)
    for token_id in np.flatnonzero(types != 1):
        if tokens[token_id].startswith("<"):
            assert tokenizer.encode(f"a{tokens[token_id]}b") == [*tokenizer.encode("a"), token_id, *tokenizer.encode("b")]


def test_merges_of_another_vocabulary_are_refused():
    with pytest.raises(ModelFileError, match="do not fit together"):
        Tokenizer(["a", "b"], np.ones(2, int), ["a c"])
