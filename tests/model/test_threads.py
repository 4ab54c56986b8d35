"""The pool's threads: what they cost while nobody computes."""

from __future__ import annotations

from time import process_time, sleep

from conftest import tiny_files

from qwentts import TTS

PAUSE_S, FRAMES = 0.05, 12


def test_no_core_is_busy_between_frames():
    with TTS(*tiny_files("custom_voice"), threads=2) as tts:
        options = dict(speaker=tts.speakers[0], seed=1, max_new_tokens=FRAMES, repetition_guard=False, split="none")
        tts.synthesize("Warm.", **options)

        def cpu_s(pause: float) -> float:
            start = process_time()
            speech = tts.synthesize("A pause after every frame.", progress=lambda _: sleep(pause), **options)
            assert len(speech.codes) == FRAMES
            return process_time() - start

        without, paused = cpu_s(0.0), cpu_s(PAUSE_S)
    assert paused - without < 0.2 * PAUSE_S * FRAMES  # a spinning worker would take all of it
