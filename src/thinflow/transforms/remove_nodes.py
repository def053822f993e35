"""Take out nodes that only hand their input on, so that patterns and runtimes see what is behind them.

y = Relu(i); i = Identity(x)  ->  y = Relu(x)      remove_nodes(op=Identity, op=CheckNumerics)
"""

from __future__ import annotations

from dataclasses import dataclass

from thinflow.errors import ParameterError
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.rule import Refuse, Trace, Transform, transform
from thinflow.transforms.shared.effects import effect_free

_BY_PORT = frozenset({"IdentityN"})  # output i is input i


@transform("remove_nodes")
@dataclass(frozen=True)
class RemoveNodes(Transform):
    """Let the readers of a node read its input instead. Inputs and outputs of the graph stay.

    Attributes:
        op: which ops; `"A|B"` is both and `"*"` is every op. That they do nothing is taken on trust.
        max_inputs: a node with more data inputs stays; -1 for no limit.
        input_index: which input to hand on, counted from 0.
        drop_control: forget what the node waited for. Otherwise its readers wait for it, unless it is idle.
    """

    op: tuple[str, ...]
    max_inputs: int = 1
    input_index: int = 0
    drop_control: bool = False

    def __post_init__(self) -> None:
        if self.max_inputs < -1 or self.max_inputs == 0:
            raise ParameterError(
                f"max_inputs is {self.max_inputs}", hint="give at least 1, or -1 for any number"
            )
        if self.input_index < 0:
            raise ParameterError(f"input_index is {self.input_index}", hint="inputs are counted from 0")
        if not all(has(op, Trait.PASSES_THROUGH) for op in self.ops):
            object.__setattr__(
                self, "exact", False
            )  # removing a Dropout or an op of one's own is the user's wish

    @property
    def ops(self) -> frozenset[str]:
        """The ops asked for, each by itself."""
        return frozenset(name for text in self.op for name in text.split("|") if name)

    def apply(self, graph: Graph, trace: Trace) -> None:
        ops = self.ops
        free: set[Node] | None = None
        # Sources first: each reader then moves once, however long the chain.
        for node in execution_order(graph):
            # `*` means what could hand its input on: ops that have just one.
            if node.op not in ops and ("*" not in ops or len(node.inputs) != 1):
                continue
            try:
                values = self.values(node)
            except Refuse as refusal:
                trace.leave(node, refusal.reason)
                continue
            if node.control_inputs and not self.drop_control:
                free = effect_free(graph) if free is None else free
                # Idle: it has no effect, and nobody else wants it, so nobody has to wait for it.
                for source in node.control_inputs:
                    if source in free and source.readers == (node,):
                        node.remove_control_input(source)
            trace.changed(node, f"its readers read '{values[min(values)].name}'")
            graph.bypass(node, values, keep_control=not self.drop_control)

    def values(self, node: Node) -> dict[int, Value]:
        """The values to read instead of each output.

        Raises:
            Refuse: the node has to stay.
        """
        if node.is_protected:
            raise Refuse("it is an input or output of the graph")
        if self.max_inputs >= 0 and len(node.inputs) > self.max_inputs:
            raise Refuse(f"it has {len(node.inputs)} inputs and max_inputs is {self.max_inputs}")
        if node.op in _BY_PORT:
            values = dict(enumerate(node.inputs))
        elif self.input_index < len(node.inputs):
            values = {0: node.inputs[self.input_index]}
        else:
            raise Refuse(f"it has no input {self.input_index} to hand on")
        for output in node.outputs:
            if output.uses and output.port not in values:
                raise Refuse(f"its output {output.port} is read by '{output.readers[0].name}'")
        if not values:
            raise Refuse("it has no inputs to hand on")
        return values
