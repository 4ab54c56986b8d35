"""Languages by name, code or tag: `English`, `en`, `en-US` and `eng` all mean the table entry `english` of the loaded file.

Only entries of the file count; a name the table below does not know is accepted by its exact name. Dialect entries are accepted
by name but not offered: a dialect is chosen by its speaker (prompt.py).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from .errors import ParameterError

AUTO = "auto"
# name in the file -> ISO 639-1, then the other codes of the language
CODES = {
    "chinese": ("zh", "zho", "chi", "cmn"),
    "english": ("en", "eng"),
    "french": ("fr", "fra", "fre"),
    "german": ("de", "deu", "ger"),
    "italian": ("it", "ita"),
    "japanese": ("ja", "jpn"),
    "korean": ("ko", "kor"),
    "portuguese": ("pt", "por"),
    "russian": ("ru", "rus"),
    "spanish": ("es", "spa"),
}
NAME_OF = {code: name for name, codes in CODES.items() for code in codes}
# country codes and other slips -> the language that is likely meant
SLIPS = {
    "jp": "japanese", "cn": "chinese", "tw": "chinese", "kr": "korean", "ge": "german", "br": "portuguese", "us": "english",
    "uk": "english", "gb": "english", "sp": "spanish", "mandarin": "chinese", "deutsch": "german", "espanol": "spanish",
    "francais": "french", "rus": "russian",
}  # fmt: skip


def offered(table: Mapping[str, int]) -> list[str]:
    """Names a user may choose from: `auto`, then the file's languages without its dialects."""
    return [AUTO, *sorted(name for name in table if "dialect" not in name)]


def resolve(language: str | None, table: Mapping[str, int]) -> str:
    """The table entry that `language` means, or `auto`; raises ParameterError with the valid ones and a suggestion."""
    if language is None:
        return AUTO
    wanted = language.strip().lower()
    if wanted == AUTO or wanted in table:
        return wanted
    primary, *subtags = wanted.replace("_", "-").split("-")
    subtags_ok = all(part.isalnum() and len(part) <= 8 for part in subtags)
    name = NAME_OF.get(primary, "")
    if name in table and subtags_ok:
        return name
    raise ParameterError(f"language {language!r} is not known{_suggestion(primary, wanted, table)}; valid are {_listing(table)}")


def _suggestion(primary: str, wanted: str, table: Mapping[str, int]) -> str:
    name = SLIPS.get(primary, "")
    if name not in table:
        close = difflib.get_close_matches(wanted, [n for n in offered(table) if n != AUTO], n=1, cutoff=0.7)
        if not close:
            return ""
        name = close[0]
    code = CODES.get(name, (name,))[0]
    return f": did you mean {code!r} ({name})?" if code != name else f": did you mean {name!r}?"


def _listing(table: Mapping[str, int]) -> str:
    names = [f"{n} ({CODES[n][0]})" if n in CODES else n for n in offered(table)]
    return ", ".join(names)
