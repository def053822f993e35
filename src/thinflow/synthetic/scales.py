"""Made-up numbers of which a graph computes how large pictures become.

A detector that looks at a picture in many sizes takes the smallest face, by which it divides, and the factor
from one size to the next. Numbers from -1 to 1 make pictures of a hundred thousand rows of those, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.graph import Use, Value, library_of
from thinflow.ops.traits import Role, Trait, has
from thinflow.synthetic.integers import role_of
from thinflow.typing import Array

_LENGTHS = (16.0, 32.0)
"""What sizes are divided by: pixels of the smallest thing that is looked for."""
_FACTORS = (0.5, 0.8)
"""What sizes are multiplied by: loops that do so until little is left come to an end."""
_MADE_OF = (
    Trait.ELEMENTWISE | Trait.CAST | Trait.PASSES_THROUGH | Trait.RESHAPE | Trait.REARRANGES | Trait.STACK
    | Trait.CONCAT | Trait.ENTER | Trait.EXIT | Trait.NEXT_ITERATION | Trait.SWITCH | Trait.MERGE
)  # fmt: skip
"""Ops that make numbers of numbers, or hand them on."""
_CALLS = Trait.WHILE | Trait.IF | Trait.CALL


def scales_for(value: Value, shape: Sequence[int], rng: np.random.Generator) -> Array | None:
    """Numbers for a float input of which sizes of pictures are made; None if it is anything else."""
    # Pictures and weights are no scales, and what is made of them is long.
    if len(shape) > 1:
        return None
    divides = _divides_sizes(value)
    return None if divides is None else rng.uniform(*(_LENGTHS if divides else _FACTORS), tuple(shape))


def _divides_sizes(value: Value) -> bool | None:
    """Whether the sizes of pictures that are made of a value are divided by it; None if none are."""
    pending, seen = [(value, False)], {value}
    returned: dict[Value, list[Value]] = {}
    while pending:
        made, divides = pending.pop()
        follow = [(v, divides) for v in returned.get(made, ())]
        for use in made.uses:
            if role_of(use) is Role.SIDES:
                return divides
            # The quotient gets smaller as the divisor gets larger; two quotients turn that back.
            is_divisor = use.index == 1 and has(use.node.op, Trait.HAS_DIVISOR)
            follow += [(v, divides != is_divisor) for v in _made_of(use, returned)]
        fresh = [pair for pair in follow if pair[0] not in seen]
        seen.update(v for v, _ in fresh)
        pending += fresh
    return None


def _made_of(use: Use, returned: dict[Value, list[Value]]) -> Iterator[Value]:
    """The values that are made of one where it is used; of a call the function's, noting what it returns."""
    node = use.node
    if has(node.op, _MADE_OF):
        yield from node.outputs
    if not has(node.op, _CALLS):
        return
    functions: Mapping[str, object] = library_of(node)
    called = [a.name for a in node.attrs.values() if isinstance(a, FunctionAttr) and a.name in functions]
    for function in (library_of(node)[name] for name in called):
        # The condition of a branch is no argument of what it calls.
        place = use.index - (1 if has(node.op, Trait.IF) else 0)
        if not 0 <= place < len(function.inputs):
            continue
        again = function.inputs if has(node.op, Trait.WHILE) else ()
        for port, result in enumerate(function.outputs):
            returned.setdefault(result, []).extend([node.output(port), *again[port : port + 1]])
        yield function.inputs[place]
