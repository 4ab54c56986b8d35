"""How many threads are the default: cores of trees of files that describe machines other than this one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import c_programs
import pytest


def write(path: Path, text: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n", encoding="ascii")


def machine(root: Path, siblings: list[str], *, capacity: list[int] = (), frequency: list[int] = (), fast: str = "") -> Path:
    """A machine whose processor i has siblings[i], capacity[i] and frequency[i]."""
    for i, text in enumerate(siblings):
        folder = root / f"sys/devices/system/cpu/cpu{i}"
        write(folder / "topology/thread_siblings_list", text)
        for values, name in ((capacity, "cpu_capacity"), (frequency, "cpufreq/cpuinfo_max_freq")):
            if values:
                write(folder / name, values[i])
    if fast:
        write(root / "sys/devices/cpu_core/cpus", fast)
    return root


def cores(root: Path, allowed: str) -> tuple[int, int]:
    """Cores that count, and the quota."""
    done = c_programs.run("cpu_cores", str(root), allowed)
    first, second = done.stdout.split()
    return int(first), int(second)


PAIRS = ["0-1", "0-1", "2-3", "2-3", "4-5", "4-5", "6-7", "6-7"]
SPLIT = ["0,4", "1,5", "2,6", "3,7", "0,4", "1,5", "2,6", "3,7"]


@pytest.mark.parametrize(
    ("siblings", "allowed", "want"),
    [
        (["0", "1", "2"], "111", 3),
        (PAIRS, "1" * 8, 4),
        (SPLIT, "1" * 8, 4),
        (SPLIT, "00001111", 4),  # the other half of each core is not ours
        (PAIRS, "01100000", 2),
        (PAIRS, "00110000", 1),
        (PAIRS, "00000001", 1),
    ],
)
def test_hardware_threads_of_a_core_count_once_among_the_allowed(tmp_path, siblings, allowed, want):
    assert cores(machine(tmp_path, siblings), allowed)[0] == want


def test_slow_cores_do_not_count_beside_fast_ones(tmp_path):
    arm = machine(tmp_path / "arm", list("01234567"), capacity=[250] * 4 + [870] * 3 + [1024])
    assert cores(arm, "11111111")[0] == 4
    assert cores(arm, "11110000")[0] == 4  # only slow ones are allowed: the fastest allowed is the measure
    assert cores(arm, "11110001")[0] == 5  # one fast core alone is no use
    hybrid = machine(tmp_path / "hybrid", [*PAIRS[:4], "4", "5", "6", "7"], frequency=[4800000] * 4 + [3800000] * 4, fast="0-3")
    assert cores(hybrid, "11111111")[0] == 2 and cores(hybrid, "00001111")[0] == 4
    compact = machine(tmp_path / "compact", list("012345"), frequency=[5100000] * 2 + [3500000] * 4)
    assert cores(compact, "111111")[0] == 2
    favoured = machine(tmp_path / "favoured", list("0123"), frequency=[5700000, 5700000, 5200000, 5200000])
    assert cores(favoured, "1111")[0] == 4


def test_a_system_that_says_nothing_is_no_answer(tmp_path):
    assert cores(tmp_path, "11") == (0, 0)
    write(machine(tmp_path, ["0", "1"]) / "sys/devices/system/cpu/cpu1/topology/thread_siblings_list", "?")
    assert cores(tmp_path, "11")[0] == 2


@pytest.mark.parametrize(
    ("group", "files", "want"),
    [
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 2),
        ("0::/a/b", {"a/b/cpu.max": "100000 100000", "a/cpu.max": "400000 100000"}, 1),
        ("0::/", {"cpu.max": "max 100000"}, 0),
        ("4:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "300000", "cpu/a/cpu.cfs_period_us": "100000"}, 3),
        ("4:cpu,cpuacct:/a", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, 0),
        ("5:memory:/a", {"cpu/a/cpu.cfs_quota_us": "100000", "cpu/a/cpu.cfs_period_us": "100000"}, 0),
    ],
)
def test_the_least_quota_up_to_the_root_counts(tmp_path, group, files, want):
    write(tmp_path / "proc/self/cgroup", group)
    for name, text in files.items():
        write(tmp_path / "sys/fs/cgroup" / name, text)
    assert cores(tmp_path, "1")[1] == want


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs sched_getaffinity")
def test_the_default_is_the_affinity_masks_cores():
    code = "from qwentts._lib import lib; print(lib.qt_cpu_default_threads(), lib.qt_cpu_quota())"
    one = sorted(os.sched_getaffinity(0))[:1]
    for mask in (one, sorted(os.sched_getaffinity(0))):
        done = subprocess.run(
            [sys.executable, "-c", f"import os; os.sched_setaffinity(0, {mask}); {code}"], capture_output=True, text=True, check=True
        )
        n, quota = map(int, done.stdout.split())
        allowed = "".join("1" if i in mask else "0" for i in range(min(max(mask) + 1, 64)))
        want = cores(Path("/"), allowed)[0] or len(mask)
        assert n == (min(want, quota) if quota else want)
