"""Regular expressions in RE2's syntax, as far as Python's engine understands it."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import BOOL, STRING, TensorSpec
from thinflow.ops.registry import OpDef, op
from thinflow.ops.strings import _map
from thinflow.typing import Array

_POSIX_CLASSES = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7F",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1F\x7F",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_TOKEN = re.compile(r"\\Q(?P<quoted>.*?)(?:\\E|$)|\[:(?P<posix>\w+):\]|\\z|\\[\s\S]|[\s\S]", re.DOTALL)


def _translated(pattern: str) -> Iterator[str]:
    """RE2 says `\\z`, `[:alpha:]` and `\\Q...\\E`, and its `$` never stops before a last newline."""
    in_class = False
    for match in _TOKEN.finditer(pattern):
        token = match.group()
        # Of `\Q...\E` every character stands for itself.
        if match["quoted"] is not None:
            yield re.escape(match["quoted"])
        elif match["posix"] is not None:
            yield _POSIX_CLASSES.get(match["posix"], token) if in_class else token
        elif token == "\\z" or (token == "$" and not in_class):
            yield r"\Z"
        else:
            # Python keeps a bare "[" inside a class for future set operations.
            yield r"\[" if in_class and token == "[" else token
            if token in ("[", "]"):
                in_class = token == "["


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # about "--" and the like inside a class
            return re.compile("".join(_translated(pattern)), re.ASCII)
    except re.error as error:
        raise UnsupportedOp(f"the pattern '{pattern}' is not understood: {error}") from error


def _text(value: bytes) -> str:
    # RE2 works on UTF-8 characters. Bytes that are none survive, though here a `.` matches them.
    return value.decode("utf-8", "surrogateescape")


def _replace(text: bytes, pattern: str, rewrite: str, everywhere: bool) -> bytes:
    expression = _compiled(pattern)
    pieces = re.findall(r"\\.|\\|[^\\]+", rewrite, re.DOTALL)
    groups = [int(p[1]) for p in pieces if p[0] == "\\" and p[1:].isdigit()]
    bad = any(p[0] == "\\" and p != "\\\\" and not p[1:].isdigit() for p in pieces)
    if bad or any(g > expression.groups for g in groups):
        return text  # TensorFlow ignores RE2's complaint about the rewrite and leaves the string alone
    source = _text(text)
    result: list[str] = []
    end = -1
    copied = 0
    for match in expression.finditer(source):
        if match.end() == match.start() == end:
            continue  # unlike Python, RE2 takes no empty match right behind another one
        result.append(source[copied : match.start()])
        for piece in pieces:
            backslash = piece[0] == "\\"
            result.append(
                (match[int(piece[1])] or "")
                if backslash and piece != "\\\\"
                else piece[-1]
                if backslash
                else piece
            )
        end = copied = match.end()
        if not everywhere:
            break
    return "".join([*result, source[copied:]]).encode("utf-8", "surrogateescape")


@op("RegexReplace")
class RegexReplace(OpDef):
    """y = each string with what the pattern matches, everywhere or once, replaced; `\\1` is group 1."""

    @staticmethod
    def infer(x: TensorSpec, pattern: TensorSpec, rewrite: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, x.shape)

    @staticmethod
    def kernel(x: Array, pattern: Array, rewrite: Array, *, replace_global: bool = True) -> Array:
        expression, replacement = _text(pattern.item()), _text(rewrite.item())
        return _map(lambda s: _replace(s, expression, replacement, replace_global), object, x)


@op("StaticRegexReplace")
class StaticRegexReplace(OpDef):
    """RegexReplace with the pattern and the replacement as attributes."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(STRING, x.shape)

    @staticmethod
    def kernel(x: Array, *, pattern: str, rewrite: str, replace_global: bool = True) -> Array:
        return _map(lambda s: _replace(s, pattern, rewrite, replace_global), object, x)


@op("RegexFullMatch")
class RegexFullMatch(OpDef):
    """y = whether the pattern matches each whole string, bool."""

    @staticmethod
    def infer(x: TensorSpec, pattern: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, x.shape)

    @staticmethod
    def kernel(x: Array, pattern: Array) -> Array:
        expression = _compiled(_text(pattern.item()))
        return _map(lambda s: expression.fullmatch(_text(s)) is not None, np.bool_, x)


@op("StaticRegexFullMatch")
class StaticRegexFullMatch(OpDef):
    """RegexFullMatch with the pattern as an attribute."""

    @staticmethod
    def infer(x: TensorSpec) -> TensorSpec:
        return TensorSpec(BOOL, x.shape)

    @staticmethod
    def kernel(x: Array, *, pattern: str) -> Array:
        expression = _compiled(pattern)
        return _map(lambda s: expression.fullmatch(_text(s)) is not None, np.bool_, x)
