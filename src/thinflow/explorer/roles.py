"""What each input of an op is for, as the definitions of its vocabulary name it: filter, bias, axis.

They stand in `data/input_roles.txt`. Of ops whose inputs are all alike, or which have one, nothing is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from thinflow.analysis.foreign import operands
from thinflow.ir.graph import Node
from thinflow.ir.vocabulary import LITERT, ONNX


def input_roles(node: Node) -> tuple[str, ...]:
    """Names of what an op reads, in the order of the node's inputs; () where no definition is known."""
    words = next((v for v in (LITERT, ONNX) if node.op.startswith(v.prefix)), None)
    table = tables()["tensorflow" if words is None else words.name]
    roles = table.get(node.op if words is None else node.op.removeprefix(words.prefix), ())
    return spread(roles, operands(node, range(len(node.inputs)))) if roles else ()


@cache
def tables() -> dict[str, dict[str, tuple[str, ...]]]:
    """By vocabulary and op, its roles; one that ends in `*` stands for any number of inputs."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    text = files("thinflow").joinpath("data/input_roles.txt").read_text("utf-8")
    # A line that begins with a blank goes on with the one before.
    for line in text.replace("\n ", " ").splitlines():
        if line.startswith("["):
            table = found[line.strip("[]")] = {}
        elif not line.startswith("#"):
            ops, _, roles = line.partition(":")
            table.update(dict.fromkeys(ops.split(), tuple(roles.split())))
    return found


def spread(roles: Sequence[str], places: Sequence[int | None]) -> tuple[str, ...]:
    """The roles at the places that are there, with a number where one stands for several; "" past the end."""
    star = next((i for i, role in enumerate(roles) if role.endswith("*")), None)
    if star is None:
        named = [*roles, *[""] * len(places)]
    else:
        many = max(0, len(places) - len(roles) + 1)
        several = [f"{roles[star][:-1]} {number}" for number in range(many)]
        named = [*roles[:star], *several, *roles[star + 1 :]]
    return tuple(role for role, place in zip(named, places, strict=False) if place is not None)
