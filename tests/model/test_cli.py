"""The command line from outside: files, exit codes, one-line errors, nothing half written."""

import io
import json
import os
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import soundfile
from conftest import tiny_files

from qwentts.cli import main

TALKER, CODEC = map(str, tiny_files("custom_voice"))
FILES = ["--model", TALKER, "--codec", CODEC]
VOICE = [*FILES, "--speaker", "ada"]
QWENTTS = [sys.executable, "-m", "qwentts"]
QWEN_TTS = [sys.executable, "-c", "import sys; from qwentts.__main__ import main_qwen_tts; sys.exit(main_qwen_tts())"]


def run(*arguments, program=QWENTTS, stdin=b"Hello world.", cwd=None):
    result = subprocess.run([*program, *map(str, arguments)], input=stdin, capture_output=True, cwd=cwd, timeout=120)
    result.err = result.stderr.decode()
    return result


class Here:
    """`qwentts` in this process: a tenth of the time of a new one."""

    def __init__(self, capfd, monkeypatch):
        self._capfd, self._monkeypatch = capfd, monkeypatch

    def __call__(self, *arguments, stdin=b"Hello world."):
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        before = signal.getsignal(signal.SIGTERM)
        try:
            returncode = main([str(a) for a in arguments])
        except SystemExit as exit:
            returncode = exit.code
        finally:
            signal.signal(signal.SIGTERM, before)
        out, err = self._capfd.readouterr()
        result = subprocess.CompletedProcess(arguments, returncode, out.encode(), err.encode())
        result.err = err
        return result


@pytest.fixture
def here(capfd, monkeypatch):
    return Here(capfd, monkeypatch)


def fails(result, *parts, code=2):
    """One line on stderr that holds the parts, and the exit code."""
    lines = result.err.splitlines()
    assert result.returncode == code, result.err
    assert len(lines) == 1 and lines[0].startswith("qwentts: error: "), result.err
    for part in parts:
        assert part in lines[0]
    assert result.stdout == b""


def test_text_comes_from_stdin_an_argument_or_a_file_and_says_the_same(tmp_path):
    (tmp_path / "t.txt").write_text("Hello world.\n")
    options = [*VOICE, "--lang", "english", "--seed", "3", "--max-new", "12"]
    run(*["tts", *options, "-o", tmp_path / "a.wav"], stdin=b"Hello world.\n")
    run("Hello world.", *options, "-o", tmp_path / "b.wav")
    run("tts", "--text-file", tmp_path / "t.txt", *options, "-o", tmp_path / "c.wav")
    run(*options, "-o", tmp_path / "d.wav", program=QWEN_TTS)
    contents = {(tmp_path / f"{name}.wav").read_bytes() for name in "abcd"}
    assert len(contents) == 1
    assert soundfile.info(tmp_path / "a.wav").samplerate == 24000


def test_the_specifications_flags_are_taken_verbatim(tmp_path):
    flags = (
        "--format wav32 --lang German --max-new 6 --codec-chunk-dur 24.0 --seed 9 --greedy --temp 0.8 --top-k 20 --top-p 0.9"
        " --rep-pen 1.1 --sub-temp 0.7 --sub-top-k 10 --sub-top-p 0.95 --no-fa --clamp-fp16"
    ).split()
    result = run(*VOICE, *flags, "--instruct", "calm", "--dump", tmp_path / "dump", "-o", tmp_path / "x.wav", program=QWEN_TTS)
    assert result.returncode == 0, result.err
    assert soundfile.info(tmp_path / "x.wav").subtype == "FLOAT"
    index = json.loads((tmp_path / "dump" / "index.json").read_text())
    stages = {row["name"]: np.fromfile(tmp_path / "dump" / row["file"], "<f4").reshape(row["shape"]) for row in index}
    assert stages["codes"].shape == (6, 5) and {"talker.norm", "codec.audio"} <= set(stages)
    samples, _ = soundfile.read(tmp_path / "x.wav", dtype="float32")
    assert np.array_equal(stages["audio"], samples)


def test_standard_output_gets_a_wav_and_nothing_else():
    result = run(*VOICE, "--max-new", "5", "--json", "-o", "-")
    assert result.stdout[4:8] == result.stdout[40:44] == b"\xff\xff\xff\xff", "a pipe cannot go back: placeholder sizes"
    samples, rate = soundfile.read(io.BytesIO(result.stdout))
    assert rate == 24000 and len(samples) == 5 * 480
    assert json.loads(result.err.splitlines()[-1])["frames"] == 5


@pytest.mark.parametrize("format", ["wav16", "wav24", "wav32"])
def test_files_and_redirected_output_get_true_sizes_and_the_same_bytes(tmp_path, format):
    options = [*VOICE, "--max-new", "5", "--seed", "3", "--format", format]
    assert run(*options, "-o", tmp_path / "x.wav").returncode == 0
    data = (tmp_path / "x.wav").read_bytes()
    assert int.from_bytes(data[4:8], "little") == len(data) - 8 and soundfile.info(tmp_path / "x.wav").frames == 5 * 480
    piped = run(*options, "-o", "-").stdout
    assert len(piped) == len(data) and piped[-4800:] == data[-4800:] and piped != data
    with open(tmp_path / "y.wav", "wb") as out:
        out.write(b"before")
        out.flush()
        subprocess.run([*QWENTTS, *map(str, options), "-o", "-"], input=b"Hello world.", stdout=out, check=True, timeout=120)
    assert (tmp_path / "y.wav").read_bytes() == b"before" + data
    with open(tmp_path / "z.wav", "ab") as out:
        subprocess.run([*QWENTTS, *map(str, options), "-o", "-"], input=b"Hello world.", stdout=out, check=True, timeout=120)
    assert (tmp_path / "z.wav").read_bytes() == piped, "a file that is appended to cannot be gone back in"


def test_json_reports_the_run_and_length_is_a_warning_with_exit_code_0(tmp_path):
    result = run(*VOICE, "--max-new", "5", "--seed", "4", "--json", "-o", tmp_path / "x.wav")
    figures = json.loads(result.stdout)
    assert result.returncode == 0
    assert (figures["finish_reason"], figures["seed"], figures["frames"], figures["max_frames"]) == ("length", 4, 5, 5)
    assert set(figures["timings_s"]) == {"load", "prime", "prefill", "talker", "predictor", "sampling", "codec", "codec_beside", "total"}
    assert 0 < figures["first_audio"] <= figures["timings_s"]["total"]
    assert result.err.startswith("qwentts: warning: finish reason length: the frame limit (5) was reached") and result.err.count("\n") == 1


def test_lines_are_spoken_one_by_one(tmp_path):
    options = [*VOICE, "--max-new", "4", "--seed", "1", "--stream-by-line"]
    result = run(*options, "-o", tmp_path / "out.wav", stdin=b"One.\n\n Two. \nThree.")
    assert result.returncode == 0, result.err
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"out-000{i}.wav" for i in (1, 2, 3)]
    result = run(*options, "-o", "-", stdin=b"One.\nTwo.\n", program=QWEN_TTS)
    size = len((tmp_path / "out-0001.wav").read_bytes())
    assert result.stdout.count(b"RIFF") == 2 and len(result.stdout) == 2 * size
    assert result.stdout[:size] == (tmp_path / "out-0001.wav").read_bytes()


def test_lines_are_spoken_while_the_input_is_open():
    command = [*QWENTTS, *VOICE, "--max-new", "4", "--stream-by-line", "-o", "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        process.stdin.write(b"One.\n")
        process.stdin.flush()
        assert process.stdout.read(4) == b"RIFF"
        process.stdin.close()
        process.stdout.read()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--speaker", "nobody"], ["speaker 'nobody'", "ada"]),
        ([], ["--speaker is required for custom_voice", "ada"]),
        (["--ref-wav", "x.wav"], ["--ref-wav is only valid for base models (loaded: custom_voice)"]),
        (["--speaker", "ada", "--ref-wav", "x.wav"], ["--speaker and --ref-wav are mutually exclusive"]),
        (["--speaker", "ada", "--voice", "x.voice"], ["--speaker and --ref-wav are mutually exclusive"]),
        (["--speaker", "ada", "--ref-text", "x.txt"], ["--ref-text requires --ref-wav"]),
        (["--ref-wav", "x.wav", "--ref-spk", "x.spk"], ["--ref-wav and --ref-spk are mutually exclusive"]),
        (["--ref-rvq", "x.rvq", "--ref-spk", "x.spk"], ["--ref-rvq requires --ref-spk and --ref-text"]),
        (["--ref-rvq", "x.rvq", "--ref-text", "x.txt"], ["--ref-rvq requires --ref-spk and --ref-text"]),
        (["--ref-spk", "x.spk", "--ref-text", "x.txt"], ["--ref-text with --ref-spk requires --ref-rvq"]),
        (["--voice", "x.voice", "--ref-text", "x.txt"], ["--voice holds a whole voice"]),
        (["--speaker", "ada", "--lang", "cn"], ["language 'cn'", "did you mean 'zh'", "auto, chinese (zh)"]),
        (["--speaker", "ada", "--temp", "nan"], ["temperature is nan"]),
        (["--speaker", "ada", "--top-p", "1.5"], ["top_p is 1.5"]),
        (["--speaker", "ada", "--top-k", "-1"], ["top_k is -1"]),
        (["--speaker", "ada", "--rep-pen", "0"], ["repetition_penalty is 0"]),
        (["--speaker", "ada", "--sub-temp", "inf"], ["subtalker_temperature is inf"]),
        (["--speaker", "ada", "--max-new", "0"], ["max_new_tokens is 0"]),
        (["--speaker", "ada", "--seed", "-2"], ["seed is -2"]),
        (["--speaker", "ada", "--seed", "x"], ["--seed", "'x'"]),
        (["--speaker", "ada", "--format", "mp3"], ["--format", "wav16"]),
        (["--speaker", "ada", "--codec-chunk-dur", "nan"], ["--codec-chunk-dur is nan"]),
        (["--speaker", "ada", "--threads", "0"], ["threads is 0"]),
        (["--speaker", "ada", "--backend", "cuda"], ["cuda", "CPU"]),
        (["--speaker", "ada", "--nonsense"], ["--nonsense"]),
    ],
)  # fmt: skip
def test_bad_options_are_one_line_and_leave_no_file(here, tmp_path, arguments, parts):
    fails(here(*FILES, *arguments, "-o", tmp_path / "x.wav"), *parts)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("stdin", "part"), [(b"", "is empty"), (b" \n\t", "is empty"), (b"caf\xe9", "not valid UTF-8: byte 3 is 0xe9"), (b"\xff", "byte 0")]
)
def test_bad_text_is_one_line(here, tmp_path, stdin, part):
    fails(here(*VOICE, "-o", tmp_path / "x.wav", stdin=stdin), part)
    assert list(tmp_path.iterdir()) == []


def test_bad_text_arguments_are_one_line(here, tmp_path):
    fails(here("tts", "", *VOICE, "-o", tmp_path / "x.wav"), "text is empty")
    fails(here("tts", "--text-file", tmp_path / "none.txt", *VOICE, "-o", tmp_path / "x.wav"), "none.txt", "No such file")
    fails(run("tts", b"a\xff".decode("utf-8", "surrogateescape"), *VOICE, "-o", tmp_path / "x.wav"), "not valid UTF-8")
    assert list(tmp_path.iterdir()) == []


def test_bad_files_are_one_line(here, tmp_path):
    (tmp_path / "cut.gguf").write_bytes(open(TALKER, "rb").read()[:5000])
    (tmp_path / "text.gguf").write_text("hello")
    before = sorted(tmp_path.iterdir())
    for model, codec, part in [
        (tmp_path / "none.gguf", CODEC, "none.gguf"), (tmp_path / "cut.gguf", CODEC, "cut.gguf"),
        (tmp_path / "text.gguf", CODEC, "text.gguf"), (CODEC, TALKER, "qwen3-tts"),
        (TALKER, tiny_files("voice_design")[1], "4"), (TALKER, tmp_path / "none2.gguf", "none2.gguf"),
    ]:  # fmt: skip
        fails(here("--model", model, "--codec", codec, "--speaker", "ada", "-o", tmp_path / "x.wav"), part)
    fails(here("--model", TALKER, "-o", tmp_path / "x.wav"), "codec", "missing")
    assert sorted(tmp_path.iterdir()) == before


def test_unwritable_output_is_known_before_the_work(here, tmp_path):
    fails(here("--model", "none.gguf", "--codec", "none.gguf", "-o", tmp_path / "no" / "x.wav"), "cannot be written", "No such file")
    fails(here(*VOICE, "-o", tmp_path), "cannot be written", "folder")


@pytest.mark.parametrize("name", [signal.SIGINT, signal.SIGTERM])
def test_signals_leave_no_half_file(tmp_path, name):
    command = [*QWENTTS, *VOICE, "--max-new", "4000", "--no-repetition-guard", "--seed", "1", "-o", tmp_path / "x.wav"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdin.write(b"Hello.")
    process.stdin.close()
    deadline = time.monotonic() + 30
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.4)
    assert process.poll() is None, "it was done before it could be interrupted"
    start = time.monotonic()
    process.send_signal(name)
    err = process.stderr.read().decode()
    assert process.wait(10) == 128 + name and time.monotonic() - start < 3
    assert list(tmp_path.iterdir()) == [] and "Traceback" not in err


def test_a_closed_reader_ends_the_program_quietly():
    command = [*QWENTTS, *VOICE, "--max-new", "400", "--no-repetition-guard", "--seed", "1", "-o", "-"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    process.stdin.write(b"Hello.")
    process.stdin.close()
    err = process.stderr.read().decode()
    assert process.wait(60) != 0 and "Traceback" not in err and "Exception ignored" not in err


@pytest.mark.parametrize("module", ["numpy", "_cffi_backend", "argparse"])
def test_an_interrupt_during_the_imports_is_quiet(tmp_path, module):
    """The module kills the program where it is imported and then takes long, so the moment is not left to chance."""
    (tmp_path / f"{module}.py").write_text("import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(20)\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [*QWENTTS, *VOICE, "-o", tmp_path / "x.wav"]
    start = time.monotonic()
    done = subprocess.run(command, input=b"Hello.", capture_output=True, env=os.environ | {"PYTHONPATH": path}, timeout=30)
    assert done.returncode == 130 and done.stderr == b"" and time.monotonic() - start < 10


def test_a_library_that_cannot_be_used_is_one_line(tmp_path):
    (tmp_path / "broken.so").write_bytes(b"no library")
    for name, part in (("none.so", "no library at"), ("broken.so", "cannot be opened")):
        environment = os.environ | {"QWENTTS_LIBRARY": str(tmp_path / name)}
        for arguments in (["--version"], ["Hello.", "-o", "x.wav"], ["inspect", TALKER]):
            done = subprocess.run([*QWENTTS, *arguments], capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=60)
            assert done.returncode == 2 and done.stderr.startswith("qwentts: error: ") and done.stderr.count("\n") == 1
            assert part in done.stderr and str(tmp_path / name) in done.stderr
    assert subprocess.run([*QWENTTS, "--help"], capture_output=True, env=environment, timeout=60).returncode == 0, "help needs no library"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_write_that_fails_midway_ends_with_one(tmp_path):
    full = run(*VOICE, "--max-new", "3", "-o", "/dev/full")
    fails(full, "output '/dev/full' cannot be written", "No space left", code=1)
    for words in ([*VOICE, "--max-new", "3", "Hello.", "--json", "-o", "x.wav"], ["inspect", TALKER], ["--version"]):
        command = shlex.join([*QWENTTS, *words])
        done = subprocess.run(["sh", "-c", f"{command} > /dev/full"], capture_output=True, cwd=tmp_path, timeout=60)
        *before, last = done.stderr.decode().splitlines()
        assert done.returncode == 1 and last.startswith("qwentts: error: ") and "No space left" in last, done.stderr
        assert all(line.startswith("qwentts: warning: ") for line in before), "the frame limit, and no traceback"


def test_figures_without_a_standard_output_are_refused(tmp_path):
    command = shlex.join([*QWENTTS, *VOICE, "--max-new", "3", "Hello.", "--json", "-o", "x.wav"])
    done = subprocess.run(["sh", "-c", f"{command} >&-"], capture_output=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2 and b"--json cannot be printed: standard output is closed" in done.stderr
    assert list(tmp_path.iterdir()) == [], "known before the work"


def test_codec_keeps_files_that_exist(here, tmp_path):
    codec = str(tiny_files("base")[1])
    soundfile.write(tmp_path / "clip.wav", np.sin(np.arange(9600) / 20), 24000)
    original = (tmp_path / "clip.wav").read_bytes()
    assert here("codec", "--model", codec, "-i", tmp_path / "clip.wav").returncode == 0
    fails(here("codec", "--model", codec, "-i", tmp_path / "clip.rvq"), "clip.wav' exists", "--force")
    fails(here("codec", "--model", codec, "-i", tmp_path / "clip.wav"), "clip.rvq' exists", "--force")
    assert (tmp_path / "clip.wav").read_bytes() == original
    assert here("codec", "--model", codec, "-i", tmp_path / "clip.rvq", "--force").returncode == 0
    assert (tmp_path / "clip.wav").read_bytes() != original


def test_closed_standard_streams_are_no_crash(tmp_path):
    command = shlex.join([*QWENTTS, *VOICE, "--max-new", "3", "--seed", "1", "Hello."])

    def run_in_shell(more):
        return subprocess.run(["sh", "-c", f"{command} {more}"], capture_output=True, cwd=tmp_path, stdin=subprocess.DEVNULL)

    to_file = run_in_shell("-o a.wav >&-")
    assert to_file.returncode == 0 and b"Traceback" not in to_file.stderr and [p.name for p in tmp_path.iterdir()] == ["a.wav"]
    to_nothing = run_in_shell("-o - >&-")
    assert to_nothing.returncode == 2 and b"output '-' cannot be written: it is closed" in to_nothing.stderr
    silent = run_in_shell("-o - 2>&-")
    assert silent.returncode == 0 and silent.stdout[44:] == (tmp_path / "a.wav").read_bytes()[44:], "no warning among the samples"


def test_the_demonstration_voice_speaks_without_a_model(tmp_path):
    result = run("Hello world", "-o", tmp_path / "hello.wav")
    assert result.returncode == 0, result.err
    assert len(result.err.splitlines()) == 1 and "demonstration voice" in result.err and "qwentts convert" in result.err
    samples, rate = soundfile.read(tmp_path / "hello.wav")
    assert 0.5 < len(samples) / rate < 3 and np.sqrt((samples**2).mean()) > 0.01


def test_inspect_shows_a_talker_a_codec_and_a_foreign_file(here, tmp_path):
    from gguf import GGUFWriter

    shown = here("inspect", TALKER).stdout.decode()
    for part in ("talker", "custom_voice", "ada", "german (de)", "5 code groups", "code predictor", "f32"):
        assert part in shown
    facts = json.loads(here("inspect", CODEC, "--json").stdout)
    assert facts["kind"] == "codec" and facts["parts"]["codec decoder"]["parameters"] > 0
    writer = GGUFWriter(tmp_path / "llama.gguf", "llama")
    writer.add_tensor("blk.0.w", np.ones((2, 32), np.float32))
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()
    shown = here("inspect", tmp_path / "llama.gguf").stdout.decode()
    assert "architecture llama" in shown and "not a Qwen3-TTS file" in shown
    fails(here("inspect", tmp_path / "none.gguf"), "none.gguf")


def test_help_and_version(here):
    for arguments in (["--help"], ["tts", "--help"], ["codec", "--help"], ["convert", "--help"], ["inspect", "--help"], ["--version"]):
        result = here(*arguments)
        assert result.returncode == 0 and result.stdout and not result.stderr
    assert run("--help", program=QWEN_TTS).returncode == 0
    fails(here(stdin=b""), "COMMAND")


def test_convert_names_what_is_wrong(here, tmp_path):
    fails(here("convert", tmp_path / "none"), "none")
    assert os.listdir(tmp_path) == []
