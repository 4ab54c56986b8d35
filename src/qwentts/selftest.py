"""Does this machine compute what it should? Every operation against loops in double precision, and speech that must not depend on threads.

For each tier: qwentts-ops (tests/c, the very program that tests the kernels in development) prints a JSON line a case; then the
demonstration voice speaks a few frames with 1, 2 and 4 threads, greedily and with a seed. Both run in programs of their own, because an
instruction that the processor lacks ends the program that meets it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from . import __version__
from .caps import capabilities, tiers
from .errors import GenerateError, ParameterError

THREADS = (1, 2, 4)
SPEECH_FRAMES = 16
SPEECH_TEXT = "This is a test."
LIMIT_S = 600  # of one program: a hang is a finding too
SPEECH = "speech"  # the row of the whole voice
Progress = Callable[[str, int, int], None]  # tier, cases done, cases in all


def ops_program() -> Path:
    """The op runner: QWENTTS_OPS, else beside the library in the package."""
    given = os.environ.get("QWENTTS_OPS")
    path = Path(given) if given else Path(__file__).with_name("qwentts-ops.exe" if sys.platform == "win32" else "qwentts-ops")
    if not path.is_file():
        raise ParameterError(f"{path} is missing: it is installed with the package (QWENTTS_OPS names another one)")
    return path


def self_test(tier: str | None = None, progress: Progress | None = None) -> dict[str, Any]:
    """Rows of all tiers, or of one, ready for JSON; `ok` is the verdict."""
    there = tiers()
    if tier is not None and tier not in there:
        raise ParameterError(f"tier is {tier!r}, this machine has {', '.join(there)}")
    program = ops_program()
    rows: list[dict[str, Any]] = []
    for name in there if tier is None else [tier]:
        rows += _ops(program, name, progress)
        rows.append(_speech(name))
    return _plain({"ok": not any(row["failed"] for row in rows), "threads": list(THREADS), "rows": rows, "machine": capabilities()})


def _plain(value: Any) -> Any:
    """JSON has no infinity and no NaN: their names instead."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _environment(tier: str) -> dict[str, str]:
    return os.environ | {"QWENTTS_CPU_TIER": tier}


def _ended(code: int) -> str:
    try:
        return f"ended by {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
    except ValueError:
        return f"ended by signal {-code}"


def _row(tier: str, op: str) -> dict[str, Any]:
    return {"tier": tier, "op": op, "cases": 0, "failed": 0, "worst": None, "findings": []}


def _ops(program: Path, tier: str, progress: Progress | None) -> list[dict[str, Any]]:
    """One row an operation."""
    command = [str(program), "test", "--json", "--tier", tier, "--threads", ",".join(map(str, THREADS))]
    rows: dict[str, dict[str, Any]] = {}
    last, done, total = "", 0, 0
    with ExitStack() as stack:
        errors = stack.enter_context(tempfile.TemporaryFile())
        try:
            opened = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=_environment(tier))
            process = stack.enter_context(opened)
        except OSError as error:
            raise GenerateError(f"{program} cannot be run: {error.strerror}") from None
        assert process.stdout is not None
        stack.callback(process.kill)  # Ctrl-C, or a case that hangs
        limit = threading.Timer(LIMIT_S, process.kill)
        limit.start()
        stack.callback(limit.cancel)
        for case in _objects(process.stdout):
            if isinstance(case, str):
                last = case
            elif "cases" in case:
                total = case["cases"]
                if case["version"] != __version__:
                    raise GenerateError(f"{program} is of version {case['version']}, this package is {__version__}")
            else:
                _add(rows.setdefault(case["op"], _row(tier, case["op"])), case)
                done += 1
                if progress is not None:
                    progress(tier, done, total)
        code = process.wait()
        errors.seek(0)
        said = " ".join(errors.read(2000).decode("utf-8", "replace").split())
    failed = sum(row["failed"] for row in rows.values())
    if last or done != total or not total or code != min(failed, 125):
        row = _row(tier, "qwentts-ops")
        row |= {"cases": 1, "failed": 1}
        where = f" within {last}" if last else ""
        row["findings"] = [f"{_ended(code)}{where} after {done} of {total} cases {said[:300]}".strip()]
        rows[row["op"]] = row
    return list(rows.values())


def _objects(lines: Any) -> Iterator[dict[str, Any] | str]:
    """Objects of a stream of JSON lines; what is left of a line that does not end, as text."""
    for line in lines:
        if line.endswith("\n"):
            yield json.loads(line)
        else:
            yield line.strip()


def _add(row: dict[str, Any], case: dict[str, Any]) -> None:
    row["cases"] += 1
    for metric, value, bound in case["metrics"]:
        share = value / bound if bound else math.inf if value > 0 else value  # of an exact one: 0, NaN or infinite
        if row["worst"] is None or not share <= row["worst"]["share"]:  # NaN is worse than anything
            row["worst"] = {"share": share, "metric": metric, "value": value, "bound": bound, "case": case["case"]}
    if case["verdict"] != "ok":
        row["failed"] += 1
        what = case["error"] or case["verdict"]
        row["findings"].append(f"{case['case']}: {what} {_metrics(case['metrics'])}".strip())


def _metrics(metrics: list[tuple[str, float, float]]) -> str:
    return ", ".join(f"{name} {value:.3g} ({bound:.3g})" for name, value, bound in metrics)


def _speech(tier: str) -> dict[str, Any]:
    """The row of the demonstration voice."""
    row = _row(tier, SPEECH)
    command = [sys.executable, "-c", "from qwentts.selftest import speak; speak()"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", env=_environment(tier), timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return row | {"cases": 1, "failed": 1, "findings": [f"no end within {LIMIT_S} s"]}
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or [""]
        return row | {"cases": 1, "failed": 1, "findings": [f"{_ended(done.returncode)} {last[0]}".strip()]}
    runs = json.loads(done.stdout)
    row["cases"] = len(runs)
    for run in runs:
        first = next(other for other in runs if other["greedy"] == run["greedy"])
        kind = "greedy" if run["greedy"] else "seed 1"
        if run["sha256"] != first["sha256"]:
            row["findings"].append(f"{kind}: {run['threads']} threads give other bytes than {first['threads']}")
        elif not run["peak"] > 1e-3:
            row["findings"].append(f"{kind}, {run['threads']} threads: silent, peak {run['peak']:.2g}")
        else:
            continue
        row["failed"] += 1
    return row


def speak() -> None:
    """The child: what the demonstration voice says with each number of threads, as JSON on standard output."""
    import numpy as np

    from .tts import TTS

    runs = []
    for threads in THREADS:
        with TTS(threads=threads) as tts:
            for greedy in (True, False):
                options: dict[str, Any] = {"greedy": True} if greedy else {"seed": 1}
                speech = tts.synthesize(SPEECH_TEXT, max_new_tokens=SPEECH_FRAMES, split="none", **options)
                digest = hashlib.sha256(speech.codes.tobytes() + speech.samples.tobytes()).hexdigest()
                peak = float(np.abs(speech.samples).max(initial=0.0))
                runs.append({"threads": threads, "greedy": greedy, "sha256": digest, "frames": len(speech.codes), "peak": peak})
    print(json.dumps(runs))


def report(result: dict[str, Any]) -> str:
    """A table to paste: a row an operation, a column a tier with the worst error as a share of its bound, then what failed."""
    names = list(dict.fromkeys(row["tier"] for row in result["rows"]))
    by_op: dict[str, dict[str, dict[str, Any]]] = {}
    for row in result["rows"]:
        by_op.setdefault(row["op"], {})[row["tier"]] = row
    lines = [f"{'operation':<18}{'cases':>6}  " + "".join(f"{name:<12}" for name in names)]
    for op, of in by_op.items():
        cases = max(row["cases"] for row in of.values())
        lines.append(f"{op:<18}{cases:>6}  " + "".join(f"{_cell(of.get(name)):<12}" for name in names).rstrip())
    findings = [f"{row['tier']} {row['op']} {text}" for row in result["rows"] for text in row["findings"]]
    n_cases, n_failed = (sum(row[key] for row in result["rows"]) for key in ("cases", "failed"))
    verdict = "ok" if result["ok"] else f"{n_failed} FAILED"
    threads = ", ".join(map(str, result["threads"]))
    lines += ["", *findings, *([""] if findings else [])]
    lines.append(f"{n_cases} cases with {threads} threads: {verdict} (numbers: the worst error as a share of its bound; 0: exact)")
    return "\n".join(lines)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    share = "" if row["worst"] is None else f"{float(row['worst']['share']):.2g} "
    return f"{share}{'FAIL' if row['failed'] else 'ok'}"
