"""Attributes that many nodes of a file spell alike, decoded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.tensor import Tensor
from thinflow.wire.fields import Bytes

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
        found = self._known.get(key)
        if found is None:
            # Read-only, since nodes that spell them alike share it.
            found = MappingProxyType(decode())
            if len(self._known) < MAX_KNOWN and not any(map(_is_heavy, found.values())):
                self._known[key] = found
        return found


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
