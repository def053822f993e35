"""Packed models: opened everywhere, and no changed byte goes unnoticed."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow import api, formats
from thinflow.cli import main
from thinflow.errors import FormatError, ParameterError
from thinflow.formats import sealing
from thinflow.formats.packed_bytes import MAGIC, open_pack, read_key_file, write_pack

pytest.importorskip("cryptography", reason="needs the extra `pack`")

TEXT = """
    image = Placeholder() {dtype=float, shape=shape[1,6,6,2]}
    secret_filter = Const() {value=float[3,3,2,4]{range}}
    secret_conv = Conv2D(image, secret_filter) {T=float, strides=[1,1,1,1], padding="SAME"}
    out = Relu(secret_conv) {T=float}
    inputs: image
    outputs: out
"""
KEY = bytes(range(32))
X = {"image": np.ones((1, 6, 6, 2), np.float32)}


@pytest.fixture(autouse=True)
def cheap_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "_SCRYPT_COST", 1 << 4)
    monkeypatch.setattr(sealing, "_met", False)
    monkeypatch.delenv("THINFLOW_KEY", raising=False)
    monkeypatch.delenv("THINFLOW_KEY_FILE", raising=False)


def answer(path: Path) -> np.ndarray:
    return thinflow.run(path, X, ["out"], engine="reference")["out"]


def plain_answer() -> np.ndarray:
    return thinflow.run(parse_graph(TEXT), X, ["out"], engine="reference")["out"]


def test_a_plain_package_is_mapped_and_checked(tmp_path: Path) -> None:
    api.pack(parse_graph(TEXT), tmp_path / "m.tfpack")
    found = open_pack(tmp_path / "m.tfpack")
    assert not found.is_encrypted
    assert len(found.raw) % 64 == 0
    assert found.model().obj is found.payload.obj  # a view, not a copy
    assert np.array_equal(answer(tmp_path / "m.tfpack"), plain_answer())
    assert formats.recognise(tmp_path / "m.tfpack").name == "tfpack"


def test_inner_names_are_gone(tmp_path: Path) -> None:
    api.pack(parse_graph(TEXT), tmp_path / "m.tfpack")
    assert b"secret" not in (tmp_path / "m.tfpack").read_bytes()
    api.pack(parse_graph(TEXT), tmp_path / "named.tfpack", obfuscate=False)
    assert b"secret_filter" in (tmp_path / "named.tfpack").read_bytes()


@pytest.mark.parametrize("key", [KEY, KEY.hex(), "a long passphrase"])
def test_an_encrypted_package(tmp_path: Path, key: bytes | str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.tfpack"
    api.pack(parse_graph(TEXT), path, key=key)
    content = path.read_bytes()
    assert b"Conv2D" not in content
    (tmp_path / "key").write_bytes(key if isinstance(key, bytes) else key.encode())
    monkeypatch.setenv("THINFLOW_KEY_FILE", str(tmp_path / "key"))
    assert np.array_equal(answer(path), plain_answer())
    api.pack(parse_graph(TEXT), path, key=key)
    assert path.read_bytes() != content  # another salt, another key


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    rng = random.Random(0)
    for key in (None, KEY):
        path = tmp_path / f"{bool(key)}.tfpack"
        api.pack(parse_graph(TEXT), path, key=key)
        content = path.read_bytes()
        front = len(open_pack(path).raw)
        places = [*range(len(MAGIC) + 4), *rng.sample(range(front, len(content)), 60)]
        places += rng.sample(range(len(MAGIC) + 4, front), 20) if key else []
        for at in places:
            path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
            with pytest.raises(FormatError):
                open_pack(path).model(key)


def test_truncated_and_longer_files(tmp_path: Path) -> None:
    for key in (None, KEY):
        path = tmp_path / "m.tfpack"
        api.pack(parse_graph(TEXT), path, key=key)
        content = path.read_bytes()
        for cut in (0, 5, 12, 40, len(content) // 2, len(content) - 1):
            path.write_bytes(content[:cut])
            with pytest.raises(FormatError):
                open_pack(path).model(key)
        path.write_bytes(content + b"x")
        with pytest.raises(FormatError):
            open_pack(path).model(key)


def test_chunks_cannot_be_left_out_or_swapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "CHUNK_BYTES", 64)
    payload = bytes(range(256))
    write_pack(tmp_path / "m.tfpack", [payload], secret=KEY)
    found = open_pack(tmp_path / "m.tfpack")
    assert bytes(found.model(KEY)) == payload
    size = 64 + sealing.TAG_BYTES
    chunks = [bytes(found.payload[i : i + size]) for i in range(0, len(found.payload), size)]
    assert len(chunks) == 4
    for wrong in (chunks[:-1], [chunks[1], chunks[0], *chunks[2:]], [*chunks, chunks[-1]], chunks[1:]):
        (tmp_path / "w.tfpack").write_bytes(found.raw + b"".join(wrong))
        with pytest.raises(FormatError, match="cannot be decrypted"):
            open_pack(tmp_path / "w.tfpack").model(KEY)


def test_a_wrong_key(tmp_path: Path) -> None:
    api.pack(parse_graph(TEXT), tmp_path / "m.tfpack", key=KEY)
    with pytest.raises(FormatError, match="the key is wrong, or the file was changed"):
        open_pack(tmp_path / "m.tfpack").model(b"another passphrase")


def test_no_key(tmp_path: Path) -> None:
    api.pack(parse_graph(TEXT), tmp_path / "m.tfpack", key=KEY)
    with pytest.raises(ParameterError, match="is encrypted and no key is there"):
        formats.load(tmp_path / "m.tfpack")
    with pytest.raises(ParameterError, match="the key is empty"):
        api.pack(parse_graph(TEXT), tmp_path / "m.tfpack", key="")
    with pytest.raises(ParameterError, match="the key is empty"):
        open_pack(tmp_path / "m.tfpack").model(b"\n")


def test_key_files(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="cannot be read"):
        read_key_file(tmp_path / "none")
    (tmp_path / "long").write_bytes(bytes(1 << 17))
    with pytest.raises(ParameterError, match="too long to be a key"):
        read_key_file(tmp_path / "long")


def test_other_files(tmp_path: Path) -> None:
    path = tmp_path / "m.tfpack"
    for content, problem in (
        (b"something else, long enough", "this is not a packed model"),
        (MAGIC + b"\xff\xff\xff\xff", "this is not a packed model"),
        (MAGIC + b"\x04\0\0\0{{{{", "the header is damaged"),
        (MAGIC + b"\x0d\0\0\0" + b'{"version": 9', "the header is damaged"),
        (MAGIC + b"\x0e\0\0\0" + b'{"version": 9}', "packed by another version"),
    ):
        path.write_bytes(content)
        with pytest.raises(FormatError, match=problem):
            open_pack(path)


def test_other_kinds_are_carried(tmp_path: Path) -> None:
    thinflow.convert(parse_graph(TEXT), tmp_path / "m.tflite")
    api.pack(tmp_path / "m.tflite", tmp_path / "m.tfpack", key=KEY)
    api.unpack(tmp_path / "m.tfpack", tmp_path / "again.tflite", key=KEY)
    assert (tmp_path / "again.tflite").read_bytes() == (tmp_path / "m.tflite").read_bytes()
    with pytest.raises(ParameterError, match="no key is there"):
        formats.load(tmp_path / "m.tfpack")
    write_pack(tmp_path / "m.tfpack", [b"model"], kind="coreml")
    with pytest.raises(FormatError, match="unknown kind 'coreml'"):
        formats.load(tmp_path / "m.tfpack")


# --- as people type it --------------------------------------------------------------------------------------


def test_pack_run_unpack(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    thinflow.save(parse_graph(TEXT), tmp_path / "m.pb")
    (tmp_path / "key").write_bytes(KEY)
    model, package, key = (str(tmp_path / name) for name in ("m.pb", "m.tfpack", "key"))
    assert main(["pack", model, package, "--encrypt", "--key-file", key, "--keep-names"]) == 0
    assert "encrypted with AES-256-GCM" in capsys.readouterr().out
    monkeypatch.setenv("THINFLOW_KEY_FILE", key)
    assert main(["inspect", package]) == 0
    assert main(["unpack", package, str(tmp_path / "again.pb"), "--key-file", key]) == 0
    assert (tmp_path / "again.pb").read_bytes() == (tmp_path / "m.pb").read_bytes()


def test_pack_in_the_clear(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    thinflow.save(parse_graph(TEXT), tmp_path / "m.pb")
    assert main(["pack", str(tmp_path / "m.pb"), str(tmp_path / "m.tfpack")]) == 0
    assert "in the clear, with a checksum" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--encrypt"], "no key is there"),
        (["--key-file", "k"], "a key file goes with --encrypt"),
        (["--encrypt", "--key-file", "missing"], "cannot be read"),
    ],
)
def test_wrong_flags(
    tmp_path: Path,
    flags: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    thinflow.save(parse_graph(TEXT), tmp_path / "m.pb")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert main(["pack", "m.pb", "m.tfpack", *flags]) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "m.tfpack").exists()
