"""Finds the constant part of a graph and computes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.interpreter import run_node
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import BOOL, STRING, TensorSpec
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse
from thinflow.transforms.shared.effects import is_stateless
from thinflow.typing import Array

LARGEST_STEP = 1 << 30
"""Bytes above which a value is not computed even if it is only needed on the way."""
CACHE_BYTES = 256 << 20
"""Intermediate results with several readers are remembered up to this size in total."""


@dataclass(frozen=True)
class Result:
    """The arrays that a constant node computes, with what they come from.

    Attributes:
        arrays: one per port.
        leaf_bytes: size of the constants it was computed from.
        awaited: the nodes that it and all it was computed from wait for.
    """

    arrays: tuple[Array, ...]
    leaf_bytes: int
    awaited: tuple[Node, ...]


class ConstantPart:
    """The nodes of a graph whose values do not depend on what is fed. Specs must be set; see `infer_shapes`.

    Args:
        graph: must not change but for nodes, or single ports of them, becoming constants.
        excluded: why a node must not be computed, or None.
        failed: nodes that could not be computed, and why; grows.
    """

    def __init__(self, graph: Graph, excluded: Callable[[Node], str | None], failed: dict[Node, str]) -> None:
        self.order = execution_order(graph)
        self.position = {node: i for i, node in enumerate(self.order)}
        self.failed = failed
        self.refused: dict[Node, str] = {}
        """Nodes with constant inputs that are not computed, and why."""
        self.computable: set[Node] = set()
        self.from_shapes: set[Node] = set()
        """Computable nodes whose value follows from static shapes alone."""
        self.in_control_flow: set[Node] = set()
        self._cache: dict[Node, Result] = {}
        self._cached_bytes = 0
        for node in self.order:
            self._classify(node, excluded)

    def _classify(self, node: Node, excluded: Callable[[Node], str | None]) -> None:
        producers = [v.node for v in node.inputs] + list(node.control_inputs)
        if has(node.op, Trait.CONTROL_FLOW) or any(p in self.in_control_flow for p in producers):
            self.in_control_flow.add(node)
        # What is fed may have any value, whatever its node would compute.
        if has(node.op, Trait.PLACEHOLDER) or any(v.is_graph_input for v in node.outputs):
            return
        if node.tensor is not None:
            self.computable.add(node)
            return
        # A source that is no constant: a random number, a variable, an input of a kind nobody knows here.
        if not node.inputs:
            return
        constant = all(v.node in self.computable for v in node.inputs)
        shaped = not constant and self._follows_from_shapes(node)
        if not (constant or shaped):
            return
        reason = self.failed.get(node) or excluded(node) or (_objection(node) if constant else None)
        if reason is not None:
            self.refused[node] = reason
            return
        self.computable.add(node)
        if shaped:
            self.from_shapes.add(node)

    def _follows_from_shapes(self, node: Node) -> bool:
        # Inside a frame a node runs in each iteration; a constant in its place would be there just once.
        if not is_stateless(node) or node in self.in_control_flow:
            return False
        read = [v for v in node.outputs if v.uses or v.is_graph_output]
        return bool(read) and all(_is_known(v.spec) for v in read)

    def compute(self, node: Node) -> Result:
        """The value of a computable node.

        Raises:
            Refuse: it, or a node above it, cannot be computed; noted in `failed`.
        """
        cone = self._cone(node)
        # Counted, so that a result is dropped after its last reader: chains of large ones need room for few.
        left = {n: 0 for n in cone}
        for n in cone:
            for value in n.inputs if n not in self.from_shapes else ():
                left[value.node] = left.get(value.node, 0) + 1
        results: dict[Node, Result] = {}
        for n in cone:
            result = self._step(n, results)
            results[n] = result
            for value in n.inputs if n not in self.from_shapes else ():
                left[value.node] -= 1
                if not left[value.node]:
                    results.pop(value.node, None)
            self._remember(n, result)
        return results[node]

    def _cone(self, node: Node) -> list[Node]:
        """The nodes to run for `node`, in order."""
        seen = {node}
        stack = [node]
        while stack:
            top = stack.pop()
            if top in self._cache or top in self.from_shapes or top.tensor is not None:
                # What is known already needs nothing computed above it.
                continue
            for value in top.inputs:
                if value.node not in seen:
                    seen.add(value.node)
                    stack.append(value.node)
        # A constant that took the place of one port of a node since then has no place of its own.
        return sorted(seen, key=lambda n: self.position.get(n, -1))

    def _step(self, node: Node, results: dict[Node, Result]) -> Result:
        cached = self._cache.get(node)
        if cached is not None:
            return cached
        if node in self.from_shapes:
            # Ports nobody reads get a place as well: results are found by port number.
            ports = max((v.port for v in node.outputs), default=0) + 1
            arrays = tuple(_from_spec(node.output(p).spec) for p in range(ports))
            return Result(arrays, 0, node.control_inputs)
        tensor = node.tensor
        if tensor is not None:
            return Result((self._run(node, ())[0],), tensor.size_bytes, node.control_inputs)
        sources = list(dict.fromkeys(v.node for v in node.inputs))
        arrays = self._run(node, [results[v.node].arrays[v.port] for v in node.inputs])
        awaited = dict.fromkeys([*node.control_inputs, *(n for s in sources for n in results[s].awaited)])
        return Result(arrays, sum(results[s].leaf_bytes for s in sources), tuple(awaited))

    def _run(self, node: Node, inputs: Sequence[Array]) -> tuple[Array, ...]:
        expected = sum(v.spec.size_bytes or 0 for v in node.outputs)
        try:
            # Told by shape inference, before any memory is asked for.
            if expected > LARGEST_STEP and node.tensor is None:
                raise Refuse(f"computing it takes {expected:,} bytes", node)
            with np.errstate(all="ignore"):
                return run_node(node, inputs)
        except Refuse as refusal:
            self.failed[node] = refusal.reason
            raise
        except ThinflowError as error:
            self.failed[node] = f"it cannot be computed: {error.problem}"
        except MemoryError:
            self.failed[node] = "there is not enough memory to compute it"
        raise Refuse(self.failed[node], node)

    def _remember(self, node: Node, result: Result) -> None:
        # A result with one reader is not asked for again; constants are kept by their own tensors.
        if node.tensor is not None or node in self._cache or len(node.readers) < 2:
            return
        if not all(isinstance(a, np.ndarray) for a in result.arrays):  # lists, handles: of unknown size
            return
        size = sum(a.nbytes for a in result.arrays)
        if self._cached_bytes + size <= CACHE_BYTES:
            self._cache[node] = result
            self._cached_bytes += size


def _objection(node: Node) -> str | None:
    """The reason why a node with constant inputs cannot be computed, None if it can."""
    definition = registry.find(node.op)
    if definition is None:
        return "thinflow does not know the op"
    if definition.has(Trait.CONTROL_FLOW):
        return "it steers control flow"
    if definition.has(Trait.STATEFUL):
        return "it has a side effect or gives another answer each time"
    if not is_stateless(node):
        return "it calls a function"
    if definition.kernel is None:
        return "thinflow cannot compute the op"
    return None


def _is_known(spec: TensorSpec) -> bool:
    return spec.ints is not None and spec.size == len(spec.ints) and spec.dtype is not None


def _from_spec(spec: TensorSpec) -> Array:
    """The elements that shape inference found; an empty array for a port nobody reads."""
    if spec.ints is None or spec.dtype is None or not spec.is_static:
        return np.empty(0, np.int32)
    shape = tuple(d for d in spec.shape or () if d is not None)
    return np.asarray(spec.ints, bool if spec.dtype is BOOL else spec.dtype.numpy()).reshape(shape)


def tensor_of(array: Array, spec: TensorSpec, node: Node) -> Tensor:
    """A computed array as a constant of the node's output type.

    Raises:
        Refuse: there is no such constant.
    """
    element = spec.dtype
    if element is not None and not element.numpy_name:
        raise Refuse(f"{element} cannot be stored", node)
    if element is not None and element is not STRING and array.dtype != element.numpy():
        raise Refuse(f"it computes {array.dtype}, {element} is declared", node)
    try:
        return Tensor.from_array(array, element)
    except ThinflowError as error:
        raise Refuse(error.problem, node) from error


def sinks(nodes: Iterable[Node]) -> list[Value]:
    """The first outputs of the nodes that nobody uses."""
    return [n.output() for n in nodes if not n.is_used]
