"""Archives that are sound, damaged, and made to do harm."""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.survey.collections import tar_of
from thinflow.errors import FormatError
from thinflow.survey.archives import Limits, unpack


def files(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def zip_of(contents: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in contents.items():
            archive.writestr(name, content)
    return packed.getvalue()


@pytest.mark.parametrize("make", [zip_of, tar_of])
def test_files_come_out(make: object, tmp_path: Path) -> None:
    assert callable(make)
    contents = {"a/b.pb": b"one", "c.txt": b"two", "d/empty": b""}
    (tmp_path / "x").write_bytes(make(contents))
    assert unpack(tmp_path / "x", tmp_path / "out") == 3
    assert files(tmp_path / "out") == contents


@pytest.mark.parametrize(("pack", "suffix"), [(gzip.compress, ".gz"), (bz2.compress, ".bz2")])
def test_one_packed_file(pack: object, suffix: str, tmp_path: Path) -> None:
    assert callable(pack)
    path = tmp_path / f"m.pb{suffix}"
    path.write_bytes(pack(b"content"))
    assert unpack(path, tmp_path / "out") == 1
    assert files(tmp_path / "out") == {"m.pb": b"content"}


@pytest.mark.parametrize(
    "name", ["../out.txt", "/etc/out.txt", "a/../../out.txt", "..\\out.txt", "C:\\out.txt"]
)
def test_nothing_lands_outside(name: str, tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(zip_of({name: b"bad", "good": b"good"}))
    assert unpack(tmp_path / "x.zip", tmp_path / "out") == 1
    assert files(tmp_path) == {"x.zip": (tmp_path / "x.zip").read_bytes(), "out/good": b"good"}


def test_links_stay_inside(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        link = tarfile.TarInfo("link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    assert unpack(tmp_path / "x.tar", tmp_path / "out") == 0


def test_what_grows_too_much_is_stopped(tmp_path: Path) -> None:
    (tmp_path / "bomb.zip").write_bytes(zip_of({"zeros": bytes(1 << 22)}))
    with pytest.raises(FormatError, match="holds more than is unpacked"):
        unpack(tmp_path / "bomb.zip", tmp_path / "out", Limits(size_bytes=1 << 20))
    (tmp_path / "many.zip").write_bytes(zip_of({str(number): b"" for number in range(20)}))
    with pytest.raises(FormatError, match="more than 10 files"):
        unpack(tmp_path / "many.zip", tmp_path / "many", Limits(files=10))


def test_damaged_ones_are_told(tmp_path: Path) -> None:
    content = zip_of({"a": b"x" * 1000, "b": b"y" * 1000})
    (tmp_path / "x.zip").write_bytes(content[:40] + b"\xff" * 20 + content[60:])
    with pytest.raises(FormatError, match="damaged"):
        unpack(tmp_path / "x.zip", tmp_path / "out")
    packed = gzip.compress(b"content" * 1000)
    (tmp_path / "x.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(FormatError, match="damaged"):
        unpack(tmp_path / "x.gz", tmp_path / "gz")
    (tmp_path / "x.7z").write_bytes(b"7z\xbc\xaf\x27\x1c" + bytes(50))
    with pytest.raises(FormatError, match="of a kind that is not unpacked here"):
        unpack(tmp_path / "x.7z", tmp_path / "seven")
