"""Damaged packages: whatever a header says, opening one ends in an error of ours, in every command."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow import api
from thinflow.cli import main
from thinflow.errors import FormatError, ThinflowError
from thinflow.formats import sealing
from thinflow.formats.packed_bytes import MAGIC, Interface, open_pack

TEXT = "x = Placeholder() {dtype=float, shape=shape[2]}\ny = Neg(x) {T=float}\ninputs: x\noutputs: y"
KEY = bytes(range(32))
ODD: list[Any] = [
    *(None, True, False, 0, -1, 1 << 70, 1.5, float("inf"), float("nan"), "", "x", "graphdef", "\ud800"),
    *([], {}, [[]], [{}], {"a": {}}, {"inputs": {}}, {"inputs": [], "outputs": [], "aliases": []}),
    *({"inputs": [[]], "outputs": [{}], "aliases": {"x": {}}}, ["x"], {"salt": {}, "nonce": []}, "tflite"),
    {"inputs": 3, "outputs": ["y"], "aliases": {}},
    {"inputs": ["x", "x"], "outputs": ["y:9"], "aliases": {"y": "y", "x": "z"}},
]


@pytest.fixture(autouse=True)
def cheap_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "_SCRYPT_COST", 1 << 4)
    monkeypatch.setattr(sealing, "_met", False)
    monkeypatch.setenv("THINFLOW_KEY", KEY.hex())
    monkeypatch.delenv("THINFLOW_KEY_FILE", raising=False)


def packed(header: object, payload: bytes, text: bytes | None = None) -> bytes:
    """A package with that header, whatever it is."""
    text = json.dumps(header).encode() if text is None else text
    front = MAGIC + len(text).to_bytes(4, "little") + text
    return front.ljust(-(-len(front) // 64) * 64, b"\0") + payload


def parts(path: Path) -> tuple[dict[str, Any], bytes]:
    found = open_pack(path)
    return found.header, bytes(found.payload)


def places(data: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value in JSON."""
    yield where
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in items:
        yield from places(value, (*where, key))


def changed(data: Any, where: tuple[Any, ...], value: Any) -> Any:
    """A copy with another value in one place."""
    if not where:
        return value
    copy = dict(data) if isinstance(data, dict) else list(data)
    copy[where[0]] = changed(data[where[0]], where[1:], value)
    return copy


def signed(header: Any, payload: bytes) -> Any:
    """The header with the checksum that fits, as someone who means harm would write it."""
    if isinstance(header, dict) and "sha256" in header:
        named = json.dumps(header["interface"], sort_keys=True).encode() if "interface" in header else b""
        return {**header, "sha256": hashlib.sha256(named + payload).hexdigest()}
    return header


def opens_or_refuses(path: Path) -> None:
    copy = path.with_name("o.pb")
    for job in (thinflow.load, lambda p: api.unpack(p, copy), lambda p: thinflow.diff(p, p)):
        with contextlib.suppress(ThinflowError):
            job(path)


@pytest.mark.parametrize("key", [None, KEY], ids=["clear", "encrypted"])
@pytest.mark.parametrize("value", ODD, ids=lambda v: repr(v)[:20])
def test_any_header_is_refused_or_read(value: Any, key: bytes | None, tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="needs the extra `pack`")
    path = tmp_path / "m.tfpack"
    api.pack(parse_graph(TEXT), path, key=key)
    header, payload = parts(path)
    for where in places(header):
        for made in (changed(header, where, value), signed(changed(header, where, value), payload)):
            path.write_bytes(packed(made, payload))
            opens_or_refuses(path)
    for name in header:
        path.write_bytes(packed({n: v for n, v in header.items() if n != name}, payload))
        opens_or_refuses(path)


@pytest.mark.parametrize(
    "text",
    [
        b"[" * 200_000,
        b'{"version":' * 50_000,
        b"\xff\xfe",
        b"1" * 5000,
        b'{"version": 1, "version": 2}',
        b"NaN",
        b"",
        b'{"version": 1, "kind": {"a": 1}, "sha256": ""}',
    ],
    ids=lambda t: t[:12].decode("latin-1"),
)
def test_headers_that_are_no_json_object(text: bytes, tmp_path: Path) -> None:
    path = tmp_path / "m.tfpack"
    path.write_bytes(packed(None, b"payload", text))
    with pytest.raises(ThinflowError):
        thinflow.load(path)
    with pytest.raises(FormatError, match="damaged"):
        Interface.from_json(b"[" * 200_000)


def test_flipped_bytes_are_refused_or_harmless(tmp_path: Path) -> None:
    """Also where the checksum is made to fit again: then the model itself may be damaged."""
    rng = random.Random(3)
    path = tmp_path / "m.tfpack"
    api.pack(parse_graph(TEXT), path)
    header, payload = parts(path)
    content = path.read_bytes()
    for _ in range(150):
        at = rng.randrange(len(content))
        path.write_bytes(content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :])
        opens_or_refuses(path)
        at = rng.randrange(len(payload))
        damaged = payload[:at] + bytes([rng.randrange(256)]) + payload[at + 1 :]
        path.write_bytes(packed(signed(header, damaged), damaged))
        opens_or_refuses(path)


@pytest.mark.parametrize("verb", [["inspect"], ["diff"], ["run"], ["unpack"], ["verify"], ["convert"]])
def test_commands_say_what_is_wrong(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "m.tfpack"
    api.pack(parse_graph(TEXT), path)
    header, payload = parts(path)
    path.write_bytes(packed({**header, "kind": {"a": 1}}, payload))
    other = {"diff": ["m.tfpack"], "verify": ["m.tfpack"], "unpack": ["o.pb"], "convert": ["o.tflite"]}
    code = main([*verb, "m.tfpack", *other.get(verb[0], [])])
    told = capsys.readouterr().err
    if verb != ["unpack"]:  # which hands out the bytes, whatever they are
        assert code == 1
        assert "this package holds a model of the unknown kind '{'a': 1}'" in told
    assert "thinflow has a bug" not in told


def test_copies_may_be_written_until_a_secret_is_met() -> None:
    """The module as a new process has it: a wrong beginning would go unnoticed, as other tests set it."""
    spec = importlib.util.find_spec("thinflow.formats.sealing")
    assert spec is not None
    assert spec.loader is not None
    fresh = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(fresh)
    assert fresh.may_write_copies() is True
    fresh.note_secret()
    assert fresh.may_write_copies() is False
