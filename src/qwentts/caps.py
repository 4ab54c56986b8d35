"""What this machine offers: processor, kernels, threads, memory, huge pages. The library says what it sees, the system says the rest."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Any

from . import __version__
from ._lib import ffi, lib, library_path, library_version

TRANSPARENT = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def capabilities() -> dict[str, Any]:
    """Facts, ready for JSON; None where the system does not say."""
    tier = lib.qt_cpu_tier()
    return {
        "version": __version__,
        "library": library_version(),
        "library_path": str(library_path()),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": {
            "name": _text(lib.qt_cpu_name()),
            "features": _text(lib.qt_cpu_features()).split(),
            "tiers": tiers(),
            "tier": _text(tier) if tier != ffi.NULL else None,
            "tier_forced": os.environ.get("QWENTTS_CPU_TIER") or None,
        },
        "threads": {
            "logical": os.cpu_count(),
            "physical": _physical_cores(),
            "allowed": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
            "quota": lib.qt_cpu_quota() or None,
            "default": lib.qt_cpu_default_threads(),
        },
        "memory": _memory(),
        "huge_pages": _huge_pages(),
    }


def tiers() -> list[str]:
    """Sets of kernels that run here, worst first."""
    return _text(lib.qt_cpu_tiers()).split()


def _text(pointer: Any) -> str:
    return ffi.string(pointer).decode("utf-8", "replace").strip()


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _physical_cores() -> int | None:
    """Cores without their second threads."""
    cores = {
        (_read(folder / "physical_package_id"), _read(folder / "core_id"))
        for folder in Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology")
    }
    return len(cores) or None


def _meminfo() -> dict[str, int]:
    """/proc/meminfo: sizes in bytes, counts of pages as they are."""
    found: dict[str, int] = {}
    for line in _read(Path("/proc/meminfo")).splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            found[name] = int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    return found


def _group_limit() -> int | None:
    """The memory limit of this control group, of any above it, or of version 1."""
    limits = []
    group = next((line.split("::", 1)[1] for line in _read(Path("/proc/self/cgroup")).splitlines() if line.startswith("0::")), "/")
    folder = Path("/sys/fs/cgroup") / group.strip("/")
    for path in (*(parent / "memory.max" for parent in (folder, *folder.parents)), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        text = _read(path).strip()
        if text.isdigit() and int(text) < 1 << 60:  # version 1 writes a huge number for none
            limits.append(int(text))
    return min(limits, default=None)


def _memory() -> dict[str, int | None]:
    """Bytes."""
    info = _meminfo()
    total = info.get("MemTotal")
    if total is None and "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {"total_bytes": total, "available_bytes": info.get("MemAvailable"), "limit_bytes": _group_limit()}


def _huge_pages() -> dict[str, Any]:
    """The setting of transparent huge pages (`always`, `madvise`, `never`) and what is set aside."""
    words = _read(TRANSPARENT).split()
    info = _meminfo()
    return {
        "transparent": next((word[1:-1] for word in words if word.startswith("[")), None),
        "size_bytes": info.get("Hugepagesize"),
        "reserved": info.get("HugePages_Total"),
        "reserved_free": info.get("HugePages_Free"),
        "in_use_bytes": info.get("AnonHugePages"),
    }


def report(caps: dict[str, Any]) -> str:
    """The facts as a short text."""
    cpu, threads, memory, pages = caps["cpu"], caps["threads"], caps["memory"], caps["huge_pages"]
    chosen = cpu["tier"] or f"none: QWENTTS_CPU_TIER is {cpu['tier_forced']!r}"
    if cpu["tier"] and cpu["tier_forced"]:
        chosen += " (forced by QWENTTS_CPU_TIER)"
    quota = f", quota {threads['quota']}" if threads["quota"] else ""
    limit = f", limit of the control group {_gb(memory['limit_bytes'])}" if memory["limit_bytes"] else ""
    reserved = f", {pages['reserved']} reserved" if pages["reserved"] else ""
    return "\n".join(
        [
            f"qwentts     {caps['version']}, library {caps['library']}",
            f"            {caps['library_path']}",
            f"system      {caps['system']}, Python {caps['python']}",
            f"processor   {cpu['name'] or 'unknown'}",
            f"features    {' '.join(cpu['features']) or 'unknown'}",
            f"tiers       {' '.join(cpu['tiers'])}; used: {chosen}",
            f"threads     {threads['default']} by default; {threads['physical'] or '?'} cores, {threads['logical']} threads,"
            f" {threads['allowed']} allowed{quota}",
            f"memory      {_gb(memory['total_bytes'])}, {_gb(memory['available_bytes'])} available{limit}",
            f"huge pages  transparent: {pages['transparent'] or 'unknown'}{reserved}",
        ]
    )


def _gb(n_bytes: int | None) -> str:
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes else "unknown"
