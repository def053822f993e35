"""SavedModels in chunks: cut up as TensorFlow cuts them, and put together again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import thinflow
from tests.formats.chunked import chunked, split_model, write_chunked
from tests.library import constant, node
from tests.load.builders import SIGNATURE, VALUES, W, meta_text, placeholder, product, write_model
from thinflow import formats
from thinflow.errors import FormatError
from thinflow.formats import savedmodel
from thinflow.formats._chunks import _entry, _key_of, joined
from thinflow.ir.types import FLOAT
from thinflow.wire import protos
from thinflow.wire.fields import encode_varint

X = np.array([[1, -1]], np.float32)


def parse(data: bytes | memoryview) -> Any:
    return protos.parse("SavedModel", bytes(data))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_model(tmp_path / "m", meta_text(product(), signatures=SIGNATURE), values=VALUES)


def into_chunks(folder: Path, **options: Any) -> Path:
    path = folder / "saved_model.pb"
    message = parse(path.read_bytes())
    path.unlink()
    return write_chunked(folder, message, **options)


@pytest.mark.parametrize("grouped", [1, 2, 100])
def test_a_model_runs(folder: Path, grouped: int) -> None:
    path = into_chunks(folder, grouped=grouped)
    for given in (folder, path):
        assert formats.recognise(given).name == "savedmodel"
        np.testing.assert_allclose(thinflow.run(given, {"image": X}, engine="reference")["scores"], X @ W)


def test_a_model_packed_with_brotli(folder: Path) -> None:
    pytest.importorskip("brotli")
    into_chunks(folder, kind=b"b")
    np.testing.assert_allclose(thinflow.run(folder, {"image": X}, engine="reference")["scores"], X @ W)


def large() -> Any:
    """A SavedModel with constants that have contents, and functions."""
    nodes = [placeholder("x", 2), constant("c", np.float32([1, 2])), node("y", "Add", "x", "c", T=FLOAT)]
    nodes += [constant("late", np.arange(20_000, dtype=np.float32)), node("z", "Identity", "late", T=FLOAT)]
    text = meta_text(nodes, signatures={"s": ({"x": "x:0"}, {"y": "y:0"})})
    message = protos.from_text(
        "SavedModel", f"saved_model_schema_version: 1 meta_graphs {{ {text} }}".encode()
    )
    graph = message.meta_graphs[0].graph_def
    for found in graph.node:
        if found.op == "Const":
            tensor = found.attr["value"].tensor
            if not tensor.tensor_content:
                tensor.tensor_content = np.float32(tensor.float_val).tobytes()
                tensor.ClearField("float_val")
    for name in ("f", "g"):
        graph.library.function.add().signature.name = name
    return message


def test_it_is_the_same_message() -> None:
    message = large()
    parts = split_model(message)
    assert len(parts) == 6  # the model, its last nodes, two functions, two constants
    assert parse(joined(memoryview(chunked(parts)))) == message


def test_parts_in_any_order() -> None:
    first, last, *rest = split_model(large())
    # The splitter tells the chunks of constants before those of the nodes they are in.
    assert parse(joined(memoryview(chunked([first, *reversed(rest), last])))) == large()


def test_new_fields_and_entries() -> None:
    """What the first chunk lacks is made: a message, elements one after another, an entry of a map."""
    signature = protos.message("SignatureDef")(method_name="m")
    node_def = protos.message("NodeDef")(name="n", op="NoOp")
    parts = [
        ((), protos.message("SavedModel")(saved_model_schema_version=1)),
        ((2, ~0, 2, 1, ~0), node_def),
        ((2, ~0, 2, 1, ~1), node_def),
        ((2, ~0, 5, "key"), signature),
    ]
    found = parse(joined(memoryview(chunked(parts))))
    assert [n.name for n in found.meta_graphs[0].graph_def.node] == ["n", "n"]
    assert found.meta_graphs[0].signature_def["key"].method_name == "m"


def test_a_part_that_is_kept_twice_over_is_merged() -> None:
    """A field that occurs once may come in pieces: they count as one, so that indices go on."""
    one, two = (protos.from_text("GraphDef", f"node {{ name: '{n}' }} library {{ }}".encode()) for n in "ab")
    parts = [
        ((), protos.from_text("SavedModel", b"meta_graphs { }")),
        ((2, ~0, 2), one),
        ((2, ~0, 2), two),
        ((2, ~0, 2, 1, ~1), protos.message("NodeDef")(op="NoOp")),
    ]
    nodes = parse(joined(memoryview(chunked(parts)))).meta_graphs[0].graph_def.node
    assert [(n.name, n.op) for n in nodes] == [("a", ""), ("b", "NoOp")]


@pytest.mark.parametrize("kind", ["i32", "i64"])
def test_numbers_below_zero_are_keys(kind: str) -> None:
    """A varint holds -1 as 2^64 - 1."""
    entry = b"\x08" + encode_varint((1 << 64) - 1) + b"\x12\x00"
    key = protos.message("FieldIndex.MapKey")(**{kind: -1})
    assert _entry(memoryview(entry))[0] == _key_of(key) == "#-1"


START = ((), protos.from_text("SavedModel", b"meta_graphs { }"))
NODE = protos.from_text("NodeDef", b"name: 'n'")


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ((2, ~5), "field 2 has no element 5"),
        ((2, ~(1 << 60)), "field 2 has no element 1152921504606846976"),
        ((~0,), "a chunk does not say where it belongs"),
        ((2, ~0, ~0), "a chunk does not say where it belongs"),
        (("key",), "a chunk does not say where it belongs"),
        ((2,) * 101, "its chunks are nested too deeply"),
    ],
)
def test_places_that_are_not_there(path: tuple[int | str, ...], problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        joined(memoryview(chunked([START, (path, NODE)])))


def test_a_chunk_in_two_places() -> None:
    """Else a small file could ask for any amount of memory."""
    from tests.formats.chunked import records_file

    metadata = protos.message("ChunkMetadata")()
    metadata.message.chunk_index = 0
    for _ in range(2):
        metadata.chunks.add(type=1, size=1000, offset=64)
    metadata.message.chunked_fields.add().message.chunk_index = 1
    data, _ = records_file([[b"\x0a" + bytes(999)], [protos.serialize(metadata)]])
    with pytest.raises(FormatError, match="record 64: a chunk belongs to two places"):
        joined(memoryview(data))
    metadata.chunks[0].size = 5
    data, _ = records_file([[bytes(1000)], [protos.serialize(metadata)]])
    with pytest.raises(FormatError, match="a chunk of 5 bytes has 1000"):
        joined(memoryview(data))
    metadata.message.chunk_index = 9
    data, _ = records_file([[bytes(1000)], [protos.serialize(metadata)]])
    with pytest.raises(FormatError, match="there is no chunk 9, only 2"):
        joined(memoryview(data))


def test_damage_is_told(folder: Path) -> None:
    path = into_chunks(folder)
    data = bytearray(path.read_bytes())
    data[120] ^= 1
    path.write_bytes(data)
    with pytest.raises(
        FormatError, match=r"saved_model.cpb, byte 64: this SavedModel cannot be read"
    ) as error:
        thinflow.load(folder)
    assert "checksum" in error.value.problem
    assert error.value.hint


def test_the_plain_file_goes_first(folder: Path) -> None:
    (folder / "saved_model.cpb").write_bytes(b"junk")
    assert "y" in savedmodel.read(folder).select().graph
