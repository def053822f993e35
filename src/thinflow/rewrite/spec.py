"""The transform string: `strip_unused_nodes(type=float, shape="1,224,224,3") fold_constants`.

Everything the Graph Transform Tool accepted means the same here, but for two traps: a list that is never
closed and a backslash escape that is never decoded. Besides: blanks anywhere, trailing commas, single quotes
and those of typography, `#` comments, and `: ^ * + ~` in bare values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from thinflow.errors import ParseError

# ASCII only, as in the original; `isalnum` would take letters of all scripts.
_NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_")
_BARE = _NAME | frozenset("-./:^*+?~")
_BLANK = frozenset(" \t\n\r\v\f")
_ESCAPES = {"n": "\n", "t": "\t"}
_QUOTES = {
    '"': '"',
    "'": "'",
    # Word processors and web pages turn straight quotes into these, and commands get copied from there.
    "\N{LEFT DOUBLE QUOTATION MARK}": "\N{RIGHT DOUBLE QUOTATION MARK}",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "\N{RIGHT DOUBLE QUOTATION MARK}",
    "\N{LEFT SINGLE QUOTATION MARK}": "\N{RIGHT SINGLE QUOTATION MARK}",
    "\N{RIGHT SINGLE QUOTATION MARK}": "\N{RIGHT SINGLE QUOTATION MARK}",
}


@dataclass(frozen=True)
class Call:
    """One transform as written: its name, and every value of every parameter in order of appearance."""

    name: str
    params: dict[str, list[str]] = field(default_factory=dict)
    offset: int = 0

    def __str__(self) -> str:
        if not self.params:
            return self.name
        pairs = [f"{name}={_quoted(value)}" for name, values in self.params.items() for value in values]
        return f"{self.name}({', '.join(pairs)})"


def parse_transforms(text: str) -> list[Call]:
    """The transforms of a string, in order; an empty string gives none.

    Raises:
        ParseError: with the place of the mistake marked under the string.
    """
    scanner = _Scanner(text)
    calls: list[Call] = []
    scanner.skip_blanks()
    while not scanner.at_end:
        offset = scanner.at
        name = scanner.name("a transform name")
        scanner.skip_blanks()
        calls.append(Call(name, _arguments(scanner, name) if scanner.take("(") else {}, offset))
        scanner.skip_blanks()
    return calls


def _arguments(scanner: _Scanner, transform: str) -> dict[str, list[str]]:
    params: dict[str, list[str]] = {}
    opened = scanner.at - 1
    while True:
        scanner.skip_blanks()
        if scanner.take(")"):
            return params
        if scanner.at_end:
            raise scanner.error(
                f"the parameters of '{transform}' are never closed", "add the missing )", at=opened
            )
        name = scanner.name("a parameter name")
        scanner.skip_blanks()
        if not scanner.take("="):
            hint = _hint_for_commas(params, name) or f"write {name}=VALUE"
            raise scanner.error(f"'=' is missing after the parameter '{name}'", hint)
        scanner.skip_blanks()
        params.setdefault(name, []).append(scanner.value(name))
        scanner.skip_blanks()
        # The comma is optional, and one behind the last parameter does no harm.
        scanner.take(",")


def _hint_for_commas(params: dict[str, list[str]], name: str) -> str:
    """A number where a parameter's name should be is the rest of a list that has lost its quotes."""
    if not params or not name.isdecimal():
        return ""
    last = next(reversed(params))
    first = params[last][-1]
    return (
        f'a value with commas needs double quotes: {last}="{first},{name}"; in a shell, put single quotes '
        "around all of the transforms, or it eats the double ones"
    )


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    @property
    def at_end(self) -> bool:
        return self.at >= len(self.text)

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self, char: str) -> bool:
        if self.peek() == char:
            self.at += 1
            return True
        return False

    def skip_blanks(self) -> None:
        while not self.at_end:
            if self.peek() in _BLANK:
                self.at += 1
            elif self.peek() == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            # A backslash at the end of a line: from a shell script whose quotes kept it in the string.
            elif self.text.startswith(("\\\n", "\\\r\n"), self.at):
                self.at = self.text.index("\n", self.at) + 1
            else:
                return

    def run_of(self, allowed: frozenset[str]) -> str:
        start = self.at
        while not self.at_end and self.text[self.at] in allowed:
            self.at += 1
        return self.text[start : self.at]

    def name(self, what: str) -> str:
        name = self.run_of(_NAME)
        if not name:
            found = "the end" if self.at_end else f"'{self.text[self.at :][:12]}'"
            hint = 'transforms look like name(parameter=value, other="a,b")'
            if self.peek() in (",", ";"):
                hint += ", with blanks between them"
            raise self.error(f"looking for {what}, found {found}", hint)
        return name

    def value(self, parameter: str) -> str:
        if closing := _QUOTES.get(self.peek()):
            value = self._quoted(closing)
        else:
            value = self.run_of(_BARE)
            if not value:
                raise self.error(f"the parameter '{parameter}' has no value", f'write {parameter}="..."')
        # The original swallows one stray quote of each kind after a value.
        self.take('"')
        self.take("'")
        return value

    def _quoted(self, quote: str) -> str:
        opened = self.at
        self.at += 1
        pieces: list[str] = []
        while not self.at_end:
            char = self.text[self.at]
            self.at += 1
            if char == quote:
                return "".join(pieces)
            if char == "\\" and not self.at_end:
                # Unknown escapes stand for their character, as `\"` does.
                char = _ESCAPES.get(self.text[self.at], self.text[self.at])
                self.at += 1
            pieces.append(char)
        raise self.error("the quote is never closed", f"add the missing {quote}", at=opened)

    def error(self, problem: str, hint: str, at: int | None = None) -> ParseError:
        place = self.at if at is None else at
        # Transform strings may have several lines; the mark goes below the one with the mistake.
        line_start = self.text.rfind("\n", 0, place) + 1
        line = self.text[line_start:].partition("\n")[0]
        caret = " " * (place - line_start) + "^"
        return ParseError(f"{problem}\n  {line}\n  {caret}", f"transform string, character {place}", hint)


def _quoted(value: str) -> str:
    if value and all(c in _BARE for c in value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return f'"{escaped}"'
