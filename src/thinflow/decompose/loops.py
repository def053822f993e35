"""Formulas that repeat: loops, and running totals along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from thinflow.decompose.rules import decompose
from thinflow.decompose.terms import Body, Term, refuse_unless, where
from thinflow.ir.attrs import FunctionAttr
from thinflow.ir.function import Function
from thinflow.ir.types import BOOL, INT32, VARIANT, DType, TensorSpec


def for_loop(times: int, step: Callable[..., Sequence[Term]], *first: Term) -> list[Term]:
    """Some tensors after so many iterations; `step` gives them as they are after one more.

    Their types and shapes stay. An iteration sees its arguments alone.
    """
    state, _, _ = while_loop(times, lambda _, *now: (step(*now), ()), first)
    return state


def while_loop(
    times: int | Term,
    step: Callable[..., tuple[Sequence[Term], Sequence[Term]]],
    state: Sequence[Term],
    fixed: Sequence[Term] = (),
    rows: Sequence[TensorSpec] = (),
    *,
    room: int | None = None,
    goes_on: Callable[..., Term] | None = None,
) -> tuple[list[Term], list[Term], Term]:
    """A state after some iterations, the rows that they gave side by side, and the number of iterations.

    Args:
        times: most iterations, int32; fewer if `goes_on` is false.
        step: from the number of the iteration, the state and what is fixed: the next state, and a row of each
            kind. It sees its arguments alone.
        state: at the start; types and shapes stay.
        rows: type and shape of each kind of row.
        room: rows of each kind in the result, if not `times`: those that no iteration gives are 0.
        goes_on: from the state and what is fixed.
    """
    body = state[0].body
    limit = times if isinstance(times, Term) else body.constant(times, INT32)
    number_of_rows = limit if room is None else body.constant(room, INT32)
    lists = [_reserved(number_of_rows, row) for row in rows]
    # A constant limit is one of the condition itself, which runtimes look at.
    first = [*state, *lists, *fixed, *([limit] if limit.known is None else [])]
    specs = [TensorSpec(INT32, ()), *(t.value.spec for t in first)]
    kinds = [INT32, *(t.dtype for t in first)]
    # Two names for each loop, so that those of several loops in one node differ.
    number, end, end_of_rows = len(body.functions), 1 + len(state), 1 + len(state) + len(rows)
    names = [f"{body.name}/{part}_{number}" for part in ("condition", "turn")]
    for name, is_step in zip(names, (False, True), strict=True):
        inner = Body(body.name, index=body.index)
        arguments = [inner.argument(n, spec) for n, spec in enumerate(specs)]
        count, now, constants = arguments[0], arguments[1:end], arguments[end_of_rows:]
        own = constants[: len(fixed)]
        if is_step:
            after, items = step(count, *now, *own)
            kept = [_with_row(r, count, t) for r, t in zip(arguments[end:end_of_rows], items, strict=True)]
            results = [count + 1, *after, *kept, *constants]
        else:
            below = count < (constants[-1] if limit.known is None else int(limit.known))
            results = [below if goes_on is None else below & goes_on(*now, *own)]
        types = tuple(kinds) if is_step else (BOOL,)
        values = [t.value for t in arguments], [t.value for t in results]
        body.functions[name] = Function(
            name, inner.graph, *values, input_types=tuple(kinds), output_types=types
        )
    count, *last = body.add(
        "StatelessWhile", [t.value for t in (body.constant(0, INT32), *first)], ports=len(kinds),
        T=tuple(kinds), cond=FunctionAttr(names[0], {}), body=FunctionAttr(names[1], {}),
    )  # fmt: skip
    # Shapes of a loop's variables may change in general; here they are known to stay.
    for term, before in zip((count, *last), specs, strict=True):
        term.value.spec = before
    stacks = [_stacked(r, number_of_rows, row) for r, row in zip(last[len(state) :], rows, strict=False)]
    return last[: len(state)], stacks, count


def _element(row: TensorSpec) -> DType:
    assert row.dtype is not None
    return row.dtype


def _sizes(body: Body, row: TensorSpec) -> Term:
    return body.constant([-1 if n is None else n for n in row.shape or ()], INT32)


def _reserved(count: Term, row: TensorSpec) -> Term:
    operands = [_sizes(count.body, row).value, count.value]
    rows = count.body.add("TensorListReserve", operands, element_dtype=_element(row), shape_type=INT32)[0]
    rows.value.spec = TensorSpec(VARIANT, ())
    return rows


def _with_row(rows: Term, number: Term, row: Term) -> Term:
    operands = [rows.value, number.value, row.value]
    return rows.body.add("TensorListSetItem", operands, element_dtype=row.dtype)[0]


def _stacked(rows: Term, count: Term, row: TensorSpec) -> Term:
    known = None if count.known is None else int(count.known)
    operands = [rows.value, _sizes(rows.body, row).value]
    number = -1 if known is None else known
    stack = rows.body.add("TensorListStack", operands, element_dtype=_element(row), num_elements=number)[0]
    stack.value.spec = TensorSpec(row.dtype, (known, *(row.shape or ())))
    return stack


# ---- Running totals along an axis, in as many steps as its length has binary digits.


@decompose("Cumprod")
def cumprod(x: Term, axis: Term, *, exclusive: bool = False, reverse: bool = False) -> Term:
    return _scanned(x, axis, lambda a, b: a * b, 1.0, exclusive=exclusive, reverse=reverse)


@decompose("CumulativeLogsumexp")
def cumulative_logsumexp(x: Term, axis: Term, *, exclusive: bool = False, reverse: bool = False) -> Term:
    return _scanned(x, axis, _log_of_sum, -np.inf, exclusive=exclusive, reverse=reverse)


def _log_of_sum(a: Term, b: Term) -> Term:
    """log(e^a + e^b); of infinities the larger."""
    largest = a.maximum(b)
    is_finite = largest.abs() < np.inf
    # -inf less -inf would be NaN.
    distance = where(is_finite, a.minimum(b) - largest, 0.0)
    return where(is_finite, largest + (distance.apply("Exp") + 1.0).log(), largest)


def _scanned(
    x: Term,
    axis: Term,
    total: Callable[[Term, Term], Term],
    nothing: float,
    *,
    exclusive: bool,
    reverse: bool,
) -> Term:
    """y[i] = total of x[..i], each step over twice as many elements as the one before."""
    refuse_unless(x.dtype.kind in "iuf", f"it has no form for {x.dtype}")
    refuse_unless(axis.known is not None, "its axis is computed while the model runs")
    assert axis.known is not None
    where_ = int(axis.known) % len(x.shape)
    size = x.static_size(where_, "the length of its axis")
    refuse_unless(size > 0, "its axis is empty")
    y = x.reverse(where_) if reverse else x
    if exclusive:
        y = _later(y, where_, 1, nothing)
    # After a step of s each element is the total of 2 s (Hillis and Steele).
    for step in (1 << n for n in range((size - 1).bit_length())):
        y = total(y, _later(y, where_, step, nothing))
    return y.reverse(where_) if reverse else y


def _later(x: Term, axis: int, step: int, nothing: float) -> Term:
    """The elements some indices later on an axis, behind elements that add nothing."""
    pads = [(step if a == axis else 0, 0) for a in range(len(x.shape))]
    size = x.static_size(axis, "the length of its axis")
    # Cut behind, as runtimes have no slices without elements.
    return x.pad(pads, nothing).cut(axis, 0, size)
