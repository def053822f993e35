"""TensorFlow GraphDef files, binary (.pb) and text (.pbtxt), read lazily and written without loss.

Loading touches headers only: big weights stay views of the mapped file. Behind every node stays its record,
the bytes it was loaded from; saving writes an untouched node as those very bytes, and a changed one from its
message, so that fields this version does not know survive in both.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError
from thinflow.formats._attrs import STREAMED_BYTES, decode_attr, encode_attr
from thinflow.formats._function_writer import library_bytes, rename_in_node
from thinflow.formats._functions import Library
from thinflow.formats._node_reader import KnownAttrs, read_nodes
from thinflow.formats.files import map_file, write_file
from thinflow.formats.format import Format, Sample
from thinflow.ir.attrs import Attr
from thinflow.ir.function import mentioned
from thinflow.ir.graph import Graph, Node, Passenger, Problem, Value, Versions, paused_gc
from thinflow.ir.tensor import ArrayStorage, RawStorage, Tensor
from thinflow.progress import counted
from thinflow.wire import protos, scan
from thinflow.wire.fields import encode_varint, field_header

_NODE_FIELD, _LIBRARY_FIELD, _VERSIONS_FIELD = 1, 2, 4
_TEXT_STARTS = (b"node", b"library", b"versions", b"version")


class Record:
    """The serialized NodeDef a node was loaded from, and its attributes once somebody asked for them."""

    __slots__ = ("_attrs", "_contents", "_file", "_size", "_start")

    def __init__(self, file: _File, span: scan.NodeSpan) -> None:
        self._file = file
        self._start, end, self._contents = span
        self._size = end - self._start  # kept in place of the end: small numbers take no room
        self._attrs: Mapping[str, Attr] | None = None

    def raw(self) -> memoryview:
        """The NodeDef as it stands in the file."""
        return self._file.buffer[self._start : self._start + self._size]

    def message(self) -> Any:
        """A new NodeDef message without big tensor contents."""
        span = scan.NodeSpan(self._start, self._start + self._size, self._contents)
        return protos.parse("NodeDef", scan.slim(self._file.buffer, span))

    def content(self, key: str) -> memoryview | None:
        """The big tensor content of an attribute, as a view."""
        for content in self._contents:
            if content.key == key:
                return self._file.buffer[content.start : content.end]
        return None

    def attrs(self) -> Mapping[str, Attr]:
        if self._attrs is None:
            # Nodes with big tensors are not looked up among known attributes: no other node has the same.
            if self._contents:
                self._attrs = self._decoded()
            else:
                file, end = self._file, self._start + self._size
                self._attrs = file.known.of(file.buffer, self._start, end, self._decoded)
        return self._attrs

    def _decoded(self) -> Mapping[str, Attr]:
        message = self.message()
        try:
            return {k: decode_attr(v, self.content(k)) for k, v in message.attr.items()}
        except FormatError as error:
            raise error.at(f"node '{message.name}' ({message.op})") from error


class _File:
    """State that the records of one file share: its bytes, and the attributes found in them so far."""

    __slots__ = ("buffer", "known")

    def __init__(self, buffer: memoryview) -> None:
        self.buffer = buffer
        self.known = KnownAttrs()


@dataclass
class _Reference:
    """One input string, taken apart."""

    name: str
    port: int = 0
    is_control: bool = False


def _parse_reference(text: str) -> _Reference:
    if text.startswith("^"):
        return _Reference(text[1:].partition(":")[0], 0, True)
    # A colon without digits behind it is part of the name. isascii, as int()
    # takes digits of other scripts, too.
    name, colon, port = text.rpartition(":")
    if colon and port.isascii() and port.isdecimal() and len(port) < 6:
        return _Reference(name, int(port))
    return _Reference(text)


def is_text(head: bytes) -> bool:
    """True if a file that begins so is a text GraphDef, whatever its name says."""
    return Sample(Path(), head).word() in _TEXT_STARTS


def load(path: str | os.PathLike[str]) -> Graph:
    """The graph in a GraphDef file of either encoding, gzip or not.

    Raises:
        FormatError: not such a file; names file and byte offset.
    """
    buffer = map_file(path)
    try:
        graph = from_text(buffer) if is_text(bytes(buffer[:4096])) else from_bytes(buffer)
    except FormatError as error:
        raise error.at(os.fspath(path)) from error
    graph.path = os.fspath(path)
    return graph


def from_text(text: memoryview | bytes | str) -> Graph:
    """The graph in a text GraphDef."""
    return from_message(protos.from_text("GraphDef", text if isinstance(text, str) else bytes(text)))


def from_message(message: Any) -> Graph:
    """The graph in a GraphDef message."""
    return from_bytes(protos.serialize(message))


def from_bytes(data: memoryview | bytes) -> Graph:
    """The graph in a serialized GraphDef. Weights are views of `data`, which therefore stays alive.

    Raises:
        FormatError: not a GraphDef.
    """
    buffer = memoryview(data)
    found = scan.scan_graph(buffer)
    if not found.nodes:
        raise FormatError(
            "there are no nodes in it", hint="this is not a TensorFlow GraphDef, or an empty one"
        )
    graph = Graph()
    graph.passenger = Passenger(tuple((f.number, bytes(buffer[f.start : f.end])) for f in found.others))
    graph.versions = _read_versions(graph.passenger)
    # Not decoded before somebody asks: a library may hold thousands of functions of which one is called.
    graph.functions = Library(_field(graph.passenger, _LIBRARY_FIELD))
    with paused_gc():
        _fill(graph, buffer, found)
    return graph


def _fill(graph: Graph, buffer: memoryview, found: scan.GraphScan) -> None:
    file = _File(buffer)
    ops: dict[str, str] = {}  # so that there is one text for all nodes of an op
    read = (pair for batch in read_nodes(buffer, found) for pair in zip(*batch, strict=True))
    for span, message in counted(read, len(found.nodes), "reading nodes"):
        name, op = message.name, message.op
        if not name or not op:
            raise FormatError(
                "a node has no name or no op",
                f"byte {span.start}",
                hint="this is not a TensorFlow GraphDef, or it is damaged",
            )
        graph.restore(Node(name, ops.setdefault(op, op), message.device, Record(file, span)))
    nodes = iter(graph)
    # Parsed once more: that is cheap, and the names of all inputs of a large graph take more room than it.
    for _, messages in read_nodes(buffer, found):
        for message, node in zip(messages, nodes, strict=False):  # the nodes go on with the next batch
            references = message.input
            if references:
                _connect(graph, node, references)


def _connect(graph: Graph, node: Node, references: Sequence[str]) -> None:
    values: list[Value] = []
    waits = False
    for text in references:
        # Most references are the plain name of a node.
        plain = None if waits or ":" in text or "^" in text else graph.find(text)
        if plain is not None:
            values.append(plain.output())
            continue
        reference = _parse_reference(text)
        # A graph that names a node it does not have can still be read, looked at and mended.
        producer = graph.find(reference.name) or graph.stand_in(reference.name)
        if reference.is_control:
            node.add_control_input(producer)
            waits = True
            continue
        if waits:
            # TensorFlow wants data inputs first; the order among each kind is kept,
            # so nothing is lost by going on.
            graph.problems.append(
                Problem("order", node.name, f"data input '{text}' stands after a control input")
            )
        values.append(producer.output(reference.port))
    node.set_inputs(values)


def _field(passenger: Passenger, wanted: int) -> bytes:
    """A field with its tag; the parts of one that was written in parts, one after the other."""
    # Protobuf merges the parts of a message that stands in several fields of one
    # number; joined bytes do the same.
    return b"".join(data for number, data in passenger.fields if number == wanted)


def _read_versions(passenger: Passenger) -> Versions | None:
    raw = _field(passenger, _VERSIONS_FIELD)
    if not raw:
        return None
    versions = protos.parse("GraphDef", raw).versions
    return Versions(versions.producer, versions.min_consumer, tuple(versions.bad_consumers))


def save(graph: Graph, path: str | os.PathLike[str], *, text: bool | None = None) -> int:
    """Write a graph atomically; the bytes written. The target may be the file the graph was loaded from.

    Args:
        graph: what to write.
        path: where to.
        text: text format; default by the suffix (.pbtxt).

    Raises:
        WriteError: the file cannot be written; what stood there is untouched.
    """
    name = os.fspath(path)
    as_text = ".pbtxt" in name if text is None else text
    if as_text:
        chunks: Iterator[bytes | memoryview] = iter([to_text(graph).encode()])
    else:
        chunks = to_chunks(graph)
    if name.endswith(".gz"):
        import gzip

        # mtime=0: equal graphs give equal files.
        chunks = iter([gzip.compress(b"".join(chunks), mtime=0)])
    return write_file(path, chunks)


def to_bytes(graph: Graph) -> bytes:
    """The serialized GraphDef in one piece."""
    return b"".join(to_chunks(graph))


def to_text(graph: Graph) -> str:
    """The graph in protobuf's text format."""
    return protos.to_text(to_message(graph))


def to_message(graph: Graph) -> Any:
    """The GraphDef message."""
    # By way of the bytes, so that there is one writer, whose old records and new names both count.
    return protos.parse("GraphDef", to_bytes(graph))


def to_chunks(graph: Graph, stand_in: Callable[[Attr], Attr] | None = None) -> Iterator[bytes | memoryview]:
    """The serialized GraphDef piece by piece; weights are views of wherever they live.

    Args:
        stand_in: of an attribute that is written, another to write in its place.
    """
    header = field_header(_NODE_FIELD, 2)
    stored = _field(graph.passenger, _LIBRARY_FIELD)
    library, names = library_bytes(stored, graph.functions)
    for node in counted(graph, len(graph), "writing nodes"):
        size, chunks = _node_chunks(node, names, stand_in)
        yield header + encode_varint(size)
        yield from chunks
    versions = graph.versions
    changed = versions != _read_versions(graph.passenger)
    fields = [(n, raw) for n, raw in graph.passenger.fields if not (changed and n == _VERSIONS_FIELD)]
    if changed and versions is not None:
        message = protos.message("GraphDef")()
        message.versions.producer = versions.producer
        message.versions.min_consumer = versions.min_consumer
        message.versions.bad_consumers.extend(versions.bad_consumers)
        fields.append((_VERSIONS_FIELD, protos.serialize(message)))
    if library is not stored:
        fields = [(n, raw) for n, raw in fields if n != _LIBRARY_FIELD] + [(_LIBRARY_FIELD, library)]
    # In the order of numbers, as protobuf writes; a stable sort keeps parts of one field in theirs.
    for _, raw in sorted(fields, key=lambda field: field[0]):
        yield raw


def serialized_size(graph: Graph) -> int:
    """Bytes `save` would write. Weights are not read, changed nodes are encoded."""
    return sum(len(chunk) for chunk in to_chunks(graph, _of_the_same_size))


def _of_the_same_size(attr: Attr) -> Attr:
    """A tensor of as many bytes, instead of one whose elements would first have to be put in order."""
    if not isinstance(attr, Tensor) or not isinstance(attr.storage, ArrayStorage) or attr.is_splat:
        return attr
    array = attr.storage.array
    if array.dtype.hasobject or array.flags.c_contiguous or array.nbytes <= STREAMED_BYTES:
        return attr
    # Memory that nobody reads is none: the system makes pages when they are touched.
    return Tensor(attr.dtype, attr.shape, RawStorage(memoryview(mmap.mmap(-1, array.nbytes))))


def _node_chunks(
    node: Node, names: Mapping[str, str], stand_in: Callable[[Attr], Attr] | None = None
) -> tuple[int, Sequence[bytes | memoryview]]:
    """One NodeDef: its old bytes if nothing changed, else its old message with the changes, else a new
    message.

    Args:
        node: to be written.
        names: of functions that are called something else in the file.
        stand_in: see `to_chunks`.
    """
    record = node.source if isinstance(node.source, Record) else None
    message = record.message() if record is not None else protos.message("NodeDef")()
    is_renamed = bool(names) and any(name in names for name in mentioned(node))
    if record is not None and not is_renamed and node.attrs_untouched and _same_header(node, message):
        raw = record.raw()
        return len(raw), [raw]
    message.name, message.op, message.device = node.name, node.op, node.device
    del message.input[:]
    message.input.extend(reference_texts(node))
    loaded: Mapping[str, Attr] = record.attrs() if record is not None else {}
    streamed: dict[str, memoryview] = {}
    for key in [k for k in message.attr if k not in node.attrs]:
        del message.attr[key]
    for key, attr in node.attrs.items():
        # The very object that was decoded has not changed: its part of the message, and its
        # content in the file, are kept.
        if record is not None and key in loaded and loaded[key] is attr:
            content = record.content(key)
        else:
            message.attr[key].Clear()
            content = encode_attr(attr if stand_in is None else stand_in(attr), message.attr[key])
        if content is not None:
            streamed[key] = content
    if is_renamed:
        rename_in_node(message, names)
    slim = protos.serialize(message)
    return scan.with_content(slim, streamed) if streamed else (len(slim), [slim])


def _same_header(node: Node, message: Any) -> bool:
    if (message.name, message.op, message.device) != (node.name, node.op, node.device):
        return False
    references = [_parse_reference(text) for text in message.input]
    data = [(r.name, r.port) for r in references if not r.is_control]
    # A control input given twice is one.
    control = dict.fromkeys(r.name for r in references if r.is_control)
    return data == [(v.node.name, v.port) for v in node.inputs] and list(control) == [
        n.name for n in node.control_inputs
    ]


def reference_texts(node: Node) -> list[str]:
    """The node's inputs as a NodeDef spells them: `a`, `a:1`, then `^b`."""
    return [v.name for v in node.inputs] + [f"^{n.name}" for n in node.control_inputs]


FORMAT = (
    Format(
        name="graphdef",
        title="a binary GraphDef",
        load=load,
        save=lambda graph, path: save(graph, path, text=False),
        suffixes=(".pb", ".pb.gz"),
        rank=100,  # the fallback: any file could be one
    ),
    Format(
        name="pbtxt",
        title="a text GraphDef",
        recognise=lambda sample: is_text(sample.head),
        load=load,
        save=lambda graph, path: save(graph, path, text=True),
        suffixes=(".pbtxt", ".pbtxt.gz"),
        rank=10,
    ),
)
