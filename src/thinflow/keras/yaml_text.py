"""YAML texts of configs, as `Model.to_yaml()` wrote them until TensorFlow 2.5.

Read is what that call can have written: lists and mappings in blocks or brackets, plain and quoted texts,
anchors. Tags of YAML can make any object of Python: here a tuple's is a list's, and any other is refused.
"""

from __future__ import annotations

import re

from thinflow.errors import FormatError

_HINT = "write model.to_json() instead, or save the whole model: model.save(...)"
_TAGS = {"!!python/tuple": list, "!!python/unicode": str, "!!str": str}
_MAX_DEPTH = 200
_MAX_NODES = 4_000_000
"""With what aliases stand for: a few lines of them can stand for any number."""
_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"})
_FALSE = frozenset({"no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"})
_INT = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?")
_SPECIAL = re.compile(r"([-+]?)\.(inf|Inf|INF|nan|NaN|NAN)")
_WORD = re.compile(r"[^\s,\[\]{}]+")
_ESCAPES = dict(zip('0abt\tnvfre "/\\N_LP', '\0\a\b\t\t\n\v\f\r\x1b "/\\\x85\xa0\u2028\u2029', strict=True))
_HEX = {"x": 2, "u": 4, "U": 8}


def parse_yaml(text: str, where: str) -> object:
    """The data in a YAML text: dicts by texts, lists, and what JSON has for the rest.

    Raises:
        FormatError: it is none, or has what `to_yaml` does not write; names the line.
    """
    reader = _Reader(text.replace("\r\n", "\n").removeprefix("\ufeff"), where)
    found = reader.block(0, 0)
    reader.skip()
    if not reader.is_done:
        raise reader.error("something stands behind the end")
    return found


class _Reader:
    """A place in a text, and what stands there.

    Attributes:
        at: the place.
    """

    def __init__(self, text: str, where: str) -> None:
        self._text, self._where = text, where
        self.at = 0
        self._nodes = 0
        self._anchors: dict[str, tuple[object, int]] = {}
        start = re.match(r"(?:\s*(?:#.*|%.*)?\n)*---(?=\s|$)", text)
        self.at = start.end() if start else 0

    # --- places -------------------------------------------------------------------------------------------

    def error(self, problem: str) -> FormatError:
        line = self._text.count("\n", 0, self.at) + 1
        return FormatError(f"its YAML cannot be read: {problem}", f"{self._where}, line {line}", _HINT)

    @property
    def is_done(self) -> bool:
        return self.at >= len(self._text) or (
            self._column == 0 and bool(re.compile(r"\.\.\.\s*\Z").match(self._text, self.at))
        )

    @property
    def _char(self) -> str:
        return self._text[self.at : self.at + 1]

    @property
    def _column(self) -> int:
        return self.at - self._text.rfind("\n", 0, self.at) - 1

    def skip(self, *, lines: bool = True) -> bool:
        """Go on to what stands next; True if that is on another line."""
        crossed = False
        while True:
            while self._char == " ":
                self.at += 1
            is_comment = self._char == "#" and (not self._column or self._text[self.at - 1].isspace())
            if is_comment:
                end = self._text.find("\n", self.at)
                self.at = len(self._text) if end < 0 else end
            if self._char != "\n" or not lines:
                break
            crossed = True
            self.at += 1
        if self._char == "\t":
            raise self.error("a tab stands where spaces should")
        return crossed

    def _stands(self, mark: str) -> bool:
        """True if a mark with space behind stands here: "- ", ": "."""
        return self._char == mark and self._text[self.at + 1 : self.at + 2] in ("", " ", "\n")

    def _count(self, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > _MAX_NODES:
            raise self.error("it stands for more than a config can hold")

    # --- nodes --------------------------------------------------------------------------------------------

    def block(self, least: int, depth: int) -> object:
        """What stands next at a column that is not less; None if nothing does."""
        if depth > _MAX_DEPTH:
            raise self.error("it is nested too deeply")
        self._count(1)
        self.skip()
        if self.is_done or self._column < least:
            return None
        column, before = self._column, self._nodes
        tag, anchor, crossed = self._properties()
        if crossed and (tag or anchor):
            column = self._column
            # A list may stand at the column of the key that it is for.
            if self.is_done or column < least - (1 if self._stands("-") else 0):
                return self._tagged(None, tag, anchor, before)
        if self._stands("-"):
            return self._tagged(self._list(self._column, depth), tag, anchor, before)
        is_open = not self._char or self._char not in "[{*"
        start = self.at
        if is_open:
            key = self._scalar(least, one_line=True)
            self.skip(lines=False)
            if self._stands(":"):
                first = tag if not crossed else ""
                name = self._key(self._tagged(key, first, "", before))
                table = self._mapping(column, depth, name)
                return self._tagged(table, tag if crossed else "", anchor, before)
            self.at = start
            return self._tagged(self._scalar(least), tag, anchor, before)
        return self._tagged(self._flow(depth), tag, anchor, before)

    def _properties(self) -> tuple[str, str, bool]:
        """Tag and anchor of what stands next, and whether it is on another line than they are."""
        tag = anchor = ""
        crossed = False
        while self._char and self._char in "!&":
            word = _WORD.match(self._text, self.at)
            assert word is not None
            self.at = word.end()
            if word[0][0] == "&":
                anchor = word[0][1:]
            else:
                tag = word[0]
                if tag not in _TAGS:
                    raise self.error(f"the tag {tag[:60]} makes an object of Python, and is not followed")
            crossed = self.skip()
        return tag, anchor, crossed

    def _tagged(self, found: object, tag: str, anchor: str, before: int) -> object:
        if tag and not isinstance(found, _TAGS[tag]):
            if _TAGS[tag] is list or isinstance(found, list | dict):
                raise self.error(f"the tag {tag} stands at something else")
            found = "" if found is None else str(found)
        if anchor:
            self._anchors[anchor] = found, self._nodes - before + 1
        return found

    def _list(self, column: int, depth: int) -> list[object]:
        found: list[object] = []
        while not self.is_done and self._column == column and self._stands("-"):
            self.at += 1
            found.append(self.block(column + 1, depth + 1))
            self.skip()
        if not self.is_done and self._column > column:
            raise self.error("a line stands too far to the right")
        return found

    def _mapping(self, column: int, depth: int, key: str) -> dict[str, object]:
        """The mapping whose first key has been read."""
        found: dict[str, object] = {}
        while True:
            if not self._stands(":"):
                raise self.error("a ':' is missing")
            self.at += 1
            if key in found:
                raise self.error(f"the key '{key[:60]}' stands there twice")
            found[key] = self._value(column, depth + 1)
            self.skip()
            if self.is_done or self._column < column:
                return found
            if self._column > column or self._stands("-"):
                raise self.error("a line stands too far to the right, or belongs to no key")
            before = self._nodes
            tag, anchor, _ = self._properties()
            key = self._key(self._tagged(self._scalar(column + 1, one_line=True), tag, anchor, before))
            self.skip(lines=False)

    def _value(self, column: int, depth: int) -> object:
        start = self.at
        # The list of a key may stand as far to the left as the key.
        is_below = self.skip() and self._column == column and self._stands("-")
        if is_below:
            self._count(1)
            return self._list(column, depth)
        self.at = start
        return self.block(column + 1, depth)

    def _key(self, key: object) -> str:
        if isinstance(key, str):
            return key
        if isinstance(key, int) and not isinstance(key, bool):
            return str(key)
        raise self.error("a key is no text")

    # --- brackets -----------------------------------------------------------------------------------------

    def _flow(self, depth: int) -> object:
        """A value within brackets, or what opens them."""
        if depth > _MAX_DEPTH:
            raise self.error("it is nested too deeply")
        self._count(1)
        before = self._nodes
        tag, anchor, _ = self._properties()
        if self._char == "*":
            word = _WORD.match(self._text, self.at)
            name = word[0][1:] if word else ""
            if tag or anchor or name not in self._anchors:
                raise self.error(f"the alias '{name[:60]}' stands for nothing")
            assert word is not None
            self.at = word.end()
            found, nodes = self._anchors[name]
            self._count(nodes)
            return found
        if self._char == "[":
            items = [item for _, item in self._items("]", depth)]
            return self._tagged(items, tag, anchor, before)
        if self._char == "{":
            return self._tagged(dict(self._items("}", depth)), tag, anchor, before)
        return self._tagged(self._scalar(0, in_brackets=True), tag, anchor, before)

    def _items(self, end: str, depth: int) -> list[tuple[str, object]]:
        found: list[tuple[str, object]] = []
        self.at += 1
        while True:
            self.skip()
            if self._char == end:
                self.at += 1
                return found
            key = ""
            if end == "}":
                key = self._key(self._flow(depth + 1))
                self.skip()
                if self._char != ":":
                    raise self.error("a ':' is missing")
                self.at += 1
                self.skip()
            found.append((key, self._flow(depth + 1)))
            self.skip()
            if self._char not in (",", end) or self.is_done:
                raise self.error(f"a '{end}' is missing")
            self.at += self._char == ","

    # --- texts and numbers --------------------------------------------------------------------------------

    def _scalar(self, least: int, *, one_line: bool = False, in_brackets: bool = False) -> object:
        """A text or number; a plain one goes on on lines that begin at the column `least` or behind."""
        if self._char and self._char in "'\"":
            return self._quoted()
        if self._char and self._char in "|>@`%?":
            raise self.error(f"'{self._char}' begins something that to_yaml does not write")
        parts = [self._plain(in_brackets)]
        while not one_line:
            start = self.at
            crossed = self.skip()
            if not crossed or self.is_done or (self._column < least and not in_brackets):
                self.at = start
                break
            more = self._plain(in_brackets)
            if not more:
                self.at = start
                break
            parts.append(more)
        return _resolved(" ".join(parts))

    def _plain(self, in_brackets: bool) -> str:
        start = self.at
        while self._char and self._char != "\n":
            is_comment = self._char == "#" and self.at > start and self._text[self.at - 1] == " "
            if is_comment or self._stands(":") or (in_brackets and self._char in ",[]{}"):
                break
            self.at += 1
        return self._text[start : self.at].rstrip()

    def _quoted(self) -> str:
        """A text in quotes; a line break within is a space, further ones are themselves."""
        quote, start = self._char, self.at
        self.at += 1
        parts: list[str] = []
        while True:
            char = self._char
            if not char:
                self.at = start
                raise self.error("a quote is not closed")
            if char == quote:
                self.at += 1
                if quote == '"' or self._char != "'":
                    return "".join(parts)
                parts.append("'")
                self.at += 1
            elif char == "\\" and quote == '"':
                parts.append(self._escaped())
            elif char == "\n":
                while parts and parts[-1] in (" ", "\t"):
                    parts.pop()
                breaks = re.compile(r"\n[ \t\n]*").match(self._text, self.at)
                assert breaks is not None
                self.at = breaks.end()
                parts.append("\n" * (breaks[0].count("\n") - 1) or " ")
            else:
                parts.append(char)
                self.at += 1

    def _escaped(self) -> str:
        mark = self._text[self.at + 1 : self.at + 2]
        self.at += 2
        if mark == "\n":
            while self._char and self._char in " \t":
                self.at += 1
            return ""
        if mark in _HEX:
            digits = self._text[self.at : self.at + _HEX[mark]]
            if not re.fullmatch(rf"[0-9a-fA-F]{{{_HEX[mark]}}}", digits) or int(digits, 16) > 0x10FFFF:
                raise self.error(f"the escape \\{mark}{digits} is none")
            self.at += len(digits)
            return chr(int(digits, 16))
        if mark not in _ESCAPES:
            raise self.error(f"the escape \\{mark} is none")
        return _ESCAPES[mark]


def _resolved(text: str) -> object:
    """What a plain text stands for, by YAML 1.1 as far as PyYAML writes it."""
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if _INT.fullmatch(text) and len(text) < 20:
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    special = _SPECIAL.fullmatch(text)
    return float(special[1] + special[2].lower()) if special else text
