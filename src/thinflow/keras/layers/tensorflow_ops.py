"""Ops of TensorFlow in the models of its versions 2.0 to 2.3, which stored them as they stand in a graph."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from thinflow.errors import FormatError
from thinflow.ir.attrs import Attr, ShapeAttr
from thinflow.ir.graph import Value
from thinflow.ir.types import DType, dtype
from thinflow.keras.call import Call
from thinflow.keras.options import DAMAGED
from thinflow.keras.registry import Result, layer
from thinflow.keras.writer import typed
from thinflow.ops.registry import get
from thinflow.ops.traits import Trait

_INDEX_TYPES = ("Tidx", "Tshape", "Tperm", "Tpaddings", "Tmultiples", "Index", "Tdim", "Taxis", "Tindices")
"""Attributes for the type of operands that are places and sizes."""


@layer("TensorFlowOpLayer")
def tensorflow_op(c: Call) -> Result:
    """The op of the stored node, with constants among its operands."""
    node = c.get("node_def")
    if not isinstance(node, Mapping) or not isinstance(node.get("op"), str):
        raise c.refuse("its node is stored in a way that is not known")
    op = node["op"]
    definition = get(op)
    if definition.kernel is None or definition.has(Trait.STATEFUL | Trait.RANDOM | Trait.TABLE_FILE):
        raise c.refuse(f"the op {op} is more than a function of its operands")
    given = node.get("attr")
    attrs = {key: _attr(c, value) for key, value in given.items()} if isinstance(given, Mapping) else {}
    operands: list[Value] = list(c.xs)
    constants = c.get("constants") or {}
    if not isinstance(constants, Mapping):
        raise c.refuse("its constants are stored in a way that is not known")
    for place, content in sorted(constants.items(), key=lambda item: int(item[0])):
        if not 0 <= int(place) <= len(operands):
            raise FormatError(f"operand {place} is a constant, of {len(operands)}", c.where, DAMAGED)
        operands.insert(int(place), c.const(typed(content, _element(attrs, content))))
    made = c.writer.add(op, operands, op, {"T": None, **attrs})
    count = definition.num_outputs
    ports = count if isinstance(count, int) else attrs.get(count)
    return [made.output(n) for n in range(ports)] if isinstance(ports, int) and ports > 1 else made.output()


def _element(attrs: Mapping[str, Attr], content: object) -> DType:
    """The type of a constant: that of places and sizes where the op has one and these are whole numbers."""
    index = next((attrs[key] for key in _INDEX_TYPES if key in attrs), None)
    items = content if isinstance(content, list) else [content]
    while items and isinstance(items[0], list):
        items = items[0]
    is_whole = all(isinstance(n, int) for n in items)
    found = index if is_whole and isinstance(index, DType) else attrs.get("T")
    return found if isinstance(found, DType) else dtype("int32" if is_whole else "float")


def _attr(c: Call, value: object) -> Attr:
    """An attribute from the JSON form of its message."""
    if not isinstance(value, Mapping) or len(value) != 1:
        raise FormatError("an attribute of its node has no value", c.where, DAMAGED)
    kind, content = next(iter(value.items()))
    try:
        return _plain(kind, content)
    except (ValueError, TypeError, KeyError, binascii.Error) as error:
        raise c.refuse(f"an attribute of its node ({kind}) is not known") from error


def _plain(kind: str, content: Any) -> Attr:
    if kind == "type":
        return dtype(str(content).removeprefix("DT_").lower())
    if kind == "i":
        return int(content)
    if kind == "f":
        return float(content)
    if kind == "b":
        return bool(content)
    if kind == "s":
        return base64.b64decode(content, validate=True)
    if kind == "shape":
        sizes = [int(d.get("size", 0)) for d in content.get("dim", [])]
        return ShapeAttr(tuple(None if n < 0 else n for n in sizes))
    if kind == "list":
        inner, items = next(iter(content.items())) if content else ("i", [])
        return (
            tuple(int(n) for n in items) if inner == "i" else tuple(float(n) for n in _floats(inner, items))
        )
    raise ValueError(kind)


def _floats(kind: str, items: Any) -> list[float]:
    if kind != "f":
        raise ValueError(kind)
    return [float(n) for n in items]
