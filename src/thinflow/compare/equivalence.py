"""Proves that two versions of a graph compute the same, piece by piece, without running either as a whole.

Every value gets a number; equal numbers mean equal values. Inputs and untouched constants are numbered by
what they are, constant expressions by their result, pass-through ops by what they pass, everything else by
op, attributes and the numbers of its inputs. Where the two graphs have a value of the same name and different
numbers, both cones above it, back to values that are equal already, are run on random numbers. If they agree,
the two values get one number, and the walk goes on below.

This is how hardware designs are compared (SAT sweeping), with random numbers in place of the solver. Against
running the whole graph it has three advantages: rounding errors do not pile up through the layers, so the
tolerance can be tight; a convolution is judged on a few pixels instead of a whole picture; and what differs
has a name.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.compare.differences import allowed, difference
from thinflow.engines._threads import blas
from thinflow.errors import NodeError, ThinflowError
from thinflow.interpreter import run_node
from thinflow.ir.attrs import attr_key
from thinflow.ir.brief import brief_repr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.interface import counterparts
from thinflow.ir.order import MERGES, NEXT_ITERATIONS, execution_order
from thinflow.ir.types import TensorSpec
from thinflow.ops import registry
from thinflow.ops._defaults import defaults_of
from thinflow.ops.random import repeatable_randomness
from thinflow.ops.traits import Trait, commutes, has
from thinflow.typing import Array

SMALL_CONSTANT = 4096
"""Elements up to which constants are compared by content; larger ones are equal only if they are one object.
"""
LARGEST_CONE = 96
"""Nodes; beyond that running the whole graph is simpler."""
PIXELS = 7
"""Height and width to which pictures between nodes are cut for a cone."""
MAGNITUDES = np.array([1, 10], np.float32)
"""Random numbers are drawn from -m to m, m being one of these for every number by itself."""
POOL = 1 << 18
"""Random numbers drawn ahead; a tensor takes a stretch of them, a large one several."""
_STRIDE = 40503
"""From one stretch to the start of the next; odd, so that no start comes again before all others have."""
_ANNOTATIONS = frozenset({"_output_shapes", "_class", "dtype"})


@brief_repr
@dataclass
class Proof:
    """Result of the comparison.

    Attributes:
        equal: whether every output is proven equal.
        worst: largest relative difference of any cone that was run.
        cones: how many were run.
        unproven: outputs that could not be proven equal; they may still be.
    """

    equal: bool = True
    worst: float = 0.0
    cones: int = 0
    unproven: list[str] = field(default_factory=list)


def prove(before: Graph, after: Graph, tolerance: float, *, seed: int = 0) -> Proof:
    """Compare the outputs of `before` with those of the same name in `after`.

    Needs specs for the values between nodes.

    Args:
        before, after: the graphs; inputs are paired by name.
        tolerance: largest difference of a cone, relative to its largest value.
        seed: for the random numbers.
    """
    # The matrices are so small that handing them to other threads costs more than it saves.
    with blas().limited(1), repeatable_randomness():
        return _Sweep(before, after, tolerance, seed).run()


class _Side:
    """One graph and the numbers of its values."""

    def __init__(self, graph: Graph, table: dict[Hashable, int], names: Sequence[str]) -> None:
        self.graph = graph
        self.table = table
        self.order = execution_order(graph)
        self.position = {node: i for i, node in enumerate(self.order)}
        self.number: dict[Value, int] = {
            v: self._intern(("input", name)) for v, name in zip(graph.inputs, names, strict=True)
        }
        self.constant: dict[Value, Array] = {}
        self.large_constants: set[Value] = set()
        self.loops = _loop_key(graph)

    def _intern(self, key: Hashable) -> int:
        return self.table.setdefault(key, len(self.table))

    def assign(self, node: Node) -> None:
        """Number the outputs of a node whose inputs are numbered."""
        definition = registry.find(node.op)
        if has(node.op, Trait.PASSES_THROUGH) and node.inputs and node.output() not in self.number:
            for value in node.outputs or (node.output(),):
                source = node.inputs[min(value.port, len(node.inputs) - 1)]
                self.number[value] = self.number[source]
                if source in self.constant:
                    self.constant[value] = self.constant[source]
                elif source in self.large_constants:
                    self.large_constants.add(value)
        elif node.tensor is not None:
            self._number_constant(node.output(), node)
        elif not self._number_constant_expression(node, definition):
            key = self._key(node)
            for value in node.outputs or (node.output(),):
                self.number.setdefault(value, self._intern((*key, value.port)))

    def _number_constant(self, value: Value, node: Node) -> None:
        tensor = node.tensor
        assert tensor is not None
        if tensor.size <= SMALL_CONSTANT:
            self.constant[value] = tensor.numpy()
            self.number.setdefault(value, self._intern(_content_key(tensor.numpy())))
        else:
            self.large_constants.add(value)
            self.number.setdefault(value, self._intern(("large", id(tensor.storage))))

    def _number_constant_expression(self, node: Node, definition: type[registry.OpDef] | None) -> bool:
        """Evaluate a node that reads small constants only; whether that worked."""
        if (
            definition is None
            or definition.has(Trait.STATEFUL)
            or definition.kernel is None
            or not node.inputs
        ):
            return False
        if not all(v in self.constant for v in node.inputs) or (
            node.control_inputs and definition.has(Trait.CONTROL_FLOW)
        ):
            return False
        try:
            results = run_node(node, [self.constant[v] for v in node.inputs])
        except ThinflowError:
            return False
        if not all(isinstance(r, np.ndarray) and r.size <= SMALL_CONSTANT for r in results):
            return False
        for port, result in enumerate(results):
            value = node.output(port)
            self.constant[value] = result
            self.number.setdefault(value, self._intern(_content_key(result)))
        return True

    def evaluate(self, value: Value, given: Mapping[Value, Any]) -> Array:
        """A value from those given above it.

        Raises:
            NodeError: a node failed or has no kernel.
        """
        needed: set[Node] = set()
        stack = [value]
        while stack:
            current = stack.pop()
            if current not in given and current.node not in needed:
                needed.add(current.node)
                stack.extend(current.node.inputs)
        values = dict(given)
        for node in sorted(needed, key=self.position.__getitem__):
            for port, result in enumerate(run_node(node, [values[v] for v in node.inputs])):
                values.setdefault(node.output(port), result)
        if value not in values:
            raise NodeError("it has no such output", value.node.where)
        return np.asarray(values[value])

    def _key(self, node: Node) -> tuple[Hashable, ...]:
        if not node.inputs:  # a placeholder, or a source of random numbers: itself
            return ("source", node.op, node.name)
        if node.op in MERGES and any(v.node.op in NEXT_ITERATIONS for v in node.inputs):
            return ("loop", node.name, self.loops)
        definition = registry.find(node.op)
        own = node.name if definition is None or definition.has(Trait.STATEFUL) else ""
        inputs = tuple(self.number[v] for v in node.inputs)
        if commutes(node.op, node.attrs_view.get("T")):
            inputs = tuple(sorted(inputs))
        attrs = tuple(sorted((k, attr_key(v)) for k, v in node.attrs.items() if k not in _ANNOTATIONS))
        return ("node", node.op, own, attrs, inputs)


def _content_key(array: Array) -> Hashable:
    content = repr(array.tolist()) if array.dtype.hasobject else array.tobytes()
    return ("content", str(array.dtype), array.shape, content)


def _loop_key(graph: Graph) -> Hashable:
    """All that is in loops, as one key: a loop counts as changed if anything in it is."""
    if not any(n.op in NEXT_ITERATIONS for n in graph):
        return ""
    return tuple((n.name, n.op, tuple(v.name for v in n.inputs)) for n in graph)


class _Numbers:
    """Random numbers for tensors, float32: small and large ones side by side, so that a clamp or a saturation
    shows.
    """

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._pool: Array | None = None
        self._start = 0

    def floats(self, sizes: Sequence[int]) -> Array:
        """Numbers of this shape; no two calls give the same, though what they give may overlap."""
        count, half = math.prod(sizes), POOL // 2
        if count <= half:
            return self._stretch(count).reshape(sizes)
        parts = [self._stretch(min(half, count - done)) for done in range(0, count, half)]
        return np.concatenate(parts).reshape(sizes)

    def bits(self, sizes: Sequence[int]) -> Array:
        """Zeros and ones of this shape, int64."""
        return self._rng.integers(0, 2, sizes)

    def _stretch(self, count: int) -> Array:
        """The next numbers of the pool, at most half of it."""
        if self._pool is None:
            scale = MAGNITUDES[self._rng.integers(0, len(MAGNITUDES), POOL, np.uint8)]
            self._pool = (2 * self._rng.random(POOL, np.float32) - 1) * scale
            self._pool.flags.writeable = False
        self._start = (self._start + _STRIDE) % (POOL // 2)
        return self._pool[self._start : self._start + count]


class _Sweep:
    def __init__(self, before: Graph, after: Graph, tolerance: float, seed: int) -> None:
        self.tolerance = tolerance
        self.numbers = _Numbers(seed)
        self.table: dict[Hashable, int] = {}
        names = [v.name for v in before.inputs]
        self.before = _Side(before, self.table, names)
        self.after = _Side(after, self.table, _names_before(before, after))
        self.proof = Proof()
        self.spec_of: dict[int, TensorSpec] = {}
        self.agreed = {self.after.number[v] for v in after.inputs} & set(self.before.number.values())

    def run(self) -> Proof:
        for node in self.before.order:
            self.before.assign(node)
        self.spec_of = {number: value.spec for value, number in self.before.number.items()}
        for node in self.after.order:
            self.after.assign(node)
            # A port that somebody looked for and the op does not have has no number.
            for value in [v for v in node.outputs if v in self.after.number]:
                # A number the old graph does not know is a change.
                if self.after.number[value] not in self.spec_of and node.tensor is None:
                    self._try_to_unite(value)
                if self.after.number[value] in self.spec_of:
                    self.agreed.add(self.after.number[value])
        outputs = self.before.graph.outputs
        for wanted, twin in zip(outputs, _twins(outputs, self.after.graph), strict=True):
            found = self.after.number.get(twin) if twin is not None else None
            if found is None or found != self.before.number.get(wanted):
                self.proof.equal = False
                self.proof.unproven.append(wanted.name)
        return self.proof

    def _try_to_unite(self, value: Value) -> None:
        """Give a changed value the number of its namesake if random numbers say they are equal."""
        twin_node = self.before.graph.find(value.node.name)
        if twin_node is None or value.port not in {v.port for v in twin_node.outputs}:
            return
        if _is_made_good_below(value.node, twin_node):
            return
        twin = twin_node.output(value.port)
        if self._differs_in_defaults_only(value.node, twin_node):
            self.after.number[value] = self.before.number[twin]
            return
        ours, theirs = self._cone(self.after, value), self._cone(self.before, twin)
        if ours is None or theirs is None:
            return
        borders = dict.fromkeys(
            [self.after.number[v] for v in ours] + [self.before.number[v] for v in theirs]
        )
        # A small picture first; ops whose sizes are fixed by other inputs only run at the full one.
        for pixels in (PIXELS, 0):
            arrays = {n: self._random(self.spec_of[n], pixels) for n in borders}
            if any(a is None for a in arrays.values()):
                return
            try:
                new = self.after.evaluate(value, {v: arrays[self.after.number[v]] for v in ours})
                old = self.before.evaluate(twin, {v: arrays[self.before.number[v]] for v in theirs})
            except ThinflowError:
                continue  # sizes that only fit at full size
            found = difference(old, new)
            self.proof.cones += 1
            if found.relative <= allowed(self.tolerance, old):
                self.proof.worst = max(self.proof.worst, found.relative)
                self.after.number[value] = self.before.number[twin]
            return

    def _differs_in_defaults_only(self, node: Node, twin: Node) -> bool:
        """True if two nodes do the same to the same inputs, one writing out what the other leaves unsaid."""
        if node.op != twin.op or len(node.inputs) != len(twin.inputs):
            return False
        inputs = [self.after.number.get(v) for v in node.inputs]
        if None in inputs or inputs != [self.before.number.get(v) for v in twin.inputs]:
            return False  # or one that a loop has not reached yet
        known = defaults_of(node.op) or {}
        for name in (node.attrs.keys() | twin.attrs.keys()) - _ANNOTATIONS:
            a, b = (n.attrs[name] if name in n.attrs else known.get(name) for n in (node, twin))
            if a is None or b is None or attr_key(a) != attr_key(b):
                return False
        return True

    def _cone(self, side: _Side, value: Value) -> list[Value] | None:
        """The values a cone above `value` starts from: equal in both graphs, not constant.

        None if it grows too large.
        """
        borders: dict[Value, None] = {}
        seen: set[Node] = set()
        stack = [value]
        first = True
        while stack:
            current = stack.pop()
            is_border = (
                not first and side.number.get(current) in self.agreed and not _is_constant(side, current)
            )
            first = False
            if is_border:
                borders[current] = None
            elif current.node not in seen:
                seen.add(current.node)
                if (
                    len(seen) > LARGEST_CONE
                    or current.node.op in MERGES
                    or not (current.node.inputs or current.node.tensor)
                ):
                    return None
                stack.extend(current.node.inputs)
        return list(borders)

    def _random(self, spec: TensorSpec, pixels: int) -> Array | None:
        """Random numbers like a value of this description; None if it is not described well enough."""
        if (
            spec.dtype is None
            or spec.shape is None
            or not spec.dtype.numpy_name
            or spec.dtype.kind not in "fiub"
        ):
            return None
        shape = [1 if d is None and axis == 0 else d for axis, d in enumerate(spec.shape)]
        if len(shape) == 4 and pixels:
            shape = [shape[0], *(pixels if d is None else min(d, pixels) for d in shape[1:3]), shape[3]]
        if any(d is None for d in shape):
            return None
        sizes = [d or 0 for d in shape]
        if spec.dtype.is_floating:
            return self.numbers.floats(sizes).astype(spec.dtype.numpy(), copy=False)
        return self.numbers.bits(sizes).astype(spec.dtype.numpy())


def _names_before(before: Graph, after: Graph) -> list[str]:
    """Of each input of the changed graph, the name of the one that it stands for; its own if for none."""
    try:
        twins = counterparts(before.inputs, after.inputs, after)
    except ThinflowError:
        return [v.name for v in after.inputs]
    names = {twin: v.name for v, twin in zip(before.inputs, twins, strict=True)}
    return [names.get(v, v.name) for v in after.inputs]


def _twins(outputs: Sequence[Value], after: Graph) -> list[Value | None]:
    """Of each output, the one of the changed graph that stands for it; None if none does."""
    try:
        return list(counterparts(outputs, after.outputs, after))
    except ThinflowError:
        return [None for _ in outputs]


def _is_made_good_below(node: Node, twin: Node) -> bool:
    """True if a node does its twin's work with other weights for one reader: half of a fold.

    The values then differ as they should, and running them would prove nothing.
    """
    if node.op != twin.op or len(node.inputs) != len(twin.inputs):
        return False
    if len(node.readers) != 1 or node.is_protected:
        return False
    pairs = [(a.node.tensor, b.node.tensor) for a, b in zip(node.inputs, twin.inputs, strict=True)]
    return any(a is not None and a is not b for a, b in pairs)


def _is_constant(side: _Side, value: Value) -> bool:
    return value in side.constant or value in side.large_constants or value.node.tensor is not None
