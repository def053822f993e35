"""GraphDef files: read lazily, written without loss, and no file may crash the reader."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import thinflow.formats as formats
from tests.transforms.golden import parse_graph
from thinflow.errors import FormatError, ParameterError, ThinflowError, WriteError
from thinflow.formats import files, graphdef
from thinflow.ir.attrs import OpaqueAttr
from thinflow.ir.graph import Graph, Versions
from thinflow.ir.tensor import Tensor
from thinflow.ir.text import graph_text
from thinflow.ir.types import STRING, dtype
from thinflow.wire import protos

TEXT = """
    x = Placeholder() {dtype=float, shape=shape[?,3]}
    w = Const() {value=float[3]{1,2,3}}
    big = Const() {value=float[5000]{range}}
    y = Mul(x, w, ^big) {T=float, names=["a","b"], sizes=[1,2], kinds=[float,int32], fn=@body, b=true} @/cpu:0
    inputs: x
    outputs: y
"""


def sample() -> Graph:
    graph = parse_graph(TEXT)
    graph.versions = Versions(1087, 12, (3,))
    return graph


def text_of(graph: Graph) -> str:
    """The nodes as text; which are inputs and outputs, a GraphDef does not say."""
    return graph_text(graph).partition("inputs:")[0]


def message_of(data: bytes) -> Any:
    return protos.parse("GraphDef", data)


def node_message(**fields: Any) -> Any:
    """A GraphDef message with one Const node `c` whose TensorProto has these fields."""
    message = protos.message("GraphDef")()
    tensor = message.node.add(name="c", op="Const").attr["value"].tensor
    for name, value in fields.items():
        if name == "shape":
            tensor.tensor_shape.SetInParent()
            for size in value:
                tensor.tensor_shape.dim.add().size = size
        elif isinstance(value, list):
            getattr(tensor, name).extend(value)
        else:
            setattr(tensor, name, value)
    return message


def tensor_of(message: Any) -> Tensor:
    tensor = graphdef.from_bytes(protos.serialize(message)).node("c").tensor
    assert tensor is not None
    return tensor


def touch(graph: Graph) -> None:
    """Make the writer encode every attribute of every node anew."""
    for node in graph:
        attrs = dict(node.attrs)
        node.source = None
        node._attrs = attrs


# --- round trips
# ----------------------------------------------------------------------------------------------


def test_what_is_written_is_read() -> None:
    graph = graphdef.from_bytes(graphdef.to_bytes(sample()))
    assert text_of(graph) == text_of(sample())
    assert graph.versions == Versions(1087, 12, (3,))
    np.testing.assert_array_equal(graph.node("big").tensor.numpy(), np.arange(5000))  # type: ignore[union-attr]


def test_an_untouched_graph_is_written_byte_for_byte() -> None:
    data = graphdef.to_bytes(sample())
    assert graphdef.to_bytes(graphdef.from_bytes(data)) == data
    assert graphdef.to_bytes(graphdef.from_bytes(data).clone()) == data


@pytest.mark.parametrize("name", ["m.pb", "m.pbtxt", "m.pb.gz", "m.pbtxt.gz", "m", "m.dat"])
def test_every_suffix(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert graphdef.save(sample(), path) == path.stat().st_size
    assert (path.read_bytes()[:2] == b"\x1f\x8b") == name.endswith(".gz")
    assert text_of(formats.load(path)) == text_of(sample())
    assert formats.load(path).path == str(path)
    assert graphdef.is_text(path.read_bytes()) == (name == "m.pbtxt")


def test_text_in_a_file_named_pb(tmp_path: Path) -> None:
    path = tmp_path / "m.pb"
    formats.save(sample(), path, format="pbtxt")
    assert b"node {" in path.read_bytes()
    assert text_of(formats.load(path)) == text_of(sample())
    path.write_bytes(b"# a comment\n\n" + path.read_bytes())
    assert text_of(formats.load(path)) == text_of(sample())


def test_binary_in_a_file_named_pbtxt(tmp_path: Path) -> None:
    path = tmp_path / "m.pbtxt"
    formats.save(sample(), path, format="graphdef")
    assert text_of(formats.load(path)) == text_of(sample())


def test_gzip_is_deterministic(tmp_path: Path) -> None:
    for name in ("a.pb.gz", "b.pb.gz"):
        graphdef.save(sample(), tmp_path / name)
    assert (tmp_path / "a.pb.gz").read_bytes() == (tmp_path / "b.pb.gz").read_bytes()


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="'xml' is not a graph format") as caught:
        formats.save(sample(), tmp_path / "m.pb", format="xml")
    assert "graphdef" in caught.value.hint


def shared_files(shared: Path) -> list[Path]:
    """The binary ones: a text GraphDef may be called .pb, too."""
    paths = sorted([*(shared / "conformance").glob("*.pb"), *(shared / "models").glob("*.pb")])
    return [path for path in paths if not path.read_bytes().startswith(b"node {")]


def test_reference_files_survive(shared: Path) -> None:
    for path in shared_files(shared):
        data = path.read_bytes()
        assert graphdef.to_bytes(formats.load(path)) == data, path.name


def test_reference_files_survive_rewriting_every_node(shared: Path) -> None:
    for path in shared_files(shared):
        graph = formats.load(path)
        for node in graph:
            node.device += "/x"  # every node has to be written anew ...
        changed = message_of(graphdef.to_bytes(graph))
        for node in changed.node:
            node.device = node.device.removesuffix("/x")
        original = message_of(path.read_bytes())
        for node in original.node:
            node.input[:] = [text.removesuffix(":0") for text in node.input]  # the short spelling of the same
        assert changed == original, path.name


def test_reference_files_keep_their_constants_when_encoded_anew(shared: Path) -> None:
    for path in shared_files(shared):
        graph, again = formats.load(path), formats.load(path)
        touch(again)
        back = graphdef.from_bytes(graphdef.to_bytes(again))
        assert text_of(back) == text_of(graph), path.name
        for node in graph:
            twin = back.node(node.name)
            if node.tensor is not None:
                assert twin.tensor is not None
                assert twin.tensor.same_as(node.tensor), f"{path.name}: {node.name}"


# --- nothing is lost
# ------------------------------------------------------------------------------------------


def unknown_field(number: int, content: bytes = b"later") -> bytes:
    return (
        bytes([number << 3 | 2, len(content)])
        if number < 16
        else bytes([(number << 3 | 2) & 0x7F | 0x80, number >> 4, len(content)]) + content
    )


def with_unknown_fields() -> bytes:
    """A graph with a field of a later version in the graph, in a node and in an attribute."""
    node = protos.message("NodeDef")(name="a", op="A")
    node.attr["k"].i = 5
    raw = protos.serialize(node) + unknown_field(100)
    attr = b"\x0a\x01z\x12" + bytes([len(unknown_field(100))]) + unknown_field(100)
    raw += b"\x2a" + bytes([len(attr)]) + attr
    return b"\x0a" + bytes([len(raw)]) + raw + unknown_field(101)


@pytest.mark.parametrize("change", [False, True])
def test_unknown_fields_survive(change: bool) -> None:
    graph = graphdef.from_bytes(with_unknown_fields())
    node = graph.node("a")
    assert isinstance(node.attrs["z"], OpaqueAttr)
    if change:
        node.device = "/cpu:0"
        node.attrs["k"] = 6
    data = graphdef.to_bytes(graph)
    assert data.count(b"later") == 3
    again = graphdef.from_bytes(data).node("a")
    assert (again.attrs["k"], again.device) == ((6, "/cpu:0") if change else (5, ""))


def test_library_and_versions_survive() -> None:
    message = message_of(graphdef.to_bytes(sample()))
    message.library.function.add().signature.name = "body"
    data = protos.serialize(message)
    graph = graphdef.from_bytes(data)
    graph.remove(graph.node("y"))
    back = message_of(graphdef.to_bytes(graph))
    assert back.library == message.library
    assert back.versions == message.versions


def test_versions_can_be_changed() -> None:
    graph = graphdef.from_bytes(graphdef.to_bytes(sample()))
    graph.versions = Versions(producer=7)
    back = message_of(graphdef.to_bytes(graph))
    assert (back.versions.producer, back.versions.min_consumer, list(back.versions.bad_consumers)) == (
        7,
        0,
        [],
    )


def test_references_keep_ports_and_marks() -> None:
    message = protos.message("GraphDef")()
    message.node.add(name="a", op="A")
    message.node.add(name="b", op="B", input=["a", "a:0", "a:2", "^a"])
    graph = graphdef.from_bytes(protos.serialize(message))
    assert [v.port for v in graph.node("b").inputs] == [0, 0, 2]
    graph.node("b").device = "d"
    assert list(message_of(graphdef.to_bytes(graph)).node[1].input) == ["a", "a", "a:2", "^a"]


def test_a_dangling_reference_survives() -> None:
    message = protos.message("GraphDef")()
    message.node.add(name="b", op="B", input=["gone:1", "^lost"])
    graph = graphdef.from_bytes(protos.serialize(message))
    assert sorted(graph.missing) == ["gone", "lost"]
    graph.node("b").device = "d"
    assert list(message_of(graphdef.to_bytes(graph)).node[0].input) == ["gone:1", "^lost"]


def test_duplicate_nodes_survive() -> None:
    message = protos.message("GraphDef")()
    message.node.add(name="a", op="A")
    message.node.add(name="a", op="B")
    data = protos.serialize(message)
    graph = graphdef.from_bytes(data)
    assert graph.duplicates == ["a"]
    assert graph.node("a").op == "B"
    assert graphdef.to_bytes(graph) == data


# --- tensors
# --------------------------------------------------------------------------------------------------

TENSORS: list[tuple[dict[str, Any], Any]] = [
    ({"dtype": 1, "shape": [2], "tensor_content": np.float32([1, -2]).tobytes()}, np.float32([1, -2])),
    (
        {"dtype": 1, "shape": [2], "tensor_content": np.float32([1, -2]).tobytes(), "float_val": [7.0]},
        np.float32([1, -2]),
    ),
    ({"dtype": 1, "shape": [], "float_val": [2.5]}, np.float32(2.5)),
    ({"dtype": 1, "float_val": [2.5]}, np.float32(2.5)),
    ({"dtype": 1, "shape": [3]}, np.float32([0, 0, 0])),
    ({"dtype": 1, "shape": [4], "float_val": [1.0, 2.0]}, np.float32([1, 2, 2, 2])),
    ({"dtype": 1, "shape": [100], "float_val": [2.5]}, np.full(100, 2.5, np.float32)),
    ({"dtype": 1, "shape": [2], "float_val": [1.0, 2.0, 3.0]}, np.float32([1, 2])),
    ({"dtype": 1, "shape": [2], "int_val": [1, 2]}, np.float32([0, 0])),
    ({"dtype": 1, "shape": [0], "float_val": [1.0]}, np.zeros(0, np.float32)),
    ({"dtype": 1, "shape": [0, 3], "tensor_content": b""}, np.zeros((0, 3), np.float32)),
    ({"dtype": 2, "shape": [2], "double_val": [1.0, 0.1]}, np.float64([1, 0.1])),
    ({"dtype": 3, "shape": [2, 1], "int_val": [-1, 5]}, np.int32([[-1], [5]])),
    ({"dtype": 4, "shape": [2], "int_val": [300, 1]}, np.uint8([44, 1])),
    ({"dtype": 6, "shape": [1], "int_val": [200]}, np.int8([-56])),
    ({"dtype": 5, "shape": [1], "int_val": [40000]}, np.int16([-25536])),
    ({"dtype": 17, "shape": [1], "int_val": [40000]}, np.uint16([40000])),
    ({"dtype": 9, "shape": [3], "int64_val": [1 << 40]}, np.int64([1 << 40] * 3)),
    ({"dtype": 10, "shape": [3], "bool_val": [True, False]}, np.array([True, False, False])),
    ({"dtype": 22, "shape": [1], "uint32_val": [1 << 31]}, np.uint32([1 << 31])),
    ({"dtype": 23, "shape": [1], "uint64_val": [1 << 63]}, np.uint64([1 << 63])),
    (
        {"dtype": 8, "shape": [3], "scomplex_val": [1.0, 2.0, 3.0, 4.0]},
        np.complex64([1 + 2j, 3 + 4j, 3 + 4j]),
    ),
    ({"dtype": 18, "shape": [1], "dcomplex_val": [1.0, -1.0]}, np.complex128([1 - 1j])),
    ({"dtype": 19, "shape": [2], "half_val": [15872, 49152]}, np.float16([1.5, -2])),
    ({"dtype": 11, "shape": [2], "int_val": [-1, 2]}, np.int8([-1, 2])),
    ({"dtype": 12, "shape": [2], "tensor_content": b"\x01\xff"}, np.uint8([1, 255])),
    ({"dtype": 13, "shape": [1], "int_val": [-7]}, np.int32([-7])),
    ({"dtype": 7, "shape": [2], "string_val": [b"a", b""]}, np.array([b"a", b""], object)),
    ({"dtype": 7, "shape": [3], "string_val": [b"a", b"b"]}, np.array([b"a", b"b", b"b"], object)),
    ({"dtype": 7, "shape": [2]}, np.array([b"", b""], object)),
    ({"dtype": 7, "shape": [3], "tensor_content": b"\x01\x00\x02Axy"}, np.array([b"A", b"", b"xy"], object)),
]


@pytest.mark.parametrize(("fields", "expected"), TENSORS, ids=[str(i) for i in range(len(TENSORS))])
def test_every_encoding_of_a_tensor(fields: dict[str, Any], expected: Any) -> None:
    tensor = tensor_of(node_message(**fields))
    assert tensor.dtype is dtype(fields["dtype"])
    assert tensor.shape == np.shape(expected)
    array = tensor.numpy()
    assert array.dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(array, expected)
    assert not array.flags.writeable


@pytest.mark.parametrize(("fields", "expected"), TENSORS, ids=[str(i) for i in range(len(TENSORS))])
def test_every_tensor_is_encoded_so_that_it_is_read_back(fields: dict[str, Any], expected: Any) -> None:
    graph = graphdef.from_bytes(protos.serialize(node_message(**fields)))
    touch(graph)
    again = graphdef.from_bytes(graphdef.to_bytes(graph)).node("c").tensor
    assert again is not None
    np.testing.assert_array_equal(again.numpy(), expected)
    assert again.same_as(graph.node("c").tensor)  # type: ignore[arg-type]


def test_bfloat16() -> None:
    tensor = tensor_of(node_message(dtype=14, shape=[3], half_val=[16256, 16256 + 128]))
    assert [float(v) for v in tensor.numpy()] == [1.0, 2.0, 2.0]


@pytest.mark.parametrize("content", [b"\0" * 7, b"\0" * 9, b"\0" * 4])
def test_content_of_the_wrong_length(content: bytes) -> None:
    tensor = tensor_of(node_message(dtype=1, shape=[2], tensor_content=content))
    with pytest.raises(FormatError, match=r"takes 8 bytes, the file holds") as caught:
        tensor.numpy()
    assert caught.value.hint


def test_a_negative_size_is_an_error_that_names_the_node() -> None:
    with pytest.raises(FormatError, match=r"node 'c' \(Const\).*\[-1\]"):
        tensor_of(node_message(dtype=1, shape=[-1], float_val=[1.0]))


@pytest.mark.parametrize("content", [b"\x01", b"\x05\x05ab", b"\x00\x00\x00"])
def test_strings_that_do_not_add_up(content: bytes) -> None:
    with pytest.raises(FormatError):
        tensor_of(node_message(dtype=7, shape=[2], tensor_content=content)).numpy()


def test_a_type_that_is_only_carried_through() -> None:
    message = node_message(dtype=20, shape=[])
    message.node[0].attr["value"].tensor.resource_handle_val.add(name="table")
    data = protos.serialize(message)
    graph = graphdef.from_bytes(data)
    assert graph.node("c").tensor is None
    graph.node("c").device = "d"
    assert message_of(graphdef.to_bytes(graph)).node[0].attr == message.node[0].attr


def test_equal_values_are_written_once() -> None:
    graph = Graph()
    graph.constant(np.broadcast_to(np.float32(2.5), (1000, 1000)), "c")
    data = graphdef.to_bytes(graph)
    assert len(data) < 100
    tensor = graphdef.from_bytes(data).node("c").tensor
    assert tensor is not None
    assert tensor.is_splat
    assert tensor.shape == (1000, 1000)


def test_weights_are_views_of_the_file() -> None:
    data = graphdef.to_bytes(sample())
    tensor = graphdef.from_bytes(data).node("big").tensor
    assert tensor is not None
    assert np.shares_memory(tensor.numpy(), np.frombuffer(data, np.uint8))


def test_strings_are_bytes() -> None:
    graph = Graph()
    graph.constant(Tensor.from_array([b"a\0", b"\xff"], STRING), "c")
    tensor = graphdef.from_bytes(graphdef.to_bytes(graph)).node("c").tensor
    assert tensor is not None
    assert tensor.numpy().tolist() == [b"a\0", b"\xff"]


# --- files
# ----------------------------------------------------------------------------------------------------


def test_the_file_being_read_can_be_replaced(tmp_path: Path) -> None:
    path = tmp_path / "m.pb"
    graphdef.save(sample(), path)
    graph = formats.load(path)
    graph.node("y").device = "/gpu:7"
    graphdef.save(graph, path)
    again = formats.load(path)
    assert again.node("y").device == "/gpu:7"
    np.testing.assert_array_equal(again.node("big").tensor.numpy(), np.arange(5000))  # type: ignore[union-attr]
    np.testing.assert_array_equal(graph.node("big").tensor.numpy(), np.arange(5000))  # type: ignore[union-attr]


@pytest.mark.parametrize("existed", [False, True])
def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, existed: bool) -> None:
    path = tmp_path / "m.pb"
    if existed:
        path.write_bytes(b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(WriteError, match="the disk is full") as caught:
        graphdef.save(sample(), path)
    assert caught.value.hint
    assert [p.name for p in tmp_path.iterdir()] == (["m.pb"] if existed else [])
    assert not existed or path.read_bytes() == b"old"


def test_a_writer_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    def chunks() -> Any:
        yield b"half"
        raise FormatError("the source is damaged")

    with pytest.raises(FormatError):
        files.write_file(tmp_path / "m.pb", chunks())
    assert list(tmp_path.iterdir()) == []


def test_permissions_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "m.pb"
    path.write_bytes(b"old")
    path.chmod(0o640)
    graphdef.save(sample(), path)
    assert path.stat().st_mode & 0o777 == 0o640


def in_missing_folder(folder: Path) -> Path:
    return folder / "no" / "m.pb"


def at_folder(folder: Path) -> Path:
    return folder


@pytest.mark.parametrize(
    ("place", "problem", "hint"),
    [
        (in_missing_folder, "its folder does not exist", "mkdir"),
        (at_folder, "this is a folder", "file inside"),
    ],
)
def test_places_that_cannot_be_written(
    tmp_path: Path, place: Callable[[Path], Path], problem: str, hint: str
) -> None:
    with pytest.raises(WriteError, match=problem) as caught:
        graphdef.save(sample(), place(tmp_path))
    assert hint in caught.value.hint


OTHERS = {
    "flat.tflite": (b"\x1c\0\0\0TFL3" + b"\0" * 20, "a LiteRT"),
    "model.h5": (b"\x89HDF\r\n\x1a\n" + b"\0" * 20, "HDF5 data cannot be read"),
    "model.keras": (b"PK\x03\x04" + b"\0" * 20, "zip archive"),
    "cat.jpg": (b"\xff\xd8\xff\xe0" + b"\0" * 20, "JPEG"),
    "cat.png": (b"\x89PNG\r\n\x1a\n" + b"\0" * 20, "PNG"),
    "words.txt": (b"hello world, this is no model\n", "not"),
    "junk.pb": (bytes(range(256)), ""),
    "empty.pb": (b"", "empty"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_that_are_something_else(tmp_path: Path, name: str) -> None:
    content, words = OTHERS[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FormatError) as caught:
        formats.load(path)
    assert words in caught.value.message
    assert str(path) in caught.value.where
    assert caught.value.hint


def test_a_missing_file_names_its_neighbours(tmp_path: Path) -> None:
    graphdef.save(sample(), tmp_path / "there.pb")
    with pytest.raises(FormatError, match="there is no such file") as caught:
        formats.load(tmp_path / "here.pb")
    assert "there.pb" in caught.value.hint


def test_a_folder(tmp_path: Path) -> None:
    (tmp_path / "frozen.pb").write_bytes(b"")
    with pytest.raises(FormatError, match="this is a folder") as caught:
        formats.load(tmp_path)
    assert "frozen.pb" in caught.value.hint


def test_damaged_gzip(tmp_path: Path) -> None:
    path = tmp_path / "m.pb.gz"
    path.write_bytes(gzip.compress(graphdef.to_bytes(sample()))[:-20])
    with pytest.raises(FormatError, match="gzip") as caught:
        formats.load(path)
    assert caught.value.hint


def test_gzip_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "m.pb.gz"
    path.write_bytes(gzip.compress(b""))
    with pytest.raises(FormatError, match="holds nothing"):
        formats.load(path)


def test_text_with_a_mistake_says_where(tmp_path: Path) -> None:
    path = tmp_path / "m.pbtxt"
    path.write_text('node {\n  name: "a"\n  opp: "A"\n}\n')
    with pytest.raises(FormatError) as caught:
        formats.load(path)
    assert "3" in caught.value.message
    assert str(path) in caught.value.where


def test_a_node_without_a_name() -> None:
    message = protos.message("GraphDef")()
    message.node.add(op="A")
    with pytest.raises(FormatError, match="no name or no op"):
        graphdef.from_bytes(protos.serialize(message))


# --- fuzz
# -----------------------------------------------------------------------------------------------------


def survive(data: bytes) -> None:
    """Reading gives a graph that can be walked and written, or a FormatError."""
    try:
        graph = graphdef.from_bytes(data)
        for node in graph:
            if node.tensor is not None and node.tensor.size < 100_000:
                node.tensor.numpy()
        graphdef.to_bytes(graph)
    except ThinflowError:
        return


@settings(max_examples=300)
@given(st.data())
def test_flipped_bytes(data: st.DataObject) -> None:
    raw = bytearray(graphdef.to_bytes(parse_graph(TEXT.replace("float[5000]{range}", "float[20]{range}"))))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    survive(bytes(raw))


def test_every_truncation() -> None:
    raw = graphdef.to_bytes(parse_graph(TEXT.replace("float[5000]{range}", "float[20]{range}")))
    for end in range(len(raw)):
        survive(raw[:end])


@settings(max_examples=200)
@given(st.binary(max_size=80))
def test_any_bytes(data: bytes) -> None:
    survive(data)


def test_the_size_of_transposed_weights_is_that_of_the_file() -> None:
    graph = Graph()
    array = np.arange(6000, dtype=np.float32).reshape(60, 100)
    for name, view in (
        ("plain", array),
        ("transposed", array.T),
        ("strided", array[::2]),
        ("one", array[:1, ::7]),
    ):
        graph.constant(view, name)
    graph.constant(np.broadcast_to(np.float32(2), (50, 60)), "splat")
    assert graphdef.serialized_size(graph) == len(graphdef.to_bytes(graph))
