"""Arguments of one op of an exported PyTorch program: operands with their names, and options."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thinflow.errors import UnsupportedOp
from thinflow.formats._json_fields import (
    Object,
    as_bool,
    as_float,
    as_int,
    as_list,
    as_object,
    as_text,
    only_field,
)
from thinflow.formats._pt2_archive import element_type
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Value
from thinflow.ir.types import DType

_MOST_NAME = 80
_PLACES = frozenset({"device", "pin_memory", "memory_format", "non_blocking"})
"""Arguments that say where and how a tensor lies in memory."""
_STRIDED = 7


class Arguments:
    """Arguments of one op.

    Args:
        value: of a tensor or symbolic number by its name.
        body: from the name and the content of a graph that the op calls, what stands for it in the library.

    Attributes:
        names, values: of the operands; `tensor_names` of those that are tensors, as the program calls them.
        attrs: the options.
    """

    def __init__(self, value: Callable[[str], Value], body: Callable[[str, Object], Attr]) -> None:
        self._value, self._body = value, body
        self.names: list[str] = []
        self.tensor_names: list[str] = []
        self.values: list[Value] = []
        self.attrs: dict[str, Attr] = {}

    def add(self, name: str, kind: str, content: object) -> None:
        """One argument by its name in ATen's schema.

        Raises:
            UnsupportedOp: it is of a kind that a graph cannot hold.
        """
        if kind == "as_none" or name in _PLACES:
            return
        what = f"its argument '{name}'"
        if kind in _PLAIN:
            self.attrs[name] = _PLAIN[kind](content, what)
        elif kind in _LISTS:
            self.attrs[name] = tuple(_LISTS[kind](c, what) for c in as_list(content, what))
        elif kind in ("as_tensor", "as_optional_tensor", *_SYMBOLIC):
            number = self._entry(name, kind, content)
            if number is not None:
                self.attrs[name] = number
        elif kind in ("as_tensors", "as_optional_tensors"):
            each = [self._entry(f"{name}.{n}", kind[:-1], c) for n, c in enumerate(as_list(content, what))]
            self.attrs[name] = len(each)
        elif kind in _SYMBOLIC_LISTS:
            numbers = [self._entry(f"{name}.{n}", kind[:-1], c) for n, c in enumerate(as_list(content, what))]
            self.attrs[name] = tuple(0 if n is None else n for n in numbers)
        elif kind == "as_layout" and content == _STRIDED:
            return
        elif kind == "as_graph":
            graph = as_object(content, what)
            self.attrs[name] = self._body(
                as_text(graph.get("name"), what), as_object(graph.get("graph"), what)
            )
        else:
            raise impossible(f"{what} is", kind)

    def _entry(self, name: str, kind: str, content: object) -> int | float | bool | None:
        """A number that is known; None for an operand, which is noted, and for none at all."""
        what = f"its argument '{name}'"
        if kind == "as_optional_tensor":
            sub, inner = only_field(content, what)
            if sub == "as_none":
                return None
            content = inner
        elif kind in _SYMBOLIC:
            sub, inner = only_field(content, what)
            if sub in _PLAIN:
                number = _PLAIN[sub](inner, what)
                return number if isinstance(number, int | float) else None
            content = {"name": inner}
        else:
            self.tensor_names.append(str(as_object(content, what).get("name")))
        self._read(name, as_text(as_object(content, what).get("name"), what))
        return None

    def _read(self, name: str, source: str) -> None:
        self.names.append(name)
        self.values.append(self._value(source))


def impossible(what: str, kind: str) -> UnsupportedOp:
    """The error for something of a kind that has no place in a graph."""
    return UnsupportedOp(f"{what} of the kind '{kind[:_MOST_NAME]}', which cannot be in a graph")


def _bytes(value: object, what: str) -> bytes:
    return as_text(value, what).encode()


def _type(value: object, what: str) -> DType:
    del what
    return element_type(value)


_Read = Callable[[object, str], bytes | int | float | DType]
_PLAIN: Mapping[str, _Read] = {
    "as_int": as_int,
    "as_float": as_float,
    "as_bool": as_bool,
    "as_string": _bytes,
    "as_scalar_type": _type,
}
_LISTS: Mapping[str, _Read] = {
    "as_ints": as_int,
    "as_floats": as_float,
    "as_bools": as_bool,
    "as_strings": _bytes,
}
_SYMBOLIC = ("as_sym_int", "as_sym_float", "as_sym_bool")
_SYMBOLIC_LISTS = ("as_sym_ints", "as_sym_floats", "as_sym_bools")
