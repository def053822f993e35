"""Fields of JSON that somebody else wrote: each of the type that it must have, or an error that names it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from thinflow.errors import FormatError

Object = Mapping[str, object]


def parsed(data: bytes | memoryview, what: str) -> Object:
    """The object in the text of a JSON file.

    Raises:
        FormatError: it is no JSON, nested too deeply, or no object.
    """
    try:
        content = json.loads(bytes(data))
    # Beside its own error, of undecodable bytes and of numbers of endless digits, which are ValueErrors too.
    except ValueError as error:
        raise FormatError(f"{what} is not JSON: {str(error)[:80]}") from error
    except RecursionError as error:
        raise FormatError(f"{what} is nested too deeply") from error
    return as_object(content, what)


def as_object(value: object, what: str) -> Object:
    """A value that must be an object.

    Raises:
        FormatError: it is not.
    """
    if not isinstance(value, dict):
        raise FormatError(f"{what} is no object")
    return value


def as_list(value: object, what: str) -> Sequence[object]:
    """A value that must be a list.

    Raises:
        FormatError: it is not.
    """
    if not isinstance(value, list):
        raise FormatError(f"{what} is no list")
    return value


def as_text(value: object, what: str) -> str:
    """A value that must be a text.

    Raises:
        FormatError: it is not.
    """
    if not isinstance(value, str):
        raise FormatError(f"{what} is no text")
    return value


def as_int(value: object, what: str) -> int:
    """A value that must be a whole number of 64 bits.

    Raises:
        FormatError: it is not.
    """
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << 63) <= value < 1 << 63:
        raise FormatError(f"{what} is no whole number of 64 bits")
    return value


def as_bool(value: object, what: str) -> bool:
    """A value that must be true or false.

    Raises:
        FormatError: it is neither.
    """
    if not isinstance(value, bool):
        raise FormatError(f"{what} is neither true nor false")
    return value


def as_float(value: object, what: str) -> float:
    """A value that must be a number; texts stand for those that JSON has not.

    Raises:
        FormatError: it is none.
    """
    if value in ("Infinity", "-Infinity", "NaN"):
        return float(str(value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FormatError(f"{what} is no number")
    try:
        return float(value)
    except OverflowError as error:
        raise FormatError(f"{what} is no number of 64 bits") from error


def only_field(value: object, what: str) -> tuple[str, object]:
    """Name and content of an object's only field, as unions are written.

    Raises:
        FormatError: it has none, or several.
    """
    fields = as_object(value, what)
    if len(fields) != 1:
        raise FormatError(f"{what} has {len(fields)} fields, not one")
    return next(iter(fields.items()))
