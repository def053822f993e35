"""The NodeDef messages of a GraphDef, parsed many at a time where nothing speaks against it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from thinflow.errors import FormatError
from thinflow.wire import protos, scan

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
