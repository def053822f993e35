"""FlatBuffers without a schema compiler: write one front to back, read one with every offset checked.

Writing. A file is described by plain values:

    {0: scalar("u32", 3), 1: "name", 2: Vector("i32", (1, 2)), 3: [{...}, {...}], 4: Blob(size, read)}

A dict is a table (slot -> field, None for an absent field), a str a string, a list a vector of tables or
strings. Offsets only point forward, so parents are laid out before their children and patched afterwards.
Blobs come last: their bytes are asked for one at a time while the chunks are written, so a large file needs
no memory of its own.

Reading. `root()` gives a `Table`; its methods take a slot and a kind. What is out of bounds is a FormatError.
Decoding has a budget in proportion to the size of the file: a hostile file may point to one vector often.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thinflow.errors import FormatError, WriteError

_STRUCTS = {
    kind: struct.Struct("<" + code)
    for kind, code in zip(
        ("bool", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f32", "f64"),
        "?bBhHiIqQfd",
        strict=True,
    )
}
_U32 = _STRUCTS["u32"]
MAX_SIZE = 2**31 - 1  # readers refuse more: their signed offsets end here
# TFLite's schema forces its buffers to 16 bytes (`force_align`), as kernels load
# weights in vectors of that size.
BLOB_ALIGNMENT = 16


@dataclass(frozen=True, eq=False)
class Blob:
    """A long byte vector whose bytes stay where they are until they are written.

    Attributes:
        size: number of bytes.
        read: gives the bytes, any contiguous buffer of `size` bytes; called once per write.
    """

    size: int
    read: Callable[[], Any]


@dataclass(frozen=True)
class Scalar:
    """A number inside a table.

    A Blob as the value stands for the blob's position in the file (kind u64); that blob is put behind the
    flatbuffer instead of into it.
    """

    kind: str
    value: int | float | bool | Blob


@dataclass(frozen=True)
class Vector:
    """Numbers of one kind."""

    kind: str
    values: Sequence[Any]


Field = Scalar | Vector | Blob | str | Mapping[int, Any] | Sequence[Any] | None


def scalar(kind: str, value: float, default: float = 0) -> Scalar | None:
    """A scalar field; None (absent) when it has the default value, as the format wants."""
    return None if value == default else Scalar(kind, value)


def encode(root: Mapping[int, Field], identifier: bytes) -> tuple[int, Iterator[Any]]:
    """Length in bytes and the chunks (bytes or other buffers) of a file; the chunks can be walked once.

    Raises:
        WriteError: the flatbuffer would exceed 2 GiB, or a number does not fit its kind.
    """
    writer = _Writer(identifier)
    try:
        writer.place_all(root)
    except struct.error as e:
        raise WriteError(
            f"a number does not fit its field: {e}",
            hint="a size is too large; give smaller ones with --shape NAME=SIZES",
        ) from e
    return writer.finish()


class _Writer:
    def __init__(self, identifier: bytes) -> None:
        # The offset of the root table, patched like any other offset, then the identifier at byte 4.
        self.out = bytearray(4) + identifier
        # Tables with the same fields share one vtable: in a large model nearly all operators and tensors do.
        self.vtables: dict[bytes, int] = {}
        self.layouts: dict[tuple[tuple[int, int], ...], tuple[bytes, dict[int, int], int, int]] = {}
        self.inside: list[tuple[int, Blob]] = []  # (position of the offset to patch, blob)
        self.outside: list[tuple[int, Blob]] = []

    def place_all(self, root: Mapping[int, Field]) -> None:
        pending: list[tuple[int, Any]] = [(0, root)]
        while pending:
            where, node = pending.pop()
            if isinstance(node, Blob):
                self.inside.append((where, node))
                continue
            children: list[tuple[int, Any]] = []
            if isinstance(node, Mapping):
                position = self.place_table(node, children)
            elif isinstance(node, str):
                position = self.place_string(node)
            elif isinstance(node, Vector):
                position = self.place_numbers(node)
            else:
                position = self.place_offsets(node, children)
            _U32.pack_into(self.out, where, position - where)
            # Depth first, in the order of the fields, by a stack: a deep nesting must not
            # meet Python's recursion limit.
            pending += reversed(children)

    def pad(self, alignment: int, ahead: int = 0) -> None:
        """Zeros until the byte `ahead` of the end is aligned."""
        self.out += bytes(-(len(self.out) + ahead) % alignment)

    def place_table(self, fields: Mapping[int, Field], children: list[tuple[int, Any]]) -> int:
        present = [(slot, field) for slot, field in fields.items() if field is not None]
        sizes = tuple((s, _STRUCTS[f.kind].size if isinstance(f, Scalar) else 4) for s, f in present)
        if sizes not in self.layouts:
            self.layouts[sizes] = _table_layout(sizes)
        vtable, offsets, size, alignment = self.layouts[sizes]
        if vtable not in self.vtables:
            self.pad(2)
            self.vtables[vtable] = len(self.out)
            self.out += vtable
        self.pad(alignment)
        position = len(self.out)
        self.out += bytes(size)
        _STRUCTS["i32"].pack_into(self.out, position, position - self.vtables[vtable])
        for slot, field in present:
            where = position + offsets[slot]
            if not isinstance(field, Scalar):
                children.append((where, field))
            elif isinstance(field.value, Blob):
                self.outside.append((where, field.value))
            else:
                _STRUCTS[field.kind].pack_into(self.out, where, field.value)
        return position

    def place_string(self, text: str) -> int:
        raw = text.encode("utf-8", "surrogateescape")
        self.pad(4)
        position = len(self.out)
        # The zero is not counted: it lets readers in C use the text where it stands.
        self.out += _U32.pack(len(raw)) + raw + b"\0"
        return position

    def place_numbers(self, vector: Vector) -> int:
        layout = _STRUCTS[vector.kind]
        self.pad(4)
        # The elements are aligned, not the length in front of them.
        self.pad(max(4, layout.size), ahead=4)
        position = len(self.out)
        count = len(vector.values)
        self.out += _U32.pack(count)
        if isinstance(vector.values, bytes):
            self.out += vector.values
        else:
            self.out += struct.pack(f"<{count}{layout.format[1:]}", *vector.values)
        return position

    def place_offsets(self, items: Sequence[Any], children: list[tuple[int, Any]]) -> int:
        self.pad(4)
        position = len(self.out)
        self.out += _U32.pack(len(items)) + bytes(4 * len(items))
        children += [(position + 4 + 4 * i, item) for i, item in enumerate(items)]
        return position

    def finish(self) -> tuple[int, Iterator[Any]]:
        """Give every blob its position, patch it in, and list the chunks."""
        tail: list[tuple[bytes, Blob]] = []
        end = len(self.out)
        for where, blob in self.inside:
            padding = -(end + 4) % BLOB_ALIGNMENT
            if end + padding + 4 + blob.size > MAX_SIZE:
                raise WriteError(
                    "the flatbuffer would be larger than 2 GiB", hint="store its blobs behind it"
                )
            _U32.pack_into(self.out, where, end + padding - where)
            tail.append((bytes(padding) + _U32.pack(blob.size), blob))
            end += padding + 4 + blob.size
        if end > MAX_SIZE:
            raise WriteError("the flatbuffer would be larger than 2 GiB")
        for where, blob in self.outside:
            padding = -end % BLOB_ALIGNMENT
            _STRUCTS["u64"].pack_into(self.out, where, end + padding)
            tail.append((bytes(padding), blob))
            end += padding + blob.size
        return end, _chunks(bytes(self.out), tail)


def _table_layout(sizes: tuple[tuple[int, int], ...]) -> tuple[bytes, dict[int, int], int, int]:
    """(vtable, slot -> offset, table size, alignment), the widest fields first so that holes stay few."""
    offsets: dict[int, int] = {}
    # The first four bytes of a table are the signed distance to its vtable.
    end = 4
    for slot, size in sorted(sizes, key=lambda item: -item[1]):
        end += -end % size
        offsets[slot] = end
        end += size
    last = max(offsets, default=-1)
    # Size of the vtable, size of the table, then each slot's offset in the table;
    # 0 says that a field is absent.
    words = [4 + 2 * (last + 1), end, *(offsets.get(slot, 0) for slot in range(last + 1))]
    return struct.pack(f"<{len(words)}H", *words), offsets, end, max([4, *(size for _, size in sizes)])


def _chunks(head: bytes, tail: list[tuple[bytes, Blob]]) -> Iterator[Any]:
    yield head
    for lead, blob in tail:
        if lead:
            yield lead
        if blob.size:
            data = memoryview(blob.read()).cast("B")
            if data.nbytes != blob.size:
                raise WriteError(f"a blob of {blob.size} bytes turned out to have {data.nbytes}")
            yield data


class _Source:
    """The file and how much of it may still be decoded."""

    __slots__ = ("budget", "data")

    def __init__(self, data: memoryview) -> None:
        self.data = data
        # More than the file's size, since tables share vtables and each counts all the slots of its own.
        self.budget = 4 * len(data) + 65536

    def spend(self, count: int) -> None:
        self.budget -= count
        if self.budget < 0:
            raise FormatError("the file points to the same data too often")

    def u32(self, position: int) -> int:
        if position + 4 > len(self.data):
            raise FormatError(f"an offset at byte {position} lies past the end of the file")
        value: int = _U32.unpack_from(self.data, position)[0]
        return value


def root(buffer: Any, identifier: bytes) -> Table:
    """The root table of a file held in any bytes-like object, which stays referenced by what is read from it.

    Raises:
        FormatError: the identifier at byte 4 differs or the root is out of bounds.
    """
    data = memoryview(buffer).cast("B").toreadonly()
    if len(data) < 8 or bytes(data[4:8]) != identifier:
        raise FormatError(f"the identifier {identifier.decode()} is missing at byte 4")
    source = _Source(data)
    return Table(source, source.u32(0))


class Table:
    """One table of a file; absent fields give None or the default. Blobs are views, the rest is copied."""

    __slots__ = ("_end", "_slots", "_source", "position")

    def __init__(self, source: _Source, position: int) -> None:
        data = source.data
        source.spend(4)
        if position + 4 > len(data):
            raise FormatError(f"a table at byte {position} lies past the end of the file")
        # Signed, and subtracted: a vtable may stand before or after its tables.
        vtable = position - _STRUCTS["i32"].unpack_from(data, position)[0]
        if not 0 <= vtable <= len(data) - 4:
            raise FormatError(
                f"the table at byte {position} has its layout at byte {vtable}, outside the file"
            )
        length, size = struct.unpack_from("<HH", data, vtable)
        if length < 4 or length % 2 or vtable + length > len(data) or size < 4 or position + size > len(data):
            raise FormatError(f"the table at byte {position} has a broken layout")
        self._source = source
        self.position = position
        self._end = position + size
        self._slots: tuple[int, ...] = struct.unpack_from(f"<{length // 2 - 2}H", data, vtable + 4)
        source.spend(len(self._slots))

    def _locate(self, slot: int, size: int) -> int:
        """Position of a field; 0 if it is absent."""
        offset = self._slots[slot] if slot < len(self._slots) else 0
        if offset == 0:
            return 0
        if offset < 4 or self.position + offset + size > self._end:
            raise FormatError(f"field {slot} lies outside its table at byte {self.position}")
        return self.position + offset

    def has(self, slot: int) -> bool:
        """True if a field is present."""
        return slot < len(self._slots) and self._slots[slot] != 0

    def place(self, slot: int, kind: str) -> int:
        """The byte of the file at which a number stands; 0 if it is absent."""
        return self._locate(slot, _STRUCTS[kind].size)

    def scalar(self, slot: int, kind: str, default: Any = 0) -> Any:
        """A number (bool for kind "bool")."""
        layout = _STRUCTS[kind]
        at = self._locate(slot, layout.size)
        return layout.unpack_from(self._source.data, at)[0] if at else default

    def table(self, slot: int) -> Table | None:
        """A table inside this one."""
        at = self._locate(slot, 4)
        return Table(self._source, at + self._source.u32(at)) if at else None

    def _span(self, slot: int, size: int) -> tuple[int, int] | None:
        """(position of the first element, number of elements) of a vector with elements of `size` bytes."""
        at = self._locate(slot, 4)
        if not at:
            return None
        return self._span_at(at, size)

    def _span_at(self, at: int, size: int) -> tuple[int, int]:
        start = at + self._source.u32(at)
        count = self._source.u32(start)
        if start + 4 + count * size > len(self._source.data):
            raise FormatError(f"a vector of {count} elements at byte {start} runs past the end of the file")
        return start + 4, count

    def numbers(self, slot: int, kind: str) -> tuple[Any, ...] | None:
        """A vector of numbers."""
        layout = _STRUCTS[kind]
        span = self._span(slot, layout.size)
        if span is None:
            return None
        self._source.spend(span[1])
        values: tuple[Any, ...] = struct.unpack_from(
            f"<{span[1]}{layout.format[1:]}", self._source.data, span[0]
        )
        return values

    def blob(self, slot: int) -> memoryview | None:
        """A vector of bytes, as a view of the file."""
        span = self._span(slot, 1)
        return None if span is None else self._source.data[span[0] : span[0] + span[1]]

    def charge(self, view: memoryview) -> None:
        """Count a view that is about to be copied against the decoding budget.

        Raises:
            FormatError: the budget is spent.
        """
        self._source.spend(len(view))

    def string(self, slot: int) -> str | None:
        """A string; bytes that are not UTF-8 survive as surrogates."""
        raw = self.blob(slot)
        if raw is None:
            return None
        self.charge(raw)
        return bytes(raw).decode("utf-8", "surrogateescape")

    def tables(self, slot: int) -> list[Table]:
        """A vector of tables; empty if absent."""
        span = self._span(slot, 4)
        if span is None:
            return []
        start, count = span
        self._source.spend(count)
        return [Table(self._source, at + self._source.u32(at)) for at in range(start, start + 4 * count, 4)]

    def beyond(self, offset: int, size: int) -> memoryview:
        """`size` bytes at a position counted from the start of the file, as a view."""
        if offset + size > len(self._source.data):
            raise FormatError(f"{size} bytes at byte {offset} run past the end of the file")
        return self._source.data[offset : offset + size]
