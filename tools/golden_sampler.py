"""Distributions that HF's logits processors leave of random logits, under varied settings.

sampler.npz holds two tables of rows, `talker` (codebook 0: penalty, minimum length, suppression) and `predictor` (none):
  KIND/logits   float32 [n, w]   multiples of 1/64, so that ties occur
  KIND/settings float32 [n, 4]   temperature, top_k, top_p, repetition_penalty
  KIND/greedy   int32 [n]        the choice without temperature, top-k and top-p
  KIND/kept     bool [n, w]      tokens that may be drawn
  KIND/probs    float32 [n, w]   their probabilities, 0 elsewhere
  talker/seen   bool [n, w]      tokens said so far;  talker/said int32 [n]: how many there were
A talker row stands for a vocabulary of w + 1023 tokens: column w - 1 is the end token, id `talker/end_id`; the columns before
it are ids 0 .. w - 2; every other id is suppressed and has logit 30, so that a chain which forgets to suppress shows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig

ROWS, TALKER_CODES, PREDICTOR_CODES, SUPPRESSED, END_OFFSET = 700, 64, 48, 1024, 38
TEMPERATURES, TOP_KS, TOP_PS = [0.3, 0.7, 0.9, 1.0, 1.6], [0, 1, 3, 20, 50, 5000], [0.05, 0.5, 0.8, 0.95, 1.0]
PENALTIES = [1.0, 1.05, 1.3, 0.8]


def record(talker: Any, path: Path) -> None:
    """Writes sampler.npz with the processors that the talker's own generate would build."""
    tables: dict[str, np.ndarray] = {"talker/end_id": np.int32(TALKER_CODES + END_OFFSET)}
    for kind, seed in (("talker", 1), ("predictor", 2)):
        for name, value in _table(talker, kind == "talker", np.random.Generator(np.random.Philox(seed))).items():
            tables[f"{kind}/{name}"] = value
    np.savez_compressed(path, **tables)


def _table(talker: Any, is_talker: bool, draw: np.random.Generator) -> dict[str, np.ndarray]:
    width = TALKER_CODES + 1 if is_talker else PREDICTOR_CODES
    scale = draw.uniform(0.3, 6.0, (ROWS, 1))
    logits = (np.round(draw.standard_normal((ROWS, width)) * scale * 64) / 64).astype(np.float32)
    logits[::5] = np.round(logits[::5] * 2) / 2  # every fifth row has many ties
    settings = np.stack([draw.choice(v, ROWS) for v in (TEMPERATURES, TOP_KS, TOP_PS, PENALTIES)], axis=1)
    if not is_talker:
        settings[:, 3] = 1.0
    seen, said = np.zeros((ROWS, width), bool), np.zeros(ROWS, np.int32)
    greedy, probs = np.zeros(ROWS, np.int32), np.zeros((ROWS, width), np.float32)
    for i in range(ROWS):
        temperature, top_k, top_p, penalty = settings[i]
        ids: list[int] = []
        if is_talker:
            said[i] = draw.choice([0, 1, 2, 3, 10, 60])
            ids = draw.integers(0, width - 1, said[i]).tolist()
            seen[i, ids] = True
        columns, row = _row(logits[i], is_talker)
        chain = dict(top_k=int(top_k), top_p=float(top_p), temperature=float(temperature))
        scores = {sample: _process(talker, is_talker, row, ids, sample, float(penalty), chain) for sample in (False, True)}
        greedy[i] = int(np.flatnonzero(columns == int(scores[False].argmax()))[0])
        probs[i] = torch.softmax(scores[True], dim=-1).numpy()[columns]
    out = dict(logits=logits, settings=settings.astype(np.float32), greedy=greedy, kept=probs > 0, probs=probs)
    return out | (dict(seen=seen, said=said) if is_talker else {})


def _row(logits: np.ndarray, is_talker: bool) -> tuple[np.ndarray, torch.Tensor]:
    """(ids of the columns, logits of the whole vocabulary)."""
    if not is_talker:
        return np.arange(PREDICTOR_CODES), torch.from_numpy(logits.copy())
    columns = np.array([*range(TALKER_CODES), TALKER_CODES + END_OFFSET])
    row = torch.full((TALKER_CODES + SUPPRESSED,), 30.0)
    row[columns] = torch.from_numpy(logits)
    return columns, row


def _process(talker: Any, is_talker: bool, row: torch.Tensor, ids: list[int], sample: bool, penalty: float,
             chain: dict[str, Any]) -> torch.Tensor:  # fmt: skip
    end = TALKER_CODES + END_OFFSET
    config = GenerationConfig(do_sample=sample, **(chain if sample else {}))
    if is_talker:
        suppressed = [i for i in range(len(row) - SUPPRESSED, len(row)) if i != end]
        config.update(repetition_penalty=penalty, min_new_tokens=2, eos_token_id=end, suppress_tokens=suppressed)
    talker._prepare_special_tokens(config, device="cpu")
    processors = talker._get_logits_processor(generation_config=config, input_ids_seq_length=0, device="cpu")
    return processors(torch.tensor([ids], dtype=torch.long), row[None].clone())[0]
