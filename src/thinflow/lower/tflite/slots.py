"""Values that go in and out of subgraphs: tensors, and lists as the tensors that hold their items."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import BOOL, INT32, shape_text
from thinflow.lower.slots import Complex, Listed, like
from thinflow.lower.tflite import kernels
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.lists import Slot, items_of
from thinflow.lower.tflite.program import Operator, Subgraph, Tensor


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

    LiteRT copies results one by one into the inputs of the next turn, which may be what others are read from.
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
        # SHAPE is computed ahead even if its input is not: from sizes that are
        # known when tensors are allocated.
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
