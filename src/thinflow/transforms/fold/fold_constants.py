"""Compute what is constant, and drop what no output needs.

add(const(1), const(2))          ->  const(3), under the name of the add
conv(x, identity(const(w)))      ->  conv(x, const(w)), without a copy
strided_slice(shape(x), 1)       ->  const(224), if that size is known

Everything runs with the kernels of `ops`; what they cannot compute stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.analysis.shapes import constant_spec, infer_shapes
from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import ancestors
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import shape_text
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.flow.library import note_functions
from thinflow.transforms.shared.constant_part import ConstantPart, Result, sinks, tensor_of
from thinflow.transforms.shared.constants import become_constant, stored_once
from thinflow.transforms.shared.effects import drop_idle_control

DEQUANTIZES = Trait.DEQUANTIZE | Trait.SIMULATES_QUANTIZATION


@transform("fold_constants")
@dataclass(frozen=True)
class FoldConstants(Transform):
    """Fold constant nodes into constants of the same name, and prune.

    Attributes:
        exclude_op: ops that are never folded.
        exclude_node: nodes that are never folded.
        clear_output_shapes: remove `_output_shapes`; if false, it is trusted where inference finds nothing.
        max_constant_size_in_bytes: larger results are not stored.
        max_growth_bytes: nor are results this much larger than the constants they come from (Fill, Tile...).
        fold_dequantize: also fold Dequantize and FakeQuant ops, which turns 8-bit weights back into floats.
    """

    tolerance = 1e-6

    exclude_op: tuple[str, ...] = ()
    exclude_node: tuple[str, ...] = ()
    clear_output_shapes: bool = True
    max_constant_size_in_bytes: int = 10 << 20
    max_growth_bytes: int = 1 << 20
    fold_dequantize: bool = False

    def __post_init__(self) -> None:
        for name in ("max_constant_size_in_bytes", "max_growth_bytes"):
            if getattr(self, name) < 0:
                raise ParameterError(f"{name} is {getattr(self, name)}", hint="give 0 or more bytes")

    def apply(self, graph: Graph, trace: Trace) -> None:
        trace.warnings.extend(
            f"there is no node '{n}' to exclude" for n in self.exclude_node if n not in graph
        )
        if not graph.outputs:
            trace.warnings.append("no outputs are given, so every node without a reader counts as one")
        roots = graph.outputs or sinks(graph)
        failed: dict[Node, str] = {}
        too_large: dict[Node, str] = {}
        while True:
            trace.forget_left()
            self._set_specs(graph)
            drop_idle(graph, trace)
            before = len(trace.changes), len(failed), len(too_large)
            # What was computed or refused in a round lets the next see other constants, so all three count.
            self._fold_once(graph, {v.node for v in (*graph.inputs, *roots)}, failed, too_large, trace)
            if (len(trace.changes), len(failed), len(too_large)) == before:
                break
            if len(trace.changes) > before[0]:
                too_large.clear()  # what a result grows from may have become larger
        drop_idle(graph, trace)
        self._prune(graph, roots, trace)
        note_functions(graph, trace, "nothing inside it is folded")

    def _set_specs(self, graph: Graph) -> None:
        infer_shapes(graph, use_annotations=not self.clear_output_shapes)
        cut = {v: v.spec.with_shape(v.spec.shape) for v in graph.inputs if v.spec.elements is not None}
        if cut:  # whatever is fed there, it need not be what the graph would compute
            infer_shapes(graph, cut, use_annotations=not self.clear_output_shapes)

    def _excluded(self, node: Node) -> str | None:
        if node.op in self.exclude_op or node.name in self.exclude_node:
            return "it is excluded"
        if has(node.op, DEQUANTIZES) and not self.fold_dequantize:
            return "folding it would undo the quantization; fold_dequantize=true does it all the same"
        return None

    def _fold_once(
        self,
        graph: Graph,
        roots: set[Node],
        failed: dict[Node, str],
        too_large: dict[Node, str],
        trace: Trace,
    ) -> None:
        """One round. What cannot be folded is noted, so that the next round folds what it reads instead."""
        # Of the graph as it is now: what one round folds, the next sees as constants.
        part = ConstantPart(graph, lambda n: too_large.get(n) or self._excluded(n), failed)
        border = self._border(part, roots)
        for node, reason in part.refused.items():
            trace.leave(node, reason)
        for node in border:
            try:
                self._fold(graph, node, part, roots, trace)
            except Refuse as refusal:
                if refusal.node not in failed:
                    too_large[node] = refusal.reason
        _bypass_aliases(part, trace)

    def _border(self, part: ConstantPart, roots: set[Node]) -> list[Node]:
        """The nodes to turn into constants: computable, and read by one that is not. In execution order."""
        read: set[Node] = set()
        border: list[Node] = []
        for node in reversed(part.order):
            if node.tensor is not None:
                continue
            # The border of the constant part: what reads it and is not part of it.
            if node not in part.computable:
                stays = True
            # Aliases are not folded, which would store their constant twice, but looked through.
            elif is_alias(node) and node not in part.from_shapes:
                stays = node in roots or node in read
            else:
                if node in roots or node in read:
                    border.append(node)
                continue
            if stays:
                read.update(v.node for v in node.inputs)
        return border[::-1]

    def _fold(self, graph: Graph, node: Node, part: ConstantPart, roots: set[Node], trace: Trace) -> None:
        expected = max((v.spec.size_bytes or 0 for v in node.outputs), default=0)
        self._refuse_large(expected, node)
        result = part.compute(node)
        ports = [v for v in node.outputs if v.uses or v.is_graph_output] or [node.output()]
        # Readers can be moved to several constants; a name that is asked for is of one node.
        single = len(result.arrays) == 1
        if not single and node in roots:
            raise Refuse("it is asked for and has several outputs", node)
        tensors = {v: stored_once(tensor_of(result.arrays[v.port], v.spec, node)) for v in ports}
        for tensor in tensors.values():
            self._refuse_large(tensor.size_bytes, node)
            growth = tensor.size_bytes - result.leaf_bytes
            # Sizes are few numbers, and whoever asks to have them dequantized accepts their size.
            meant = node in part.from_shapes or has(node.op, DEQUANTIZES)
            if growth > self.max_growth_bytes and not meant:
                raise Refuse(
                    f"folding it would add {growth:,} bytes; max_growth_bytes is {self.max_growth_bytes:,}",
                    node,
                )
        trace.changed(
            node, "folded into " + ", ".join(f"{t.dtype}{shape_text(t.shape)}" for t in tensors.values())
        )
        if single:
            become_constant(node, tensors[ports[0]], self.name)
            # It waits for all that anything it was computed from waited for, such as an Assert.
            node.set_control_inputs(result.awaited)
            node.output().spec = constant_spec(tensors[ports[0]])
        else:
            self._split(graph, node, tensors, result)

    def _refuse_large(self, size: int, node: Node) -> None:
        if size > self.max_constant_size_in_bytes:
            limit = f"max_constant_size_in_bytes is {self.max_constant_size_in_bytes:,}"
            raise Refuse(f"the result takes {size:,} bytes; {limit}", node)

    def _split(self, graph: Graph, node: Node, tensors: dict[Value, Tensor], result: Result) -> None:
        """One constant per output that is read, in place of the node."""
        for value, tensor in tensors.items():
            constant = graph.constant(tensor, f"{node.name}/cf_{value.port}", before=node)
            constant.node.origin = self.name
            constant.node.device = node.device
            constant.node.set_control_inputs(result.awaited)
            constant.spec = constant_spec(tensor)
            value.replace_uses(constant)
        # There is no node left to wait for, only what it waited for itself.
        for waiter in node.control_outputs:
            waiter.remove_control_input(node)
            for awaited in result.awaited:
                waiter.add_control_input(awaited)
        graph.remove(node)

    def _prune(self, graph: Graph, roots: list[Value], trace: Trace) -> None:
        # Inputs stay even if nothing needs them: callers feed them.
        needed = ancestors(v.node for v in (*graph.inputs, *roots))
        unneeded = [n for n in graph if n not in needed]
        for node in unneeded:
            trace.changed(node, "removed: no output needs it")
        graph.remove(*unneeded)
        if self.clear_output_shapes:
            for node in graph:
                if "_output_shapes" in node.attrs_view:
                    trace.changed(node, "_output_shapes removed")
                    del node.attrs["_output_shapes"]


def is_alias(node: Node) -> bool:
    """True if the node's outputs are its inputs."""
    return has(node.op, Trait.IDENTITY) or node.op in {"IdentityN", "ReadVariableOp"}


def drop_idle(graph: Graph, trace: Trace) -> None:
    """Cut control edges without effect; see `drop_idle_control`."""
    for source, waiter in drop_idle_control(graph):
        trace.changed(waiter, f"waits no more for '{source.name}', which has no effect")


def _bypass_aliases(part: ConstantPart, trace: Trace) -> None:
    """Let the readers of a constant's alias read the constant itself, unless it waits for something."""
    for node in part.order:
        if node.graph is None or not is_alias(node) or node not in part.computable:
            continue
        if node.control_inputs:
            trace.leave(node, f"it waits for '{node.control_inputs[0].name}'")
            continue
        moved = 0
        for value in node.outputs:
            if value.port < len(node.inputs) and node.inputs[value.port].node.tensor is not None:
                moved += value.replace_uses(node.inputs[value.port])
        if moved:
            trace.changed(node, f"its readers read '{node.inputs[0].node.name}' instead")
