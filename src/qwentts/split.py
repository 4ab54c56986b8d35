"""Text into sentences, for voices that know one sentence at a time.

A piece ends after . ! ? or an ellipsis, together with closing quotes and brackets, when white space or the end follows and then
something that can begin a sentence (not a lower-case letter); after the CJK marks, without white space; and at a blank line.
A full stop does not end a piece after a known abbreviation (Dr.), after some others before a digit (No. 5), after a single letter
(J. Smith, e.g.) or between digits (3.50).
A single line break is white space. Joined by spaces the pieces are the text again, white space aside.
"""

from __future__ import annotations

import re

ABBREVIATIONS = frozenset(
    "mr mrs ms dr prof st sr jr rev hon gen col capt lt sgt maj messrs mmes vs etc ed eds inc ltd co corp dept est al cf resp "
    "bzw usw str hr fr sra dra".split()
)
BEFORE_NUMBERS = frozenset("no nr vol fig pp approx ca art jan feb mar apr jun jul aug sep sept oct nov dec".split())
ENDS = re.compile(
    r"""([.!?\u2026]+)(["'\u201d\u2019)\]\u00bb]*)(?=\s|$)"""  # with closing quotes, before white space
    r"""|([\u3002\uff01\uff1f\uff0e]+["'\u201d\u2019\uff09\u300d\u300f]*)"""  # CJK marks, anywhere
)
WORD_BEFORE = re.compile(r"[^\W\d_]+$")


def sentences(text: str) -> list[str]:
    """The pieces of `text`, stripped, none of them blank."""
    pieces = []
    for block in re.split(r"\n\s*\n", text):
        block = re.sub(r"\s+", " ", block).strip()
        start = 0
        for match in ENDS.finditer(block):
            if match.start() >= start and _is_end(block, match):
                pieces.append(block[start : match.end()].strip())
                start = match.end()
        pieces.append(block[start:].strip())
    return [p for p in pieces if any(ch.isalnum() for ch in p)] or ([text.strip()] if text.strip() else [])


def _is_end(block: str, match: re.Match[str]) -> bool:
    if match.group(3):
        return True
    rest = block[match.end() :].lstrip()
    if not rest:
        return True
    if rest[0].islower():
        return False
    if match.group(1) != ".":
        return True
    word = WORD_BEFORE.search(block[: match.start()])
    if word is None:
        return True
    name = word.group()
    if name.lower() in BEFORE_NUMBERS:
        return not rest[0].isdigit()
    return (len(name) > 1 or name == "I") and name.lower() not in ABBREVIATIONS
