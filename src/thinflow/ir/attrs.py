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

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

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
    attrs: Mapping[str, Attr] = field(default_factory=dict)

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


def attr_text(value: Attr) -> str:
    """The value as golden text shows it: `"SAME"`, `[1,2]`, `float`, `shape[1,?]`, `float[2,2]{...}`."""
    if isinstance(value, tuple):
        return "[" + ",".join(attr_text(v) for v in value) + "]"
    if isinstance(value, bytes):
        return '"' + value.decode("utf-8", "backslashreplace").replace("\n", "\\n") + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.8g}"
    if isinstance(value, ShapeAttr):
        return f"shape{value}"
    return str(value)
