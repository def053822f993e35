"""TensorFlow's protobuf messages, from a table of our own, without TensorFlow.

`protos.GraphDef`, or `message("AttrValue.ListValue")` for a nested one, is an ordinary protobuf class. The
classes are built from `tensorflow_table` on first use, in a descriptor pool of their own: a TensorFlow in the
same process, which registers the same names in protobuf's global pool, neither sees them nor minds.
"""

from __future__ import annotations

import functools
import re
import warnings
from typing import TYPE_CHECKING, Any

from thinflow.errors import FormatError, WriteError, closest
from thinflow.wire.message_table import blocks, descriptor_file, enums, pool_of
from thinflow.wire.tensorflow_table import ENUMS, GOOGLE_MESSAGES, MESSAGES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typing_extensions import Buffer

Message = Any
"""An instance of one of the classes below. Their attributes exist only at run time."""

_BIG_TEXT = 1 << 20
"""Texts above this size would take the protobuf library too long."""

# The true package name, so that an Any in text resolves: `[type.googleapis.com/tensorflow.AssetFileDef] { }`.
_PACKAGE = "tensorflow"

_REFERENCE_OFFSET = 100  # DT_FLOAT_REF = DT_FLOAT + 100, and so on


def __getattr__(name: str) -> Any:
    """`protos.GraphDef` and the other top-level messages, built when first asked for."""
    if name[:1].isupper():
        try:
            return message(name)
        except KeyError:
            pass
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


@functools.cache
def message(name: str) -> Any:
    """The class of a message, such as "GraphDef" or "AttrValue.ListValue". The same class every time.

    Raises:
        KeyError: no such message in the table.
    """
    pool = _pool()  # says so if protobuf is missing
    from google.protobuf import message_factory

    full_name = name if name.startswith("google.") else f"{_PACKAGE}.{name}"
    try:
        descriptor = pool.FindMessageTypeByName(full_name)
    except KeyError:
        hint = closest(name, [n for n, _ in blocks(MESSAGES)])
        raise KeyError(f"no message is named '{name}'" + (f"; {hint}" if hint else "")) from None
    return message_factory.GetMessageClass(descriptor)


def parse(what: str | type[Any], data: Buffer) -> Message:
    """The message that `data` holds. Fields the table does not know are kept and written back.

    Raises:
        FormatError: the bytes are not such a message.
    """
    from google.protobuf.message import DecodeError

    cls = message(what) if isinstance(what, str) else what
    try:
        return cls.FromString(data if isinstance(data, bytes) else bytes(data))
    # Which of them comes depends on protobuf's implementation: C (upb), C++ or Python.
    except (DecodeError, ValueError, RecursionError) as e:
        raise FormatError(
            f"not a valid {cls.DESCRIPTOR.name} message",
            hint="the file may be truncated, damaged or of another format",
        ) from e


def serialize(msg: Message) -> bytes:
    """The bytes of a message, map keys sorted, so that equal messages give equal bytes.

    Raises:
        WriteError: the message cannot be encoded, for one because it exceeds protobuf's limit of 2 GiB.
    """
    from google.protobuf.message import EncodeError

    try:
        data: bytes = msg.SerializeToString(deterministic=True)
    except (EncodeError, ValueError, RecursionError) as e:
        raise WriteError(
            f"cannot encode this {msg.DESCRIPTOR.name}", hint="protobuf messages are limited to 2 GiB"
        ) from e
    return data


def to_text(msg: Message) -> str:
    """The message in protobuf's text format. Fields the table does not know are left out."""
    from google.protobuf import text_format

    # as_utf8 is spelled out: its default changed between releases, and TensorFlow writes octal escapes.
    text: str = text_format.MessageToString(msg, as_utf8=False, descriptor_pool=_pool())
    return text


def from_text(what: str | type[Any], text: str | bytes) -> Message:
    """The message that `text` spells. The last of a repeated singular field wins, as in TensorFlow's tools.

    Raises:
        FormatError: with line and column, if the text is malformed or names an unknown field.
    """
    from google.protobuf import text_format

    cls = message(what) if isinstance(what, str) else what
    result = cls()
    if len(text) > _BIG_TEXT:
        from thinflow.wire import fast_text

        fast_text.merge(result, text.encode() if isinstance(text, str) else text)
        return result
    try:
        if isinstance(text, bytes):
            text = text.decode("utf-8")
        with warnings.catch_warnings():
            # Where protobuf's C++ refuses an escape, its Python warns and goes on with something else.
            warnings.filterwarnings("error", "invalid.*escape")
            # Merge, unlike Parse, accepts a singular field more than once.
            text_format.Merge(text, result, descriptor_pool=_pool())
    except text_format.ParseError as e:
        line, column = e.GetLine(), e.GetColumn()
        where = "" if line is None else f"line {line}" if column is None else f"line {line}, column {column}"
        raise FormatError(
            _not_text(cls, _reason(e)), where, hint="see that the text is complete and of this kind"
        ) from e
    except UnicodeDecodeError as e:
        raise FormatError(_not_text(cls, "it is not UTF-8"), f"byte {e.start}") from e
    except RecursionError as e:
        raise FormatError(_not_text(cls, "messages are nested too deeply")) from e
    except Warning as e:
        raise FormatError(_not_text(cls, str(e)), hint="write a backslash twice") from e
    except (ValueError, TypeError, KeyError) as e:  # the parser's own checks of values it then cannot store
        raise FormatError(_not_text(cls, str(e).rstrip("."))) from e
    return result


def _reason(error: Exception) -> str:
    """The reason in a ParseError, without position and the line it quotes, which may be the whole file."""
    reason = re.sub(r"^\d+:\d+ : ", "", str(error))
    reason = re.sub(r"^'.*': ", "", reason, flags=re.DOTALL)
    return reason.strip().rstrip(".").replace("\n", " ")[:300]


def _not_text(cls: type[Any], problem: str) -> str:
    return f"cannot read this as the text of a {cls.DESCRIPTOR.name}: {problem}"


@functools.cache
def _pool() -> Any:
    """Our descriptor pool, with every message and enum in it."""
    google = descriptor_file("google.protobuf", GOOGLE_MESSAGES)
    ours = descriptor_file(_PACKAGE, MESSAGES, _enums(), [google.name])
    return pool_of(google, ours)


def _enums() -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """The enums, with a reference to each type of element."""
    for name, values in enums(ENUMS):
        if name == "DataType":
            # Without DT_INVALID, which has no reference.
            values += [(f"{value}_REF", n + _REFERENCE_OFFSET) for value, n in values[1:]]
        yield name, values
