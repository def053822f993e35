"""Files by path or URL: local ones as they are, others through fsspec."""

from __future__ import annotations

import atexit
import glob
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from thinflow.errors import FeedError

_URL = re.compile(r"^[a-z][a-z0-9+.-]+://", re.IGNORECASE)
_PACKAGES = {
    "s3": "s3fs",
    "gs": "gcsfs",
    "gcs": "gcsfs",
    "az": "adlfs",
    "abfs": "adlfs",
    "hf": "huggingface_hub",
    "http": "aiohttp requests",
    "https": "aiohttp requests",
}
"""What fsspec needs for a scheme."""
_DENIED = ("redential", "orbidden", "nauthorized")
_BRACES = re.compile(r"\{([^{}]+)\}")
_MOST_NAMES = 1_000_000


def is_url(path: str) -> bool:
    """True for `s3://bucket/file` and the like; `file://` is one, too."""
    return bool(_URL.match(path))


# One for each scheme: opening a file system asks for credentials, and may start threads of its own.
@cache
def _filesystem(scheme: str) -> Any:
    try:
        import fsspec
    except ImportError as e:
        raise FeedError(f"reading {scheme}:// needs fsspec", hint="pip install 'thinflow[data]'") from e
    for package in _PACKAGES.get(scheme, "").split():
        # What it logs comes back as an error; where nobody set up logging, it would be printed as well.
        logging.getLogger(package).addHandler(logging.NullHandler())
    try:
        return fsspec.filesystem(scheme)
    except ValueError as e:
        if scheme in fsspec.available_protocols():
            raise FeedError(f"{scheme}:// cannot be read: {e}", hint=_credentials(scheme)) from e
        raise FeedError(f"nothing here reads {scheme}://", hint="give s3, gs, az, hf, https or a path") from e
    except ImportError as e:
        package = _PACKAGES.get(scheme, "the package that it names")
        raise FeedError(f"{scheme}:// cannot be read: {e}", hint=f"pip install {package}") from e


def _cause(error: Exception) -> BaseException:
    """Why a file is not there: over HTTP, fsspec says so also where a server does not answer, or refuses."""
    cause = error.__cause__
    if cause is None or not isinstance(error, FileNotFoundError) or isinstance(cause, FileNotFoundError):
        return error
    return error if getattr(cause, "status", None) == 404 else cause


def _credentials(scheme: str) -> str:
    return f"log in to {scheme}://, or set its credentials as fsspec reads them"


@contextmanager
def reaching(url: str) -> Iterator[Any]:
    """The file system of a URL; whatever goes wrong there is an error that names the URL.

    Raises:
        FeedError: it cannot be reached or read; credentials may be missing.
    """
    scheme = url.partition("://")[0].lower()
    filesystem = _filesystem(scheme)
    try:
        yield filesystem
    except FeedError:
        raise
    # Each store has errors of its own, most of which derive from nothing but Exception.
    except Exception as e:
        cause = _cause(e)
        if isinstance(cause, FileNotFoundError):
            raise FeedError("there is no such file or folder", url, "check the address") from e
        told = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
        denied = isinstance(e, PermissionError) or any(w in told for w in _DENIED)
        hint = (
            _credentials(scheme)
            if denied
            else "is the address right, and does this machine reach it? Then run it again"
        )
        raise FeedError(f"it cannot be read: {told}", url, hint) from e


@contextmanager
def opened(path: str) -> Iterator[IO[bytes]]:
    """A file to be read as a stream of bytes.

    Raises:
        FeedError: it is not there, or cannot be read.
    """
    if not is_url(path):
        try:
            with open(path, "rb") as file:
                yield file
        except OSError as e:
            raise FeedError(f"the file cannot be read: {e.strerror or e}", path) from e
        return
    with reaching(path) as filesystem, filesystem.open(path, "rb") as file:
        yield file


def read_bytes(path: str) -> bytes:
    """All of a file.

    Raises:
        FeedError: it cannot be read.
    """
    with opened(path) as file:
        return file.read()


def version_of(path: str) -> str:
    """What changes when a file's content does: its store's checksum, else size and time of the last change.

    Raises:
        FeedError: there is no such file.
    """
    if not is_url(path):
        try:
            # Not the content: hashing it would read everything twice, and the time of a change is in
            # nanoseconds.
            found = os.stat(path)
        except OSError as e:
            raise FeedError(f"the file cannot be read: {e.strerror or e}", path) from e
        return f"{found.st_size}-{found.st_mtime_ns}"
    # Stores give a checksum or a generation with the listing; which key it has, each has its own mind on.
    with reaching(path) as filesystem:
        about = filesystem.info(path)
        known = next((str(about[key]) for key in ("ETag", "etag", "md5Hash", "sha256") if about.get(key)), "")
        return f"{about.get('size')}-{known or filesystem.ukey(path)}"


def is_folder(path: str) -> bool:
    """True if files lie below it."""
    if not is_url(path):
        return os.path.isdir(path)
    with reaching(path) as filesystem:
        return bool(filesystem.isdir(path))


def exists(path: str) -> bool:
    """True if there is such a file or folder."""
    if not is_url(path):
        return os.path.exists(path)
    with reaching(path) as filesystem:
        try:
            # Not `exists`, for which nothing is there whatever goes wrong, missing credentials among it.
            filesystem.info(path)
        except FileNotFoundError as error:
            if _cause(error) is error:
                return False
            raise
        return True


def listing(folder: str) -> tuple[list[str], list[str]]:
    """Files and folders in a folder, each sorted; hidden ones are left out.

    Raises:
        FeedError: it cannot be read.
    """
    if not is_url(folder):
        try:
            with os.scandir(folder) as entries:
                found = sorted((e.path, e.is_dir()) for e in entries if not e.name.startswith("."))
        except OSError as e:
            raise FeedError(f"the folder cannot be read: {e.strerror or e}", folder) from e
    else:
        with reaching(folder) as filesystem:
            # One request for a folder, and none for each file in it.
            rows = filesystem.ls(folder.rstrip("/"), detail=True)
            named = [(filesystem.unstrip_protocol(r["name"]), r["type"] == "directory") for r in rows]
            found = sorted(n for n in named if not name_of(n[0]).startswith("."))
    return [path for path, inner in found if not inner], [path for path, inner in found if inner]


def name_of(path: str) -> str:
    """The last part of a path or URL."""
    plain = urlsplit(path).path if path.startswith(("http://", "https://")) else path
    return plain.rstrip("/").replace("\\", "/").rpartition("/")[2]


def suffix_of(path: str) -> str:
    """`.gz` and the like of a path or URL, in small letters."""
    return os.path.splitext(name_of(path))[1].lower()


def beside(path: str, name: str) -> str:
    """The place that a relative name means in a file; an absolute one or a URL is one already."""
    if is_url(name) or os.path.isabs(name):
        return name
    return f"{path.rpartition('/')[0]}/{name}" if is_url(path) else str(Path(path).parent / name)


def expanded(pattern: str) -> list[str]:
    """The files of a pattern with `*`, `?` or `{000..127}`, in order; a plain path or URL is itself.

    Raises:
        FeedError: nothing matches.
    """
    # A file that is really called so goes before what the signs in its name would mean.
    if not is_url(pattern) and os.path.exists(pattern):
        return [pattern]
    found = [path for text in _without_braces(pattern) for path in _matching(text)]
    if not found:
        raise FeedError("no file matches", pattern, hint="check the pattern, and quote it for the shell")
    return found


def _matching(pattern: str) -> list[str]:
    # A question mark begins the query of a web address.
    if not any(c in pattern for c in "*[") and (is_url(pattern) or "?" not in pattern):
        return [pattern]
    if not is_url(pattern):
        return sorted(glob.glob(pattern, recursive=True))
    with reaching(pattern) as filesystem:
        return sorted(filesystem.unstrip_protocol(name) for name in filesystem.glob(pattern))


def _without_braces(pattern: str) -> Iterator[str]:
    """`a{00..02}` as a00, a01, a02; `a{x,y}` as ax, ay."""
    parts = _BRACES.split(pattern)
    choices = [[part] if n % 2 == 0 else _choices(part, pattern) for n, part in enumerate(parts)]
    return ("".join(chosen) for chosen in product(*choices))


def _choices(inner: str, pattern: str) -> list[str]:
    found = re.fullmatch(r"(\d+)\.\.(\d+)", inner)
    if found is None:
        return inner.split(",")
    low, high = int(found[1]), int(found[2])
    if not low <= high < low + _MOST_NAMES:
        raise FeedError(f"{{{inner}}} is no range", pattern, hint="write the smaller number first")
    # As a shell does it: {00..12} has as many digits as its first number.
    return [str(number).zfill(len(found[1])) for number in range(low, high + 1)]


# -------------------------------------------------------------------------------------------- copies of files


@cache
def _copies() -> str:
    folder = tempfile.mkdtemp(prefix="thinflow-data-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _copy_of(url: str, version: str) -> Path:
    del version  # a part of the key alone: another one is another copy
    # A number for a name: names of URLs may hold what a file system here does not take.
    target = Path(_copies()) / f"{len(os.listdir(_copies()))}{suffix_of(url)}"
    with opened(url) as source, target.open("wb") as copy:
        shutil.copyfileobj(source, copy, 1 << 20)
    return target


def local_file(path: str, version: str) -> Path:
    """The file on this machine: itself, or a copy that lasts as long as the process.

    Raises:
        FeedError: it cannot be read.
    """
    return Path(path) if not is_url(path) else _copy_of(path, version)


def require_unchanged(path: str, version: str) -> None:
    """Refuse a file whose content is no longer what the shard was cut of.

    Raises:
        FeedError: it has changed.
    """
    # A copy that is still growing would be counted by halves.
    if version_of(path) != version:
        raise FeedError("the file was changed since it was listed", path, "start again when it is complete")
