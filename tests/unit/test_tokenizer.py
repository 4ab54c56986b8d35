"""Token ids against the official tokenizer, with complete merges and without those that start with `#`."""

import json
import random
from time import perf_counter

import numpy as np
import pytest
import tokenizers
from conftest import GOLDEN
from tokenizers import models, normalizers, pre_tokenizers

from qwentts.errors import ModelFileError
from qwentts.tokenizer import CONTROL, SPLIT, USER_DEFINED, Tokenizer

TABLE = json.loads((GOLDEN / "tokenizer.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def vocabulary(plain_talkers):
    file = plain_talkers["custom_voice"]
    return [file.get(f"tokenizer.ggml.{key}") for key in ("tokens", "token_type", "merges")]


def library_tokenizer(tokens, types, merges):
    """The whole tokenizer by the `tokenizers` library, whose BPE takes complete merges."""
    made = tokenizers.Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    made.normalizer = normalizers.NFC()
    cut = pre_tokenizers.Split(tokenizers.Regex(SPLIT), behavior="isolated", invert=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    for i in np.flatnonzero(types == CONTROL):
        made.add_special_tokens([tokenizers.AddedToken(tokens[i], normalized=False)])
    for i in np.flatnonzero(types == USER_DEFINED):
        made.add_tokens([tokenizers.AddedToken(tokens[i], normalized=False)])
    return made


def random_texts(count, seed=5):
    draw = random.Random(seed)
    parts = ["the", "ing", " and", "\n", "  ", "é", "e\u0301", "日本", "#", "##", "<|im_start|>", "123", "'ll", "\U0001f600", "ß", "\x00"]

    def part():
        return draw.choice(parts) if draw.random() < 0.7 else chr(draw.randrange(1, 0xD7FF))

    return ["".join(part() for _ in range(draw.randrange(60))) for _ in range(count)]


def test_ids_equal_the_official_tokenizer(vocabulary):
    tokenizer = Tokenizer(*vocabulary)
    for text, ids in zip(TABLE["texts"], TABLE["tiny"], strict=True):
        assert tokenizer.encode(text) == ids, repr(text)


def test_ids_do_not_need_the_merges_that_published_files_lack(vocabulary):
    tokens, types, merges = vocabulary
    without = [m for m in merges if not m.startswith("#")]
    assert len(without) < len(merges)
    tokenizer = Tokenizer(tokens, types, without)
    assert tokenizer.n_derived == len(merges) - len(without)
    for text, ids in zip(TABLE["texts"], TABLE["tiny"], strict=True):
        assert tokenizer.encode(text) == ids, repr(text)


def test_ids_equal_the_librarys(vocabulary):
    tokens, types, merges = vocabulary
    want, without = library_tokenizer(*vocabulary), [m for m in merges if not m.startswith("#")]
    own = [Tokenizer(tokens, types, merges), Tokenizer(tokens, types, without)]
    assert own[0].n_derived == 0
    for text in random_texts(400):
        assert [t.encode(text) for t in own] == [want.encode(text, add_special_tokens=False).ids] * 2, repr(text)


def test_a_long_word_takes_no_square_of_its_length(vocabulary):
    text = "".join(random.Random(1).choices("abcdeth", k=200_000))  # a second by pairs; the library's BPE has the same ids
    start = perf_counter()
    ids = Tokenizer(*vocabulary).encode(text)
    assert perf_counter() - start < 5 and ids == library_tokenizer(*vocabulary).encode(text).ids


def test_a_missing_merge_is_the_join_of_what_earlier_merges_leave():
    tokens = ["#", "a", "b", "ab", "##", "#ab", "###", "####"]  # ids are merge order
    own = Tokenizer(tokens, np.ones(8, int), ["a b"])
    want = library_tokenizer(tokens, np.ones(8, int), ["a b", "# #", "# ab", "## #", "## ##"])
    assert own.n_derived == 4
    for text in ("#ab", "##ab", "###", "####", "#####ab#", "ab"):
        assert own.encode(text) == want.encode(text).ids, text


def test_added_tokens_in_text_become_their_ids(vocabulary):
    tokens, types, _ = vocabulary
    tokenizer = Tokenizer(*vocabulary)
    for token_id in np.flatnonzero(types != 1):
        if tokens[token_id].startswith("<"):
            assert tokenizer.encode(f"a{tokens[token_id]}b") == [*tokenizer.encode("a"), token_id, *tokenizer.encode("b")]


def test_merges_of_another_vocabulary_are_refused():
    for merge, reason in (("a c", "right part"), ("c a", "left part"), ("a b", "what it makes"), ("ab", "left part")):
        with pytest.raises(ModelFileError, match=f"do not fit together: merge 0 is '{merge}', but {reason}|its {reason} is no token"):
            Tokenizer(["a", "b"], np.ones(2, int), [merge])


def test_an_added_token_that_is_there_twice_is_refused():
    with pytest.raises(ModelFileError, match="'<x>' has id 1, which belongs to an equal token too"):
        Tokenizer(["a", "<x>", "<x>"], np.array([1, CONTROL, 1]), [])
