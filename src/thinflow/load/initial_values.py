"""Values of variables that no checkpoint holds: what the graph's own initialisers would give them.

Here alone something is run: the nodes behind the values that initialisers assign, in the interpreter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from thinflow.errors import ThinflowError
from thinflow.ir.graph import Graph, Node
from thinflow.ir.order import ancestors
from thinflow.ir.tensor import Tensor
from thinflow.load.variable_handles import replace_variables
from thinflow.ops.traits import Trait, has

_SEEDED = ("seed", "seed2")


Known = Callable[[str], Tensor | None]
"""The value of a variable by name; None if it has none."""


class InitialValues:
    """Values that initialisers assign, computed for the variables that ask.

    Args:
        graph: whole, as it was read. It is copied if there is something to compute.
        initializers: what assigns, or waits for what assigns.

    Attributes:
        random: variables whose values were drawn anew, by ops without a seed.
    """

    def __init__(self, graph: Graph, initializers: Iterable[Node]) -> None:
        self.random: list[str] = []
        self._assigned = {
            node.inputs[0].node.name: node.inputs[1].name
            # Control edges included: an init op is mostly a NoOp that waits for the assignments.
            for node in ancestors(initializers)
            if has(node.op, Trait.ASSIGN)
            # The variable and its value; other forms, such as AssignAdd, depend on what is there already.
            and len(node.inputs) == 2
            and has(node.inputs[0].node.op, Trait.VARIABLE)
        }
        # The graph is stripped and frozen before the values are asked for.
        self._graph = graph.clone() if self._assigned else graph

    def of(self, names: Iterable[str], known: Known) -> dict[str, Tensor]:
        """Initial values of variables; of those alone that initialisers assign and that can be computed.

        Args:
            names: of variables.
            known: values of others, for initialisers that read them.
        """
        found: dict[str, Tensor] = {}

        def value_of(name: str) -> Tensor | None:
            return found[name] if name in found else known(name)

        asked = [name for name in names if name in self._assigned]
        # Initial values may be made of other variables': round by round, those whose sources are known.
        waiting = self._with_sources(asked, known)
        while waiting:
            computed = self._computed([name for name in waiting if self._is_ready(name, value_of)], value_of)
            if not computed:
                break
            found |= computed
            waiting = [name for name in waiting if name not in found]
        return {name: found[name] for name in asked if name in found}

    def assigns(self, name: str) -> bool:
        """True if an initialiser gives this variable a value."""
        return name in self._assigned

    def _with_sources(self, names: Sequence[str], known: Known) -> list[str]:
        """These variables and those without a value that their initial values are made of."""
        wanted = dict.fromkeys(names)
        pending = list(names)
        while pending:
            read = (node.name for node in self._needed(pending.pop()) if has(node.op, Trait.VARIABLE))
            fresh = [n for n in read if n in self._assigned and n not in wanted and known(n) is None]
            wanted |= dict.fromkeys(fresh)
            pending += fresh
        return list(wanted)

    def _needed(self, name: str) -> set[Node]:
        return ancestors([self._graph.value(self._assigned[name]).node], control=False)

    def _is_ready(self, name: str, known: Known) -> bool:
        """True if the variables its initial value is made of have values."""
        return all(
            known(node.name) is not None for node in self._needed(name) if has(node.op, Trait.VARIABLE)
        )

    def _computed(self, names: Sequence[str], known: Known) -> dict[str, Tensor]:
        """The values that can be computed, together if possible: they may share what is drawn at random."""
        try:
            return self._run(names, known) if names else {}
        except ThinflowError:
            if len(names) == 1:
                return {}  # it is missing then, and said to be
        alone = (self._computed([name], known) for name in names)
        return {name: value for values in alone for name, value in values.items()}

    def _run(self, names: Sequence[str], known: Known) -> dict[str, Tensor]:
        from thinflow.interpreter import run_graph

        # Of its own for each run, as the variables in it are replaced by what is known so far.
        graph = self._graph.clone()
        sources = list(dict.fromkeys(self._assigned[name] for name in names))
        graph.inputs, graph.outputs = [], [graph.value(source) for source in sources]
        # Types as the variables declare them: an array of numpy does not tell qint8 from int8.
        elements = {name: graph.node(name).get("dtype") for name in names}
        _keep(graph, ancestors([value.node for value in graph.outputs], control=False))
        read = {node: known(node.name) for node in graph if has(node.op, Trait.VARIABLE)}
        replace_variables(graph, {node: value for node, value in read.items() if value is not None})
        arrays = dict(zip(sources, run_graph(graph, {}, [v.name for v in graph.outputs]), strict=True))
        self.random += [name for name in names if any(map(_is_drawn, self._needed(name)))]
        return {name: Tensor.from_array(arrays[self._assigned[name]], elements[name]) for name in names}


def _keep(graph: Graph, nodes: set[Node]) -> None:
    """Leave nothing but these nodes, which need no others for their values."""
    for node in nodes:
        node.set_control_inputs([other for other in node.control_inputs if other in nodes])
    graph.remove(*(node for node in graph if node not in nodes))


def _is_drawn(node: Node) -> bool:
    """True if a node gives other numbers each time."""
    return has(node.op, Trait.RANDOM) and not any(node.attrs.get(key) for key in _SEEDED)
