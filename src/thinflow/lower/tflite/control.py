"""Control flow: calls are lowered in place, loops become WHILE, branches IF, each with subgraphs of its own.

A subgraph sees nothing of its surroundings, so what a body reads from outside is one of its inputs, and in a
loop a variable that never changes; LiteRT hands such a variable on without a copy. Constants are put into
the subgraph instead, where kernels want them. Lists go in and out as the tensors that hold their items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from thinflow.analysis.loops import infer_with_loops
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.frames import Loop
from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.order import MERGES
from thinflow.ir.types import BOOL
from thinflow.lower.lowering import Lowering, Specs, Target, needed_nodes, raise_refusals
from thinflow.lower.structure import (
    Branching,
    Step,
    branch_functions,
    loop_functions,
    nodes_of,
    root_of,
    steps_of,
)
from thinflow.lower.tflite import schema
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.counters import merge_comparisons, replace_tensors, twin_counters
from thinflow.lower.tflite.fuse import fuse, remove_dead
from thinflow.lower.tflite.listed import Listed, Slot, items_of
from thinflow.lower.tflite.program import Subgraph, Tensor
from thinflow.lower.tflite.slots import (
    argument_of,
    described,
    filled,
    is_constant,
    joined_slots,
    like,
    separate_outputs,
    stored_shape,
    tensor_of,
    truth,
)

TARGET = Target("tflite", "TFLite", Builder)

_MAX_DEPTH = 50  # calls inside calls
_MAX_TRIES = 6  # to find shapes that the variables of a loop keep
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_TF1 = frozenset(
    {"Enter", "RefEnter", "Switch", "RefSwitch", "_SwitchN", "NextIteration", "RefNextIteration", *MERGES}
)

# The loader takes any file: a loop or a body may be malformed in ways that nothing here foresees.
_DAMAGE = (ThinflowError, TypeError, ValueError, LookupError, AttributeError, ArithmeticError)

Maker: TypeAlias = "Callable[[ControlLowering, list[Slot]], list[Slot]]"
"""Lowers something to where a lowering writes, from what stands for its arguments."""


@dataclass
class _Body:
    """A subgraph under construction, with its arguments and results as values of their own."""

    subgraph: Subgraph
    builder: Builder
    arguments: list[Slot]
    results: list[Slot]

    def reads(self) -> set[Tensor]:
        """What its operators read, and what goes through it under another number."""
        read = {t for o in self.subgraph.operators for t in o.inputs if t is not None}
        for number, result in enumerate(self.results):
            same = number < len(self.arguments) and result is self.arguments[number]
            if not same and isinstance(tensor := tensor_of(result), Tensor):
                read.add(tensor)
        return read


class ControlLowering(Lowering):
    """A run that knows loops, branches and calls.

    Attributes:
        subgraphs: those made so far, number 1 first; the subgraph that runs is to be number 0.
    """

    def __init__(
        self,
        specs: Specs | None,
        constants: Lowering | None = None,
        *,
        around: ControlLowering | None = None,
    ) -> None:
        super().__init__(TARGET, specs, constants)
        self.subgraphs: list[Subgraph] = [] if around is None else around.subgraphs
        self._depth: int = 0 if around is None else around._depth + 1
        self._inside: dict[Node, str] = {}  # nodes of loops and branches -> why nobody else can read them

    # --- steps --------------------------------------------------------------------------------------------

    def lower_all(self, graph: Graph, outputs: Sequence[Value], inputs: Iterable[Value]) -> None:
        """Emit all that outputs need."""
        for step in steps(graph, outputs, list(inputs)):
            self.lower_step(step)

    def lower_step(self, step: Step) -> None:
        """Emit a node, a loop or a branching. A refusal is kept: it counts only if a result is read."""
        if isinstance(step, Node):
            self.lower(step)
            return
        leaving = step.exits if isinstance(step, Loop) else step.merges
        where = "it is part of a loop" if isinstance(step, Loop) else "it is there on one branch only"
        self._inside.update(dict.fromkeys(nodes_of(step), where))
        self.builder.begin(leaving[0] if leaving else nodes_of(step)[0])
        mark, made = len(self.builder.operators), len(self.subgraphs)
        try:
            results = self._loop(step) if isinstance(step, Loop) else self._branching(step)
        except _DAMAGE as error:
            refusal = _refusal(error, nodes_of(step)[0])
            del self.builder.operators[mark:]
            del self.subgraphs[made:]
            for node in leaving:
                self._refuse(node, refusal, {v.port for v in node.outputs} | {0})
            return
        for node, slot in zip(leaving, results, strict=True):
            self.tensors[node.output()] = slot

    def read(self, value: Value) -> Any:
        """What stands for a value."""
        if value not in self.tensors and value.node in self._inside:
            error = UnsupportedOp(self._inside[value.node], value.node.where)
            self._refuse(value.node, error, {value.port})
        return super().read(value)

    def _apply(self, node: Node) -> tuple[Any, ...]:
        functions = node.graph.functions if node.graph is not None else {}
        if node.op not in functions and node.op not in _RULES:
            return super()._apply(node)
        slots: list[Slot] = [self.read(v) for v in node.inputs]
        self.builder.begin(node)
        made = len(self.subgraphs)
        try:
            if node.op in functions:
                return tuple(self.inlined(_function(node, FunctionAttr(node.op, node.attrs)), slots))
            return tuple(_RULES[node.op](self, node, slots))
        except _DAMAGE as error:
            del self.subgraphs[made:]
            raise _refusal(error, node) from error

    def _refuse(self, node: Node, error: UnsupportedOp, ports: set[int]) -> None:
        for value in node.inputs:  # operators read tensors, also those that stand for nothing
            slot = self.tensors.get(value)
            if isinstance(slot, Listed):
                self.tensors[value] = slot.tensor or Tensor("", None, slot.element, np.zeros(0))
        super()._refuse(node, error, ports)

    # --- calls --------------------------------------------------------------------------------------------

    def inlined(self, function: Function, slots: Sequence[Slot]) -> list[Slot]:
        """A function's results for these arguments, computed here."""
        if self._depth >= _MAX_DEPTH:
            raise UnsupportedOp(
                f"{_MAX_DEPTH} calls inside each other, the last to '{function.name}'",
                hint="does a function call itself?",
            )
        if len(slots) != len(function.inputs):
            raise UnsupportedOp(f"'{function.name}' takes {len(function.inputs)} inputs, not {len(slots)}")
        node = self.builder.node
        body = _copied(function)
        specs = {v: self.builder.tensor_spec(s) for v, s in zip(body.inputs, slots, strict=True)}
        infer_with_loops(body.graph, specs)
        inner = ControlLowering(None, around=self)
        inner.builder = self.builder
        inner.tensors = dict(zip(body.inputs, slots, strict=True))
        inner.lower_all(body.graph, body.outputs, body.inputs)
        results = [inner.read(v) for v in body.outputs]
        self.builder.begin(node)
        return results

    # --- loops --------------------------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> list[Slot]:
        functions = loop_functions(loop)
        slots = [self.read(v) for v in functions.arguments]
        self.builder.begin(loop.exits[0])
        last = self.turned(functions.condition, functions.body, slots)
        return self.inlined(functions.ending, last)

    def turned(self, condition: Function, body: Function, slots: Sequence[Slot]) -> list[Slot]:
        """What the arguments are once the condition is false, by a WHILE."""
        pairs = zip(body.inputs, body.outputs, strict=True)
        fixed = [root_of(result) is argument for argument, result in pairs]
        turn, forms = self._settled(body, slots, fixed)
        test = self._subgraph("condition", forms, lambda inner, given: inner.inlined(condition, given))
        if len(test.results) != 1:
            raise UnsupportedOp("the condition of the loop is not one value")
        decision = truth(test.builder, test.results[0])
        twins, decision = _without_twins(slots, fixed, test, turn, decision)
        used = [(made, made.reads()) for made in (test, turn)]
        # What never changes goes in only if it is read.
        kept = [
            n
            for n, form in enumerate(forms)
            if (not fixed[n] and n not in twins)
            or (not is_constant(form) and any(tensor_of(made.arguments[n]) in read for made, read in used))
        ]
        first = [self._given(slots[n], forms[n]) for n in kept]
        if not kept:
            raise UnsupportedOp("the loop has no variables")
        numbers = {
            "cond_subgraph_index": self._finished(test, kept, [decision]),
            "body_subgraph_index": self._finished(turn, kept, [_stored(turn, n) for n in kept]),
        }
        outputs = self.builder.step_ports(
            "WHILE",
            *first,
            shapes=[t.shape for n in kept if isinstance(t := tensor_of(forms[n]), Tensor)],
            elements=[t.dtype for t in first],
            **numbers,
        )
        results = list(slots)
        for number, output in zip(kept, outputs, strict=True):
            results[number] = like(forms[number], output)
        for number, earlier in twins.items():
            results[number] = results[earlier]
        return results

    def _settled(
        self, body: Function, slots: Sequence[Slot], fixed: Sequence[bool]
    ) -> tuple[_Body, list[Slot]]:
        """The body for shapes of its variables that hold in every turn, and the variables."""
        forms: list[Slot] = [
            s if keep and is_constant(s) else self._variable(s) for s, keep in zip(slots, fixed, strict=True)
        ]
        made = len(self.subgraphs)
        for _ in range(_MAX_TRIES):
            turn = self._subgraph("body", forms, lambda inner, given: inner.inlined(body, given))
            after = [
                form if keep else joined_slots(form, result, f"variable {n} of the loop")
                for n, (form, result, keep) in enumerate(zip(forms, turn.results, fixed, strict=True))
            ]
            if all(a.shape == b.shape for a, b in zip(forms, after, strict=True)):
                return turn, forms
            forms = after
            del self.subgraphs[made:]
        raise UnsupportedOp("the variables of the loop do not keep their shapes")

    def _variable(self, slot: Slot) -> Slot:
        """What a loop variable looks like that starts with this."""
        if isinstance(slot, Tensor):
            return Tensor(slot.name, slot.shape, slot.dtype)
        shape = None if slot.shape is None else (slot.count, *slot.shape)
        return replace(slot, tensor=Tensor("items", shape, slot.element))

    def _given(self, slot: Slot, form: Slot) -> Tensor:
        """What goes into an operator for an argument of this form."""
        if isinstance(slot, Tensor):
            return slot
        known = replace(slot, shape=form.shape) if isinstance(form, Listed) else slot
        return items_of(self.builder, known)

    # --- branches -----------------------------------------------------------------------------------------

    def _branching(self, branching: Branching) -> list[Slot]:
        arguments, functions = branch_functions(branching)
        slots = [self.read(v) for v in arguments]
        decision = self.read(branching.predicate)
        self.builder.begin(branching.merges[0])
        makers = [_called(f) for f in functions]
        if branching.predicate.dtype is BOOL or len(makers) == 2:
            return self.chosen(decision, slots, makers[1], makers[0])
        return _one_of(self, 0, makers, [decision, *slots])

    def chosen(self, decision: Slot, slots: Sequence[Slot], then: Maker, otherwise: Maker) -> list[Slot]:
        """What one of two branches gives: by an IF, or that branch itself if the decision is known."""
        if isinstance(decision, Tensor) and decision.is_constant:
            array = np.asarray(decision.array())
            is_true = bool(array[()]) if array.ndim == 0 else array.size > 0
            return (then if is_true else otherwise)(self, list(slots))
        decision = truth(self.builder, decision)
        forms: list[Slot] = [s if is_constant(s) else self._variable(s) for s in slots]
        branches = [self._subgraph("then", forms, then), self._subgraph("else", forms, otherwise)]
        if len(branches[0].results) != len(branches[1].results):
            raise UnsupportedOp("the branches give different numbers of results")
        joined = [
            joined_slots(a, b, f"result {n} of the branches")
            for n, (a, b) in enumerate(zip(branches[0].results, branches[1].results, strict=True))
        ]
        for branch in branches:
            branch.results = [described(r, j) for r, j in zip(branch.results, joined, strict=True)]
        used = [branch.reads() | {t for r in branch.results if (t := tensor_of(r))} for branch in branches]
        kept = [
            n
            for n, form in enumerate(forms)
            if not is_constant(form)
            and any(tensor_of(b.arguments[n]) in u for b, u in zip(branches, used, strict=True))
        ]
        numbers = [
            self._finished(branch, kept, [_stored(branch, n) for n in range(len(joined))])
            for branch in branches
        ]
        outputs = self.builder.step_ports(
            "IF",
            decision,
            *(self._given(slots[n], forms[n]) for n in kept),
            shapes=[stored_shape(j) for j in joined],
            elements=[j.element if isinstance(j, Listed) else j.dtype for j in joined],
            then_subgraph_index=numbers[0],
            else_subgraph_index=numbers[1],
        )
        return [like(j, output) for j, output in zip(joined, outputs, strict=True)]

    # --- subgraphs ----------------------------------------------------------------------------------------

    def _subgraph(self, role: str, forms: Sequence[Slot], make: Maker) -> _Body:
        """What `make` emits for arguments of these forms, in a place of its own."""
        node = self.builder.node
        inner = ControlLowering(None, around=self)
        inner.builder.begin(node)
        arguments = [argument_of(form, inner.builder, n) for n, form in enumerate(forms)]
        results = make(inner, list(arguments))
        inner.builder.begin(node)
        if any(isinstance(r, Listed) and r.tensor is None and r.shape is not None for r in results):
            results = [filled(r, inner.builder) for r in results]
        outputs = [t for r in results if (t := tensor_of(r)) is not None]
        subgraph = Subgraph(f"{node.name}/{role}", [], outputs, inner.builder.operators)
        remove_dead(subgraph)
        raise_refusals(subgraph.operators)
        inner.builder.operators = subgraph.operators
        return _Body(subgraph, inner.builder, arguments, results)

    def _finished(self, body: _Body, kept: Sequence[int], results: Sequence[Tensor]) -> int:
        """Close a subgraph; its number."""
        subgraph = body.subgraph
        subgraph.operators = body.builder.operators
        subgraph.inputs = [t for n in kept if (t := tensor_of(body.arguments[n])) is not None]
        subgraph.outputs = list(results)
        remove_dead(subgraph)
        fuse(subgraph)
        separate_outputs(subgraph)
        self.subgraphs.append(subgraph)
        return len(self.subgraphs)


def steps(graph: Graph, outputs: Sequence[Value], inputs: Sequence[Value]) -> list[Step]:
    """What computes outputs from inputs, in order. O(nodes + edges)."""
    order: list[Step] = list(needed_nodes(outputs, inputs))
    if any(isinstance(n, Node) and n.op in _TF1 for n in order):
        return steps_of(graph, outputs, inputs)
    return order


def numbered(main: Subgraph, subgraphs: Sequence[Subgraph]) -> list[Subgraph]:
    """The subgraphs that are called, `main` first; the options of the calling operators are put right."""
    found = [main]
    numbers: dict[int, int] = {}
    for subgraph in found:  # grows on the way
        for operator in subgraph.operators:
            for option in [o for o in operator.options if o in schema.SUBGRAPH_OPTIONS]:
                old = operator.options[option]
                if old not in numbers:
                    numbers[old] = len(found)
                    found.append(subgraphs[old - 1])
                operator.options[option] = numbers[old]
    return found


# ------------------------------------------------------------------------------------------------- functions


def _refusal(error: Exception, node: Node) -> UnsupportedOp:
    """Why a node cannot be lowered, after whatever went wrong."""
    if isinstance(error, ThinflowError):
        return UnsupportedOp(error.problem, error.where or node.where, error.hint)
    return UnsupportedOp(f"the node is not well formed ({error})", node.where)


def _without_twins(
    slots: Sequence[Slot], fixed: Sequence[bool], test: _Body, turn: _Body, decision: Tensor
) -> tuple[dict[int, int], Tensor]:
    """Variable -> an earlier one that nobody reads it beside any more, and what decides then."""
    starts = [
        s if isinstance(s, Tensor) and s.is_constant and not keep else None
        for s, keep in zip(slots, fixed, strict=True)
    ]
    arguments, results = ([tensor_of(s) for s in side] for side in (turn.arguments, turn.results))
    twins = twin_counters(starts, arguments, results, turn.subgraph)
    for body in (test, turn):
        by = {
            late: early
            for n, m in twins.items()
            if (late := tensor_of(body.arguments[n])) and (early := tensor_of(body.arguments[m]))
        }
        replace_tensors(body.builder.operators, by)
        body.results = [by.get(r, r) if isinstance(r, Tensor) else r for r in body.results]
        decision = by.get(decision, decision)
    if twins:
        decision = merge_comparisons(test.builder.operators, decision)
    return twins, decision


def _called(function: Function) -> Maker:
    return lambda inner, slots: inner.inlined(function, slots)


def _function(node: Node, attr: Attr | None) -> Function:
    functions = node.graph.functions if node.graph is not None else {}
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


def _call(lowering: ControlLowering, node: Node, slots: list[Slot]) -> list[Slot]:
    return lowering.inlined(_function(node, node.attrs.get("f")), slots)


def _if(lowering: ControlLowering, node: Node, slots: list[Slot]) -> list[Slot]:
    then, otherwise = (_function(node, node.attrs.get(f"{which}_branch")) for which in ("then", "else"))
    return lowering.chosen(slots[0], slots[1:], _called(then), _called(otherwise))


def _case(lowering: ControlLowering, node: Node, slots: list[Slot]) -> list[Slot]:
    """IF inside IF; an index out of range means the last branch."""
    attr = node.attrs.get("branches")
    branches = [_function(node, f) for f in attr] if isinstance(attr, tuple) else []
    if not branches:
        raise UnsupportedOp("it has no branches", node.where)
    return _one_of(lowering, 0, [_called(f) for f in branches], slots)


def _one_of(
    lowering: ControlLowering, number: int, branches: Sequence[Maker], slots: list[Slot]
) -> list[Slot]:
    index, *rest = slots
    if len(branches) == number + 1:
        return branches[number](lowering, rest)
    if not isinstance(index, Tensor):
        raise UnsupportedOp("its index is a list")
    b = lowering.builder
    decision: Tensor
    if index.is_constant:
        decision = b.const(np.asarray(index.array()) == number, "chosen")
    else:
        decision = b.step("EQUAL", index, b.scalar(number, index), shape=index.shape, element=BOOL)

    def first(inner: ControlLowering, given: list[Slot]) -> list[Slot]:
        return branches[number](inner, given[1:])

    def others(inner: ControlLowering, given: list[Slot]) -> list[Slot]:
        return _one_of(inner, number + 1, branches, given)

    return lowering.chosen(decision, slots, first, others)


def _while(lowering: ControlLowering, node: Node, slots: list[Slot]) -> list[Slot]:
    condition, body = (_function(node, node.attrs.get(which)) for which in ("cond", "body"))
    if not len(body.inputs) == len(body.outputs) == len(slots):
        raise UnsupportedOp("its body does not give what it takes", node.where)
    return lowering.turned(condition, body, slots)


_RULES: Mapping[str, Callable[[ControlLowering, Node, list[Slot]], list[Slot]]] = {
    **dict.fromkeys(_CALLS, _call),
    **dict.fromkeys(("If", "StatelessIf"), _if),
    **dict.fromkeys(("Case", "StatelessCase"), _case),
    **dict.fromkeys(("While", "StatelessWhile"), _while),
}


def _stored(body: _Body, number: int) -> Tensor:
    """The tensor that holds a result of a subgraph."""
    slot = body.results[number]
    return items_of(body.builder, slot) if isinstance(slot, Listed) else slot
