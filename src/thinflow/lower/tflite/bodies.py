"""Subgraphs under construction, and the values that go in and out of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import BOOL, INT32, shape_text
from thinflow.lower.slots import Complex, Listed, like
from thinflow.lower.tflite import kernels
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.counters import merge_comparisons, replace_tensors, twin_counters
from thinflow.lower.tflite.lists import LISTS, Slot, items_of
from thinflow.tflite import schema
from thinflow.tflite.model import Operator, Subgraph, Tensor


@dataclass
class Body:
    """A subgraph under construction, with its arguments and results as values of their own."""

    subgraph: Subgraph
    builder: Builder
    arguments: list[Slot]
    results: list[Slot]

    def reads(self) -> set[Tensor]:
        """The tensors that its operators read, and those that go through it under another number."""
        read = {t for o in self.subgraph.operators for t in o.inputs if t is not None}
        for number, result in enumerate(self.results):
            # A variable that is handed on as it came is not read; under another number it is.
            same = number < len(self.arguments) and result is self.arguments[number]
            if not same and isinstance(tensor := tensor_of(result), Tensor):
                read.add(tensor)
        return read


def numbered(main: Subgraph, subgraphs: Sequence[Subgraph]) -> list[Subgraph]:
    """The subgraphs that are called, `main` first; the options of the calling operators are put right."""
    found = [main]
    numbers: dict[int, int] = {}
    for subgraph in found:  # grows on the way
        for operator in subgraph.operators:
            for option in [o for o in operator.options if o in schema.SUBGRAPH_OPTIONS]:
                old = operator.options[option]
                # Numbers in options are those of `subgraphs`, from 1 on. What no operator calls any
                # more gets none and is left out.
                if old not in numbers:
                    numbers[old] = len(found)
                    found.append(subgraphs[old - 1])
                operator.options[option] = numbers[old]
    return found


def called_by(main: Subgraph, subgraphs: Sequence[Subgraph]) -> list[Subgraph]:
    """The subgraphs that `main` calls, also through others; `numbered` has not put numbers right yet."""
    found: dict[int, Subgraph] = {}
    stack = [main]
    while stack:
        for operator in stack.pop().operators:
            for number in (n for o, n in operator.options.items() if o in schema.SUBGRAPH_OPTIONS):
                if number not in found:
                    found[number] = subgraphs[number - 1]
                    stack.append(found[number])
    return list(found.values())


def without_twins(
    slots: Sequence[Slot], fixed: Sequence[bool], test: Body, iteration: Body, decision: Tensor
) -> tuple[dict[int, int], Tensor]:
    """Variable -> an earlier one that nobody reads it beside any more, and what decides then."""
    # Only counters that start with a constant can be told to start alike.
    starts = [
        s if isinstance(s, Tensor) and s.is_constant and not keep else None
        for s, keep in zip(slots, fixed, strict=True)
    ]
    arguments, results = ([tensor_of(s) for s in side] for side in (iteration.arguments, iteration.results))
    twins = twin_counters(starts, arguments, results, iteration.subgraph)
    for body in (test, iteration):
        # In both subgraphs, each with arguments of its own for the same variable.
        by = {
            late: early
            for n, m in twins.items()
            if (late := tensor_of(body.arguments[n])) and (early := tensor_of(body.arguments[m]))
        }
        replace_tensors(body.builder.operators, by)
        body.results = [by.get(r, r) if isinstance(r, Tensor) else r for r in body.results]
        decision = by.get(decision, decision)
    if twins:
        decision = merge_comparisons(test.builder.operators, decision)
    return twins, decision


def stored(body: Body, number: int) -> Tensor:
    """The tensor that holds a result of a subgraph."""
    slot = body.results[number]
    return slot if isinstance(slot, Tensor) else items_of(body.builder, LISTS.list_of(slot))


# ---- Values that go in and out of subgraphs: tensors, and lists as the tensors that hold their items.


def is_constant(slot: Slot) -> bool:
    """True for a constant tensor."""
    return isinstance(slot, Tensor) and slot.is_constant


def tensor_of(slot: Slot) -> Tensor | None:
    """The tensor that holds a value; None for a list in which nothing was set."""
    if isinstance(slot, Complex):
        raise UnsupportedOp("LiteRT has no tensor of complex numbers that were computed")
    return slot.tensor if isinstance(slot, Listed) else slot


def filled(slot: Slot, builder: Builder) -> Slot:
    """A list in which nothing was set, with its zeros if their shape is known."""
    is_empty = isinstance(slot, Listed) and slot.tensor is None
    if not is_empty or slot.shape is None or None in slot.shape:
        return slot
    return slot.with_tensor(items_of(builder, slot)) if isinstance(slot, Listed) else slot


def described(slot: Slot, form: Slot) -> Slot:
    """A list with what is known of its items by now."""
    if isinstance(slot, Listed) and isinstance(form, Listed) and slot.tensor is None:
        return replace(slot, shape=form.shape)
    return slot


def argument_of(form: Slot, builder: Builder, number: int) -> Slot:
    """An argument as it stands inside of a subgraph."""
    tensor = tensor_of(form)
    if tensor is None:
        return form
    # A tensor belongs to one subgraph: the argument gets its own, with the same data if it is constant.
    own = Tensor(builder.unique(tensor.name or f"argument{number}"), tensor.shape, tensor.dtype, tensor.data)
    return like(form, own)


def truth(b: Builder, slot: Slot) -> Tensor:
    """A decision as bool []."""
    if not isinstance(slot, Tensor):
        raise UnsupportedOp("a list decides")
    if slot.shape is None or any(n != 1 for n in slot.shape):
        raise UnsupportedOp(f"what decides has shape {shape_text(slot.shape)}; LiteRT wants a scalar")
    if slot.shape != ():
        raise UnsupportedOp("what decides is a vector, which TensorFlow takes for true whatever it holds")
    if slot.dtype is BOOL:
        return slot
    return b.step("NOT_EQUAL", slot, b.scalar(0, slot), shape=(), element=BOOL)


def separate_outputs(subgraph: Subgraph) -> None:
    """Give each output a tensor of its own, unless it is the input of the same number.

    LiteRT copies results one by one into the inputs of the next iteration, which others may be read from.
    """
    written = {t for operator in subgraph.operators for t in operator.outputs}
    settled = _settled(subgraph)
    taken: set[Tensor] = set()
    for number, tensor in enumerate(subgraph.outputs):
        # A variable that does not change may be handed on as it is.
        same = number < len(subgraph.inputs) and subgraph.inputs[number] is tensor
        if tensor.is_constant:
            # A RESHAPE of a constant scalar in a subgraph makes LiteRT write where it should not.
            subgraph.outputs[number] = Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.data)
        elif not same and (tensor not in written or tensor in taken):
            subgraph.outputs[number] = tensor = copied(subgraph, tensor, f"{tensor.name}/copy")
        elif tensor in settled:
            subgraph.outputs[number] = tensor = _fresh(subgraph, tensor)
        taken.add(tensor)


def _settled(subgraph: Subgraph) -> set[Tensor]:
    """Tensors that depend on sizes alone. LiteRT computes them ahead, yet frees them where they leave."""
    settled: set[Tensor] = set()
    for operator in subgraph.operators:
        read = [t for t in operator.inputs if t is not None]
        # SHAPE is computed ahead even if its input is not: from sizes that are known when tensors are
        # allocated.
        if operator.code in {"SHAPE", "RANK"} or all(t.is_constant or t in settled for t in read):
            settled.update(operator.outputs)
    return settled


def _fresh(subgraph: Subgraph, tensor: Tensor) -> Tensor:
    """A copy by a kernel that never runs ahead, as that of RESHAPE does."""
    code = "LOGICAL_OR" if tensor.dtype is BOOL else "MAXIMUM"
    fresh = Tensor(f"{tensor.name}/copy", tensor.shape, tensor.dtype)
    kernels.check(code, [tensor, tensor], [fresh])
    subgraph.operators.append(Operator(code, [tensor, tensor], [fresh], origin=fresh.name))
    return fresh


def copied(subgraph: Subgraph, tensor: Tensor, name: str) -> Tensor:
    """A copy of a tensor, made at the end of a subgraph by a RESHAPE to its own shape."""
    copy = Tensor(name, tensor.shape, tensor.dtype)
    operands: list[Tensor | None] = [tensor]
    options: dict[str, Any] = {}
    shape = tensor.shape
    # LiteRT takes an empty shape tensor for none; new_shape [0] means a scalar.
    if shape == ():
        options["new_shape"] = (0,)
    elif shape is not None and shape.count(None) <= 1:
        sizes = np.array([-1 if n is None else n for n in shape], np.int32)
        operands.append(Tensor(f"{name}/shape", sizes.shape, INT32, sizes))
    else:
        rank = None if shape is None else (len(shape),)
        sizes_now = Tensor(f"{name}/shape", rank, INT32)
        subgraph.operators.append(Operator("SHAPE", [tensor], [sizes_now], {"out_type": INT32}, origin=name))
        operands.append(sizes_now)
    subgraph.operators.append(Operator("RESHAPE", operands, [copy], options, origin=name))
    return copy
