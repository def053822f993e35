"""Objects of an HDF5 file of the old form: headers with messages, groups as trees of names, attributes.

Names and numbers are those of the HDF5 File Format Specification, version 1.0 and 1.1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from struct import Struct

from thinflow.errors import FormatError

DAMAGED = "the file is damaged or was cut short; fetch it again"
NOWHERE = (1 << 64) - 1
"""An address of nothing."""
_DATASPACE, _LINK_INFO, _DATATYPE, _EXTERNAL, _LINK, _LAYOUT, _FILTERS, _ATTRIBUTE = 1, 2, 3, 7, 6, 8, 11, 12
_CONTINUATION, _SYMBOLS, _DENSE_ATTRIBUTES = 16, 17, 21
_MAX_MESSAGES = 20_000
_MAX_NODES = 100_000
# H5S_MAX_RANK of the library.
_MAX_RANK = 32
_SHARED = 2
"""Flag of a message that lies elsewhere."""
_NAME_BYTES = 64
"""Looked at first for the end of a name."""
_OBJECT = Struct("<H6xQ")
"""Number and size of an object in a heap of texts."""
_SOFT_LINK = 2
"""Kind of an entry that leads to a name."""


class NewerForm(Exception):
    """Something that only newer versions of HDF5 write, unless they are asked for the old form."""


class Bytes:
    """Bytes of a file with every place checked.

    Attributes:
        view: the bytes.
        where: their file, for messages.
        heaps: place of a heap of texts -> its objects, of those that were asked for.
    """

    def __init__(self, view: memoryview, where: str) -> None:
        self.view, self.where = view, where
        self.heaps: dict[int, dict[int, tuple[int, int]]] = {}

    def cut(self, at: int, size: int) -> memoryview:
        """Some bytes.

        Raises:
            FormatError: they are not all there.
        """
        if at < 0 or size < 0 or at + size > len(self.view):
            problem = f"the HDF5 data cannot be read: {size} bytes are wanted at {at}, beyond its end"
            raise FormatError(problem, self.where, DAMAGED)
        return self.view[at : at + size]

    def number(self, at: int, size: int) -> int:
        return int.from_bytes(self.cut(at, size), "little")

    def byte(self, at: int) -> int:
        return self.cut(at, 1)[0]

    def below(self, at: int, size: int) -> Bytes:
        """The same for a part."""
        return Bytes(self.cut(at, size), self.where)

    def expect(self, at: int, signature: bytes) -> None:
        """Refuse other bytes than these."""
        if bytes(self.cut(at, len(signature))) != signature:
            raise FormatError(f"there is no {signature.decode()} at {at}", self.where, DAMAGED)

    def name(self, at: int) -> str:
        """A text that ends with a zero."""
        size = _NAME_BYTES
        while b"\0" not in (taken := bytes(self.view[at : at + size])):
            if len(taken) < size:  # nothing ends it: tells that
                self.cut(at, size)
            size *= 2
        return taken.partition(b"\0")[0].decode("utf-8", "replace")


@dataclass(frozen=True)
class Datatype:
    """The type of one element.

    Attributes:
        kind: "f", "i", "u", "b", "S" (a text of fixed length), "T" (a text elsewhere), "V" (bytes), or "".
        size: bytes of one.
        is_big: big-endian.
        exponent: bits of a float's exponent.
    """

    kind: str
    size: int
    is_big: bool = False
    exponent: int = 0


def datatype(data: Bytes) -> Datatype:
    """The type that a message describes."""
    number, bits, size = data.byte(0) & 15, data.number(1, 3), data.number(4, 4)
    # Bit 3 of a whole number's class is its sign, bit 0 of both kinds the order of bytes; at 13 stands the
    # size of a float's exponent, which tells bfloat16 from half.
    if number == 0:
        return Datatype("i" if bits & 8 else "u", size, bool(bits & 1))
    if number == 1:
        return Datatype("f", size, bool(bits & 1), data.byte(13))
    if number == 3:
        return Datatype("S", size)
    if number == 5:
        return Datatype("V", size)
    if number == 8:  # an enumeration: h5py writes booleans as one
        return Datatype("b", size) if size == 1 else Datatype("", size)
    if number == 9 and bits & 15 == 1:
        return Datatype("T", size)
    return Datatype("", size)


def dataspace(data: Bytes) -> tuple[int, ...] | None:
    """The sizes that a message describes; None for nothing at all."""
    version, rank = data.byte(0), data.byte(1)
    if version not in (1, 2) or rank > _MAX_RANK:
        raise FormatError(f"its shape has {rank} axes", data.where, DAMAGED)
    if version == 2 and data.byte(3) == 2:
        return None
    # Version 1 has five bytes in reserve behind the flags; version 2 one, which tells scalars from nothing.
    start = 8 if version == 1 else 4
    return tuple(data.number(start + 8 * n, 8) for n in range(rank))


@dataclass(frozen=True)
class Attribute:
    """A small array beside an object."""

    type: Datatype
    shape: tuple[int, ...]
    data: Bytes

    def texts(self, file: Bytes) -> list[str]:
        """Its elements, if they are texts; none for others."""
        count = math.prod(self.shape)
        if self.type.kind not in ("S", "T") or not self.type.size:
            return []
        size = self.type.size
        cells = self.data.cut(0, count * size)
        parts = [bytes(cells[n * size : (n + 1) * size]) for n in range(count)]
        if self.type.kind == "T":
            parts = [_elsewhere(file, Bytes(memoryview(part), file.where)) for part in parts]
        return [part.rstrip(b"\0").decode("utf-8", "replace") for part in parts]


def _elsewhere(file: Bytes, cell: Bytes) -> bytes:
    """A text of variable length, which lies in a heap of the file."""
    size, heap, wanted = cell.number(0, 4), cell.number(4, 8), cell.number(12, 4)
    if not size:
        return b""
    objects = file.heaps.get(heap)
    if objects is None:
        # Each once: a file's heaps hold the names of all weights, and a walk for each would be quadratic.
        objects = file.heaps[heap] = _heap_objects(file, heap)
    place = objects.get(wanted)
    if place is None:
        raise FormatError("a text is missing in the heap", file.where, DAMAGED)
    return bytes(file.below(heap, file.number(heap + 8, 8)).cut(place[0], min(size, place[1])))


def _heap_objects(file: Bytes, heap: int) -> dict[int, tuple[int, int]]:
    """The objects of a heap by their numbers: where the bytes of each begin in it, and how many there are."""
    file.expect(heap, b"GCOL")
    collection = file.below(heap, file.number(heap + 8, 8))
    found: dict[int, tuple[int, int]] = {}
    at = 16
    # An object: number, references, 4 bytes in reserve, size, then its bytes up to a multiple of 8. Number 0
    # is the free space at the end.
    while at + 16 <= len(collection.view):
        index, length = _OBJECT.unpack_from(collection.view, at)
        if not index:
            break
        found.setdefault(index, (at + 16, length))
        at += 16 + (length + 7) // 8 * 8
    return found


@dataclass
class Header:
    """The messages of an object.

    Attributes:
        messages: number of the kind -> contents.
    """

    messages: dict[int, list[Bytes]] = field(default_factory=dict)

    def one(self, kind: int) -> Bytes | None:
        found = self.messages.get(kind)
        return found[0] if found else None

    @property
    def is_group(self) -> bool:
        return _SYMBOLS in self.messages

    @property
    def type(self) -> Datatype | None:
        found = self.one(_DATATYPE)
        return None if found is None else datatype(found)

    @property
    def shape(self) -> tuple[int, ...] | None:
        found = self.one(_DATASPACE)
        return None if found is None else dataspace(found)

    @property
    def layout(self) -> Bytes | None:
        return self.one(_LAYOUT)

    @property
    def filters(self) -> Bytes | None:
        return self.one(_FILTERS)

    @property
    def is_external(self) -> bool:
        """True if its elements are in another file."""
        return _EXTERNAL in self.messages

    def attributes(self, file: Bytes) -> dict[str, Attribute]:
        """The attributes by their names."""
        return dict(_attribute(message) for message in self.messages.get(_ATTRIBUTE, []))


def _attribute(data: Bytes) -> tuple[str, Attribute]:
    version = data.byte(0)
    sizes = [data.number(at, 2) for at in (2, 4, 6)]
    at = 9 if version == 3 else 8
    parts = []
    for size in sizes:
        parts.append(data.below(at, size))
        # Version 1 pads each part to eight bytes.
        at += (size + 7) // 8 * 8 if version == 1 else size
    if version not in (1, 2, 3) or (version > 1 and data.byte(1)):
        raise NewerForm
    shape = dataspace(parts[2])
    rest = data.below(at, len(data.view) - at)
    return parts[0].name(0), Attribute(datatype(parts[1]), (0,) if shape is None else shape, rest)


def read_header(file: Bytes, place: int) -> Header:
    """The header of an object.

    Raises:
        NewerForm: it is of another form.
        FormatError: it is damaged.
    """
    if bytes(file.cut(place, 4)) == b"OHDR":
        raise NewerForm
    if file.byte(place) != 1:
        raise FormatError(f"there is no object at {place}", file.where, DAMAGED)
    header = Header()
    # The front has 12 bytes, and 4 more so that messages begin at a multiple of 8.
    blocks = [(place + 16, file.number(place + 8, 4))]
    count = 0
    seen: set[int] = set()
    while blocks:
        at, size = blocks.pop(0)
        if at in seen:
            raise FormatError("an object's header leads back to itself", file.where, DAMAGED)
        seen.add(at)
        block = file.below(at, size)
        inside = 0
        while inside + 8 <= size:
            kind, length, flags = block.number(inside, 2), block.number(inside + 2, 2), block.byte(inside + 4)
            message = block.below(inside + 8, length)
            inside += 8 + length
            count += 1
            if count > _MAX_MESSAGES:
                raise FormatError("an object has too many messages", file.where, DAMAGED)
            if kind == _CONTINUATION:
                blocks.append((message.number(0, 8), message.number(8, 8)))
            elif kind in (_LINK, _LINK_INFO, _DENSE_ATTRIBUTES) or (flags & _SHARED and kind):
                raise NewerForm
            elif kind:
                header.messages.setdefault(kind, []).append(message)
    return header


def children(file: Bytes, header: Header) -> dict[str, int]:
    """What is in a group: name -> place of the object's header.

    Raises:
        FormatError: a link to a name, which Keras does not write, or damage.
    """
    symbols = header.one(_SYMBOLS)
    if symbols is None:
        return {}
    tree, heap = symbols.number(0, 8), symbols.number(8, 8)
    file.expect(heap, b"HEAP")
    # A local heap: size of its data at 8, its free list at 16, and at 24 where the data are.
    names = file.below(file.number(heap + 24, 8), file.number(heap + 8, 8))
    found: dict[str, int] = {}
    for node in tree_leaves(file, tree, 0, 8):
        file.expect(node, b"SNOD")
        for number in range(file.number(node + 6, 2)):
            # Where the name is in the heap, where the header is, how it is cached, and 20 bytes for that.
            entry = node + 8 + 40 * number
            name = names.name(file.number(entry, 8))
            if file.number(entry + 16, 4) == _SOFT_LINK:
                raise FormatError(f"'{name}' is a link to elsewhere", file.where, "do not trust this file")
            found[name] = file.number(entry + 8, 8)
    return found


def tree_leaves(file: Bytes, place: int, kind: int, key_size: int) -> list[int]:
    """Addresses that the lowest nodes of a tree lead to, each behind its key.

    Args:
        file: the file.
        place: of the root node; may be nowhere.
        kind: 0 for names, 1 for chunks of an array, of which the places of the keys are told.
        key_size: bytes of a key.
    """
    leaves: list[int] = []
    pending = [] if place == NOWHERE else [(place, 64)]
    seen: set[int] = set()
    while pending:
        node, level_above = pending.pop()
        if node in seen or len(seen) > _MAX_NODES:
            raise FormatError("a tree leads back to itself", file.where, DAMAGED)
        seen.add(node)
        file.expect(node, b"TREE")
        level, used = file.byte(node + 5), file.number(node + 6, 2)
        if file.byte(node + 4) != kind or level >= level_above:
            raise FormatError("a tree is not in order", file.where, DAMAGED)
        # Behind the addresses of both neighbours, at 24: a key, a child, a key, a child... and one key more.
        entries = [node + 24 + n * (key_size + 8) for n in range(used)]
        if level:
            pending += [(file.number(at + key_size, 8), level) for at in reversed(entries)]
        else:
            leaves += entries if kind else [file.number(at + key_size, 8) for at in entries]
        if len(leaves) > _MAX_NODES * 10:
            raise FormatError("a tree has too many leaves", file.where, DAMAGED)
    return leaves
