"""Default values of attributes: what an absent attribute means.

They stand in `data/op_defaults.txt`, made from TensorFlow's registry; for ops that it has no more, the
signatures of the op classes tell.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from thinflow.ir.attrs import Attr, FunctionAttr, ShapeAttr
from thinflow.ir.types import DType, dtype
from thinflow.ops import registry

_LINE = re.compile(r"(?P<name>\w+) (?P<kind>[\w()]+) (?P<value>.*?): (?P<ops>\w[\w ]*)")


@cache
def _table() -> dict[str, dict[str, Attr]]:
    """Op -> attribute -> default, of every op in TensorFlow's registry."""
    from importlib.resources import files

    text = files("thinflow").joinpath("data/op_defaults.txt").read_text("utf-8")
    found: dict[str, dict[str, Attr]] = {}
    # Long entries go on in lines indented by four blanks; "-:" lists ops that have no default at all.
    for line in text.replace("\n    ", " ").splitlines():
        if line.startswith("-: "):
            found.update({op: {} for op in line.removeprefix("-: ").split()})
        elif entry := _LINE.fullmatch(line):
            value = read_default(entry["kind"], entry["value"])
            for op in entry["ops"].split():
                found.setdefault(op, {})[entry["name"]] = value
    return found


def read_default(kind: str, text: str) -> Attr:
    """A default as the table spells it: `int -1`, `string 'NHWC'`, `list(int) [1,1]`, `shape ?`."""
    if kind.startswith("list("):
        inner, body = kind.removeprefix("list(").removesuffix(")"), text.strip("[]")
        return tuple(read_default(inner, item) for item in body.split(",") if item)  # type: ignore[misc]
    if kind in {"string", "func"}:
        word = ast.literal_eval(text)
        # Attributes are bytes in a NodeDef; latin-1 gives back each escaped byte as it was.
        return word.encode("latin-1") if kind == "string" else FunctionAttr(word)
    if kind == "type":
        return dtype(text)
    if kind == "shape":
        sizes = [int(n) for n in text.strip("[]").split(",") if n not in {"", "?"}]
        return ShapeAttr(None if text == "?" else tuple(None if n < 0 else n for n in sizes))
    if kind == "bool":
        return text == "true"
    return float(text) if kind == "float" else int(text)


@cache
def defaults_of(op: str) -> Mapping[str, Attr] | None:
    """Attribute -> the value its absence means; None for an op thinflow does not know."""
    if op in _table():
        return _table()[op]
    definition = registry.find(op)
    if definition is None:
        return None
    found: dict[str, Attr] = {}
    for function in (definition.infer, definition.kernel, definition.cost):
        if function is not None:
            for name, default in registry.signature(function).attrs.items():
                attr = _as_attr(default)
                if attr is not None:
                    found.setdefault(name, attr)
    return found


def is_required(op: str, name: str, value: Attr) -> bool:
    """True if a node of that op needs the attribute; types always, as rules seldom mention them."""
    definition = registry.find(op)
    defaults = defaults_of(op)
    if definition is None or defaults is None or name in defaults or name.startswith("_"):
        return False
    functions = [f for f in (definition.infer, definition.kernel, definition.cost) if f is not None]
    return isinstance(value, DType) or any(name in registry.signature(f).attrs for f in functions)


def _as_attr(default: Any) -> Attr | None:
    """A Python default as an attribute; None where there is none or it says only "absent"."""
    if default is None or default is inspect.Parameter.empty:
        return None
    if isinstance(default, str):
        return default.encode()
    if isinstance(default, tuple):
        items = [_as_attr(item) for item in default]
        return None if any(item is None for item in items) else tuple(items)  # type: ignore[arg-type]
    return default if isinstance(default, (bool, int, float, bytes, DType)) else None
