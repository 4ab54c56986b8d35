"""The sentence rule."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qwentts.split import sentences


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("Dr. Lee paid $3.50.", ["Dr. Lee paid $3.50."]),
        ("Dr. Lee paid $3.50. He left.", ["Dr. Lee paid $3.50.", "He left."]),
        ("One. Two? Three!", ["One.", "Two?", "Three!"]),
        ('"Really?" she said. "Yes." He sat.', ['"Really?" she said.', '"Yes."', "He sat."]),
        ("J. R. Smith came. It was I. Yes.", ["J. R. Smith came.", "It was I.", "Yes."]),
        ("See e.g. this one, i.e. that.", ["See e.g. this one, i.e. that."]),
        ("No. 5 is alive. No. He said no.", ["No. 5 is alive.", "No.", "He said no."]),
        ("Visit example.com now. Version 2.0.1 is out.", ["Visit example.com now.", "Version 2.0.1 is out."]),
        ("Wait... what? Well... Maybe.", ["Wait... what?", "Well...", "Maybe."]),
        ("Why?! Because.", ["Why?!", "Because."]),
        ("你好。再见！好吗？", ["你好。", "再见！", "好吗？"]),
        ("A line\nbreak in it.\n\nNew paragraph without stop\n\nEnd", ["A line break in it.", "New paragraph without stop", "End"]),
        ("no stop at all", ["no stop at all"]),
        ("  padded.  ", ["padded."]),
        ("Hi. !!! Ho.", ["Hi.", "Ho."]),
        ("?!", ["?!"]),
        ("   ", []),
    ],
)
def test_pieces(text, pieces):
    assert sentences(text) == pieces


@given(st.text(alphabet="aB1 .!?。\n\"')$", max_size=60))
def test_no_letter_or_digit_is_lost(text):
    def spoken(s):
        return [ch for ch in s if ch.isalnum()]

    pieces = sentences(text)
    assert spoken("".join(pieces)) == spoken(text)
    assert all(p == p.strip() and p for p in pieces)
