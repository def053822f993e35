"""Settings as TOML: keys, texts, numbers, lists, tables and comments.

Python reads TOML from 3.11 on only. Tables may lie in others, `[device.board]`. Dates, texts of several
lines, lists of tables and keys with dots, which no settings here have, are refused as any other mistake is,
with the number of the line.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from thinflow.errors import FormatError, ParameterError

Value = str | int | float | bool | list["Value"] | dict[str, "Value"]

_DEEPEST = 8
"""Lists in lists and tables in tables; settings need two."""
_TOKEN = re.compile(
    r"""(?P<space>[ \t]+|\#[^\n]*)
    |(?P<line>\r?\n)
    |(?P<mark>[][{}=,])
    |(?P<text>"(?:[^"\\\x00-\x1f\x7f]|\\.)*"|'[^'\x00-\x08\x0a-\x1f\x7f]*')
    |(?P<word>[A-Za-z0-9_.+-]+)""",
    re.VERBOSE,
)
_KEY = re.compile(r"[A-Za-z0-9_-]+")
_INTEGER = re.compile(r"[+-]?(0|[1-9](_?[0-9])*)")
_FLOAT = re.compile(r"[+-]?(0|[1-9](_?[0-9])*)(\.[0-9](_?[0-9])*)?([eE][+-]?[0-9]+)?")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", '"': '"', "\\": "\\"}
_ESCAPE = re.compile(r"\\(?:([btnfr\"\\])|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
# TOML's integers have 64 bits.
_LARGEST = 2**63


class _Token(NamedTuple):
    kind: str
    text: str
    line: int


def read_toml(text: str) -> dict[str, Value]:
    """The tables and values of a text.

    Raises:
        FormatError: it cannot be read, with the number of the line.
    """
    return _Reader(text).document()


def _tokens(text: str) -> Iterator[_Token]:
    place, line = 0, 1
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise FormatError(f"line {line} cannot be read from {text[place : place + 20]!r} on")
        kind = match.lastgroup or ""
        if kind != "space":
            yield _Token(kind, match[0], line)
        line += kind == "line"
        place = match.end()
    yield _Token("line", "", line)


class _Reader:
    def __init__(self, text: str) -> None:
        self._tokens = list(_tokens(text))
        self._next = 0
        # Tables that headings made, by identity, as equal ones are two: these may be added to, and have a
        # heading of their own once.
        self._begun: dict[int, bool] = {}

    def document(self) -> dict[str, Value]:
        """All of it."""
        root: dict[str, Value] = {}
        table = root
        while self._next < len(self._tokens):
            if self._skipped("line"):
                continue
            if self._skipped("mark", "["):
                table = self._table(root)
                self._expect("mark", "]")
            else:
                self._pair(table)
            self._expect("line")
        return root

    def _table(self, root: dict[str, Value]) -> dict[str, Value]:
        """The table that a heading names; those around it come to be with it."""
        *around, last = self._path()
        table = root
        for name in around:
            table = self._inner(table, name)
        table = self._inner(table, last)
        if self._begun[id(table)]:
            raise self._error(f"has '{last}' for the second time")
        self._begun[id(table)] = True
        return table

    def _inner(self, table: dict[str, Value], name: str) -> dict[str, Value]:
        if name not in table:
            made: dict[str, Value] = {}
            table[name] = made
            self._begun[id(made)] = False
        found = table[name]
        if not isinstance(found, dict) or id(found) not in self._begun:
            raise self._error(f"has '{name}' for the second time")
        return found

    def _path(self) -> list[str]:
        """The names of a heading, which dots part: `budget."models/*.tflite"`."""
        parts: list[str | None] = []  # None for a dot, which in quotes would be a name
        while self._tokens[self._next].kind in ("text", "word"):
            token = self._take()
            if token.kind == "text":
                parts.append(self._unquoted(token))
                continue
            for piece in re.findall(r"\.|[^.]+", token.text):
                if piece != "." and not _KEY.fullmatch(piece):
                    raise self._error(f"has {_shown(token)} where a name should be")
                parts.append(None if piece == "." else piece)
        names = [part for part in parts[::2] if part is not None]
        if not names or 2 * len(names) - 1 != len(parts) or any(part is not None for part in parts[1::2]):
            raise self._error(f"has {_shown(self._tokens[self._next])} where a name should be")
        if len(names) > _DEEPEST:
            raise self._error("has tables in too many others")
        return names

    def _pair(self, table: dict[str, Value], depth: int = 0) -> None:
        key = self._key()
        self._expect("mark", "=")
        self._put(table, key, self._value(depth))

    def _put(self, table: dict[str, Value], key: str, value: Value) -> None:
        if key in table:
            raise self._error(f"has '{key}' for the second time")
        table[key] = value

    def _key(self) -> str:
        token = self._take()
        if token.kind == "text":
            return self._unquoted(token)
        if token.kind != "word" or not _KEY.fullmatch(token.text):
            raise self._error(f"has {_shown(token)} where a name should be")
        return token.text

    def _value(self, depth: int) -> Value:
        if depth > _DEEPEST:
            raise self._error("has lists or tables in too many others")
        token = self._take()
        if token.kind == "text":
            return self._unquoted(token)
        if token.text == "[":
            return self._list(depth)
        if token.text == "{":
            return self._inline_table(depth)
        if token.kind == "word":
            return self._word(token)
        raise self._error(f"has {_shown(token)} where a value should be")

    def _word(self, token: _Token) -> Value:
        if token.text in ("true", "false"):
            return token.text == "true"
        if len(token.text) <= 40:
            if _INTEGER.fullmatch(token.text):
                if abs(int(token.text)) < _LARGEST:
                    return int(token.text)
            elif _FLOAT.fullmatch(token.text) and math.isfinite(number := float(token.text)):
                return number
        raise self._error(f"has {_shown(token)}, which is no number, true or false; texts stand in quotes")

    def _list(self, depth: int) -> Value:
        found: list[Value] = []
        # Lists may go over several lines, and have a comma at the end.
        while True:
            self._skip_lines()
            if self._skipped("mark", "]"):
                return found
            found.append(self._value(depth + 1))
            self._skip_lines()
            if not self._skipped("mark", ","):
                self._expect("mark", "]")
                return found

    def _inline_table(self, depth: int) -> Value:
        found: dict[str, Value] = {}
        if self._skipped("mark", "}"):
            return found
        while True:
            self._pair(found, depth + 1)
            if not self._skipped("mark", ","):
                self._expect("mark", "}")
                return found

    def _unquoted(self, token: _Token) -> str:
        inner = token.text[1:-1]
        if token.text[0] == "'":
            return inner

        def plain(match: re.Match[str]) -> str:
            short, four, eight, _ = match.groups()
            if short:
                return _ESCAPES[short]
            code = int(four or eight or "110000", 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                raise self._error(f"has '{match[0]}', which stands for no character")
            return chr(code)

        return _ESCAPE.sub(plain, inner)

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        # The last one stays: whoever looks for more finds the end of the line.
        self._next += 1
        if self._next == len(self._tokens) and token.kind != "line":
            raise self._error("ends too early")
        return token

    def _skipped(self, kind: str, text: str | None = None) -> bool:
        """True if the next one is this, which is then passed over."""
        if self._next == len(self._tokens):
            raise self._error("ends too early")
        token = self._tokens[self._next]
        is_it = token.kind == kind and text in (None, token.text)
        self._next += is_it
        return is_it

    def _skip_lines(self) -> None:
        while self._skipped("line"):
            pass

    def _expect(self, kind: str, text: str | None = None) -> None:
        if not self._skipped(kind, text):
            what = f"'{text}'" if text else "the line's end"
            found = self._tokens[self._next]
            self._next += 1
            raise self._error(f"has {_shown(found)} where {what} should be")

    def _error(self, problem: str) -> FormatError:
        line = self._tokens[max(0, min(self._next, len(self._tokens)) - 1)].line
        return FormatError(f"line {line} {problem}")


def _shown(token: _Token) -> str:
    return "nothing" if token.kind == "line" else f"'{token.text[:40]}'"


def toml_value(value: object) -> str:
    """A text, number, truth value, list or table of such, on one line.

    Raises:
        ParameterError: it is something else, or no finite number.
    """
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # JSON's escapes are some of TOML's, but leave the one control character above the blank.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{toml_key(key)} = {toml_value(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, (frozenset, set)):
        # In an order of their own, so that equal settings are equal texts.
        return toml_value(sorted(value, key=str))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    raise ParameterError(f"{value!r} cannot stand in a file of settings")


def toml_key(key: object) -> str:
    """The name of a setting, in quotes where it needs them."""
    name = str(key)
    return name if _KEY.fullmatch(name) else toml_value(name)
