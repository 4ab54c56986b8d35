"""From logits to one token: the chain of the official generate(), in float32, with one given uniform a token.

logits [V] -> repetition penalty -> minimum length -> suppression           (codebook 0, also when greedy)
           -> temperature -> top-k -> top-p -> e^(s - max) -> first index whose cumulative weight reaches u * total
Upstream counterpart: transformers 4.57 logits processors in the order of GenerationMixin._get_logits_processor.
The end token passes through top-k and top-p like any other token.
Codebooks 1 and up are drawn by csrc/sampling.c, which rounds where this file rounds; test_sampling compares the two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from .errors import GenerateError, ParameterError

MIN_NEW_TOKENS = 2  # the end token is forbidden for the first two tokens
RESERVED = 1024  # the last 1024 ids of codebook 0 are special and never drawn, but for the end token
NEG_INF = np.float32(-np.inf)
LOWEST, HIGHEST = 1e-6, 1e6  # of temperature and penalty: any logit times or divided by them is a float32
RANGE = "numbers from 1e-6 to 1e6"


LN2_HIGH, LN2_LOW = float.fromhex("0x1.62e42fefa0000p-1"), float.fromhex("0x1.cf79abc9e3b3ap-40")  # the first ends in 17 zero bits
INVERSE_FACTORIAL = [1 / math.factorial(i) for i in range(14)]


def exponential(x: np.ndarray) -> np.ndarray:
    """e^x in double for x <= 0, by additions and products alone: the same bits on every machine and in C."""
    x = np.maximum(x, -700.0, dtype=np.float64)
    k = np.rint(x * float.fromhex("0x1.71547652b82fep+0"))  # 1 / ln 2
    r = (x - k * LN2_HIGH) - k * LN2_LOW
    p = np.full_like(r, INVERSE_FACTORIAL[13])
    for term in INVERSE_FACTORIAL[12::-1]:
        p = p * r + term
    return np.ldexp(p, k.astype(np.int32))


def in_range(value: float) -> bool:
    """A temperature or penalty that float32 logits survive; false for NaN."""
    return LOWEST <= value <= HIGHEST


@dataclass(frozen=True)
class Settings:
    """How one stack draws; greedy ignores temperature, top_k and top_p."""

    greedy: bool = False
    temperature: float = 0.9
    top_k: int = 50
    top_p: float = 1.0

    def check(self, prefix: str = "") -> None:
        """Raise ParameterError for the first value out of range."""
        if not (in_range(self.temperature) or (self.temperature == 0 and self.greedy)):
            raise ParameterError(f"{prefix}temperature is {self.temperature}, valid are {RANGE}, and 0 (greedy)")
        if self.top_k < 0:
            raise ParameterError(f"{prefix}top_k is {self.top_k}, valid are 0 (off) and above")
        if not 0 < self.top_p <= 1:
            raise ParameterError(f"{prefix}top_p is {self.top_p}, valid are above 0 and up to 1 (off)")


def warp(scores: np.ndarray, settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Indices (ascending) and float32 scores of the tokens that temperature, top-k and top-p leave."""
    scores = scores if settings.temperature == 1 else scores / np.float32(settings.temperature)
    n = scores.size
    if 0 < settings.top_k < n:
        kth = np.partition(scores, n - settings.top_k)[n - settings.top_k]
        kept = np.flatnonzero(scores >= kth)  # ties at the k-th value stay
    else:
        kept = np.arange(n)
    scores = scores[kept]
    if settings.top_p < 1:
        order = np.argsort(scores, kind="stable")
        # in double, each probability rounded once: the float32 sums upstream compares come out the same
        weights = exponential(scores[order].astype(np.float64) - scores[order[-1]])
        mass = np.cumsum((weights / weights.cumsum()[-1]).astype(np.float32), dtype=np.float64).astype(np.float32)
        removed = mass <= np.float32(1 - settings.top_p)
        removed[-1] = False
        stay = np.ones(scores.size, bool)
        stay[order[removed]] = False
        kept, scores = kept[stay], scores[stay]
    return kept, scores


def distribution(scores: np.ndarray, settings: Settings) -> np.ndarray:
    """Probabilities float32 [V] that draw() follows; 0 for filtered tokens."""
    probabilities = np.zeros(scores.size, np.float32)
    kept, scores = warp(scores, settings)
    weights = exponential(scores - scores.max()).astype(np.float32)
    probabilities[kept] = weights / weights.sum(dtype=np.float32)
    return probabilities


def draw(scores: np.ndarray, settings: Settings, uniform: np.float32) -> int:
    """The token for one uniform number; the first of the highest scores when greedy."""
    if settings.greedy:
        token = int(scores.argmax())  # of a NaN, if there is one
        _require_number(scores[token])
        return token
    _require_number(scores.max())
    kept, scores = warp(scores, settings)
    cumulative = np.cumsum(exponential(scores - scores.max()).astype(np.float32))  # in index order
    return int(kept[cumulative.searchsorted(uniform * cumulative[-1])])


def _require_number(highest: np.float32) -> None:
    if not math.isfinite(highest):
        raise GenerateError(f"the highest logit is {highest}, not a number: the model file is damaged")


class Codebook0:
    """The processors of codebook 0, with the memory they need: which tokens were drawn, and how many."""

    def __init__(self, n_vocab: int, eos: int, *, penalty: float = 1.0, min_new_tokens: int = MIN_NEW_TOKENS) -> None:
        if not in_range(penalty):
            raise ParameterError(f"repetition_penalty is {penalty}, valid are {RANGE} (1 is off)")
        self.penalty = np.float32(penalty)
        self.eos, self.min_new_tokens = eos, min_new_tokens
        self._first_reserved = max(n_vocab - RESERVED, 0)
        self._drawn = np.zeros(n_vocab, bool)
        self._seen = np.empty(0, np.int64)
        self.n_drawn = 0

    def process(self, logits: np.ndarray) -> np.ndarray:
        """Scores [V] after penalty, minimum length and suppression; logits stay as they are."""
        scores = logits.copy()
        if self._seen.size and self.penalty != 1:
            old = scores[self._seen]
            scores[self._seen] = np.where(old < 0, old * self.penalty, old / self.penalty)
        end = scores[self.eos] if self.n_drawn >= self.min_new_tokens else NEG_INF
        scores[self._first_reserved :] = NEG_INF
        scores[self.eos] = end
        return scores

    def accept(self, token: int) -> None:
        """Remember a drawn token."""
        self.n_drawn += 1
        if not self._drawn[token]:
            self._drawn[token] = True
            self._seen = np.flatnonzero(self._drawn)


class RepetitionGuard:
    """Notices that codebook 0 only repeats itself: the last `window` tokens are a cycle of at most MAX_PERIOD tokens."""

    WINDOW_S = 4.0  # the longest pause that speech may hold
    MAX_PERIOD = 4

    def __init__(self, frame_hz: float) -> None:
        self.window_frames = math.ceil(self.WINDOW_S * frame_hz)
        self._runs = [0] * (self.MAX_PERIOD + 1)  # frames for which token[i] == token[i - period] has held
        self._last: list[int] = []

    def repeats(self, token: int) -> bool:
        """Take the next token; true when the window is full of repetition."""
        last, stuck = self._last, False
        for period in range(1, len(last) + 1):
            self._runs[period] = self._runs[period] + 1 if last[-period] == token else 0
            stuck = stuck or self._runs[period] + period >= self.window_frames
        last.append(token)
        if len(last) > self.MAX_PERIOD:
            del last[0]
        return stuck
