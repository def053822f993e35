"""Nodes of a GraphDef read fast: messages parsed many at a time, attributes spelled alike decoded once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from thinflow.errors import FormatError
from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.tensor import Tensor
from thinflow.wire import protos, scan
from thinflow.wire.fields import Bytes

BATCH = 1024
"""Nodes parsed at once: enough to spread the cost of a call, little enough to stay in the caches."""

Batch = tuple[Sequence[scan.NodeSpan], Sequence[Any]]
"""Spans, and the message of each."""


def read_nodes(buffer: memoryview, found: scan.GraphScan) -> Iterator[Batch]:
    """The nodes in file order, batch by batch. Messages lack their big tensors.

    Raises:
        FormatError: a node is no message; names its byte.
    """
    starts = [field.start for field in found.others]
    for batch in _batches(found.nodes):
        if len(batch) == 1:
            yield batch, [_one(buffer, batch[0])]
            continue
        # From the end of the first node on, so that the bytes begin with the tag of the second.
        # The first node may have big tensors cut out of it, so it is parsed by itself; the
        # others are read where they are.
        first, last = batch[0].end, batch[-1].end
        # Another field of the graph among the nodes would be parsed along with them.
        between = bisect_left(starts, first) != bisect_left(starts, last)
        rest = None if between else _together(buffer, first, last, len(batch) - 1)
        if rest is None:
            yield from (([span], [_one(buffer, span)]) for span in batch)
        else:
            yield batch, [_one(buffer, batch[0]), *rest]


def _batches(spans: Sequence[scan.NodeSpan]) -> Iterator[Sequence[scan.NodeSpan]]:
    """Nodes in groups; one with big tensors begins a group, since only the first of each is parsed alone."""
    begin = 0
    for number, span in enumerate(spans):
        if number > begin and (span.contents or number - begin == BATCH):
            yield spans[begin:number]
            begin = number
    if begin < len(spans):
        yield spans[begin:]


def _together(buffer: memoryview, start: int, end: int, count: int) -> Sequence[Any] | None:
    """The nodes in a stretch of a GraphDef; None if one of them is damaged, or is spelled in an odd way."""
    try:
        nodes: Sequence[Any] = protos.parse("GraphDef", buffer[start:end]).node
    except FormatError:
        return None
    # protobuf merges nothing in repeated fields: another number means that a
    # field was not what it looked like.
    return nodes if len(nodes) == count else None


def _one(buffer: memoryview, span: scan.NodeSpan) -> Any:
    try:
        return protos.parse("NodeDef", scan.slim(buffer, span))
    except FormatError as error:
        raise error.at(f"byte {span.start}") from error


# --- attributes that many nodes of a file spell alike, decoded once -----------------------------------------


MAX_BYTES = 512
"""Attributes that take more bytes than this are hardly ever repeated."""
MAX_KNOWN = 4096
"""Limit of the different ones that are remembered for one file."""

# The fields of a NodeDef in front of its attributes: name, op, input and device, all length-delimited.
_HEADERS = frozenset({0x0A, 0x12, 0x1A, 0x22})


class KnownAttrs:
    """The attributes of a file's nodes by their bytes; nodes that spell them alike share one mapping."""

    def __init__(self) -> None:
        self._known: dict[bytes, Mapping[str, Attr]] = {}

    def of(
        self, data: Bytes, start: int, end: int, decode: Callable[[], Mapping[str, Attr]]
    ) -> Mapping[str, Attr]:
        """The attributes of the NodeDef at [start, end) of `data`: known ones, or what `decode` gives.

        Constants are not shared: they are as many as they are different.
        """
        at = tail(data, start, end)
        if end - at > MAX_BYTES:
            return decode()
        key = bytes(data[at:end])
        attrs = self._known.get(key)
        if attrs is None:
            # Read-only, since nodes that spell them alike share it.
            attrs = MappingProxyType(decode())
            if len(self._known) < MAX_KNOWN and not any(map(_is_heavy, attrs.values())):
                self._known[key] = attrs
        return attrs


def _is_heavy(attr: Attr) -> bool:
    if isinstance(attr, FunctionAttr):
        return any(map(_is_heavy, attr.attrs.values()))
    return any(map(_is_heavy, attr)) if isinstance(attr, tuple) else isinstance(attr, Tensor)


def tail(data: Bytes, start: int, end: int) -> int:
    """Position behind the header fields of a NodeDef; at the latest `end`.

    Two nodes with the same bytes from there on have the same attributes: none stand before.
    """
    at = start
    while at + 1 < end and data[at] in _HEADERS:
        size = data[at + 1]
        at += 2
        if size > 127:
            if at >= end or data[at] > 127:
                return at - 2  # a header of 16 kB and more: not worth a look
            # A varint of two bytes; 128 is the continuation bit of the first.
            size += (data[at] << 7) - 128
            at += 1
        at += size
    return min(at, end)
