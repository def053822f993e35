"""Escapes in the strings of protobuf's text format."""

from __future__ import annotations

import re

from thinflow.errors import FormatError

# Escapes that Python reads otherwise or not at all: one hexadecimal digit, `\?`, `\u` (UTF-8 here, not
# Latin-1), and octal numbers above 255, of which protobuf keeps the low byte.
_RARE_ESCAPE = re.compile(rb"\\(?:[^abfnrtvx0-7'\"]|x(?![0-9a-fA-F]{2})|[4-7][0-7]{2})")
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}
_PLAIN = frozenset(b"\\\"'?"[i : i + 1] for i in range(4))


def unescaped(raw: bytes) -> bytes:
    """The bytes that a string's text stands for.

    Raises:
        FormatError: an escape that nobody knows.
    """
    if b"\\" not in raw:
        return raw
    # Escaped backslashes apart, so that what follows one is not taken for an escape.
    apart = raw.replace(rb"\\", rb"\134")
    if _RARE_ESCAPE.search(apart) is None:
        # Python knows all others by the same letters, and reads them fastest.
        # Latin-1 maps the 256 bytes to the first 256 letters and back, so that
        # unescaped bytes above 127 come through.
        return apart.decode("unicode_escape").encode("latin-1")
    return _ESCAPE.sub(_escape, raw)


def _escape(found: re.Match[bytes]) -> bytes:
    code = found[1]
    if code[:1] in b"01234567":
        return bytes([int(code, 8) & 0xFF])
    if code[:1] in (b"x", b"X") and len(code) > 1:
        return bytes([int(code[1:], 16)])
    if code[:1] in (b"u", b"U") and len(code) > 1:
        return _letter(int(code[1:], 16))
    if code in _PLAIN:
        return code
    if code not in _LETTERS:
        raise FormatError(f"'\\{code.decode('latin-1')}' is not an escape")
    return _LETTERS[code]


def _letter(number: int) -> bytes:
    try:
        return chr(number).encode()
    except (ValueError, OverflowError) as error:  # UnicodeEncodeError is one: half a surrogate pair
        raise FormatError(f"there is no letter of number {number}") from error
