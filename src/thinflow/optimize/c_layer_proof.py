"""Layers beside each other: a network whose operators each have inputs of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from thinflow.ir.types import FLOAT, dtype
from thinflow.lower.c.flow import BRANCH, EFFECTS, LOOP
from thinflow.lower.c.pictures import PICTURE, parts_of
from thinflow.lower.c.settle import SIZED
from thinflow.lower.c.sound import FEATURES, hears
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor

_MOST_ENDS = 1000
"""Inputs and outputs of one program: its C takes a pointer for each, and ctypes passes no more than 1024."""

_TOLD = {
    LOOP: "WHILE",
    BRANCH: "IF",
    "READ_VARIABLE": "READ_VARIABLE",
    "ASSIGN_VARIABLE": "ASSIGN_VARIABLE",
}
"""What runs other operators, or has something to do with other runs, by LiteRT's names."""


class Part(NamedTuple):
    """Operators beside each other.

    Attributes:
        program: of them.
        sources: what its inputs and outputs are in the block that they are from.
    """

    program: Program
    sources: dict[Tensor, Tensor]


def side_by_side(block: Subgraph) -> Iterator[Part]:
    """The operators of a block, none of which reads what another one computes, in as few programs as can be.

    Where reals that are computed become bytes, the last bit of one decides a whole step of the other: two
    ways of adding up the same numbers part there, and all that follows with them. Layer by layer they do not.

    Args:
        block: sizes known. What `left_out` tells is not among them.
    """
    part, sources = Subgraph([], [], []), dict[Tensor, Tensor]()
    for number, operator in enumerate(block.operators):
        read = list(operator.reads())
        if operator.code in EFFECTS or operator.code in _TOLD or not read:
            continue
        if operator.code in SIZED and operator.inputs[SIZED[operator.code][0] :][:1] in ([], [None]):
            # Whoever settled the sizes took what tells them; what only has other sizes is left out.
            if operator.code != "TRANSPOSE_CONV":
                continue
            operator = replace(operator, inputs=[_sizes(operator.outputs[0]), *operator.inputs[1:]])
        fed = {t: replace(t, name=f"{number}/{t.name}") for t in dict.fromkeys(read) if not t.is_constant}
        if hears(operator):
            # LiteRT hears floats; that samples come as integers is chosen anew.
            fed = {t: replace(f, dtype=FLOAT, quantization=None) for t, f in fed.items()}
        # The states of a recurrent operator are its own: they begin as in the file, and last from run to run.
        states = {t: fed.pop(t) for t in [*fed] if t.is_variable}
        made = [replace(t, name=f"{number}/made/{t.name}") for t in operator.outputs]
        given = [None if t is None else states.get(t, fed.get(t, t)) for t in operator.inputs]
        if len(part.inputs) + len(part.outputs) + len(fed) + len(made) > _MOST_ENDS:
            yield Part(Program([part]), sources)
            part, sources = Subgraph([], [], []), {}
        part.operators += _as_in_files(replace(operator, inputs=given, outputs=made))
        part.inputs += fed.values()
        part.outputs += made
        sources |= {new: old for old, new in fed.items()}
        sources |= dict(zip(made, operator.outputs, strict=True))
    if part.operators:
        yield Part(Program([part]), sources)


def left_out(block: Subgraph) -> str:
    """What of a block cannot stand by itself, by LiteRT's names: "2 WHILE, 1 READ_VARIABLE"; "" if all can.

    The operators inside of loops and branches can.
    """
    found = Counter(_TOLD[o.code] for o in block.operators if o.code in _TOLD)
    return ", ".join(f"{count} {code}" for code, count in found.items())


def _as_in_files(operator: Operator) -> list[Operator]:
    """The operators that LiteRT knows of what only C has as one."""
    if operator.code == PICTURE:
        return parts_of(operator)
    if operator.custom_code != FEATURES:
        return [operator]
    first, second = operator.options["first"], operator.options["second"]
    between = [replace(t, name=f"{operator.outputs[0].name}/{t.name}") for t in first.outputs]
    return [
        replace(first, inputs=operator.inputs[:1], outputs=between),
        replace(second, inputs=[between[0], operator.inputs[1]], outputs=operator.outputs),
    ]


def _sizes(y: Tensor) -> Tensor:
    """A constant with the sizes of a tensor."""
    shape = np.array([n or 0 for n in y.shape or ()], np.int32)
    return Tensor(f"{y.name}/sizes", shape.shape, dtype("int32"), shape)
