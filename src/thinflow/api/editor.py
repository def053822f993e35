"""A graph with the helpers that transforms ask for most, by name instead of by object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from thinflow.analysis.shapes import infer_node, infer_shapes
from thinflow.errors import GraphError
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import execution_order
from thinflow.ir.types import DType, Shape
from thinflow.rewrite.driver import Rewrite
from thinflow.rewrite.edits import Site
from thinflow.rewrite.pattern import Match, NodePattern, constant_tensor
from thinflow.rewrite.rule import Trace

if TYPE_CHECKING:
    import numpy as np

Reference = Value | str
"""A value, or its name: `conv1`, `split:1`."""


class Editor:
    """The graph with helpers, as a function-style transform gets it.

    Attributes:
        graph: the graph itself, with all its methods; the editor passes on what it does not define.
    """

    def __init__(self, graph: Graph, trace: Trace, origin: str) -> None:
        self.graph, self.trace, self.origin = graph, trace, origin

    def __getattr__(self, name: str) -> Any:
        # Through `__dict__`: before `graph` is set, `self.graph` would come back here for ever.
        return getattr(self.__dict__["graph"], name)

    @property
    def nodes(self) -> list[Node]:
        """All nodes in file order."""
        return list(self.graph)

    def value(self, reference: Reference) -> Value:
        """A value by its name."""
        return self.graph.value(reference) if isinstance(reference, str) else reference

    def consumers(self, reference: Reference) -> tuple[Node, ...]:
        """The nodes that read a value, each once."""
        return self.value(reference).readers

    def const(self, reference: Reference) -> np.ndarray[Any, Any] | None:
        """The numbers of a constant, also behind an Identity; None if it is none. A view: do not write."""
        tensor = constant_tensor(self.value(reference))
        return None if tensor is None else tensor.numpy()

    def add_const(self, name: str, array: Any, like: Node | None = None) -> Value:
        """A new constant under that name or one like it, in front of the node `like` and on its device."""
        import numpy as np

        made = self.graph.constant(np.asarray(array), name, before=like)
        made.node.origin = self.origin
        made.node.device = like.device if like is not None else ""
        return made

    def replace(
        self, pattern: NodePattern, build: Callable[[Match, Site], Value], what: str = "replaced"
    ) -> int:
        """Put what `build` gives in the place of every match, until none is left; how many there were.

        `build` may raise `Refuse`. It is all as in a `Rewrite`; a pattern must not match what is built.
        """
        before = len(self.trace.changes)

        class Local(Rewrite):
            name = self.origin

            def build(self, m: Match, site: Site) -> Value:
                return build(m, site)

            def describe(self, m: Match) -> str:
                return what

        # Not in the body of the class, where `pattern = pattern` would not find the parameter.
        Local.pattern = pattern
        Local().apply(self.graph, self.trace)
        return len(self.trace.changes) - before

    def rename_inputs(self, mapping: Mapping[str, str]) -> int:
        """Let whoever reads the value `old` read `new`; rules chain. How many inputs changed.

        Raises:
            GraphError: the rules lead in a circle, or a name does not exist.
        """
        changed = 0
        for old in mapping:
            new, seen = mapping[old], {old}
            while new in mapping:
                if new in seen:
                    raise GraphError(f"the renaming of '{old}' leads in a circle", hint="take one rule out")
                seen.add(new)
                new = mapping[new]
            source, target = self.value(old), self.value(new)
            # The new value may be computed from the old one, and must go on reading it.
            changed += source.replace_uses(target, keep=[target.node])
        return changed

    def filter(self, keep: Callable[[Node], bool]) -> int:
        """Remove the nodes for which `keep` says no, which nothing may use; how many."""
        lost = {node for node in self.graph if not keep(node)}
        # Readers before what they read: only an unused node can be removed.
        for node in reversed(execution_order(self.graph)):
            if node in lost:
                self.trace.changed(node, "removed")
                self.graph.remove(node)
        return len(lost)

    def remove_attributes(self, names: Iterable[str]) -> int:
        """Remove attributes from every node; how many nodes had one."""
        wanted, count = set(names), 0
        for node in self.graph:
            if found := wanted & node.attrs_view.keys():
                for name in found:
                    del node.attrs[name]
                self.trace.changed(node, f"removed {', '.join(sorted(found))}")
                count += 1
        return count

    def toposort(self) -> list[Node]:
        """The nodes, each after those it reads."""
        return execution_order(self.graph)

    def in_out_types(self, node: Node) -> tuple[list[DType | None], list[DType | None]]:
        """Types of the inputs and outputs of a node; None where nobody knows."""
        # Again each time: the function may have edited the graph since.
        infer_shapes(self.graph)
        inputs = [v.spec for v in node.inputs]
        return [s.dtype for s in inputs], [s.dtype for s in infer_node(node, inputs)]

    def static_shape(self, reference: Reference) -> Shape:
        """The shape of a value as far as it can be told; None for an unknown rank."""
        infer_shapes(self.graph)
        return self.value(reference).spec.shape
