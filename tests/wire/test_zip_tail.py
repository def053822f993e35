"""Archives at the end of other data."""

from __future__ import annotations

import io
import random
import struct
import zipfile

import pytest

from thinflow.errors import FormatError
from thinflow.wire import zip_tail
from thinflow.wire.zip_tail import ZipTail, zip_behind

HEAD = bytes(range(256)) * 3


def appended(files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    whole = io.BytesIO(HEAD)
    with zipfile.ZipFile(whole, "a", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return whole.getvalue()


def test_files_behind_other_data_are_read() -> None:
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        tail = ZipTail(appended({"a.txt": b"one", "b/c.txt": b"two" * 100}, compression))
        assert tail.names == ["a.txt", "b/c.txt"]
        assert (tail.read("a.txt"), tail.read("b/c.txt")) == (b"one", b"two" * 100)
    assert ZipTail(HEAD).names == []
    assert ZipTail(b"").names == []


def test_what_is_written_is_read_by_us_and_by_python() -> None:
    files = {"labels.txt": b"a\nb\n", "vocab.txt": b""}
    whole = HEAD + zip_behind(len(HEAD), files)
    assert {name: ZipTail(whole).read(name) for name in files} == files
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        assert archive.testzip() is None
        assert {i.filename: i.header_offset >= len(HEAD) for i in archive.infolist()} == dict.fromkeys(
            files, True
        )
    # The offset of the directory counts from the first byte of all: what reads it needs no guess.
    assert struct.unpack_from("<I", whole, len(whole) - 6)[0] == whole.index(b"PK\x01\x02")
    assert zip_behind(len(HEAD), files) == zip_behind(len(HEAD), files)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(FormatError, match="the file 'x' is not there"):
        ZipTail(HEAD).read("x")


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_tail, "MAX_MEMBER_BYTES", 1 << 20)
    tail = ZipTail(appended({"labels.txt": bytes(1 << 21)}, zipfile.ZIP_DEFLATED))
    with pytest.raises(FormatError, match="has more than 1 MiB"):
        tail.read("labels.txt")


def test_many_files_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zip_tail, "_MAX_MEMBERS", 3)
    with pytest.raises(FormatError, match="more than 3 files"):
        ZipTail(appended({f"{n}": b"" for n in range(4)}))


def test_encrypted_and_unknown_compression_are_refused() -> None:
    data = bytearray(appended({"a": b"abc"}))
    entry = data.index(b"PK\x01\x02")
    local = data.index(b"PK\x03\x04")
    for place in (entry + 8, local + 6):
        data[place] |= 1
    with pytest.raises(FormatError, match="the file 'a' cannot be read"):
        ZipTail(bytes(data)).read("a")
    data = bytearray(appended({"a": b"abc"}))
    struct.pack_into("<H", data, entry + 10, 99)
    with pytest.raises(FormatError, match="'a' cannot be read"):
        ZipTail(bytes(data)).read("a")


def test_damage_anywhere_is_an_error_of_ours() -> None:
    whole = appended({"a.txt": b"one\n" * 20, "b.txt": b"two\n" * 30}, zipfile.ZIP_DEFLATED)
    rng = random.Random(7)
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(HEAD), len(data))] = rng.randrange(256)
        data = data[: rng.randrange(len(HEAD), len(data) + 1)] if rng.random() < 0.3 else data
        try:
            tail = ZipTail(bytes(data))
            for name in tail.names:
                tail.read(name)
        except FormatError:
            pass
