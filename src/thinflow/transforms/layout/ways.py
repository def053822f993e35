"""The ways in which a node can work: with axes as they are, or with those of operands in another order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import combinations

from thinflow.ir.graph import Node, Value
from thinflow.ir.types import FLOAT
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import constant_tensor
from thinflow.transforms.layout import axes, views
from thinflow.transforms.layout.plans import Perm, Plan, inverse, with_axis
from thinflow.transforms.layout.views import product, reshape_before


def plan_for(node: Node, perm: Perm, raw: Mapping[int, Value]) -> Plan | None:
    """The plan by which a node works on the inputs before they were transposed; None if it cannot.

    Args:
        node: reads transposes.
        perm: theirs.
        raw: input number -> what that transpose reads.
    """
    rules = (*axes.RULES.of(node.op), *views.RULES.of(node.op))
    return next((rule(node, perm, raw) for rule in rules), None)


@dataclass(frozen=True)
class Way:
    """A way of working.

    Attributes:
        reads: input number -> what transposes that input of the plan into the node's own.
        gives: output number -> what transposes that output into the node's own.
        plan: with the node's own inputs in place of those to be transposed.
    """

    reads: Mapping[int, Perm]
    gives: Mapping[int, Perm]
    plan: Plan = field(compare=False)


def reading(node: Node, index: int, perm: Perm) -> Way | None:
    """The way in which a node reads an input before a transpose; None if there is none."""
    value = node.inputs[index]
    if value.spec.rank != len(perm) or constant_tensor(value) is not None:
        return None
    if has(node.op, Trait.MATMUL):
        return _product_reading(node, index, perm)
    alike = [
        i
        for i, other in enumerate(node.inputs)
        if i == index or (other.spec.rank == len(perm) and constant_tensor(other) is None)
    ]
    # The indices of a gather and such may be of the same rank; then only the operand itself moves.
    for group in (alike, [index]) if len(alike) > 1 else (alike,):
        plan = plan_for(node, perm, {i: node.inputs[i] for i in group})
        if plan is not None:
            return Way(dict.fromkeys(group, perm), _gives(plan), plan)
    return None


def giving(node: Node, port: int, perm: Perm) -> Way | None:
    """The way in which a node gives an output that only lacks a transpose; None if there is none."""
    if node.op == "Reshape":
        found = reshape_before(node, perm)
        return None if found is None else Way({0: found[0]}, _gives(found[1]), found[1])
    if has(node.op, Trait.MATMUL) and perm[-2:] == (len(perm) - 1, len(perm) - 2):
        return _product_transposed(node, perm)
    for index, value in enumerate(node.inputs):
        rank = value.spec.rank
        if rank is None or constant_tensor(value) is not None:
            continue
        for order in _orders_before(perm, rank):
            way = reading(node, index, order)
            if way is not None and way.gives.get(port, tuple(range(len(perm)))) == perm:
                return way
    return None


def _gives(plan: Plan) -> dict[int, Perm]:
    # Sizes in another order are picked out of a vector: that is no matter of layout.
    return {} if plan.lists_sizes else dict.fromkeys(plan.ports, plan.perm)


def _product_reading(node: Node, index: int, perm: Perm) -> Way | None:
    """One operand of a product in another order; the axes in front of the other's matrices follow it."""
    count = len(perm)
    perms = {index: perm}
    other = node.inputs[1 - index]
    if other.spec.rank == count and constant_tensor(other) is None:
        perms[1 - index] = (*perm[:-2], count - 2, count - 1)
    plan = product(node, perms) if len(node.inputs) == 2 and count > 2 else None
    return None if plan is None else Way(perms, _gives(plan), plan)


def _product_transposed(node: Node, perm: Perm) -> Way | None:
    """A product of matrices whose result is transposed: (x y)^T = y^T x^T."""
    count = len(perm)
    natural = (*perm[:-2], count - 2, count - 1)
    whole = [i for i, v in enumerate(node.inputs) if v.spec.rank == count and constant_tensor(v) is None]
    # Of complex numbers it takes the conjugate, too.
    if count < 3 or len(whole) != 2 or any(v.dtype is not FLOAT for v in node.inputs):
        return None
    perms = dict.fromkeys(whole, natural)
    plan = product(node, perms)
    if plan is None:
        return None
    attrs = {"adj_x": not node.get("adj_y", False), "adj_y": not node.get("adj_x", False)}
    plan = replace(plan, perm=perm, attrs={**plan.attrs, **attrs}, ports=(0,), swaps=True)
    return Way(perms, _gives(plan), plan)


def _orders_before(perm: Perm, rank: int) -> Iterator[Perm]:
    """What may transpose an input if an output is transposed; for any axes dropped, or added."""
    order, more = list(inverse(perm)), rank - len(perm)
    if more >= 0:
        for gone in combinations(range(rank), more):
            left = [axis for axis in range(rank) if axis not in gone]
            whole = [left[axis] for axis in order]
            for axis in gone:
                whole = with_axis(whole, axis)
            yield inverse(tuple(whole))
        return
    for new in combinations(range(len(perm)), -more):
        old = [axis for axis in range(len(perm)) if axis not in new]
        yield inverse(tuple(old.index(axis) for axis in order if axis not in new))
