"""`qwentts bench` on a tiny model: its figures are consistent with each other, and what cannot be measured is refused."""

from __future__ import annotations

import json

import pytest
from conftest import tiny_files

from qwentts import TTS
from qwentts.bench import PARTS, POSITIONS, bench, n_steps
from qwentts.cli import main


def test_figures_add_up_and_every_step_is_told():
    steps = []
    with TTS(*tiny_files("custom_voice"), threads=1) as tts:
        figures = bench(tts, frames=6, runs=2, step=lambda: steps.append(1))
        facts = tts.facts
    assert len(steps) == n_steps(2)
    assert figures["frames"] == 6 and figures["audio_ms"] == 1000 * facts.hop_samples / facts.sample_rate
    frame = figures["frame_ms"]
    assert all(value > 0 for value in frame.values()), frame
    assert sum(frame[name] for name in PARTS) <= frame["all"] * 1.5  # medians of two runs, each part from its own
    assert list(figures["frame_ms_behind"]) == list(figures["frame_ms_at"]) == [str(n) for n in POSITIONS]
    assert all(figures["frame_ms_at"][n] - ms == pytest.approx(frame["codec"]) for n, ms in figures["frame_ms_behind"].items())
    assert figures["interval_ms"]["p50"] <= figures["interval_ms"]["max"]
    assert figures["first_audio_ms"] > figures["prefill_ms"] * 0.1 and figures["peak_rss_mb"] > 10


def test_peak_memory_is_that_of_speaking(monkeypatch):
    order = []
    monkeypatch.setattr("qwentts.bench.peak_rss_mb", lambda: order.append("peak") or 1.0)
    monkeypatch.setattr("qwentts.bench.frame_ms_behind", lambda *_: order.append("behind") or {})
    monkeypatch.setattr("qwentts.bench.first_audio_ms", lambda *_: order.append("stream") or 1.0)
    with TTS(*tiny_files("custom_voice"), threads=1) as tts:
        bench(tts, frames=2, runs=1)
    assert order == ["stream", "peak", "behind"]


def test_command_prints_json_and_draws(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    talker, codec = tiny_files("voice_design")
    png = tmp_path / "speed.png"
    assert main(["bench", "--model", str(talker), "--codec", str(codec), "--frames", "2", "--runs", "1", "--json", "--plot", str(png)]) == 0
    assert json.loads(capsys.readouterr().out)["runs"] == 1
    assert png.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("flag", "value"), [("--frames", "1"), ("--runs", "0")])
def test_counts_are_checked_by_name(flag, value, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["bench", flag, value])
    assert stopped.value.code == 2 and f"{flag} is {value}" in capsys.readouterr().err
