"""Members of .npz files as plain bytes, of which any part can be read without what stands before it.

Calibration walks its samples many times, and what is packed would have to be unpacked each time. Memory has
no room for all of them: they lie in a temporary file, without a name where the system can do that.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import threading
import weakref
import zipfile
from pathlib import Path
from typing import IO

logger = logging.getLogger(__name__)

MOST_BYTES = 4 << 30
"""Of one member; a larger one is unpacked anew for each walk."""
_CHUNK = 1 << 20
_LOCAL_HEADER = 30
"""Bytes in front of a member's name; the lengths of name and extra field are the last four of them."""


class PlainBytes:
    """Bytes in an open file, from an offset on. Several walks may read them at a time, forked ones too."""

    def __init__(self, file: IO[bytes], offset: int = 0) -> None:
        self._file, self._offset = file, offset
        # Open as long as somebody may read on: walks end when they like.
        weakref.finalize(self, file.close)
        self._lock = threading.Lock()

    def read(self, start: int, size: int) -> bytes:
        """So many bytes; fewer where the file ends.

        Raises:
            OSError: it cannot be read.
        """
        at = self._offset + start
        # Not mapped: pages that were touched would count as this process's memory. And without moving the
        # place in the file, which forked processes and other walks share.
        if hasattr(os, "pread"):
            return os.pread(self._file.fileno(), size, at)
        with self._lock:
            self._file.seek(at)
            return self._file.read(size)


def plain_member(path: Path, member: str) -> PlainBytes | None:
    """A member as plain bytes, in the archive itself where it is not packed; None where there is no room.

    Raises:
        BadZipFile, zlib.error, OSError, ...: the archive is damaged.
    """
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(member)
        is_encrypted = bool(info.flag_bits & 1)
        if info.compress_type == zipfile.ZIP_STORED and not is_encrypted:
            return _in_archive(path, info)
        if info.file_size > min(MOST_BYTES, _room() // 2):
            return None
        with archive.open(member) as packed:
            return _unpacked(packed)


def _in_archive(path: Path, info: zipfile.ZipInfo) -> PlainBytes:
    file = path.open("rb")
    try:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER)
        # Its own lengths: those in the directory at the end of the archive may differ.
        name, extra = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
    except BaseException:
        file.close()
        raise
    return PlainBytes(file, info.header_offset + _LOCAL_HEADER + name + extra)


def _room() -> int:
    """Bytes that are free where temporary files go."""
    try:
        return shutil.disk_usage(tempfile.gettempdir()).free
    except OSError:
        return 0


def _unpacked(packed: IO[bytes]) -> PlainBytes | None:
    """All that a packed member gives, in a temporary file; None where the disk is full."""
    try:
        file = tempfile.TemporaryFile(prefix="thinflow-")  # noqa: SIM115 - open as long as it is read
    except OSError as error:
        logger.info("samples are unpacked for each walk, there is no temporary file: %s", error)
        return None
    try:
        while chunk := packed.read(_CHUNK):
            if not _written(file, chunk):
                file.close()
                return None
        file.flush()
    except BaseException:
        file.close()
        raise
    return PlainBytes(file)


def _written(file: IO[bytes], chunk: bytes) -> bool:
    # Apart from reading, whose errors mean that the archive is damaged.
    try:
        file.write(chunk)
    except OSError as error:
        logger.info("samples are unpacked for each walk, there is no room for them: %s", error)
        return False
    return True
