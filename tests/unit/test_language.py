"""Languages by name, code and tag, and the error for the rest."""

import pytest

from qwentts.errors import ParameterError
from qwentts.language import CODES, offered, resolve

TABLE = {name: 2000 + i for i, name in enumerate(CODES)} | {"beijing_dialect": 2074, "klingon": 2999}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("english", "english"), ("English", "english"), ("en", "english"), ("EN", "english"), ("en-US", "english"), ("en_GB", "english"),
        ("eng", "english"), ("zh", "chinese"), ("zh-CN", "chinese"), ("zh-Hans-CN", "chinese"), ("cmn", "chinese"), ("ja-JP", "japanese"),
        (" ja ", "japanese"), ("pt-BR", "portuguese"), ("Auto", "auto"), (None, "auto"), ("klingon", "klingon"),
        ("beijing_dialect", "beijing_dialect"),
    ],
)  # fmt: skip
def test_names_codes_and_tags_resolve(given, name):
    assert resolve(given, TABLE) == name


@pytest.mark.parametrize(
    ("given", "hint"),
    [("jp", "did you mean 'ja' (japanese)"), ("kr", "'ko'"), ("englsh", "'en' (english)"), ("cn", "'zh'"), ("klingo", "'klingon'")],
)
def test_unknown_languages_get_a_suggestion_and_the_list(given, hint):
    with pytest.raises(ParameterError) as error:
        resolve(given, TABLE)
    text = str(error.value)
    assert repr(given) in text and hint in text and "auto, chinese (zh), english (en)" in text and "dialect" not in text


@pytest.mark.parametrize("given", ["", "xx", "en-", "en-US;drop", "e n"])
def test_nonsense_is_refused(given):
    with pytest.raises(ParameterError, match="valid are auto"):
        resolve(given, TABLE)


def test_a_language_the_file_lacks_is_refused():
    with pytest.raises(ParameterError, match=r"'de' is not known; valid are auto, english \(en\)$"):
        resolve("de", {"english": 530})


def test_dialects_are_not_offered():
    assert offered(TABLE) == ["auto", *sorted([*CODES, "klingon"])]
