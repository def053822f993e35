"""Opening and replacing files: mapped reading, atomic streamed writing, archives of arrays."""

from __future__ import annotations

import errno
import gzip
import mmap
import os
import secrets
import stat
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import IO, Any, cast

from thinflow.errors import FormatError, WriteError

GZIP_MAGIC = b"\x1f\x8b"
MAX_UNPACKED_BYTES = 8 << 30
"""A gzip file that claims to hold more than this is refused: a few kilobytes can unpack to terabytes."""
_MODELS = {".pb", ".pbtxt", ".gz", ".tflite", ".onnx", ".keras", ".h5", ".hdf5", ".pt2"}
"""What the files are called that are named where one is missing."""


def map_file(path: str | os.PathLike[str], *, unpack: bool = True) -> memoryview:
    """The file's bytes, mapped read-only; gzip is unpacked into memory. The map lives as long as any view of
    it.

    Raises:
        FormatError: missing, empty, unreadable, a folder, or damaged gzip.
    """
    where = os.fspath(path)
    try:
        kind = os.stat(where).st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            # A pipe cannot be mapped, and opening one may wait for ever.
            raise FormatError("this is not a regular file", where, hint="save the model to a file first")
        with open(where, "rb") as file:
            # An empty file cannot be mapped: mmap raises ValueError for it.
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                raise FormatError("the file is empty", where, hint="export or download the model again")
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except FileNotFoundError as e:
        problem = "there is no such file"
        if os.path.islink(where):
            problem = f"this is a link to {os.readlink(where)}, and there is no such file"
        raise FormatError(problem, where, hint=_neighbours(Path(where))) from e
    except IsADirectoryError as e:
        raise FormatError("this is a folder, not a model file", where, hint="name the file inside it") from e
    except OSError as e:
        raise FormatError(
            f"cannot be read: {e.strerror or e}", where, hint="check the path and its permissions"
        ) from e
    return _unpack(view, where) if unpack and view[:2] == GZIP_MAGIC else view


def _neighbours(path: Path) -> str:
    # Links to nowhere and folders are no models.
    models = sorted(p.name for p in path.parent.glob("*") if p.suffix in _MODELS and p.is_file())
    if not models:
        return "check the path"
    return f"in that folder there is: {', '.join(models[:5])}"


def _unpack(view: memoryview, where: str) -> memoryview:
    chunks: list[bytes] = []
    total = 0
    try:
        with gzip.GzipFile(mode="rb", fileobj=cast(IO[bytes], _Reader(view))) as stream:
            while chunk := stream.read(1 << 20):
                total += len(chunk)
                if total > MAX_UNPACKED_BYTES:
                    raise FormatError(
                        f"the gzip file unpacks to more than {MAX_UNPACKED_BYTES >> 30} GiB", where
                    )
                chunks.append(chunk)
    except (OSError, EOFError, zlib.error) as e:
        raise FormatError(f"the gzip data is damaged: {e}", where, hint="download the file again") from e
    if not total:
        raise FormatError("the gzip file holds nothing", where)
    return memoryview(b"".join(chunks))


class _Reader:
    """The least file-like object GzipFile accepts, over a buffer."""

    def __init__(self, view: memoryview) -> None:
        self._view = view
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        end = len(self._view) if size < 0 else self._at + size
        data = bytes(self._view[self._at : end])
        self._at += len(data)
        return data


def check_folder(path: str | os.PathLike[str]) -> None:
    """Refuse a file whose folder is missing, before hours go into what it shall hold.

    Raises:
        WriteError: there is no such folder.
    """
    folder = Path(path).parent
    if not folder.is_dir():
        raise WriteError("its folder does not exist", os.fspath(path), hint=f"create it: mkdir -p {folder}")


def write_file(
    path: str | os.PathLike[str],
    chunks: Iterable[bytes | memoryview],
    *,
    check: Callable[[str], object] | None = None,
) -> int:
    """Write chunk by chunk beside the target, then rename over it: the target is old or new, never half.

    The target may be the very file the chunks are views of. Returns the number of bytes written.

    Args:
        path: the target.
        chunks: its content.
        check: called with the path of the finished file before it takes its name; if it raises, nothing is
            left behind.

    Raises:
        WriteError: the folder is missing or read-only, or the disk is full; nothing is left behind.
    """
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()  # the link stays, what it leads to is replaced
    if target.is_dir():
        raise WriteError("this is a folder", str(target), hint="name a file inside it")
    try:
        if target.exists() and not target.is_file():
            with open(target, "wb", buffering=0) as device:  # /dev/null must not be renamed over
                return sum(device.write(chunk) or 0 for chunk in chunks)
        return _replace(target, chunks, check)
    except OSError as e:
        raise _not_written(target, e) from e


def _replace(
    target: Path, chunks: Iterable[bytes | memoryview], check: Callable[[str], object] | None
) -> int:
    """Write a file aside and give it the target's name and mode; the bytes written."""
    # In the same folder, since a rename across file systems is a copy. Names end at 255 bytes: 80 letters of
    # up to three bytes leave room for what is added.
    aside = target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}.part")
    total = 0
    try:
        with open(aside, "wb") as file:
            for chunk in chunks:
                total += file.write(chunk)
            file.flush()
            # Before the rename: after a crash the new name might else lead to a file
            # whose bytes were never written.
            os.fsync(file.fileno())
        if check is not None:
            check(str(aside))
        if target.exists():
            # Permissions of the file that is replaced survive, not those that a new file gets.
            os.chmod(aside, target.stat().st_mode & 0o7777)
        os.replace(aside, target)
    # Also after Ctrl-C: half a file of gigabytes shall not stay behind.
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    return total


def _not_written(target: Path, error: OSError) -> WriteError:
    """The system's error in words for who wanted the file."""
    reasons = {
        errno.ENOSPC: ("the disk is full", "free some space or write elsewhere"),
        errno.ENOENT: ("its folder does not exist", f"create it: mkdir -p {target.parent}"),
        errno.EACCES: ("no permission to write here", "choose another folder"),
        errno.EROFS: ("the file system is read-only", "choose another folder"),
    }
    unknown = f"cannot be written: {error.strerror or error}", "choose another path"
    problem, hint = reasons.get(error.errno or 0, unknown)
    return WriteError(problem, str(target), hint=hint)


# --- numpy's archives ---------------------------------------------------------------------------------------


def npz_bytes(arrays: Mapping[str, Any], *, compressed: bool = True) -> bytes:
    """An .npz file. Names may be any, `file` too, which `numpy.savez` takes for its own argument."""
    import io
    import zipfile

    import numpy as np

    buffer = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, array in arrays.items():
            # The size of a member is not known when it is begun; beyond 2 GiB
            # zipfile would give up in the middle.
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array))
    return buffer.getvalue()
