"""Plans: an op on other axes, as inputs, attributes and the transpose that its result needs.

With y = transpose(x, p), axis i of y is axis p[i] of x. A plan makes op(y) out of op'(x).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import Shape
from thinflow.rewrite.pattern import constant_tensor
from thinflow.typing import Array

Perm = tuple[int, ...]
NewConstant = tuple[Array, Value, str]
"""A constant to make: its content, the constant it stands for, and a name."""


class InShape(NamedTuple):
    """A value to reshape; one size may be -1."""

    value: Value
    shape: tuple[int, ...]


Input = Value | NewConstant | InShape


class Fold(NamedTuple):
    """A constant whose elements along an axis are to lie in another order, for one reader."""

    node: Node
    input: int
    axis: int
    order: Sequence[int]


@dataclass
class Plan:
    """Inputs and attributes of a node that works on other axes.

    Attributes:
        perm: transposes what comes out into what came out before.
        inputs: values, or constants and shapes to make.
        attrs: those that change.
        ports: the outputs to transpose; none if the result is the same.
        lists_sizes: what comes out has an element for each axis, and the elements are to be moved.
        folds: constants of other nodes that change along with this one.
        swaps: the inputs, of which there are two, change places in the end.
    """

    perm: Perm
    inputs: list[Input]
    attrs: dict[str, Attr] = field(default_factory=dict)
    ports: tuple[int, ...] = (0,)
    lists_sizes: bool = False
    folds: tuple[Fold, ...] = ()
    swaps: bool = False


Rule = Callable[[Node, Perm, Mapping[int, Value]], Plan | None]


def inverse(perm: Perm) -> Perm:
    """The permutation that undoes another."""
    return tuple(perm.index(axis) for axis in range(len(perm)))


def permuted(shape: Shape, perm: Perm) -> Shape:
    """The shape of a transposed tensor."""
    return None if shape is None or len(shape) != len(perm) else tuple(shape[axis] for axis in perm)


def constant_ints(value: Value) -> tuple[int, ...] | None:
    """The elements of a constant of integers; None for another value."""
    tensor = constant_tensor(value)
    if tensor is None or not tensor.dtype.is_integer:
        return None
    return tuple(int(n) for n in tensor.numpy().reshape(-1))


def data_only(node: Node, perm: Perm, raw: Mapping[int, Value]) -> list[Input] | None:
    """The inputs with the transpose in front of input 0 left out; None if there are others."""
    return [raw[0], *node.inputs[1:]] if set(raw) == {0} else None


def all_moved(
    node: Node, perm: Perm, raw: Mapping[int, Value], others: Mapping[int, Input]
) -> list[Input] | None:
    """The inputs of an op whose operands were all transposed alike, or are constants of their rank; None if
    one is neither.

    Args:
        node, perm, raw: as for every rule.
        others: input number -> what stands there in any case.
    """
    inputs: list[Input] = []
    for index, value in enumerate(node.inputs):
        tensor = constant_tensor(value)
        if index in others:
            inputs.append(others[index])
        elif index in raw:
            inputs.append(raw[index])
        elif tensor is not None and len(tensor.shape) == len(perm):
            inputs.append((moved_constant(tensor.numpy(), perm), value, f"input{index}"))
        else:
            return None
    return inputs


def moved_axis(axis: int, perm: Perm) -> int | None:
    """The axis of x that is an axis of transpose(x, perm), which may count from the end; None for none."""
    return perm[axis % len(perm)] if -len(perm) <= axis < len(perm) else None


def as_constant(content: Any, value: Value, name: str) -> NewConstant:
    """Other numbers in the type and the shape of a constant."""
    tensor = constant_tensor(value)
    assert tensor is not None
    return np.asarray(content, tensor.numpy().dtype).reshape(tensor.shape), value, name


def moved_constant(array: Array, perm: Perm) -> Array:
    """A constant that broadcasts against transpose(x, perm), as it broadcasts against x."""
    # Broadcasting aligns at the end, so missing axes are put in front before they are moved.
    whole = array.reshape((1,) * (len(perm) - array.ndim) + array.shape)
    # Constants stand in y's order; back to that of x leads the inverse permutation.
    return np.ascontiguousarray(np.transpose(whole, inverse(perm)))


def with_axis(order: Iterable[int], axis: int) -> list[int]:
    """Axes in the order of memory with one more, right behind the axis before it by number."""
    result = list(order)
    result.insert(0 if axis == 0 else result.index(axis - 1) + 1, axis)
    return result


def transposed_back(
    perm: Perm, inputs: list[Input], attrs: dict[str, Attr] | None = None, ports: tuple[int, ...] = (0,)
) -> Plan:
    """A plan whose results are left as they are if nothing would be moved."""
    return Plan(perm, inputs, attrs or {}, ports=() if perm == tuple(range(len(perm))) else ports)


def without(
    perm: Perm,
    gone: Sequence[int],
    inputs: list[Input],
    attrs: dict[str, Attr],
    ports: tuple[int, ...] = (0,),
) -> Plan:
    """A plan for an op that drops axes of x."""
    left = [axis for axis in range(len(perm)) if axis not in gone]
    # Axes of y that are left, as places among the axes of x that are left.
    rest = tuple(left.index(axis) for axis in perm if axis not in gone)
    return transposed_back(rest, inputs, attrs, ports)
