"""Named models: fetched from a hub that runs here on the loopback interface, and found again by name. No test needs the internet."""

import hashlib
import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from conftest import tiny_files

from qwentts import TTS, DownloadError, ModelFileError, OutputError, ParameterError, hub
from qwentts.download import REPO, download

pytest.importorskip("huggingface_hub", reason="downloads go through it: pip install 'qwentts[hub]'")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
TALKER, CODEC = "qwen-talker-0.6b-customvoice-Q8_0.gguf", "qwen-tokenizer-12hz-Q8_0.gguf"
CHUNK_BYTES = 16384


class Hub(ThreadingHTTPServer):
    """The calls of the hub that a download makes: HEAD and GET of /REPO/resolve/REVISION/FILE, the latter with Range."""

    daemon_threads = True

    def __init__(self, files: dict[str, bytes], repo: str = REPO) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files, self.repo = files, repo
        self.asked: list[tuple[str, str, str | None]] = []  # method, path, Range
        self.tokens: list[str | None] = []
        self.broken_after: list[int | None] = []  # for the next GETs: bytes to send before the connection ends, None is all
        self.status_of_get = 200
        self.fails_once_broken = False  # after such an end every GET answers 500
        self.says: dict[str, str] = {}  # headers of HEAD that are not true
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """A client that goes away, as the tests have it do, is no news."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def ranges(self, file: str) -> list[str | None]:
        return [range for method, path, range in self.asked if method == "GET" and path.endswith(file)]


class Answer(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:  # noqa: N802
        data = self._file()
        if data is not None:
            facts = {
                "X-Repo-Commit": COMMIT, "ETag": '"not this one"', "X-Linked-Size": str(len(data)),
                "X-Linked-ETag": f'"{hashlib.sha256(data).hexdigest()}"', "Content-Length": str(len(data)),
            }  # fmt: skip
            self._head(200, facts | self.server.says)

    def do_GET(self) -> None:  # noqa: N802
        data, wanted = self._file(), self.headers["Range"]
        if data is None:
            return
        if self.server.status_of_get != 200:
            self._head(self.server.status_of_get, {"Content-Length": "0"})
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        facts = {"Content-Length": str(len(data) - start)}
        if wanted:
            facts["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        self._head(206 if wanted else 200, facts)
        limit = self.server.broken_after.pop(0) if self.server.broken_after else None
        self.wfile.write(data[start:][:limit])
        if limit is not None:
            self.server.status_of_get = 500 if self.server.fails_once_broken else 200
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            self.close_connection = True

    def _file(self) -> bytes | None:
        self.server.asked.append((self.command, self.path, self.headers["Range"]))
        self.server.tokens.append(self.headers["Authorization"])
        parts = self.path.lstrip("/").split("/")
        if "/".join(parts[:2]) != self.server.repo or parts[2:3] != ["resolve"]:
            self._head(404, {"X-Error-Code": "RepoNotFound", "Content-Length": "0"})
        elif parts[3] not in ("main", COMMIT):
            self._head(404, {"X-Error-Code": "RevisionNotFound", "Content-Length": "0"})
        elif parts[-1] not in self.server.files:
            self._head(404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": COMMIT, "Content-Length": "0"})
        else:
            return self.server.files[parts[-1]]
        return None

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def files() -> dict[str, bytes]:
    talker, codec = tiny_files("custom_voice")
    return {TALKER: talker.read_bytes(), CODEC: codec.read_bytes()}


@pytest.fixture
def remote(files, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", CHUNK_BYTES)  # what is lost of a broken connection: 10 MB else
    for name in ("QWENTTS_MODELS", "QWENTTS_HUB_REPO", "HF_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    server = Hub(files)
    yield server
    server.shutdown()
    server.server_close()


def seen(folder: Path) -> dict[str, bytes]:
    """What is in a folder under a name that is not hidden."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".")} if folder.exists() else {}


def test_both_files_come_and_are_found_by_name(remote, files, tmp_path, monkeypatch):
    monkeypatch.setenv("QWENTTS_MODELS", str(tmp_path / "new" / "models"))
    talker, codec = download("0.6B-CustomVoice", endpoint=remote.url)
    assert seen(tmp_path / "new" / "models") == files and list((tmp_path / "new" / "models").glob(".*")) == []
    assert (talker.kind, talker.n_bytes, talker.n_bytes_loaded) == ("talker", len(files[TALKER]), len(files[TALKER]))
    assert codec.sha256 == hashlib.sha256(files[CODEC]).hexdigest()
    assert {path.split("/")[4] for method, path, _ in remote.asked if method == "GET"} == {COMMIT}, "what is loaded is pinned to a commit"
    with TTS("0.6b-customvoice") as tts:
        assert tts.synthesize("Hello.", speaker="ada", max_new_tokens=2, seed=1).samples.size == 2 * 480
    remote.asked.clear()
    assert [row.n_bytes_loaded for row in download("0.6b-customvoice-q8_0", endpoint=remote.url)] == [0, 0]
    assert {method for method, _, _ in remote.asked} == {"HEAD"}


def test_a_broken_connection_is_taken_up_in_the_same_run(remote, files, tmp_path):
    remote.broken_after = [3 * CHUNK_BYTES + 100]
    download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
    assert seen(tmp_path) == files and remote.ranges(TALKER) == [None, f"bytes={3 * CHUNK_BYTES}-"]


def test_an_interrupted_download_goes_on_in_the_next_run(remote, files, tmp_path):
    remote.broken_after, remote.fails_once_broken = [2 * CHUNK_BYTES], True
    with pytest.raises(DownloadError, match="500.* goes on where it stopped"):
        download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
    part = next(tmp_path.glob(".*.part"))
    assert seen(tmp_path) == {} and part.read_bytes() == files[TALKER][: 2 * CHUNK_BYTES]
    remote.asked.clear()
    remote.status_of_get = 200
    talker, _ = download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
    assert seen(tmp_path) == files and not part.exists()
    assert remote.ranges(TALKER) == [f"bytes={2 * CHUNK_BYTES}-"]
    assert talker.n_bytes_loaded == len(files[TALKER]) - 2 * CHUNK_BYTES


def test_a_changed_file_does_not_go_on_with_the_old_part(remote, files, tmp_path):
    old = tmp_path / f".{TALKER}.{'0' * 12}.part"
    old.write_bytes(b"older bytes")
    download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
    assert seen(tmp_path) == files and remote.ranges(TALKER) == [None]


@pytest.mark.parametrize("left", ["longer than the file", "wrong bytes"])
def test_a_spoilt_part_never_gets_the_name(remote, files, tmp_path, left):
    part = tmp_path / f".{TALKER}.{hashlib.sha256(files[TALKER]).hexdigest()[:12]}.part"
    part.write_bytes(files[TALKER] + b"x" if left.startswith("longer") else bytes(5 * CHUNK_BYTES))
    if left == "wrong bytes":
        with pytest.raises(DownloadError, match="SHA-256"):
            download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
        assert seen(tmp_path) == {} and not part.exists()
    download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
    assert seen(tmp_path) == files


def test_a_wrong_checksum_is_refused_and_nothing_is_left(remote, tmp_path):
    remote.says = {"X-Linked-ETag": f'"{"ab" * 32}"'}
    with pytest.raises(DownloadError, match=f"{TALKER} has the SHA-256 [0-9a-f]{{64}}, the hub says (ab){{32}}: it was discarded"):
        download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ({"X-Linked-ETag": '"abc"'}, "no SHA-256"),
        ({"X-Linked-Size": "7"}, "bytes, the hub says 7: it was discarded"),
        ({"X-Repo-Commit": ""}, ""),
    ],
)  # fmt: skip
def test_metadata_that_tell_too_little_or_lie(remote, files, tmp_path, says, message):
    remote.says = says
    if message:
        with pytest.raises(DownloadError, match=message):
            download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
        assert seen(tmp_path) == {}
    else:  # no commit: the revision that was asked for
        download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
        assert seen(tmp_path) == files


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type": "Q4_K_M"}, f"{REPO} has no file qwen-talker-0.6b-customvoice-Q4_K_M.gguf"),
        ({"codec_type": "BF16"}, f"{REPO} has no file qwen-tokenizer-12hz-BF16.gguf"),
        ({"repo": "nobody/nothing"}, "nobody/nothing does not exist or is not open to you"),
        ({"revision": "v9"}, "could not be read .*v9"),
    ],
)
def test_what_the_hub_does_not_have_is_said_before_anything_is_loaded(remote, tmp_path, options, message):
    with pytest.raises(DownloadError, match=message) as error:
        download("0.6b-customvoice", to=tmp_path / "x", endpoint=remote.url, **options)
    kind, codec = options.get("type", "Q8_0"), options.get("codec_type", options.get("type", "Q8_0"))
    for part in (f"qwen-talker-0.6b-customvoice-{kind}.gguf", f"qwen-tokenizer-12hz-{codec}.gguf", str(tmp_path / "x")):
        assert part in str(error.value)
    assert not (tmp_path / "x").exists() and {method for method, _, _ in remote.asked} == {"HEAD"}


def test_a_failing_server_keeps_what_came(remote, files, tmp_path):
    remote.status_of_get = 500
    with pytest.raises(DownloadError, match="500"):
        download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
    assert seen(tmp_path) == {}


def test_without_network_the_error_says_what_to_fetch_by_hand(tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens there
        with pytest.raises(DownloadError) as error:
            download("0.6b-customvoice", to=tmp_path / "x", endpoint=f"http://127.0.0.1:{closed.getsockname()[1]}")
    message = str(error.value)
    assert all(part in message for part in (TALKER, CODEC, str(tmp_path / "x"), "by hand", REPO)) and "\n" not in message
    assert not (tmp_path / "x").exists()


def test_without_huggingface_hub_the_error_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(DownloadError, match=r"pip install 'qwentts\[hub\]'; by hand: ") as error:
        download("1.7b-base", to=tmp_path)
    assert "qwen-talker-1.7b-base-Q8_0.gguf" in str(error.value) and CODEC in str(error.value)


@pytest.mark.parametrize("same_size", [False, True])
def test_a_file_of_ones_own_is_not_replaced(remote, files, tmp_path, same_size):
    mine = files[TALKER][:-1] + bytes([files[TALKER][-1] ^ 1]) if same_size else b"mine"
    (tmp_path / TALKER).write_bytes(mine)
    with pytest.raises(ModelFileError, match="is not the hub's file"):
        download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
    assert seen(tmp_path) == {TALKER: mine}


def test_two_runs_do_not_write_the_same_file(remote, files, tmp_path):
    fcntl = pytest.importorskip("fcntl")
    part = tmp_path / f".{TALKER}.{hashlib.sha256(files[TALKER]).hexdigest()[:12]}.part"
    with open(part, "wb") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        with pytest.raises(OutputError, match="by another process"):
            download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
    download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
    assert seen(tmp_path) == files


@pytest.mark.parametrize("obstacle", ["a file", "full", "no space"])
def test_a_place_that_cannot_be_written(remote, tmp_path, monkeypatch, obstacle):
    folder = tmp_path
    if obstacle == "a file":
        (tmp_path / "x").write_text("")
        folder = tmp_path / "x" / "models"
    elif obstacle == "full":
        monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1000}))
    else:
        (tmp_path / f".{TALKER}.{hashlib.sha256(remote.files[TALKER]).hexdigest()[:12]}.part").symlink_to("/dev/full")
    with pytest.raises(OutputError, match="cannot be made|needs .* more bytes|No space left"):
        download("0.6b-customvoice", to=folder, endpoint=remote.url)
    assert TALKER not in seen(tmp_path)


def test_the_token_goes_to_the_hub(remote, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    download("0.6b-customvoice", to=tmp_path, endpoint=remote.url)
    assert set(remote.tokens) == {"Bearer hf_secret"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("0.6b-voicedesign",), "names are 0.6b-base, 0.6b-customvoice, 1.7b-base, 1.7b-customvoice, 1.7b-voicedesign"),
        ((None,), "NoneType"), (("",), "names are"), (("0.6b-base", "Q9"), "type is 'Q9'"),
        (("0.6b-base", "Q8_0", "Q9"), "codec_type is 'Q9'"),
        (("0.6b-base", "Q8_0", None, None, "nameonly"), "OWNER/NAME"), (("0.6b-base", "Q8_0", None, None, "../x"), "OWNER/NAME"),
    ],
)  # fmt: skip
def test_arguments_that_are_not_valid(arguments, message):
    names = ("model", "type", "codec_type", "to", "repo")
    with pytest.raises(ParameterError, match=message):
        download(**dict(zip(names, arguments, strict=False)))


def command(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "qwentts", *map(str, arguments)], capture_output=True, text=True, env=os.environ | environment, timeout=120
    )


def test_command_line_from_the_hub_to_a_voice(files, tmp_path):
    server = Hub(files, repo="me/my-voices")
    environment = {"HF_ENDPOINT": server.url, "QWENTTS_HUB_REPO": "me/my-voices", "XDG_CACHE_HOME": str(tmp_path), "QWENTTS_MODELS": ""}
    done = command("download", "0.6b-customvoice", "--json", **environment)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    rows = json.loads(done.stdout)
    assert rows["talker"]["path"] == str(tmp_path / "qwentts" / TALKER) and rows["codec"]["bytes"] == len(files[CODEC])
    options = ("--model", "0.6b-customvoice", "--speaker", "ada", "--max-new", "2", "--seed", "1", "--quiet")
    spoken = command("Hello.", *options, "-o", tmp_path / "x.wav", **environment)
    assert spoken.returncode == 0 and (tmp_path / "x.wav").stat().st_size > 1900, spoken.stderr
    elsewhere = command("download", "0.6b-customvoice", "--to", tmp_path / "other", **environment)
    assert elsewhere.stdout.split() == [str(tmp_path / "other" / name) for name in (TALKER, CODEC)]
    assert f"QWENTTS_MODELS={tmp_path / 'other'}" in elsewhere.stderr
    offline = command("download", "0.6b-customvoice", "--to", tmp_path / "third", HF_HUB_OFFLINE="1", **environment)
    assert offline.returncode == 1 and "HF_HUB_OFFLINE is set; by hand" in offline.stderr
    server.shutdown()
    server.server_close()
    gone = command("download", "0.6b-customvoice", "--to", tmp_path / "third", **environment)
    assert gone.returncode == 1 and gone.stderr.startswith("qwentts: error: ") and gone.stderr.count("\n") == 1
    assert TALKER in gone.stderr and CODEC in gone.stderr and str(tmp_path / "third") in gone.stderr and not gone.stdout


@pytest.fixture
def models(files, tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("QWENTTS_MODELS", str(tmp_path))
    return tmp_path


def put(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).touch()


def test_a_name_takes_q8_0_then_the_most_exact_type(models):
    put(models, "qwen-talker-1.7b-base-Q4_K_M.gguf", "qwen-talker-1.7b-base-F16.gguf", "qwen-tokenizer-12hz-F32.gguf")
    assert [path.name for path in hub.resolve("1.7b-base", None)] == ["qwen-talker-1.7b-base-F16.gguf", "qwen-tokenizer-12hz-F32.gguf"]
    put(models, *(f"qwen-talker-1.7b-base-{type}.gguf" for type in ("F32", "Q8_0")))
    put(models, *(f"qwen-tokenizer-12hz-{type}.gguf" for type in ("Q8_0", "Q4_K_M")))
    assert [path.name for path in hub.resolve("1.7B-Base", None)] == ["qwen-talker-1.7b-base-Q8_0.gguf", "qwen-tokenizer-12hz-Q8_0.gguf"]
    talker, codec = hub.resolve("1.7b-base-q4_k_m", None)
    assert (talker.name, codec.name) == ("qwen-talker-1.7b-base-Q4_K_M.gguf", "qwen-tokenizer-12hz-Q4_K_M.gguf")
    assert hub.resolve("1.7b-base", "my.gguf")[1] == "my.gguf"


def test_a_file_wins_over_a_name_and_paths_stay(models, monkeypatch):
    monkeypatch.chdir(models)
    put(models, "1.7b-base")
    assert hub.resolve("1.7b-base", None) == ("1.7b-base", None)
    for path in ("./0.6b-base", "x/0.6b-base", "0.6b.gguf", Path("0.6b-base"), "", None, "a\0b"):
        assert hub.resolve(path, path) == (path, path)


def test_models_of_ones_own_have_names_too(models):
    put(models, "qwen-talker-9b-mine-BF16.gguf", "qwen-tokenizer-12hz-F16.gguf")
    assert [path.name for path in hub.resolve("9b-mine", None)] == ["qwen-talker-9b-mine-BF16.gguf", "qwen-tokenizer-12hz-F16.gguf"]
    with pytest.raises(ParameterError, match=r"'2b-mine' is neither .*; names are 0.6b-base, .*1.7b-voicedesign, 9b-mine$"):
        TTS("2b-mine")


@pytest.mark.parametrize(
    ("there", "name", "message"),
    [
        ((), "0.6b-base", r"qwen-talker-0.6b-base-TYPE.gguf is not in .*`qwentts download 0.6b-base`.*QWENTTS_MODELS"),
        (("qwen-talker-0.6b-base-Q8_0.gguf",), "0.6b-base", "qwen-tokenizer-12hz-TYPE.gguf is not in .*`qwentts download MODEL`"),
        (
            ("qwen-talker-0.6b-base-Q8_0.gguf",), "0.6b-base-bf16",
            r"0.6b-base-BF16.gguf is not in .* \(there: Q8_0\): .*`qwentts download 0.6b-base --type BF16`",
        ),
    ],
)  # fmt: skip
def test_a_name_whose_files_are_not_there_says_the_command(models, there, name, message):
    put(models, *there)
    with pytest.raises(ModelFileError, match=message):
        TTS(name)


def test_the_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("QWENTTS_MODELS", "~/voices")
    assert hub.model_folder() == Path.home() / "voices"
    monkeypatch.setenv("QWENTTS_MODELS", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert hub.model_folder() == tmp_path / "qwentts"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert hub.model_folder() == Path.home() / ".cache" / "qwentts"


def test_the_codec_command_takes_names(models, files, tmp_path):
    for name, data in files.items():
        (models / name).write_bytes(data)
    done = command("codec", "--model", "12hz", "--json")
    assert done.returncode == 0, done.stderr
    refused = command("codec", "--model", "48hz")
    assert refused.returncode == 2 and "names are 12hz" in refused.stderr
