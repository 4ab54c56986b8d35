"""Outside the wide tiers' own objects no instruction is younger than x86-64's first level, so an old processor never meets one.

Read from the machine code: a VEX or EVEX prefix (AVX, FMA, BMI, AVX-512), a REX2 prefix, or an opcode of SSE3 and later.
"""

import json
import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from c_programs import program

pytestmark = pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason=f"x86-64 code only, this is {platform.machine()}")
WIDE_TIERS = ("ggml_avx2.dir", "ggml_avxvnni.dir", "ggml_avx512.dir", "ggml_amx.dir")
PROGRAM_OBJECTS = "tests"  # the C tests are not what is shipped
# Bytes of one instruction: segment and size prefixes, then what tells its age. 66, f2, f3 and REX may stand before a legacy opcode only.
YOUNG = re.compile(
    r"^(?:(?:26|2e|36|3e|64|65|67) )*"
    r"(?:c4 |c5 |62 |d5 "  # VEX, EVEX, REX2
    r"|(?:(?:66|f2|f3) )*(?:4[0-9a-f] )?0f (?:38|3a) "  # SSSE3, SSE4, MOVBE, CRC32
    r"|(?:66 |f2 )+(?:4[0-9a-f] )?0f (?:7c|7d|d0) |f2 (?:4[0-9a-f] )?0f (?:12|f0) |f3 (?:4[0-9a-f] )?0f (?:12|16) "  # SSE3
    r"|(?:66 )?f3 (?:4[0-9a-f] )?0f (?:b8|bd) )"  # POPCNT, LZCNT
)
LINE = re.compile(r"^\s+[0-9a-f]+:\t((?:[0-9a-f]{2} )+)\s*\t(.*)$")


def library_objects() -> list[Path]:
    """The object files of the library, as the build folder of the C tests lists them."""
    folder = next((f for f in program("op_runner").parents if (f / "compile_commands.json").is_file()), None)
    assert folder is not None, f"no compile_commands.json above {program('op_runner')}: not a CMake build of this project"
    commands = json.loads((folder / "compile_commands.json").read_text(encoding="utf-8"))
    # the field "output" counts from the top folder, which "directory" is with Ninja only
    outputs = [Path(row["directory"]) / re.search(r" -o (\S+)", row["command"])[1] for row in commands]
    return [path for path in outputs if PROGRAM_OBJECTS not in path.relative_to(folder).parts]


def instructions(path: Path) -> tuple[int, list[str]]:
    """How many instructions an object has, and those that the first x86-64 processors lack."""
    objdump = shutil.which("objdump") or shutil.which("llvm-objdump")
    if objdump is None:
        pytest.skip("no objdump (Debian: binutils) on PATH")
    listing = subprocess.run([objdump, "-d", "--insn-width=16", path], capture_output=True, text=True, check=True).stdout
    lines = [match for line in listing.splitlines() if (match := LINE.match(line))]
    return len(lines), [f"{match[1]}\t{match[2]}" for match in lines if YOUNG.match(match[1])]


def test_base_objects_have_no_young_instruction() -> None:
    base = [path for path in library_objects() if not any(tier in path.parts for tier in WIDE_TIERS)]
    assert len(base) > 60 and any("ggml_scalar.dir" in path.parts for path in base)
    n_read = 0
    for path in base:
        n, young = instructions(path)
        assert not young, f"{path}: {len(young)} instructions, the first is {young[0]}"
        n_read += n
    assert n_read > 20000


@pytest.mark.parametrize("tier", WIDE_TIERS)
def test_wide_objects_are_seen_as_such(tier: str) -> None:
    path = next(path for path in library_objects() if tier in path.parts and path.name.startswith("norm."))
    assert len(instructions(path)[1]) > 100


@pytest.mark.parametrize(
    ("statement", "young"),
    [
        ("haddps %xmm1, %xmm2", True), ("pshufb %xmm1, %xmm2", True), ("popcnt %rax, %rbx", True), ("lzcnt %r8, %r9", True),
        ("crc32b %al, %ebx", True), ("roundps $0, %xmm1, %xmm9", True), ("vaddps %xmm1, %xmm2, %xmm3", True),
        ("shlx %rax, %rbx, %rcx", True), ("vaddps %zmm1, %zmm2, %zmm3", True), ("lddqu (%rax), %xmm0", True),
        ("movddup %xmm1, %xmm2", True), ("addsubps %xmm1, %xmm2", True),
        ("addps %xmm1, %xmm2", False), ("bsr %rax, %rbx", False), ("endbr64", False), ("rep movsb", False),
        ("mulsd %xmm8, %xmm9", False), ("movhps (%rax), %xmm1", False), ("nopw %cs:0(%rax,%rax,1)", False),
        ("cvttsd2si %xmm0, %rax", False),
    ],
)  # fmt: skip
def test_age_of_an_instruction(statement: str, young: bool, tmp_path: Path) -> None:
    assembler = shutil.which("as")
    if assembler is None:
        pytest.skip("no assembler (Debian: binutils) on PATH")
    subprocess.run([assembler, "-o", tmp_path / "one.o", "-"], input=f"{statement}\n", text=True, check=True)
    n, found = instructions(tmp_path / "one.o")
    assert n >= 1 and len(found) == young
