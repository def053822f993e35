"""Loops, branches and calls that an engine cannot run whole: their bodies go to it piece by piece.

The interpreter decides which body runs, and how often. Each body is a graph of its own, cut into regions like
any other when it first runs, since only then are the sizes of its arguments known.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from thinflow.control_flow.frames import Loop, endless, max_iterations
from thinflow.control_flow.functionalize import LoopFunctions, branch_functions, loop_functions
from thinflow.control_flow.steps import Branching, nodes_of, root_of
from thinflow.errors import ThinflowError
from thinflow.interpreter import Plan
from thinflow.interpreter.calls import Bodies, Runner, is_true
from thinflow.ir.function import Function
from thinflow.ir.order import ancestors
from thinflow.ir.types import TensorSpec, dtype
from thinflow.ops import registry
from thinflow.ops.traits import Trait

if TYPE_CHECKING:
    from thinflow.ir.graph import Graph, Node, Value
    from thinflow.typing import Array

MOST_VARIANTS = 2
"""A body is cut for so many choices of argument sizes; for others the interpreter runs it."""

_NOT_AS_USUAL = (ThinflowError, LookupError, ValueError, StopIteration)
"""Errors of taking apart a loop or a branching that TensorFlow would not have built."""

Key: TypeAlias = tuple[object, ...]


class Part(Protocol):
    """A body cut into regions: what `base.Compiled` is, for arguments of any kind."""

    @property
    def placement(self) -> dict[str, str]: ...

    @property
    def reasons(self) -> dict[str, str]: ...

    def compute(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs as they come."""
        ...


Cut = Callable[["Graph", Sequence["Value"], Sequence["Value"], "Pieces"], Part]


class Pieces:
    """All the bodies of a graph, those inside others included.

    Args:
        engine: its name, for the placement.
        functions: the graph's library.
        cut: cuts a graph into regions.
    """

    def __init__(self, engine: str, functions: Mapping[str, Function], cut: Cut) -> None:
        self.engine = engine
        self.bodies = Bodies(functions, self._called)
        self._cut = cut
        self._made: list[Body] = []

    def cut(self, graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value]) -> Part:
        """A body in regions."""
        return self._cut(graph, inputs, outputs, self)

    def body(self, function: Function, prefix: str = "", fixed: Iterable[int] = ()) -> Body:
        """A function ready to run.

        Args:
            function: what runs.
            prefix: what its nodes are reported with, before their names.
            fixed: the arguments that are the same at every call.
        """
        self._made.append(Body(self, function, prefix, fixed))
        return self._made[-1]

    def _called(self, function: Function) -> Runner:
        return self.body(function, f"{function.name}/").compute

    def branches(self, graph: Graph, branching: Branching, constants: Collection[Node]) -> Branches | None:
        """A branching of TF1 ready to run; None if the branches cannot be told apart, or have effects."""
        definitions = [registry.find(n.op) for step in branching.members for n in nodes_of(step)]
        if any(d is None or d.has(Trait.STATEFUL) for d in definitions):
            return None
        try:
            return Branches(graph, branching, constants, self)
        except _NOT_AS_USUAL:
            return None

    def loop_runner(self, loop: Loop) -> PiecewiseLoop | None:
        """A loop of TF1 ready to run; None if its body cannot be told from the rest."""
        try:
            return PiecewiseLoop(loop_functions(loop), self)
        except _NOT_AS_USUAL:
            return None

    @property
    def placement(self) -> dict[str, str]:
        """The nodes of bodies that the engine has run -> the engine."""
        return {name: self.engine for body in self._made for name in body.on_engine}

    @property
    def reasons(self) -> dict[str, str]:
        """The nodes of bodies that were cut and that the engine did not run -> why."""
        return {name: why for body in self._made for name, why in body.reasons.items()}


class Body:
    """A function that runs in regions if some of them are the engine's, else in the interpreter.

    Arguments that it hands back as they are and that nobody can change (weights, in loops) become constants
    of the regions: engines prepare weights once, and would copy arguments in every turn.
    """

    def __init__(self, pieces: Pieces, function: Function, prefix: str, fixed: Iterable[int]) -> None:
        self.function = function
        self.on_engine: set[str] = set()
        self.reasons: dict[str, str] = {}
        self._pieces, self._prefix = pieces, prefix
        self._variants: dict[Key, _Variant | None] = {}
        self._plan: Plan | None = None
        # A loop's body hands back unchanged what every turn gets alike.
        handed_back = (i for i, v in enumerate(function.inputs) if v in function.outputs)
        self._kept = list(dict.fromkeys([*fixed, *handed_back]))

    def compute(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The function's results as they come."""
        variant = self.variant(arguments)
        if variant is not None:
            return variant.compute(arguments)
        # Planned on demand: a body that always runs in regions never needs it.
        if self._plan is None:
            f, pieces = self.function, self._pieces
            self._plan = Plan(
                f.graph,
                f.outputs,
                f.inputs,
                targets=f.control_outputs,
                bodies=pieces.bodies,
                loop_runners=pieces.loop_runner,
            )
        return self._plan.compute(arguments)

    def variant(self, arguments: Sequence[Any]) -> _Variant | None:
        """The regions for such arguments; None if the interpreter runs them all."""
        bound = {i: arguments[i] for i in self._kept if _is_fixed(arguments[i])}
        # By address: to compare the numbers of weights would cost more in each turn than the turn itself.
        key = tuple(id(a) if i in bound else _kind(a) for i, a in enumerate(arguments))
        if key not in self._variants:
            # A loop over growing arrays has other sizes in every turn, and cutting would have to be paid in
            # each.
            if len(self._variants) >= MOST_VARIANTS:
                return None
            self._variants[key] = self._cut(arguments, bound)
        return self._variants[key]

    def _cut(self, arguments: Sequence[Any], bound: Mapping[int, Array]) -> _Variant | None:
        if not self._has_no_other_effects():
            self._note({n.name: "its function has effects besides its results" for n in self.function.graph})
            return None
        try:
            variant = _Variant(self._pieces, self.function, arguments, bound)
        except ThinflowError as error:
            self._note({n.name: error.message for n in self.function.graph if n.tensor is None})
            return None
        self._note(variant.part.reasons)
        found = {n for n, where in variant.part.placement.items() if where == self._pieces.engine}
        self.on_engine |= {self._prefix + name for name in found}
        return variant if found else None

    def _note(self, reasons: Mapping[str, str]) -> None:
        self.reasons.update((self._prefix + name, why) for name, why in reasons.items())

    def _has_no_other_effects(self) -> bool:
        f = self.function
        return not f.control_outputs or set(f.control_outputs) <= ancestors([v.node for v in f.outputs])


class _Variant:
    """A body for arguments of certain types and sizes, some of them being constants."""

    def __init__(
        self, pieces: Pieces, function: Function, arguments: Sequence[Any], bound: Mapping[int, Array]
    ) -> None:
        # A copy: sizes and constants of these arguments go into it, and other variants have others.
        graph = function.graph.clone()
        inputs = [graph.node(v.node.name).output(v.port) for v in function.inputs]
        outputs = [graph.node(v.node.name).output(v.port) for v in function.outputs]
        for value, array in zip(inputs, arguments, strict=True):
            if isinstance(array, np.ndarray | np.generic):
                value.spec = TensorSpec(dtype(array.dtype), array.shape)
        for number, array in bound.items():
            inputs[number].replace_uses(graph.constant(array, inputs[number].node.name))
        self._fed = [i for i in range(len(inputs)) if i not in bound]
        # An engine would copy what only passes through, and takes no resources or variants at all.
        self._handed = {o: inputs.index(v) for o, v in enumerate(outputs) if v in inputs}
        self._made = [o for o in range(len(outputs)) if o not in self._handed]
        self.part = pieces.cut(graph, [inputs[i] for i in self._fed], [outputs[o] for o in self._made])
        # A constant is known by its address, so it has to stay where it is.
        self._bound = dict(bound)

    def compute(self, arguments: Sequence[Any]) -> list[Any]:
        results: list[Any] = [None] * (len(self._made) + len(self._handed))
        for output, number in self._handed.items():
            results[output] = arguments[number]
        for output, result in zip(
            self._made, self.part.compute([arguments[i] for i in self._fed]), strict=True
        ):
            results[output] = result
        return results


def _is_fixed(argument: Any) -> bool:
    # A scalar is more likely a counter than a weight. What can be written to may hold other numbers next
    # time.
    return isinstance(argument, np.ndarray) and bool(argument.ndim) and not argument.flags.writeable


def _kind(argument: Any) -> object:
    if isinstance(argument, np.ndarray | np.generic):
        return argument.dtype, argument.shape
    return type(argument)


class PiecewiseLoop:
    """Runs a loop of TF1 if the engine runs some of its body; see `interpreter.LoopRunner`."""

    def __init__(self, functions: LoopFunctions, pieces: Pieces) -> None:
        self.arguments: Sequence[Value] = functions.arguments
        # TF1 graphs know loops as a ring of nodes; as functions, condition and body are cut like any other.
        self._condition = pieces.body(functions.condition)
        self._body = pieces.body(functions.body)
        self._ending = pieces.body(functions.ending)

    def run(self, arguments: Sequence[Any]) -> Sequence[Any] | None:
        if self._body.variant(arguments) is None:
            return None
        values = list(arguments)
        limit = max_iterations()
        for _ in range(limit):
            if not is_true(self._condition.compute(values)[0]):
                return self._ending.compute(values)
            values = list(self._body.compute(values))
        raise endless(limit)


class Branches:
    """Takes one of the branches that Switches and Merges make, if the engine runs some of it.

    Attributes:
        inputs: the values it needs, the predicate first.
        outputs: what its Merges hand out.
    """

    def __init__(
        self, graph: Graph, branching: Branching, constants: Collection[Node], pieces: Pieces
    ) -> None:
        arguments, functions = branch_functions(branching)
        deciding = next(
            n.inputs[1]
            for step in branching.members
            for n in nodes_of(step)
            if len(n.inputs) > 1 and "Switch" in n.op and root_of(n.inputs[1]) is branching.predicate
        )
        known = (i for i, v in enumerate(arguments) if v.node.tensor is not None or v.node in constants)
        self._known = {i: _constant(graph, arguments[i]) for i in known}
        self._given = [i for i in range(len(arguments)) if i not in self._known]
        self.inputs = [deciding, *(arguments[i] for i in self._given)]
        self.outputs = [m.output() for m in branching.merges]
        self._bodies = [pieces.body(f, fixed=self._known) for f in functions]

    def compute(self, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """The outputs; None if the interpreter had better run it."""
        arguments: list[Any] = [self._known.get(i) for i in range(len(self._given) + len(self._known))]
        for number, value in zip(self._given, inputs[1:], strict=True):
            arguments[number] = value
        # Only one branch is ever cut, the one that is taken; the other waits until it is.
        variant = self._bodies[self._side(inputs[0])].variant(arguments)
        return None if variant is None else variant.compute(arguments)

    def _side(self, predicate: Any) -> int:
        array = np.asarray(predicate)
        if array.dtype.kind == "b":
            return int(is_true(array))
        index = int(array)
        # As TensorFlow's Case does: any index out of range takes the last branch.
        return index if 0 <= index < len(self._bodies) else len(self._bodies) - 1


def _constant(graph: Graph, value: Value) -> Array:
    """A value that needs no inputs, as an array that nobody can change."""
    # A view, so that the mark below is not put on an array that the plan may keep for itself.
    fixed: Array = Plan(graph, [value]).run({})[0].view()
    # That is the sign by which a body knows that it may take the array for a constant.
    fixed.flags.writeable = False
    return fixed
