"""self-test: what it finds, what it says, and how it ends; --caps."""

import json
import os
import subprocess
import sys

import pytest
from c_programs import program

from qwentts import __version__, caps, selftest
from qwentts.errors import ParameterError

HEAD = f'{{"version": "{__version__}", "cases": 2}}\\n'


def qwentts(*arguments, **environment):
    """The command in a program of its own."""
    command = [sys.executable, "-m", "qwentts", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, timeout=300)


def script(tmp_path, body):
    """A program that stands in for qwentts-ops."""
    path = tmp_path / "ops"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_self_test_reports_cases_and_speech(tmp_path):
    ops = script(tmp_path, f'exec {program("op_runner")} "$@" --op CONCAT')
    done = qwentts("self-test", "--tier", "scalar", "--json", QWENTTS_OPS=ops)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    rows = {row["op"]: row for row in result["rows"]}
    assert result["ok"] and set(rows) == {"CONCAT", "speech"} and result["threads"] == [1, 2, 4]
    assert rows["CONCAT"]["cases"] > 10 and rows["CONCAT"]["failed"] == 0 and rows["CONCAT"]["worst"]["metric"] == "exact"
    assert rows["speech"]["cases"] == 6 and result["machine"]["cpu"]["tiers"][0] == "scalar"


def test_a_wrong_result_fails_with_its_case_and_figures(tmp_path):
    ops = script(tmp_path, f'exec {program("op_runner")} "$@" --op MUL --fault MUL')
    done = qwentts("self-test", "--tier", "scalar", QWENTTS_OPS=ops)
    assert done.returncode == 1 and done.stderr.startswith("qwentts: error: self-test: ") and done.stderr.count("\n") == 1
    assert "FAIL" in done.stdout and "scalar MUL f32[" in done.stdout and "out of bounds" in done.stdout and "processor" in done.stdout


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (f"printf '{HEAD}{{\"op\": \"ADD\"'; kill -ILL $$", 'ended by SIGILL within {"op": "ADD"'),
        ("exit 126", "exit code 126 after 0 of 0 cases"),
        (f"printf '{HEAD}'", "exit code 0 after 0 of 2 cases"),
    ],
)  # fmt: skip
def test_a_program_that_ends_early_is_a_finding(tmp_path, monkeypatch, body, found):
    monkeypatch.setattr(selftest, "_speech", lambda tier: selftest._row(tier, selftest.SPEECH))
    monkeypatch.setenv("QWENTTS_OPS", script(tmp_path, body))
    result = selftest.self_test("scalar")
    assert not result["ok"] and any(found in text for row in result["rows"] for text in row["findings"]), result["rows"]


def test_speech_that_depends_on_threads_is_a_finding(monkeypatch):
    outcomes = [(1, "ab", 0.5), (2, "ab", 0.0), (4, "cd", 0.5)]
    runs = [{"threads": n, "greedy": True, "sha256": sha, "frames": 3, "peak": peak} for n, sha, peak in outcomes]
    done = subprocess.CompletedProcess([], 0, json.dumps(runs), "")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    row = selftest._speech("scalar")
    assert row["failed"] == 2 and "4 threads give other bytes than 1" in row["findings"][1] and "silent" in row["findings"][0]


def test_wrong_tiers_and_missing_programs_are_named(tmp_path, monkeypatch):
    with pytest.raises(ParameterError, match="'abacus', this machine has scalar"):
        selftest.self_test("abacus")
    monkeypatch.setenv("QWENTTS_OPS", str(tmp_path / "none"))
    with pytest.raises(ParameterError, match="none is missing"):
        selftest.self_test("scalar")


def test_caps_say_what_the_library_uses():
    done = qwentts("--caps", "--json")
    facts = json.loads(done.stdout)
    assert facts["cpu"]["tier"] in facts["cpu"]["tiers"] == caps.tiers() and facts["threads"]["default"] >= 1
    assert facts["memory"]["total_bytes"] > facts["memory"]["available_bytes"] > 1 << 20
    forced = qwentts("self-test", "--caps", QWENTTS_CPU_TIER="scalar").stdout
    assert "used: scalar (forced by QWENTTS_CPU_TIER)" in forced
    assert "used: none: QWENTTS_CPU_TIER is 'abacus'" in qwentts("--caps", QWENTTS_CPU_TIER="abacus").stdout
