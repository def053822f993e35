"""Messages in chunks (`.cpb`): a message too large for protobuf, cut up and kept as Riegeli records.

The last record tells where each of the others belongs: to the message itself, to a field of it, to an element
of a repeated field, or to an entry of a map. They are put together as bytes, as no message object could hold
them: to append to a message is to merge into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from thinflow.errors import FormatError
from thinflow.wire import protos
from thinflow.wire.fields import LENGTH_DELIMITED, encode_varint, field_header, iter_fields, read_varint
from thinflow.wire.riegeli import Records

# Of ChunkInfo.Type in TensorFlow's `chunk.proto`.
_BYTES = 2  # the type of a chunk that is the content of a field, not a message
_MAX_DEPTH = 100
_MAP_KEY, _MAP_VALUE = 1, 2
_DAMAGED = "copy the file again from where it was written"
Piece = bytes | memoryview
Key = int | str | None
"""An element of a field: None for the only one, a number, or the key of a map."""


@dataclass
class _Part:
    """A message, or the content of a field, as far as the chunks tell.

    Attributes:
        chunks: to be appended to what the message around it holds.
        content: of a field that is no message; None if it is one.
        parts: what belongs inside, by field number and element.
    """

    chunks: list[memoryview] = field(default_factory=list)
    content: memoryview | None = None
    parts: dict[tuple[int, Key], _Part] = field(default_factory=dict)


def joined(buffer: memoryview) -> memoryview:
    """The bytes of the message that a file keeps in chunks.

    Raises:
        FormatError: not such a file, or damaged.
    """
    records = Records(buffer)
    root = _Gathering(records).root
    return memoryview(b"".join(_pieces(root, [])))


class _Gathering:
    """Takes down where each chunk belongs. Each is used once, so that a small file stays a small message."""

    def __init__(self, records: Records) -> None:
        metadata = protos.parse("ChunkMetadata", records.last())
        self._records, self._chunks, self._used = records, metadata.chunks, set[int]()
        self.root = _Part()
        self._gather(metadata.message, self.root, 0)

    def _gather(self, message: Any, part: _Part, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise FormatError("its chunks are nested too deeply", hint=_DAMAGED)
        if message.HasField("chunk_index"):
            self._add(message.chunk_index, part)
        # Of several chunks for one place the earlier come first, whatever the order they are told in.
        for child in sorted(message.chunked_fields, key=lambda child: child.message.chunk_index):
            self._gather(child.message, _part_at(part, child.field_tag), depth + 1)

    def _add(self, index: int, part: _Part) -> None:
        if index >= len(self._chunks):
            raise FormatError(f"there is no chunk {index}, only {len(self._chunks)}", hint=_DAMAGED)
        chunk = self._chunks[index]
        data = self._records.at(chunk.offset)
        where = f"record {chunk.offset}"
        if len(data) != chunk.size:
            raise FormatError(f"a chunk of {chunk.size} bytes has {len(data)}", where, _DAMAGED)
        # Else a few bytes of chunks could be told to fill gigabytes.
        if chunk.offset in self._used:
            raise FormatError("a chunk belongs to two places", where, _DAMAGED)
        self._used.add(chunk.offset)
        if chunk.type == _BYTES:
            part.content = data
        else:
            part.chunks.append(data)


def _part_at(part: _Part, tags: Any) -> _Part:
    """The part that a path of fields leads to."""
    steps: list[tuple[int, Key]] = []
    for tag in tags:
        kind = tag.WhichOneof("kind")
        if kind == "field" and tag.field:
            steps.append((tag.field, None))
        elif kind in ("index", "map_key") and steps and steps[-1][1] is None:
            steps[-1] = (steps[-1][0], tag.index if kind == "index" else _key_of(tag.map_key))
        else:
            raise FormatError("a chunk does not say where it belongs", hint=_DAMAGED)
    if len(steps) > _MAX_DEPTH:
        raise FormatError("its chunks are nested too deeply", hint=_DAMAGED)
    for step in steps:
        part = part.parts.setdefault(step, _Part())
    return part


def _key_of(message: Any) -> str:
    kind = message.WhichOneof("type")
    if kind is None:
        raise FormatError("a chunk does not say where it belongs", hint=_DAMAGED)
    # No map has keys of both kinds, so that a sign tells numbers from text.
    return message.s if kind == "s" else f"#{_signed(int(getattr(message, kind)))}"


def _signed(number: int) -> int:
    """A number of 64 bits as one with a sign: a varint alone does not tell -1 from 2^64 - 1."""
    return number - (1 << 64) if number >= 1 << 63 else number


# --- putting together ---------------------------------------------------------------------------------------


def _pieces(part: _Part, base: list[Piece]) -> list[Piece]:
    """The bytes of a message: what stood there, what is appended, and its parts in their places."""
    if part.content is not None:
        if part.parts or part.chunks:
            raise FormatError("a chunk is both a message and not one", hint=_DAMAGED)
        return [part.content]
    whole = [*base, *part.chunks]
    if not part.parts:
        return whole
    return list(_with_parts(memoryview(b"".join(whole)) if len(whole) != 1 else memoryview(whole[0]), part))


def _with_parts(message: memoryview, part: _Part) -> Iterator[Piece]:
    """A message with parts put in. Fields that none belongs to stay as they are, in place."""
    pending = dict(part.parts)
    single: dict[int, list[Piece]] = {}
    counts: dict[int, int] = {}
    fields = {number for number, _ in pending}
    maps = {number for number, key in pending if isinstance(key, str)}
    kept = at = 0
    for number, kind, start, end in iter_fields(message, 0, len(message)):
        if number in fields:
            if kind != LENGTH_DELIMITED:
                raise FormatError(f"field {number} holds no message", hint=_DAMAGED)
            yield message[kept:at]
            kept = end
            content = message[start:end]
            if (number, None) in pending:  # the pieces of a field that occurs once are merged, and come last
                single.setdefault(number, []).append(content)
            else:
                index = None if number in maps else counts.get(number, 0)
                yield from _element(number, content, index, pending)
                counts[number] = counts.get(number, 0) + 1
        at = end
    yield message[kept:]
    for (number, key), rest in sorted(pending.items(), key=_order):
        yield from _fresh(number, key, rest, single, counts)


def _order(item: tuple[tuple[int, Key], _Part]) -> tuple[int, int, str]:
    (number, key), _ = item
    return number, key if isinstance(key, int) else -1, str(key)


def _element(
    number: int, content: memoryview, index: int | None, pending: dict[tuple[int, Key], _Part]
) -> Iterator[Piece]:
    """An element of a repeated field, or of a map if it has no index, with what belongs in there."""
    key, value = _entry(content) if index is None else (index, [])
    part = pending.pop((number, key), None)
    if part is None:
        yield from _framed(number, [content])
    elif index is None:
        yield from _framed(number, [*_key_field(content), *_framed(_MAP_VALUE, _pieces(part, value))])
    else:
        yield from _framed(number, _pieces(part, [content]))


def _fresh(
    number: int, key: Key, part: _Part, single: dict[int, list[Piece]], counts: dict[int, int]
) -> Iterator[Piece]:
    """A field, or an element of one, that the message did not hold yet."""
    if key is None:
        yield from _framed(number, _pieces(part, single.get(number, [])))
    elif isinstance(key, int):
        # New elements are appended, in order: a gap has no message to stand in it.
        if key != counts.get(number, 0):
            raise FormatError(f"field {number} has no element {key}", hint=_DAMAGED)
        counts[number] = key + 1
        yield from _framed(number, _pieces(part, []))
    else:
        # The key's own type of integer is not known here, so that no new entry can be written under it.
        if key.startswith("#"):
            raise FormatError(f"a map has no entry {key[1:]}", hint=_DAMAGED)
        entry = [*_framed(_MAP_KEY, [key.encode()]), *_framed(_MAP_VALUE, _pieces(part, []))]
        yield from _framed(number, entry)


def _entry(content: memoryview) -> tuple[str, list[Piece]]:
    """The key of an entry of a map, and its value."""
    key = ""
    value: list[Piece] = []
    for number, kind, start, end in iter_fields(content, 0, len(content)):
        if number == _MAP_KEY:
            is_text = kind == LENGTH_DELIMITED
            # Keys are compared, never written: `_key_field` copies the bytes that stood there.
            text = str(content[start:end], "utf-8", "replace") if is_text else ""
            key = text if is_text else f"#{_signed(read_varint(content, start)[0])}"
        elif number == _MAP_VALUE:
            value.append(content[start:end])
    return key, value


def _key_field(content: memoryview) -> Iterator[Piece]:
    """The key of an entry as it stands there."""
    at = 0
    for number, _, _, end in iter_fields(content, 0, len(content)):
        if number == _MAP_KEY:
            yield content[at:end]
        at = end


def _framed(number: int, pieces: Iterable[Piece]) -> Iterator[Piece]:
    held = list(pieces)
    yield field_header(number, LENGTH_DELIMITED) + encode_varint(sum(map(len, held)))
    yield from held
