"""Attribute values as plain Python objects.

| in a NodeDef | here |
|---|---|
| s | bytes |
| i, f, b | int, float, bool |
| type | DType |
| shape | ShapeAttr |
| tensor | Tensor |
| func | FunctionAttr |
| placeholder | PlaceholderAttr |
| list | tuple of the above |
| anything newer | OpaqueAttr (its bytes) |

All are immutable, so that copies of a graph may share them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from thinflow.errors import GraphError, ParameterError
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import DType, Shape, shape_text


@dataclass(frozen=True)
class ShapeAttr:
    """A shape stored as an attribute; `dims` is None for an unknown rank."""

    dims: Shape

    def __str__(self) -> str:
        return shape_text(self.dims)


@dataclass(frozen=True)
class FunctionAttr:
    """A reference to a library function, with the attributes to instantiate it with."""

    name: str
    # A dict cannot be hashed: equality compares the attributes, the hash knows the name alone.
    attrs: Mapping[str, Attr] = field(default_factory=dict, hash=False)

    def __str__(self) -> str:
        return f"@{self.name}"


@dataclass(frozen=True)
class PlaceholderAttr:
    """A stand-in inside a function body for an attribute of its caller."""

    name: str

    def __str__(self) -> str:
        return f"${self.name}"


@dataclass(frozen=True)
class OpaqueAttr:
    """An attribute this version does not understand, carried through as its bytes."""

    raw: bytes

    def __str__(self) -> str:
        return f"opaque({len(self.raw)} bytes)"


Scalar: TypeAlias = bytes | int | float | bool | DType | ShapeAttr | Tensor | FunctionAttr
Attr: TypeAlias = Scalar | PlaceholderAttr | OpaqueAttr | tuple[Scalar, ...]


def normalize(value: Any) -> Attr:
    """An attribute value from what a caller may write: `str`, lists and numpy scalars become their plain
    kinds.

    Raises:
        ParameterError: nothing an attribute can hold.
    """
    if isinstance(
        value, (bytes, bool, int, float, DType, ShapeAttr, Tensor, FunctionAttr, PlaceholderAttr, OpaqueAttr)
    ):
        return value
    # A NodeDef keeps text as bytes (field `s`), of no declared encoding.
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (list, tuple)):
        return tuple(normalize(v) for v in value)  # type: ignore[misc]
    # numpy scalars and arrays of one element, known by their method: this module does not import numpy.
    if hasattr(value, "item"):
        return normalize(value.item())
    raise ParameterError(f"an attribute cannot hold {type(value).__name__}")


def has_placeholder(attr: Attr) -> bool:
    """True if an attribute of a function body waits for one of the call, anywhere inside it."""
    if isinstance(attr, FunctionAttr):
        return any(has_placeholder(a) for a in attr.attrs.values())
    if isinstance(attr, tuple):
        return any(has_placeholder(a) for a in attr)
    return isinstance(attr, PlaceholderAttr)


def filled(attr: Attr, values: Mapping[str, Attr], where: str) -> Attr:
    """An attribute with those of the call in the place of placeholders.

    Raises:
        GraphError: the call does not set one of them.
    """
    if isinstance(attr, PlaceholderAttr):
        if attr.name not in values:
            raise GraphError(
                f"the caller of the function does not set '{attr.name}'",
                where,
                hint="the file is damaged",
            )
        return values[attr.name]
    if isinstance(attr, FunctionAttr):
        return FunctionAttr(attr.name, {k: filled(a, values, where) for k, a in attr.attrs.items()})
    if isinstance(attr, tuple):
        return tuple(filled(a, values, where) for a in attr)  # type: ignore[misc]
    return attr


def attr_key(value: Attr) -> Hashable:
    """Equal exactly for equal attribute values; constants are compared by type, shape and bits.

    Reads constants.
    """
    if isinstance(value, tuple):
        return tuple(attr_key(v) for v in value)
    if isinstance(value, Tensor):
        return value.fingerprint()
    if isinstance(value, FunctionAttr):
        # Attributes are a protobuf map, whose order means nothing.
        return value.name, tuple(sorted((k, attr_key(v)) for k, v in value.attrs.items()))
    # Python takes 0.0 and -0.0 for equal, and a NaN for unequal to itself.
    if isinstance(value, float):
        return "float", value.hex()
    # Python takes 1, 1.0 and True for equal, too; in a NodeDef they are different fields.
    return type(value).__name__, value


def attr_text(value: Attr) -> str:
    """The value as golden text shows it: `"SAME"`, `[1,2]`, `float`, `shape[1,?]`, `float[2,2]{...}`."""
    if isinstance(value, tuple):
        return "[" + ",".join(attr_text(v) for v in value) + "]"
    if isinstance(value, bytes):
        escaped = value.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
        return '"' + escaped.decode("utf-8", "backslashreplace") + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        # A NodeDef holds float32: all digits of the double would show 0.1 as 0.10000000149011612.
        return f"{value:.8g}"
    if isinstance(value, ShapeAttr):
        return f"shape{value}"
    return str(value)
