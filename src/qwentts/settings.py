"""Which value each sampling option has: the caller's, else the file's `generation.*` key, else the documented default.

Greedy follows `greedy` when the caller gives it. Otherwise a stack (talker, sub-talker) is greedy when the file says do_sample
false and the caller gave none of its temperature, top_k, top_p; a temperature of 0 is greedy too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .errors import ParameterError
from .sampling import RANGE, Settings, in_range

DEFAULTS: dict[str, Any] = {
    "do_sample": True, "temperature": 0.9, "top_k": 50, "top_p": 1.0, "repetition_penalty": 1.05,
    "subtalker_do_sample": True, "subtalker_temperature": 0.9, "subtalker_top_k": 50, "subtalker_top_p": 1.0,
    "max_new_tokens": 8192,
}  # fmt: skip
STACKS = ("", "subtalker_")  # talker, code predictor


@dataclass(frozen=True)
class Chosen:
    """The sampling of one call."""

    talker: Settings
    predictor: Settings
    repetition_penalty: float
    warnings: tuple[str, ...]


def choose(caller: Mapping[str, Any], file: Mapping[str, Any], *, greedy: bool | None = None) -> Chosen:
    """The settings for the caller's options (None: not given); raises ParameterError for values out of range."""
    given = {name: value for name, value in caller.items() if value is not None}
    for name, value in given.items():
        _check_number(name, value)
    merged = {**DEFAULTS, **file, **given}
    stacks, warnings = [], []
    for prefix in STACKS:
        names = [prefix + name for name in ("temperature", "top_k", "top_p")]
        temperature, top_k, top_p = (merged[name] for name in names)
        is_greedy = greedy if greedy is not None else not merged[prefix + "do_sample"] and not any(n in given for n in names)
        if temperature == 0:
            is_greedy = True
            if names[0] in given and not greedy:
                warnings.append(f"{names[0]} 0 is greedy decoding, which tends to loop; for repeatable speech give a seed instead")
        settings = Settings(is_greedy, float(temperature), int(top_k), float(top_p))
        settings.check(prefix)
        stacks.append(settings)
    penalty = float(merged["repetition_penalty"])
    if not in_range(penalty):
        raise ParameterError(f"repetition_penalty is {penalty}, valid are {RANGE} (1 is off)")
    return Chosen(stacks[0], stacks[1], penalty, tuple(warnings))


def _check_number(name: str, value: Any) -> None:
    kinds = (int,) if name.endswith("top_k") else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        raise ParameterError(f"{name} is {value!r}, valid are {'whole numbers' if kinds == (int,) else 'numbers'}")


def choose_seed(seed: int | None) -> int:
    """The seed to use: the caller's 64 bits, or for None and -1 a random one that survives JSON readers (below 2^53)."""
    if seed is None or seed == -1:
        return int.from_bytes(os.urandom(7), "little") >> 3  # 53 bits; the module secrets would bring in a cryptography library of 3 MB
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 64:
        raise ParameterError(f"seed is {seed!r}, valid are -1 (random) and 0 to 2^64 - 1")
    return seed
