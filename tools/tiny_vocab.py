"""A small real byte-level BPE for tiny checkpoints: 256 bytes, a few hundred merges learnt from lines in many scripts, and
the added tokens of the published vocabulary under small ids.

Guaranteed: `assistant` is one token (the official code cuts prompts at fixed token counts), and merges that start with
`#` exist. Everything is deterministic: pairs are counted in order and ties go to the smaller pair.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tokenizers import Regex, pre_tokenizers

# the split rule of the Qwen2 tokenizer, which works on bytes afterwards
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
FORCED = ["a s", "i s", "t a", "as s", "is ta", "ass ista", "n t", "assista nt", "# #", "## #", "## ##", "\u0120 #"]
ADDED = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|audio_start|>", "<|audio_end|>", "<tts_pad>", "<tts_text_bos>",
         "<tts_text_eod>", "<tts_text_bos_single>", "<|audio_pad|>"]  # fmt: skip
CORPUS = """
The quick brown fox jumps over the lazy dog, and then it rests for a while in the warm afternoon sun.
She said that they'd been there before; we're sure it isn't the last time, and I've told them so.
user system assistant speaker voice sound music hello world please thank you good morning everybody
# Plan ## Steps ### Details #### end ###### ## # #tag
Der schnelle braune Fuchs springt über den faulen Hund. Schöne Grüße aus Köln, heißt es.
El veloz murciélago hindú comía feliz cardillo y kiwi. ¿Qué pasa mañana, señor? ¡Olé!
Portez ce vieux whisky au juge blond qui fume, déjà là, ça va, être ou ne pas être.
Съешь же ещё этих мягких французских булок, да выпей чаю. Привет, как дела?
我叫通义千问，是阿里云的开源大模型。你好，世界！今天天气很好，我们去公园吧。
いろはにほへと散りぬるを。カタカナとひらがな、漢字も少し。こんにちは世界。
안녕하세요 세계. 오늘 날씨가 좋네요. 한국어 문장입니다.
สวัสดีชาวโลก ภาษาไทยไม่มีช่องว่าง مرحبا بالعالم ١٢٣ कैसे हो नमस्ते दुनिया
12 345 6789 3.14 1,234.50 2026-03-05 14:05 50 % $3.50
"""


def byte_letters() -> dict[int, str]:
    """The printable letter that stands for each byte in a byte-level vocabulary."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = {byte: chr(byte) for byte in printable}
    rest = (byte for byte in range(256) if byte not in letters)
    return letters | {byte: chr(256 + i) for i, byte in enumerate(rest)}


def learn(n_merges: int) -> tuple[dict[str, int], list[str]]:
    """Returns (token -> id, merges in rank order); forced merges come first."""
    splitter = pre_tokenizers.Split(Regex(SPLIT), "isolated")
    letters = byte_letters()
    words = Counter(
        tuple(letters[b] for b in piece.encode("utf-8"))
        for line in CORPUS.strip().split("\n")
        for piece, _ in splitter.pre_tokenize_str(line)
    )
    vocab = {letters[byte]: byte for byte in range(256)}
    merges: list[str] = []
    while len(merges) < n_merges:
        if len(merges) < len(FORCED):
            left, right = FORCED[len(merges)].split(" ")
        else:
            pairs: Counter[tuple[str, str]] = Counter()
            for word, n in words.items():
                for pair in zip(word, word[1:], strict=False):
                    pairs[pair] += n
            left, right = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(f"{left} {right}")
        vocab.setdefault(left + right, len(vocab))
        words = _apply(words, left, right)
    return vocab, merges


def _apply(words: Counter[tuple[str, ...]], left: str, right: str) -> Counter[tuple[str, ...]]:
    out: Counter[tuple[str, ...]] = Counter()
    for word, n in words.items():
        merged: list[str] = []
        for letter in word:
            if merged and letter == right and merged[-1] == left:
                merged[-1] = left + right
            else:
                merged.append(letter)
        out[tuple(merged)] += n
    return out


def write(folder: Path, n_merges: int) -> dict[str, int]:
    """Writes vocab.json, merges.txt and tokenizer_config.json; returns the ids of the added tokens."""
    vocab, merges = learn(n_merges)
    ids = {token: len(vocab) + i for i, token in enumerate(ADDED)}
    flags = dict(lstrip=False, normalized=False, rstrip=False, single_word=False)
    config = dict(
        add_prefix_space=False,
        added_tokens_decoder={str(i): dict(content=t, special=t.startswith("<|"), **flags) for t, i in ids.items()},
        model_max_length=131072,
        tokenizer_class="Qwen2Tokenizer",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        unk_token=None,
        bos_token=None,
        split_special_tokens=False,
        errors="replace",
        clean_up_tokenization_spaces=False,
    )
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False), encoding="utf-8")
    return ids
