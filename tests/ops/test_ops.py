"""Every op of the tensor core against plain loops in double, on each instruction tier; and the proof that the runner can fail."""

import re
from pathlib import Path

import pytest
from c_programs import ROOT, run

TIERS = ("scalar", "avx2", "avxvnni", "avx512", "amx", "neon", "dotprod")
UNARY = ("TANH", "RELU", "SIGMOID", "GELU", "GELU_ERF", "SILU", "ELU")
WEIGHTS = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_K", "q5_K", "q6_K")
SUMMARY = re.compile(r"^(\d+) cases executed, (\d+) failed, (\d+) not supported; backend CPU (\w+), seed (\d+)", re.MULTILINE)


def computed_ops() -> list[str]:
    """Every op of ops.def that computes something; UNARY is six functions."""
    text = (ROOT / "ggml" / "core" / "ops.def").read_text(encoding="utf-8")
    ops = [name for name, family in re.findall(r'GGML_OP_DEF\(\w+, "(\w+)", "([\w-]+)"\)', text) if family != "-"]
    assert "MUL_MAT" in ops and "UNARY" in ops
    return [op for op in ops if op != "UNARY"] + list(UNARY)


def counts(printed: str) -> tuple[int, int, int]:
    """Executed, failed and unsupported cases of a run."""
    found = SUMMARY.search(printed)
    assert found, printed[-2000:]
    return int(found[1]), int(found[2]), int(found[3])


@pytest.mark.parametrize("tier", TIERS)
def test_ops_equal_reference(tier: str) -> None:
    here = run("op_runner", "support", "--tiers").stdout.split()
    if tier not in here:
        pytest.skip(f"this processor and build have {', '.join(here)}, not {tier}")
    done = run("op_runner", "test", "--quiet", "--tier", tier)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr
    executed, failed, missing = counts(done.stdout)
    assert executed > 500 and failed == 0 and missing == 0
    assert SUMMARY.search(done.stdout)[4] == tier


def test_every_op_has_cases() -> None:
    listed = {line.split()[0] for line in run("op_runner", "cases").stdout.splitlines()}
    assert set(computed_ops()) <= listed


@pytest.mark.parametrize("op", computed_ops())
def test_planted_fault_is_caught(op: str) -> None:
    """A reference that swaps an axis, drops a scale or shifts an index disagrees with the kernel."""
    done = run("op_runner", "test", "--quiet", "--threads", "1", "--op", op, "--fault", op)
    executed, failed, _ = counts(done.stdout)
    assert failed > 0 and done.returncode == min(failed, 125), f"{failed} of {executed} cases fail"


@pytest.mark.parametrize("weights", WEIGHTS)
def test_planted_fault_is_caught_for_each_weight_type(weights: str) -> None:
    done = run("op_runner", "test", "--quiet", "--threads", "1", "--op", "MUL_MAT", "--filter", f"{weights}[", "--fault", "MUL_MAT")
    executed, failed, _ = counts(done.stdout)
    assert 0 < executed < 2 * failed, f"{failed} of {executed} cases fail"


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ("GUARD", "in a margin"),
        ("INPUT", "in an input"),
        ("THREADS", "the result at 2 threads differs"),
        ("GRAPH", "behind the graph allocator differs"),
        ("KEEP", "read again later was overwritten"),
    ],
)
def test_runner_notices(check: str, text: str) -> None:
    done = run("op_runner", "test", "--quiet", "--op", "MUL", "--fault", check)
    executed, failed, _ = counts(done.stdout)
    assert failed == executed > 0 and text in done.stdout


def test_no_case_is_a_failure() -> None:
    done = run("op_runner", "test", "--filter", "no case has this text")
    assert done.returncode == 1 and "no case was executed" in done.stderr


def test_unknown_tier_is_refused() -> None:
    done = run("op_runner", "test", "--tier", "abacus")
    assert done.returncode == 126 and "abacus" in done.stderr and "scalar" in done.stderr


def test_seed_decides_data() -> None:
    lines = [run("op_runner", "test", "--op", "GELU", "--seed", seed).stdout.splitlines() for seed in ("7", "7", "8")]
    assert lines[0] == lines[1] and "seed 7" in lines[0][-1]
    assert [line.split()[-3] for line in lines[0][:-1]] != [line.split()[-3] for line in lines[2][:-1]]


def test_support_matrix_has_no_gap() -> None:
    done = run("op_runner", "support")
    assert done.returncode == 0 and "| MUL_MAT |" in done.stdout
    assert not re.search(r"\| (no|some) \|", done.stdout), done.stdout


def test_support_table_of_readme_is_current() -> None:
    readme = (ROOT / "ggml" / "README.md").read_text(encoding="utf-8")
    assert run("op_runner", "support").stdout in readme, "paste what `op_runner support` prints into ggml/README.md"


def test_perf_times_what_passes() -> None:
    done = run("op_runner", "perf", "--op", "RMS_NORM", "--threads", "1", "--working-set-mb", "1")
    assert done.returncode == 0 and "GB/s" in done.stdout
    broken = run("op_runner", "perf", "--op", "RMS_NORM", "--threads", "1", "--working-set-mb", "1", "--fault", "RMS_NORM")
    assert broken.returncode == 1 and "GB/s" not in broken.stdout and "not timed" in broken.stdout


@pytest.mark.parametrize("tier", TIERS)
def test_a_row_of_attention_and_a_column_of_a_product_do_not_depend_on_their_neighbours(tier: str) -> None:
    here = run("op_runner", "support", "--tiers").stdout.split()
    if tier not in here:
        pytest.skip(f"this processor and build have {', '.join(here)}, not {tier}")
    for name in ("attention_tiles", "exact_columns"):
        done = run(name, env={"QWENTTS_CPU_TIER": tier})
        assert done.returncode == 0 and " 0 failures" in done.stdout, done.stdout[-4000:] + done.stderr


@pytest.mark.parametrize("tier", TIERS)
def test_a_pair_of_convolutions_gives_what_they_give_one_by_one(tier: str) -> None:
    here = run("op_runner", "support", "--tiers").stdout.split()
    if tier not in here:
        pytest.skip(f"this processor and build have {', '.join(here)}, not {tier}")
    done = run("conv_pair", env={"QWENTTS_CPU_TIER": tier})
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
    assert f" 0 failures, {12 if tier == 'amx' else 0} unwritten" in done.stdout


@pytest.mark.parametrize("name", ["alloc_overlap", "gguf_malformed", "quantize_rows"])
def test_core(name: str) -> None:
    done = run(name)
    assert done.returncode == 0 and " 0 failures" in done.stdout, done.stdout[-4000:] + done.stderr


def test_bounds_have_reasons() -> None:
    rows = [line.split(",", 5) for line in (Path(ROOT) / "tests" / "bounds.csv").read_text(encoding="utf-8").splitlines()]
    assert rows[0] == ["family", "dtype", "backend", "metric", "bound", "reason"]
    for family, dtype, backend, metric, bound, reason in rows[1:]:
        assert metric in ("exact", "ulp", "nmse", "mag", "rms") and float(bound) >= 0 and len(reason) > 10, family + dtype + backend
