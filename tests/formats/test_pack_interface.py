"""A package says what goes into its graph and what comes out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow import api
from thinflow.errors import FormatError
from thinflow.formats import packed_bytes, sealing

TEXT = """
    image = Placeholder() {dtype=float, shape=shape[1,2]}
    other = Placeholder() {dtype=float, shape=shape[1,2]}
    middle = Relu(image) {T=float}
    out = Neg(middle) {T=float}
    also = Add(middle, other) {T=float}
    inputs: image, other
    outputs: middle, also
"""
KEY = bytes(range(32))


@pytest.fixture(params=[None, KEY], ids=["plain", "encrypted"])
def key(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bytes | None:
    if request.param is not None:
        pytest.importorskip("cryptography", reason="needs the extra `pack`")
        monkeypatch.setattr(sealing, "_met", False)
        monkeypatch.setattr(sealing, "_SCRYPT_COST", 1 << 4)
        monkeypatch.setenv("THINFLOW_KEY", request.param.hex())
    return request.param


def ends(path: Path) -> tuple[list[str], list[str]]:
    graph = thinflow.load(path)
    return [v.name for v in graph.inputs], [v.name for v in graph.outputs]


@pytest.mark.parametrize("obfuscate", [True, False])
def test_inputs_and_outputs_are_kept(key: bytes | None, obfuscate: bool, tmp_path: Path) -> None:
    graph = parse_graph(TEXT)
    graph.aliases = {"features": "middle", "nothing": "out"}
    api.pack(graph, tmp_path / "m.tfpack", key=None if key is None else key.hex(), obfuscate=obfuscate)
    assert ends(tmp_path / "m.tfpack") == (["image", "other"], ["middle", "also"])
    assert thinflow.load(tmp_path / "m.tfpack").aliases == {"features": "middle"}
    chosen = thinflow.load(tmp_path / "m.tfpack", outputs=["also"])
    assert [v.name for v in chosen.outputs] == ["also"]


def test_what_is_unpacked_is_a_plain_graph(key: bytes | None, tmp_path: Path) -> None:
    text = None if key is None else key.hex()
    api.pack(parse_graph(TEXT), tmp_path / "m.tfpack", key=text, obfuscate=False)
    api.unpack(tmp_path / "m.tfpack", tmp_path / "m.pb", key=text)
    assert [n.name for n in thinflow.load(tmp_path / "m.pb")] == [n.name for n in parse_graph(TEXT)]


def test_names_are_encrypted_with_the_model(tmp_path: Path) -> None:
    pytest.importorskip("cryptography", reason="needs the extra `pack`")
    api.pack(parse_graph(TEXT), tmp_path / "m.tfpack", key=KEY)
    assert b"middle" not in (tmp_path / "m.tfpack").read_bytes()


def test_saving_keeps_them_too(tmp_path: Path) -> None:
    thinflow.save(parse_graph(TEXT), tmp_path / "m.tfpack")
    assert ends(tmp_path / "m.tfpack") == (["image", "other"], ["middle", "also"])


def test_a_graph_without_ends_is_guessed_as_before(tmp_path: Path) -> None:
    graph = parse_graph(TEXT)
    graph.inputs, graph.outputs = [], []
    thinflow.save(graph, tmp_path / "m.tfpack")
    assert "interface" not in packed_bytes.open_pack(tmp_path / "m.tfpack").header
    assert ends(tmp_path / "m.tfpack")[1] == ["out", "also"]


def changed(path: Path, header: dict[str, object]) -> Path:
    """The package with another header in front of the same payload."""
    stored = packed_bytes.open_pack(path)
    path.write_bytes(packed_bytes._front(header) + bytes(stored.payload))
    return path


def test_changed_names_are_noticed(tmp_path: Path) -> None:
    thinflow.save(parse_graph(TEXT), tmp_path / "m.tfpack")
    header = json.loads(json.dumps(packed_bytes.open_pack(tmp_path / "m.tfpack").header))
    header["interface"]["outputs"] = ["out"]
    with pytest.raises(FormatError, match="the checksum is wrong"):
        thinflow.load(changed(tmp_path / "m.tfpack", header))


@pytest.mark.parametrize(
    ("interface", "message"),
    [
        (
            packed_bytes.Interface(("nobody",), ("out",)),
            "names an input or output that is not there: .*nobody",
        ),
        ({"inputs": 3}, "the names of its inputs and outputs are damaged"),
        ({"inputs": [], "outputs": [], "aliases": [1]}, "the names of its inputs and outputs are damaged"),
    ],
)
def test_damaged_names(interface: object, message: str, tmp_path: Path) -> None:
    class Given(packed_bytes.Interface):
        def data(self) -> dict[str, object]:  # type: ignore[override]
            return interface.data() if isinstance(interface, packed_bytes.Interface) else interface  # type: ignore

    from thinflow.formats import graphdef

    packed_bytes.write_pack(tmp_path / "m.tfpack", graphdef.to_chunks(parse_graph(TEXT)), interface=Given())
    with pytest.raises(FormatError, match=message):
        thinflow.load(tmp_path / "m.tfpack")
