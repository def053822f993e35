"""Protobuf's text format for files too big for the protobuf library, which reads about 4 MB a second.

Long runs of numbers and long strings, which is what makes such files big, are converted at once. Accepts
what `text_format.Merge` does: the last of a repeated singular field wins, fields end with blanks, commas or
semicolons, strings beside each other are joined, `[a, b]` lists values, `[url/of.Type] { }` is an Any.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from thinflow.errors import FormatError
from thinflow.wire._escapes import unescaped

Message = Any
"""An instance of a protobuf class, whose attributes exist only at run time."""

MAX_DEPTH = 100
"""Limit of messages inside messages, as in protobuf's own readers."""
_HINT = "see that the text is complete and of this kind"

_SKIP = re.compile(rb"(?:\s+|#[^\n]*)*")
_SEPARATOR = re.compile(rb"(?:\s+|#[^\n]*)*[,;]?")
_NAME = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*")
_TYPE_URL = re.compile(rb"\[\s*([A-Za-z0-9_.\-]+/[A-Za-z0-9_.]+)\s*\]")
_WORD = re.compile(rb"-?[A-Za-z0-9_.+\-]+")
_ODD_INTEGER = re.compile(rb" -?0[0-9]| [+]")
_CLOSING = {b"{": b"}", b"<": b">"}

Convert = Callable[[bytes], Any]


def merge(message: Message, text: bytes) -> None:
    """Put what `text` spells into a message.

    Raises:
        FormatError: the text is malformed or names an unknown field; tells the line.
    """
    reader = _Reader(text)
    try:
        reader.fields(message, b"", 0)
    except FormatError as error:
        raise FormatError(
            f"cannot read this as the text of a {message.DESCRIPTOR.name}: {error.problem}",
            f"line {text.count(10, 0, reader.at) + 1}",
            _HINT,
        ) from error


class _Reader:
    """A text and how far it has been read."""

    def __init__(self, text: bytes) -> None:
        self.text = text
        self.at = 0

    def skip(self, pattern: re.Pattern[bytes] = _SKIP) -> None:
        match = pattern.match(self.text, self.at)
        assert match is not None  # both patterns match nothing, too
        self.at = match.end()

    def take(self, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """The match at this place, if there is one; it is read then."""
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()
        return match

    def peek(self) -> bytes:
        """The next byte after blanks and comments; empty at the end."""
        self.skip()
        return self.text[self.at : self.at + 1]

    def fail(self, problem: str) -> NoReturn:
        raise FormatError(problem)

    # --- messages ---------------------------------------------------------------------------------------

    def fields(self, message: Message, closing: bytes, depth: int) -> None:
        """Fields up to the closing bracket, or to the end of the text."""
        if depth > MAX_DEPTH:
            self.fail("messages are nested too deeply")
        known = _fields(message.DESCRIPTOR)
        while True:
            char = self.peek()
            # At the top level `closing` is empty, and so is what `peek` gives at the end of the text.
            if char == closing:
                self.at += 1
                return
            if not char:
                self.fail(f"the text ends where a '{closing.decode()}' is missing")
            if char == b"[" and message.DESCRIPTOR.full_name == "google.protobuf.Any":
                self.expanded(message, depth)
            else:
                name = self.take(_NAME)
                if name is None:
                    self.fail(f"looking for the name of a field, found {self.shown()}")
                field = known.get(name[0])
                if field is None:
                    kind = message.DESCRIPTOR.name
                    self.fail(f'message type "{kind}" has no field named "{name[0].decode()}"')
                field(self, message, depth)
            self.skip(_SEPARATOR)

    def body(self, message: Message, depth: int) -> None:
        """A message in its brackets."""
        closing = _CLOSING.get(self.peek())
        if closing is None:
            self.fail(f"looking for '{{', found {self.shown()}")
        self.at += 1
        self.fields(message, closing, depth + 1)

    def expanded(self, message: Message, depth: int) -> None:
        """`[type.googleapis.com/tensorflow.AssetFileDef] { ... }`"""
        url = self.take(_TYPE_URL)
        if url is None:
            self.fail(f"looking for the type of an Any, found {self.shown()}")
        name = url[1].decode().rpartition("/")[2]
        try:
            held = _held(message, name)
        except KeyError:
            self.fail(f"the type of this Any, '{name}', is not known")
        if self.peek() == b":":
            self.at += 1
        self.body(held, depth)
        message.type_url, message.value = url[1].decode(), held.SerializeToString(deterministic=True)

    def colon(self, *, needed: bool) -> None:
        if self.peek() == b":":
            self.at += 1
        elif needed:
            self.fail(f"looking for ':', found {self.shown()}")

    def items(self) -> Iterator[None]:
        """Once for one value, or for each of `[a, b]`."""
        if self.peek() != b"[":
            yield
            return
        self.at += 1
        if self.peek() == b"]":
            self.at += 1
            return
        while True:
            yield
            char = self.peek()
            self.at += 1
            if char == b"]":
                return
            if char != b",":
                self.at -= 1
                self.fail(f"looking for ',' or ']', found {self.shown()}")

    def shown(self) -> str:
        piece = self.text[self.at : self.at + 20].split(b"\n")[0]
        return f"'{piece.decode('utf-8', 'backslashreplace')}'" if piece else "the end"

    # --- values -----------------------------------------------------------------------------------------

    def string(self) -> bytes:
        """One string, or several beside each other."""
        pieces = []
        while self.peek() in (b'"', b"'"):
            pieces.append(unescaped(self.literal()))
        if not pieces:
            self.fail(f"looking for a string, found {self.shown()}")
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def literal(self) -> bytes:
        """The text between two quotes, escapes and all."""
        text, start = self.text, self.at + 1
        quote = text[self.at : start]
        end = text.find(quote, start)
        while end >= 0 and _is_escaped(text, end):
            end = text.find(quote, end + 1)
        # The text format allows no line break between quotes: a quote that is never closed shall be found in
        # its line, not at the next string's opening.
        if end < 0 or text.find(b"\n", start, end) >= 0:
            self.fail("a string is never closed")
        self.at = end + 1
        return text[start:end]

    def word(self, convert: Convert) -> Any:
        """A number or the name of one."""
        self.skip()
        match = self.take(_WORD)
        if match is None:
            self.fail(f"looking for a value, found {self.shown()}")
        return _converted(convert, match[0])


def _held(message: Message, name: str) -> Message:
    """An empty message of a type from the pool of the Any that is to hold it."""
    from google.protobuf.message_factory import GetMessageClass

    return GetMessageClass(message.DESCRIPTOR.file.pool.FindMessageTypeByName(name))()


def _is_escaped(text: bytes, at: int) -> bool:
    """True if an odd number of backslashes stands before a place."""
    first = at
    while text[first - 1 : first] == b"\\":
        first -= 1
    return (at - first) % 2 == 1


def _converted(convert: Convert, word: bytes) -> Any:
    try:
        return convert(word)
    except (ValueError, KeyError) as error:
        raise FormatError(
            f"'{word.decode('utf-8', 'backslashreplace')[:40]}' is no value of this field"
        ) from error


# --- fields -------------------------------------------------------------------------------------------------

Fill = Callable[[_Reader, Any, int], None]


@functools.cache
def _fields(descriptor: Any) -> dict[bytes, Fill]:
    """Readers of the fields of a message, by name."""
    return {field.name.encode(): _filler(field) for field in descriptor.fields}


def _filler(field: Any) -> Fill:
    if field.message_type is not None:
        # protobuf shows a map as a repeated message, which this option marks.
        if field.message_type.GetOptions().map_entry:
            return _map_filler(field)
        return _message_filler(field)
    if field.type in (field.TYPE_STRING, field.TYPE_BYTES):
        return _string_filler(field)
    return _number_filler(field)


def _message_filler(field: Any) -> Fill:
    name, repeated = field.name, _is_repeated(field)

    def fill(reader: _Reader, message: Any, depth: int) -> None:
        reader.colon(needed=False)
        for _ in reader.items() if repeated else (None,):
            inner = getattr(message, name)
            inner = inner.add() if repeated else inner
            if not repeated:
                # `name { }` sets the field, though nothing inside does.
                inner.SetInParent()
            reader.body(inner, depth)

    return fill


def _map_filler(field: Any) -> Fill:
    from google.protobuf.message_factory import GetMessageClass

    name, entry_class = field.name, GetMessageClass(field.message_type)
    holds_messages = field.message_type.fields_by_name["value"].message_type is not None

    def fill(reader: _Reader, message: Any, depth: int) -> None:
        reader.colon(needed=False)
        for _ in reader.items():
            # An entry is read as the message that it is on the wire; its key may come after its value.
            entry: Any = entry_class()
            reader.body(entry, depth)
            if holds_messages:
                getattr(message, name)[entry.key].CopyFrom(entry.value)
            else:
                getattr(message, name)[entry.key] = entry.value

    return fill


def _string_filler(field: Any) -> Fill:
    name, repeated = field.name, _is_repeated(field)
    is_text = field.type == field.TYPE_STRING

    def fill(reader: _Reader, message: Any, depth: int) -> None:
        reader.colon(needed=True)
        for _ in reader.items() if repeated else (None,):
            value: bytes | str = reader.string()
            if is_text:
                assert isinstance(value, bytes)
                try:
                    value = value.decode("utf-8")
                except UnicodeDecodeError as error:
                    raise FormatError("a text is not UTF-8") from error
            if repeated:
                getattr(message, name).append(value)
            else:
                setattr(message, name, value)

    return fill


def _number_filler(field: Any) -> Fill:
    name, repeated, convert = field.name, _is_repeated(field), _converter(field)
    # The same field again and again, each time with one number, as printers write lists.
    # A word that a comma or a semicolon follows does not match and is left to the way for single values.
    run = re.compile(rb"(?:\s*" + name.encode() + rb"\s*:\s*[A-Za-z0-9_.+\-]+(?=\s))+")
    value = re.compile(rb":\s*([^\s]+)")

    def fill(reader: _Reader, message: Any, depth: int) -> None:
        reader.colon(needed=True)
        try:
            if not repeated:
                setattr(message, name, reader.word(convert))
                return
            into = getattr(message, name)
            into.extend(reader.word(convert) for _ in reader.items())
            if more := reader.take(run):
                into.extend(_all_converted(convert, value.findall(more[0])))
        except ValueError as error:  # out of range; a FormatError is none
            raise FormatError(f"a value of {name} is out of range") from error

    return fill


def _all_converted(convert: Convert, words: list[bytes]) -> list[Any]:
    """Many values; by Python's own conversion where it reads them the same way."""
    plain: Convert | None = float if convert is _float else int if convert is _integer else None
    together = b" ".join([b"", *words])
    # Where Python is laxer or means another number: 1_000 and +1 are none in text format, 017 is octal there.
    is_odd = b"_" in together or (plain is int and _ODD_INTEGER.search(together) is not None)
    if plain is not None and not is_odd:
        try:
            return list(map(plain, words))
        except ValueError:
            pass
    return [_converted(convert, word) for word in words]


def _is_repeated(field: Any) -> bool:
    repeated = getattr(field, "is_repeated", None)  # younger than some releases of protobuf
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def _converter(field: Any) -> Convert:
    if field.cpp_type in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
        return _float
    if field.cpp_type == field.CPPTYPE_BOOL:
        return _BOOLS.__getitem__
    if field.enum_type is None:
        return _integer
    numbers = {value.name.encode(): value.number for value in field.enum_type.values}
    return lambda word: numbers[word] if word in numbers else _integer(word)


_BOOLS = {
    **dict.fromkeys((b"true", b"True", b"t", b"1"), True),
    **dict.fromkeys((b"false", b"False", b"f", b"0"), False),
}


def _float(word: bytes) -> float:
    try:
        if b"_" not in word:
            return float(word)
    except ValueError:
        pass
    # The text format lets a float end in f, as in C.
    if word[-1:] not in b"fF" or b"_" in word:
        raise ValueError
    return float(word[:-1])


def _integer(word: bytes) -> int:
    if b"_" in word or b"+" in word:
        raise ValueError
    digits = word.removeprefix(b"-")
    if len(digits) > 1 and digits[:1] == b"0" and digits.isdigit():
        return int(word, 8)
    # Base 0 takes hexadecimal numbers, too, and refuses the leading zero of octal ones, read above.
    return int(word, 0)
