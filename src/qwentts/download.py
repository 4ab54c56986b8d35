"""The files of a named model from a repository of the Hugging Face hub: `download("0.6b-customvoice")`.

HEAD: commit, size, SHA-256 -> GET from where an earlier run stopped, into a hidden .part file -> checksum -> the file under its name.
What an interrupted run leaves is that .part file alone, and the next run goes on with it. Through huggingface_hub (extra [hub]), so
HF_ENDPOINT, HF_TOKEN, HF_HUB_OFFLINE and proxies mean here what they mean there. Names and folders are hub.py's.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from . import hub
from .errors import DownloadError, ModelFileError, OutputError, ParameterError

# Where files of these names are published. It could not be reached where this was written: --repo or QWENTTS_HUB_REPO names another.
REPO = "Serveurperso/Qwen3-TTS-GGUF"
BLOCK_BYTES = 1 << 20
LOCAL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EISDIR)


@dataclass(frozen=True)
class Fetched:
    """One file of a download."""

    kind: str  # talker or codec
    path: Path
    sha256: str
    n_bytes: int
    n_bytes_loaded: int  # by this call: 0 for a file that was already there


def download(
    model: str,
    *,
    type: str = hub.DEFAULT_TYPE,
    codec_type: str | None = None,
    to: str | os.PathLike[str] | None = None,
    repo: str | None = None,
    revision: str = "main",
    endpoint: str | None = None,
) -> tuple[Fetched, Fetched]:
    """Talker and codec of `model` in the folder `to` (None: hub.model_folder()), loaded as far as they are not there yet.

    repo None is QWENTTS_HUB_REPO, else REPO; endpoint None is HF_ENDPOINT, else the hub. A file appears under its name only when its
    SHA-256 is the hub's; one that is already there and differs is refused, not replaced. Raises DownloadError when the files cannot
    be had, OutputError when they cannot be written.
    """
    if not isinstance(model, str):
        raise ParameterError(f"model is of type {model.__class__.__name__}, expected one of {', '.join(hub.PUBLISHED)}")
    name, own_type = hub.split_name(model)
    if name not in hub.PUBLISHED:
        raise ParameterError(f"{model!r} is no model that can be downloaded; names are {', '.join(hub.PUBLISHED)}")
    type = hub.check_type(own_type or type)
    codec_type = hub.check_type(codec_type, "codec_type") if codec_type is not None else type
    names = {"talker": hub.file_name("talker", name, type), "codec": hub.file_name("codec", hub.CODEC, codec_type)}
    folder = Path(to).expanduser() if to is not None else hub.model_folder()
    repo = repo or os.environ.get("QWENTTS_HUB_REPO") or REPO
    if not re.fullmatch(r"(?a:[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)", repo):
        raise ParameterError(f"repo is {repo!r}, expected OWNER/NAME")
    with _explained(repo, names, folder, endpoint):
        talker, codec = (_Source(repo, file, revision, endpoint) for file in names.values())  # both are known before one is loaded
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"the folder {str(folder)!r} cannot be made: {error.strerror}") from None
        return _fetch("talker", talker, folder), _fetch("codec", codec, folder)


class _Source:
    """A file of a repository, pinned to the commit that `revision` means now."""

    def __init__(self, repo: str, file: str, revision: str, endpoint: str | None) -> None:
        from huggingface_hub import get_hf_file_metadata, hf_hub_url

        self.file = file
        head = get_hf_file_metadata(hf_hub_url(repo, file, revision=revision, endpoint=endpoint))
        if not head.etag or not re.fullmatch("[0-9a-f]{64}", head.etag) or not head.size:
            raise DownloadError(f"{repo} gives no SHA-256 and size for {file} (ETag {head.etag!r}, size {head.size})")
        self.sha256, self.n_bytes = head.etag, int(head.size)
        self.url = hf_hub_url(repo, file, revision=head.commit_hash or revision, endpoint=endpoint)

    def load(self, stream: BinaryIO) -> None:
        """Append what the stream lacks; a broken connection is taken up again as long as each one brings something."""
        from huggingface_hub.file_download import http_get
        from huggingface_hub.utils import build_hf_headers

        size, headers = self.n_bytes, build_hf_headers()
        while (have_bytes := stream.seek(0, os.SEEK_END)) < size:
            try:
                http_get(self.url, stream, resume_size=have_bytes, headers=headers, expected_size=size, displayed_filename=self.file)
            except Exception as error:  # of httpx or requests: the client's versions differ, and some do not try again themselves
                if getattr(error, "errno", None) in LOCAL_ERRORS or stream.seek(0, os.SEEK_END) == have_bytes:
                    raise
        stream.flush()


def _fetch(kind: str, source: _Source, folder: Path) -> Fetched:
    path = folder / source.file
    if path.exists():
        if path.stat().st_size != source.n_bytes or _sha256(path) != source.sha256:
            raise ModelFileError(
                f"{path} is there but is not the hub's file ({path.stat().st_size} bytes, the hub's has {source.n_bytes} and the SHA-256"
                f" {source.sha256}): move it away, or give another folder with --to"
            )
        return Fetched(kind, path, source.sha256, source.n_bytes, 0)
    part = folder / f".{source.file}.{source.sha256[:12]}.part"  # another version of the file has another name
    try:
        with open(part, "ab") as stream:
            _lock(stream, part)
            have_bytes = stream.seek(0, os.SEEK_END)
            if have_bytes > source.n_bytes:
                have_bytes = stream.truncate(0)
            missing_bytes, free_bytes = source.n_bytes - have_bytes, shutil.disk_usage(folder).free
            if missing_bytes > free_bytes:
                raise OutputError(f"{path} needs {missing_bytes:,} more bytes, {folder} has {free_bytes:,} left")
            source.load(stream)
            os.fsync(stream.fileno())
            n_bytes, loaded = stream.tell(), _sha256(part)
            if n_bytes != source.n_bytes:
                part.unlink()
                raise DownloadError(f"{source.file} has {n_bytes} bytes, the hub says {source.n_bytes}: it was discarded")
            if loaded != source.sha256:
                part.unlink()
                raise DownloadError(f"{source.file} has the SHA-256 {loaded}, the hub says {source.sha256}: it was discarded")
            os.replace(part, path)
    except OSError as error:
        if error.errno in LOCAL_ERRORS:
            raise OutputError(f"{path} cannot be written: {error.strerror}") from None
        raise
    return Fetched(kind, path, source.sha256, source.n_bytes, missing_bytes)


def _lock(stream: BinaryIO, part: Path) -> None:
    """Two runs must not append to the same file; the lock goes with the process."""
    try:
        import fcntl
    except ImportError:  # Windows: the checksum still finds it
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise OutputError(f"{part.parent / part.name} is being downloaded by another process") from None


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


@contextmanager
def _explained(repo: str, names: dict[str, str], folder: Path, endpoint: str | None) -> Iterator[None]:
    """Turn whatever the hub's client raises into a DownloadError that says what to fetch by hand, and where to put it."""
    files = " and ".join(names.values())
    by_hand = f"by hand: fetch {files} on another machine and put both into {folder}"
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        raise DownloadError(f"download needs the package {error.name}: pip install 'qwentts[hub]'; {by_hand}") from None
    where = f"{(endpoint or huggingface_hub.constants.ENDPOINT).rstrip('/')}/{repo}"
    try:
        yield
    except DownloadError as error:
        raise DownloadError(f"{error}; {by_hand}") from None
    except (ParameterError, ModelFileError, OutputError):
        raise
    except Exception as error:
        raise DownloadError(f"{_reason(error, where)}; {by_hand} (an interrupted download goes on where it stopped)") from error


def _reason(error: Exception, where: str) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.EntryNotFoundError) and not isinstance(error, errors.LocalEntryNotFoundError):
        return f"{where} has no file {_file_of(error)}: another --type or --repo may have it"
    if isinstance(error, errors.RepositoryNotFoundError):  # also what a private one answers without a token
        return f"{where} does not exist or is not open to you: --repo or QWENTTS_HUB_REPO names another, HF_TOKEN logs in"
    if isinstance(error, errors.OfflineModeIsEnabled):
        return f"{where} was not asked, HF_HUB_OFFLINE is set"
    text = " ".join(str(error).split()) or error.__class__.__name__
    return f"{where} could not be read ({error.__class__.__name__}: {text[:300]})"


def _file_of(error: Any) -> str:
    """The file that a refused request was for."""
    request = getattr(getattr(error, "response", None), "request", None)
    return str(getattr(request, "url", "of that name")).rsplit("/", 1)[-1]
