"""Zip and tar archives, unpacked beside: only regular files, within their folder, within limits."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import IO, Any

from thinflow.errors import FormatError
from thinflow.survey.units import Unit, find_units

_CHUNK_BYTES = 1 << 20
_PACKED: tuple[tuple[Callable[..., Any], str], ...] = (
    (gzip.open, ".gz"),
    (bz2.open, ".bz2"),
    (lzma.open, ".xz"),
)
_BY_HAND = "unpack it yourself"


@dataclass(frozen=True)
class Limits:
    """How much may come out of one archive.

    Attributes:
        files: number of them.
        size_bytes: of all together. What grows a thousandfold is made to fill disks, not to be read.
    """

    files: int = 10_000
    size_bytes: int = 4 << 30


def unpack(path: Path, folder: Path, limits: Limits = Limits()) -> int:
    """Write the files of an archive into a folder; the number of them.

    Links, devices, and files that would lie outside of the folder are left out.

    Args:
        path: a zip or tar file, or one file in gzip, bzip2 or xz.
        folder: is made.

    Raises:
        FormatError: it is damaged, encrypted, of another kind, or holds more than the limits allow.
    """
    left = limits.size_bytes
    count = 0
    try:
        with ExitStack() as stack:
            for name, stream in _members(path, stack):
                place = _inside(folder, name)
                if place is None:
                    continue
                count += 1
                if count > limits.files:
                    raise FormatError(
                        f"more than {limits.files} files are in this archive", str(path), hint=_BY_HAND
                    )
                left -= _copy(stream, place, left, path)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise FormatError(f"this archive is damaged: {error}", str(path), hint="fetch it again") from error
    except (
        RuntimeError,
        NotImplementedError,
    ) as error:  # encrypted, or packed in a way that zipfile does not know
        raise FormatError(f"this archive cannot be unpacked: {error}", str(path), hint=_BY_HAND) from error
    return count


def _members(path: Path, stack: ExitStack) -> Iterator[tuple[str, IO[bytes]]]:
    """Name and content of each regular file."""
    if zipfile.is_zipfile(path):
        archive = stack.enter_context(zipfile.ZipFile(path))
        for info in archive.infolist():
            if not info.is_dir():
                with archive.open(info) as stream:
                    yield info.filename, stream
        return
    if tarfile.is_tarfile(path):
        tar = stack.enter_context(tarfile.open(path))  # noqa: SIM115
        for member in tar:
            content = tar.extractfile(member) if member.isreg() else None
            if content is not None:
                yield member.name, content
        return
    for opened, suffix in _PACKED:
        stream = stack.enter_context(opened(path, "rb"))
        try:
            stream.read(1)
        except (OSError, lzma.LZMAError):
            continue
        stream.seek(0)
        yield path.name.removesuffix(suffix), stream
        return
    raise FormatError("this archive is of a kind that is not unpacked here", str(path), hint=_BY_HAND)


def _inside(folder: Path, name: str) -> Path | None:
    """The place of a member; None if it would lie outside."""
    parts = PurePosixPath(name.replace("\\", "/")).parts
    if not parts or ".." in parts or parts[0] == "/" or ":" in parts[0]:
        return None
    return folder.joinpath(*parts)


def _copy(stream: IO[bytes], place: Path, most: int, archive: Path) -> int:
    place.parent.mkdir(parents=True, exist_ok=True)
    size = 0
    with open(place, "xb") as file:
        while chunk := stream.read(_CHUNK_BYTES):
            size += len(chunk)
            if size > most:
                raise FormatError("this archive holds more than is unpacked", str(archive), hint=_BY_HAND)
            file.write(chunk)
    return size


def unpacked_unit(origin: Unit, name: str, folder: Path) -> Unit:
    """The unit of a name like `a.zip!b.tar!model.pb`, unpacked anew; one that lies in no archive as it is.

    Args:
        origin: the outermost archive, or the unit itself.
        folder: to unpack into.

    Raises:
        FormatError: it is not in there any more.
    """
    unit, known = origin, origin.name
    while unit.name != name:
        place = folder / f"archive-{known.count('!')}"
        with suppress(FormatError):
            unpack(unit.path, place)
        inside = units_inside(place, known) if place.is_dir() else []
        found = next((u for u in inside if u.name == name or name.startswith(f"{u.name}!")), None)
        if found is None:
            raise FormatError("it is gone from its archive", name, hint="run the survey again")
        unit, known = found, found.name
    return unit


def units_inside(folder: Path, archive: str) -> list[Unit]:
    """The units of an archive's folder, named behind its name."""
    units = find_units([folder], named=lambda path, _: path.relative_to(folder).as_posix())
    return [replace(unit, name=f"{archive}!{unit.name}") for unit in units]
