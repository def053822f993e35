"""Finds the big tensors of a mapped GraphDef without reading them.

`scan_graph` walks the bytes of a GraphDef and says where each node is and, inside big nodes, where the raw
bytes of big tensors (`attr { value { tensor { tensor_content } } }`) are. `slim` gives a node without those
bytes, small enough for the protobuf library to parse, and `with_content` puts bytes back into a slim node for
writing. Weights are thus never copied, and files beyond protobuf's 2 GiB are no special case.

Everything here treats its input as hostile: a length is checked against its surroundings before it is used,
and whatever is malformed raises FormatError with the byte offset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from thinflow.errors import WriteError
from thinflow.wire.fields import (
    LENGTH_DELIMITED,
    Bytes,
    as_bytes,
    encode_varint,
    field_header,
    iter_fields,
    malformed,
    read_field,
    read_varint,
)

if TYPE_CHECKING:
    from typing_extensions import Buffer

DEFAULT_THRESHOLD = 4096  # bytes; one page: whatever is larger is worth leaving in the map

# Field numbers of the messages that are walked.
_GRAPH_NODE = 1
_NODE_ATTR = 5
_ENTRY_KEY, _ENTRY_VALUE = 1, 2
_VALUE_TENSOR = 8
_TENSOR_CONTENT = 4

_NODE_TAG = _GRAPH_NODE << 3 | LENGTH_DELIMITED


class Frame(NamedTuple):
    """A length-delimited field: where its tag, its length and its payload begin, and where it ends."""

    tag: int
    length: int
    start: int
    end: int


class Content(NamedTuple):
    """A big `tensor_content` at [start, end) of the buffer, in the attribute `key` of a node.

    `frames` are the fields around and including it, outermost first: map entry, value, tensor, content.
    """

    key: str
    start: int
    end: int
    frames: tuple[Frame, Frame, Frame, Frame]


class NodeSpan(NamedTuple):
    """A serialized NodeDef at [start, end) of the buffer, and its big tensors in file order."""

    start: int
    end: int
    contents: tuple[Content, ...] = ()


class FieldSpan(NamedTuple):
    """A field at [start, end) of the buffer, tag included: spans joined together are again a message."""

    number: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class GraphScan:
    """Parts of a GraphDef, each list in file order."""

    nodes: list[NodeSpan]
    others: list[FieldSpan]


# --- reading ------------------------------------------------------------------------------------------------


def scan_graph(
    buffer: Buffer, threshold: int = DEFAULT_THRESHOLD, *, start: int = 0, end: int | None = None
) -> GraphScan:
    """Places of nodes, big tensors and other fields of the GraphDef at [start, end) of `buffer`.

    Only headers are touched: of each node the first bytes, and of a node above the threshold also the headers
    of its attributes. Small nodes are not looked into; parsing them finds what is wrong with them.

    Args:
        buffer: anything contiguous; offsets in the result count from its beginning.
        threshold: `tensor_content` above this many bytes is reported.
        start: where the GraphDef begins, if it lies inside another message.
        end: where it ends; None for the end of the buffer.

    Raises:
        FormatError: with the byte offset, if the bytes are no message.
    """
    buf = as_bytes(buffer)
    stop = len(buf) if end is None else end
    if not 0 <= start <= stop <= len(buf):
        raise malformed(f"bytes {start} to {stop} lie outside the {len(buf)} bytes at hand", start)
    if stop < len(buf):
        buf = memoryview(buf)[:stop]  # so that an index beyond the message is an IndexError
    nodes: list[NodeSpan] = []
    others: list[FieldSpan] = []
    # A graph may have a million nodes: the common case, a tag and a length of up to two bytes, is spelled
    # out, and the tuple is made without NamedTuple's own constructor, which costs more than all the rest.
    add, new, span, nothing = nodes.append, tuple.__new__, NodeSpan, ()
    at = start
    while at < stop:
        try:
            if buf[at] != _NODE_TAG:
                number, wire_type, _, after = read_field(buf, at, stop)
                if (
                    number == _GRAPH_NODE and wire_type == LENGTH_DELIMITED
                ):  # its tag is written in a longer way
                    first = _payload(buf, at)
                    add(NodeSpan(first, after, find_contents(buf, first, after, threshold)))
                else:
                    others.append(FieldSpan(number, at, after))
                at = after
                continue
            size = buf[at + 1]
            first = at + 2
            if size > 127:
                high = buf[first]
                if high > 127:
                    size, first = read_varint(buf, at + 1)
                else:
                    # The first byte's continuation bit, 128, was taken for a part of the size.
                    size += (high << 7) - 128
                    first += 1
        except IndexError:
            raise malformed("the file ends inside a field", at) from None
        after = first + size
        if after > stop:
            raise malformed(f"a node of {size} bytes is longer than the rest of the file", at)
        if size > threshold:
            add(NodeSpan(first, after, find_contents(buf, first, after, threshold)))
        else:
            add(new(span, (first, after, nothing)))
        at = after
    return GraphScan(nodes, others)


def find_contents(buf: Bytes, start: int, end: int, threshold: int) -> tuple[Content, ...]:
    """The big tensors of the NodeDef at [start, end).

    None at all if the node is encoded in an unusual way, such as an attribute given twice: protobuf would
    merge the parts, so the node has to be parsed as a whole. Tensors in lists, and typed fields such as
    `float_val`, are never reported.

    Raises:
        FormatError: a field does not fit into the one around it.
    """
    if end - start <= threshold:
        return ()
    contents: list[Content] = []
    keys: set[bytes] = set()
    usual = True
    for entry in _frames(buf, start, end, _NODE_ATTR):
        if entry is None:
            continue
        key: bytes | None = None
        values: list[Frame] = []
        for number, wire_type, first, after, at in _fields(buf, entry.start, entry.end):
            if number == _ENTRY_KEY and wire_type == LENGTH_DELIMITED and key is None:
                # A key that is itself big is odd enough to leave the node alone, and is not worth a copy.
                usual &= after - first <= DEFAULT_THRESHOLD
                key = bytes(buf[first : min(after, first + DEFAULT_THRESHOLD)])
            elif number == _ENTRY_VALUE and wire_type == LENGTH_DELIMITED:
                values.append(_frame(buf, at, first, after))
            else:
                usual = False
        if key is None or key in keys or len(values) != 1:
            usual = False
            continue
        keys.add(key)
        if values[0].end - values[0].start <= threshold:
            continue
        inner = _content_of(buf, values[0])
        if inner is None:
            usual = False
        elif inner and inner[1].end - inner[1].start > threshold:
            tensor, content = inner
            try:
                name = key.decode("utf-8")
            except UnicodeDecodeError:
                raise malformed("the name of an attribute is not UTF-8", entry.start) from None
            contents.append(Content(name, content.start, content.end, (entry, values[0], tensor, content)))
    return tuple(contents) if usual else ()


def _content_of(buf: Bytes, value: Frame) -> tuple[Frame, Frame] | tuple[()] | None:
    """(tensor, its content) of an AttrValue; () if there is none; None if only protobuf can tell."""
    tensors: list[Frame] = []
    others = 0
    for number, wire_type, first, after, at in _fields(buf, value.start, value.end):
        if number == _VALUE_TENSOR and wire_type == LENGTH_DELIMITED:
            tensors.append(_frame(buf, at, first, after))
        else:
            others += 1
    if not tensors:
        return ()
    # Another member of the oneof may come after the tensor and cancel it; a second tensor would be merged.
    if others or len(tensors) > 1:
        return None
    contents = list(_frames(buf, tensors[0].start, tensors[0].end, _TENSOR_CONTENT))
    if not contents:
        return ()
    if len(contents) > 1 or contents[0] is None:
        return None
    return tensors[0], contents[0]


def slim(buffer: Buffer, node: NodeSpan) -> bytes:
    """The NodeDef without its big tensors: the fields are cut out and the lengths around them corrected.

    Parsed, this is the node with an empty `tensor_content` in those attributes. Copies the small rest only.
    """
    buf = as_bytes(buffer)
    pieces: list[bytes] = []
    at = node.start
    for content in node.contents:
        entry, value, tensor, cut = content.frames
        pieces += _reframed(buf, at, entry, value, tensor, cut.tag - cut.end)
        pieces.append(bytes(buf[tensor.start : cut.tag]))
        at = cut.end
    pieces.append(bytes(buf[at : node.end]))
    return b"".join(pieces)


def _reframed(buf: Bytes, at: int, entry: Frame, value: Frame, tensor: Frame, growth: int) -> list[bytes]:
    """The bytes from `at` to the tensor's payload, lengths changed for a payload `growth` bytes longer."""
    # From the inside out: a length that needs more bytes as a varint makes what is around it longer as well.
    tensor_size = tensor.end - tensor.start + growth
    tensor_length = encode_varint(tensor_size)
    value_size = tensor.length - value.start + len(tensor_length) + tensor_size + value.end - tensor.end
    value_length = encode_varint(value_size)
    entry_size = value.length - entry.start + len(value_length) + value_size + entry.end - value.end
    return [
        bytes(buf[at : entry.length]),
        encode_varint(entry_size),
        bytes(buf[entry.start : value.length]),
        value_length,
        bytes(buf[value.start : tensor.length]),
        tensor_length,
    ]


# --- writing ------------------------------------------------------------------------------------------------


def with_content(slim: bytes, contents: Mapping[str, Buffer]) -> tuple[int, list[bytes | memoryview]]:
    """The NodeDef `slim` with `contents[key]` as `tensor_content` of the tensor in attribute `key`.

    It comes in chunks: the contents as views, never copied, and what is small between them.

    Returns:
        The size in bytes of all chunks together, and the chunks.

    Raises:
        WriteError: the node has no tensor in such an attribute, or one that already has content.
    """
    views = {key: view for key, data in contents.items() if (view := as_bytes(data))}
    chunks: list[bytes | memoryview] = []
    missing = set(views)
    at = 0
    for entry in _frames(slim, 0, len(slim), _NODE_ATTR):
        if entry is None:
            continue
        key = _entry_key(slim, entry)
        if key not in views:
            continue
        if key not in missing:
            raise WriteError(f"the node has two attributes '{key}'")
        missing.discard(key)
        value, tensor, insert = _insertion_point(slim, entry, key)
        data = views[key]
        header = field_header(_TENSOR_CONTENT, LENGTH_DELIMITED) + encode_varint(len(data))
        prefix = _reframed(slim, at, entry, value, tensor, len(header) + len(data))
        prefix += [slim[tensor.start : insert], header]
        chunks += [b"".join(prefix), data]
        at = insert
    if missing:
        raise WriteError(f"the node has no attribute '{min(missing)}' to hold a tensor")
    if at < len(slim) or not chunks:
        chunks.append(slim[at:])
    return sum(map(len, chunks)), chunks


def _entry_key(buf: Bytes, entry: Frame) -> str:
    key = b""
    for number, wire_type, first, after in iter_fields(buf, entry.start, entry.end):
        if number == _ENTRY_KEY and wire_type == LENGTH_DELIMITED:
            key = bytes(buf[first:after])
    return key.decode("utf-8", "replace")


def _insertion_point(buf: bytes, entry: Frame, key: str) -> tuple[Frame, Frame, int]:
    """The value and tensor of an attribute, and where in the tensor the content belongs by its number."""
    values = list(_frames(buf, entry.start, entry.end, _ENTRY_VALUE))
    value = values[0] if len(values) == 1 else None
    tensors = [] if value is None else list(_frames(buf, value.start, value.end, _VALUE_TENSOR))
    tensor = tensors[0] if len(tensors) == 1 else None
    if value is None or tensor is None:
        raise WriteError(f"attribute '{key}' holds no tensor")
    # Fields in the order of their numbers, as protobuf's own serializer writes them.
    insert = tensor.end
    for number, _, _, _, at in _fields(buf, tensor.start, tensor.end):
        if number == _TENSOR_CONTENT:
            raise WriteError(f"the tensor in attribute '{key}' already has content")
        if number > _TENSOR_CONTENT:
            insert = min(insert, at)
    return value, tensor, insert


# --- fields and where they stand ---------------------------------------------------------------------------


def _fields(buf: Bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Fields as `iter_fields` gives them, with the position of the tag in addition."""
    for number, wire_type, first, after in iter_fields(buf, start, end):
        yield number, wire_type, first, after, start
        start = after


def _frames(buf: Bytes, start: int, end: int, number: int) -> Iterator[Frame | None]:
    """The fields of this number, None for one that is not length-delimited (to protobuf an unknown field)."""
    for found, wire_type, first, after, at in _fields(buf, start, end):
        if found == number:
            yield _frame(buf, at, first, after) if wire_type == LENGTH_DELIMITED else None


def _frame(buf: Bytes, tag: int, start: int, end: int) -> Frame:
    return Frame(tag, read_varint(buf, tag)[1], start, end)


def _payload(buf: Bytes, tag: int) -> int:
    """Start of the payload of the length-delimited field at `tag`."""
    return read_varint(buf, read_varint(buf, tag)[1])[1]
