"""Formulas that repeat."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from thinflow.decompose.terms import Body, Term
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.function import Function
from thinflow.ir.types import BOOL, INT32, TensorSpec


def repeated(times: int, step: Callable[..., Sequence[Term]], *first: Term) -> list[Term]:
    """Some tensors after so many iterations; `step` gives them as they are after one more.

    Their types and shapes stay. An iteration sees its arguments alone.
    """
    body = first[0].body
    # Two names for each loop, so that those of several loops in one node differ.
    number = len(body.functions)
    types = (INT32, *(t.dtype for t in first))
    names = [f"{body.name}/{part}_{number}" for part in ("condition", "turn")]
    for name, is_step in zip(names, (False, True), strict=True):
        inner = Body(body.name, index=body.index)
        count, *rest = (
            inner.argument(n, s)
            for n, s in enumerate((TensorSpec(INT32, ()), *(t.value.spec for t in first)))
        )
        results = [count + 1, *step(*rest)] if is_step else [count < times]
        arguments = [t.value for t in (count, *rest)]
        body.functions[name] = Function(
            name,
            inner.graph,
            arguments,
            [t.value for t in results],
            input_types=types,
            output_types=types if is_step else (BOOL,),
        )
    start = body.constant(0, INT32)
    _, *last = body.add(
        "StatelessWhile",
        [start.value, *(t.value for t in first)],
        ports=len(types),
        T=types,
        cond=FunctionAttr(names[0], {}),
        body=FunctionAttr(names[1], {}),
    )
    # Shapes of a loop's variables may change in general; here they are known to stay.
    for term, before in zip(last, first, strict=True):
        term.value.spec = before.value.spec
    return last
