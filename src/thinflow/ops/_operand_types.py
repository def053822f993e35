"""Attributes that repeat what an op's inputs are: their types, and how many of them a list has.

They stand in `data/op_types.txt`, made from TensorFlow's registry. TensorFlow reads no graph that lacks one
of them where the op's definition has no default.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from thinflow.ir.attrs import Attr
from thinflow.ir.types import DType


def operand_types(op: str, types: Sequence[DType | None]) -> dict[str, Attr] | None:
    """The attributes that follow from the types of a node's inputs, as far as those are known.

    None for an op that TensorFlow does not have.
    """
    arguments = _table().get(op)
    if arguments is None:
        return None
    found: dict[str, Attr] = {}
    lists = sum("*" in argument for argument in arguments)
    # All lists of an op have the same length: what the other arguments leave, in equal parts.
    length = (len(types) - len(arguments) + lists) // max(lists, 1)
    place = 0
    for argument in arguments:
        count, star, name = argument.rpartition("*")
        taken = types[place : place + (max(length, 0) if star else 1)]
        place += len(taken)
        if count:
            found[count] = len(taken)
        if star and not count:
            if None not in taken:
                found[name] = tuple(t for t in taken if t is not None)
        elif name != "-":
            known = next((t for t in taken if t is not None), None)
            if known is not None:
                found.setdefault(name, known)
    return found


@cache
def _table() -> dict[str, tuple[str, ...]]:
    """Op -> the type attribute of each input."""
    from importlib.resources import files

    text = files("thinflow").joinpath("data/op_types.txt").read_text("utf-8")
    table: dict[str, tuple[str, ...]] = {}
    # Long lines go on below, indented by four.
    for line in text.replace("\n    ", " ").splitlines():
        types, _, ops = line.partition(": ")
        if not line.startswith("#"):
            table.update(dict.fromkeys(ops.split(), tuple(types.split())))
    return table
