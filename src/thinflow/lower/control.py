"""Walks graphs with loops, branches and calls: the part that all targets share.

Calls are lowered in place. How a loop and a choice between two branches are said is the target's own affair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypeVar

from thinflow.analysis.shapes import infer_with_loops
from thinflow.control_flow.frames import Loop
from thinflow.control_flow.functionalize import branch_functions, loop_functions
from thinflow.control_flow.steps import Branching, Step, nodes_of, steps_of
from thinflow.decompose import nms_padded
from thinflow.decompose.rules import refusals_at
from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.function import NMS_PADDED, Function
from thinflow.ir.graph import Graph, Node, Value, library_of
from thinflow.ir.types import BOOL
from thinflow.lower.building import B
from thinflow.lower.decomposing import DecomposingLowering, is_complex
from thinflow.lower.lowering import Lowering, Specs, Vocabulary, needed_nodes
from thinflow.lower.slots import Complex, S, stored_shape
from thinflow.ops.traits import Trait, has
from thinflow.program.model import Tensor

_MAX_DEPTH = 50  # calls inside calls
_CYCLIC = Trait.ENTER | Trait.SWITCH | Trait.MERGE | Trait.NEXT_ITERATION

_MAX_TRIES = 6  # to find shapes that the variables of a loop keep

F = TypeVar("F", bound="FlowLowering[Any, Any]")
R = TypeVar("R")
BodyMaker: TypeAlias = "Callable[[FlowLowering[Any, S], list[S]], list[S]]"
"""Lowers something to where a lowering writes, from what stands for its arguments."""


class FlowLowering(DecomposingLowering[B, S]):
    """A run that knows loops, branches and calls.

    All that a target says beside its rules it says by overriding: `lower_while`, `lower_if` and `equal` for
    loops and branches of its own; `stored`, `hand_out` and `units` where values have forms that are no
    tensors of the program.

    Attributes:
        wanted: what is read by whoever asked for this run.
    """

    def __init__(
        self,
        target: Vocabulary[B],
        specs: Specs | None = None,
        constants: Lowering[B, S] | None = None,
        *,
        around: FlowLowering[B, S] | None = None,
    ) -> None:
        super().__init__(target, specs, constants)
        self._depth: int = 0 if around is None else around._depth + 1
        self.wanted = set()
        self._inside: dict[Node, str] = {}  # nodes of loops and branches -> why nobody else can read them

    # --- what a target adds -------------------------------------------------------------------------------

    def lower_while(self, condition: Function, body: Function, slots: Sequence[S]) -> list[S]:
        """The arguments of a loop once the condition is false."""
        raise UnsupportedOp(f"{self.target.label} has no loops")

    def lower_if(
        self, decision: S, slots: Sequence[S], then: BodyMaker[S], otherwise: BodyMaker[S]
    ) -> list[S]:
        """The results of one of two branches; the decision is not known yet."""
        raise UnsupportedOp(f"{self.target.label} has no branches")

    def equal(self, x: Any, number: int) -> S:
        """True if an integer scalar that is not known yet is a number."""
        raise UnsupportedOp(f"{self.target.label} has no branches")

    def stored(self, value: Value, slot: S) -> S:
        """A value as it is handed out: by a tensor, if there is a form for that."""
        return slot

    def hand_out(self, node: Node) -> None:
        """Refuse outputs of a node that only its neighbours could read."""

    def units(self, graph: Graph) -> Iterable[Sequence[Node]]:
        """Groups of nodes that can be lowered together only."""
        return ()

    # --- runs beside this one -----------------------------------------------------------------------------

    def nested(self: F) -> F:
        """A run for a function that is called here, which writes to the same place."""
        inner = type(self)(self.target, around=self)
        inner.builder = self.builder
        return inner

    def trial(self: F) -> F:
        """A run for a try, which has its constants from this one."""
        return type(self)(self.target, self.specs, self)

    # --- tensors ------------------------------------------------------------------------------------------

    def operand_of_refused(self, slot: S) -> S:
        """The slot of an operand of a refused node, which others may go on reading."""
        # Who else reads a complex value needs both of its parts.
        return slot if isinstance(slot, Complex) else self.tensor_of(slot)

    def output(self, value: Value) -> S:
        """The slot of an output of the program."""
        slot = self.read(value)
        self.builder.begin(value.node)
        return self.stored(value, slot)

    # --- steps --------------------------------------------------------------------------------------------

    def lower_all(self, graph: Graph, outputs: Sequence[Value], inputs: Iterable[Value]) -> None:
        """Emit all that outputs need."""
        self.wanted.update(outputs)
        for step in steps(graph, outputs, list(inputs)):
            self.lower_step(step)

    def lower_step(self, step: Step) -> None:
        """Emit a node, a loop or a branching. A refusal is kept: it counts only if a result is read."""
        if isinstance(step, Node):
            self.lower(step)
            return
        leaving = step.exits if isinstance(step, Loop) else step.merges
        where = "it is part of a loop" if isinstance(step, Loop) else "it is there on one branch only"
        # Before anything is emitted: bodies are lowered from copies, so nobody outside may read these nodes.
        self._inside.update(dict.fromkeys(nodes_of(step), where))
        self.builder.begin(leaving[0] if leaving else nodes_of(step)[0])
        mark = self.mark()
        try:
            with refusals_at(nodes_of(step)[0]):
                results = self._loop(step) if isinstance(step, Loop) else self._branching(step)
        except UnsupportedOp as refusal:
            self.undo(mark)
            for node in leaving:
                # A result counts as refused only where it is read; port 0 is there even without a reader.
                self._refuse(node, refusal, {v.port for v in node.outputs} | {0})
            return
        for node, slot in zip(leaving, results, strict=True):
            self.tensors[node.output()] = slot

    def read(self, value: Value) -> S:
        """The slot that stands for a value."""
        if value not in self.tensors and value.node in self._inside:
            hint = "`thinflow transform -t raise_control_flow` makes a call of it all, or says why it cannot"
            error = UnsupportedOp(self._inside[value.node], value.node.where, hint)
            self._refuse(value.node, error, {value.port})
        return super().read(value)

    def _apply(self, node: Node) -> tuple[Any, ...]:
        functions = library_of(node)
        call = next((rule for trait, rule in _CALLS.items() if has(node.op, trait)), None)
        if node.op not in functions and call is None:
            by = self._of_complex if is_complex(node, self.tensors) else self._by_rule_or_parts
            return by(node)
        slots = [self.read(v) for v in node.inputs]
        self.builder.begin(node)
        with refusals_at(node):
            if node.op in functions:
                return tuple(self.inlined(_function(node, FunctionAttr(node.op, node.attrs)), slots))
            assert call is not None
            return tuple(call(self, node, slots))

    def _refuse(self, node: Node, error: UnsupportedOp, ports: set[int]) -> None:
        for value in node.inputs:  # operators read tensors, also those that stand for nothing
            if value in self.tensors:
                self.tensors[value] = self.operand_of_refused(self.tensors[value])
        super()._refuse(node, error, ports)

    # --- calls, loops and branches ------------------------------------------------------------------------

    def inlined(self, function: Function, slots: Sequence[S]) -> list[S]:
        """A function's results for these arguments, computed here."""
        if self._depth >= _MAX_DEPTH:
            raise UnsupportedOp(
                f"{_MAX_DEPTH} calls inside each other, the last to '{function.name}'",
                hint="does a function call itself?",
            )
        if len(slots) != len(function.inputs):
            raise UnsupportedOp(f"'{function.name}' takes {len(function.inputs)} inputs, not {len(slots)}")
        node = self.builder.node
        # Shapes are inferred anew for each call: the same function may be called with others.
        body = _copied(function)
        specs = {v: self.builder.tensor_spec(s) for v, s in zip(body.inputs, slots, strict=True)}
        infer_with_loops(body.graph, specs)
        inner = self.nested()
        inner.tensors = dict(zip(body.inputs, slots, strict=True))
        inner.lower_all(body.graph, body.outputs, body.inputs)
        results = [inner.read(v) for v in body.outputs]
        self.builder.begin(node)
        return results

    def select_branch(
        self, decision: S, slots: Sequence[S], then: BodyMaker[S], otherwise: BodyMaker[S]
    ) -> list[S]:
        """The results of one of two branches: of that branch itself if the decision is known."""
        if not isinstance(decision, Tensor) or not decision.is_constant:
            return self.lower_if(decision, slots, then, otherwise)
        array = decision.array()
        # TensorFlow's rule: anything but a scalar is true unless it is empty.
        is_true = bool(array[()]) if array.ndim == 0 else array.size > 0
        return (then if is_true else otherwise)(self, list(slots))

    def _loop(self, loop: Loop) -> list[Any]:
        functions = loop_functions(loop)
        slots = [self.read(v) for v in functions.arguments]
        self.builder.begin(loop.exits[0])
        last = self.lower_while(functions.condition, functions.body, slots)
        return self.inlined(functions.ending, last)

    def _branching(self, branching: Branching) -> list[Any]:
        arguments, functions = branch_functions(branching)
        slots = [self.read(v) for v in arguments]
        decision = self.read(branching.predicate)
        self.builder.begin(branching.merges[0])
        makers = [called(f) for f in functions]
        if branching.predicate.dtype is BOOL or len(makers) == 2:
            # A Switch sends false to output 0 and true to output 1, so the branch for true is the second.
            return self.select_branch(decision, slots, makers[1], makers[0])
        return self.lower_case(makers, [decision, *slots])

    def lower_case(self, branches: Sequence[BodyMaker[S]], slots: list[S], number: int = 0) -> list[S]:
        """The results of branch number slots[0], else of the last one: choices inside choices."""
        index, *rest = slots
        # TensorFlow's Case takes the last branch for numbers out of range.
        if len(branches) == number + 1:
            return branches[number](self, rest)

        def first(inner: FlowLowering[Any, S], given: list[S]) -> list[S]:
            return branches[number](inner, given[1:])

        def others(inner: FlowLowering[Any, S], given: list[S]) -> list[S]:
            return inner.lower_case(branches, given, number + 1)

        return self.select_branch(self.index_is(index, number), slots, first, others)

    def index_is(self, x: S, number: int) -> S:
        """True if an integer scalar is a number; constant if x is."""
        if not isinstance(x, Tensor):
            raise UnsupportedOp("its index is a list")
        if not x.is_constant:
            return self.equal(x, number)
        result: S = self.builder.const(x.array() == number, "chosen", BOOL)
        return result

    def settled(self, forms: list[S], attempt: Callable[[list[S]], tuple[R, list[S]]]) -> tuple[R, list[S]]:
        """The body of a loop, and the forms of its variables, which hold in every iteration.

        Args:
            forms: with which the variables start.
            attempt: makes the body for some forms; the body, and the forms that hold before and after it.
        """
        # Joining only ever forgets sizes, so that this settles: a size that grows is open from the second try
        # on, which may open others.
        for _ in range(_MAX_TRIES):
            body, after = attempt(forms)
            if all(stored_shape(a) == stored_shape(b) for a, b in zip(forms, after, strict=True)):
                return body, forms
            forms = after
        raise UnsupportedOp("the variables of the loop do not keep their shapes")


def steps(graph: Graph, outputs: Sequence[Value], inputs: Sequence[Value]) -> list[Step]:
    """The steps that compute outputs from inputs, in order. O(nodes + edges)."""
    order: list[Step] = list(needed_nodes(outputs, inputs))
    # TF1's loops and branches are cycles of single nodes, and finding them costs a walk over the graph.
    if any(isinstance(n, Node) and has(n.op, _CYCLIC) for n in order):
        return steps_of(graph, outputs, inputs)
    return order


def called(function: Function) -> BodyMaker[Any]:
    """A maker that calls a function in place."""
    return lambda lowering, slots: lowering.inlined(function, slots)


def _function(node: Node, attr: Attr | None) -> Function:
    functions = library_of(node)
    if not isinstance(attr, FunctionAttr) or attr.name not in functions:
        name = f" '{attr.name}'" if isinstance(attr, FunctionAttr) else ""
        raise UnsupportedOp(f"there is no function{name}", node.where, "the file has lost its library")
    return functions[attr.name].instantiated(attr.attrs)


def _copied(function: Function) -> Function:
    """A function with a graph of its own, in which shapes can be noted for one call. O(nodes + edges)."""
    graph = function.graph.clone()

    def twin(value: Value) -> Value:
        return graph.node(value.node.name).output(value.port)

    return replace(
        function,
        graph=graph,
        inputs=[twin(v) for v in function.inputs],
        outputs=[twin(v) for v in function.outputs],
    )


def _call(run: FlowLowering[Any, Any], node: Node, slots: list[Any]) -> list[Any]:
    function = _function(node, node.attrs.get("f"))
    if function.implements != NMS_PADDED:
        return run.inlined(function, slots)
    proposal = nms_padded.proposal(function.name, *run.described(slots))
    if proposal is None:
        return run.inlined(function, slots)
    # Boxes and scores alone: all other arguments were read as constants.
    *results, is_right = run.inlined(proposal, slots[:2])

    def proposed(_: FlowLowering[Any, Any], given: list[Any]) -> list[Any]:
        return given[len(slots) :]

    def itself(inner: FlowLowering[Any, S], given: list[S]) -> list[S]:
        return inner.inlined(function, given[: len(slots)])

    # Both branches are given the same operands, of which each takes its own.
    return run.select_branch(is_right, [*slots, *results], proposed, itself)


def _if(run: FlowLowering[Any, Any], node: Node, slots: list[Any]) -> list[Any]:
    then, otherwise = (_function(node, node.attrs.get(f"{which}_branch")) for which in ("then", "else"))
    return run.select_branch(slots[0], slots[1:], called(then), called(otherwise))


def _case(run: FlowLowering[Any, Any], node: Node, slots: list[Any]) -> list[Any]:
    attr = node.attrs.get("branches")
    branches = [_function(node, f) for f in attr] if isinstance(attr, tuple) else []
    if not branches:
        raise UnsupportedOp("it has no branches", node.where)
    return run.lower_case([called(f) for f in branches], slots)


def _while(run: FlowLowering[Any, Any], node: Node, slots: list[Any]) -> list[Any]:
    condition, body = (_function(node, node.attrs.get(which)) for which in ("cond", "body"))
    if not len(body.inputs) == len(body.outputs) == len(slots):
        raise UnsupportedOp("its body does not give what it takes", node.where)
    return run.lower_while(condition, body, slots)


_CALLS = {Trait.CALL: _call, Trait.IF: _if, Trait.CASE: _case, Trait.WHILE: _while}
"""The rules of ops that call functions: of the run, the node and what stands for its inputs."""
