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
from thinflow.ir.types import BOOL, INT32, shape_text
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
from thinflow.lower.tflite import kernels, schema
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.counters import merge_comparisons, replace_tensors, twin_counters
from thinflow.lower.tflite.fuse import fuse, remove_dead
from thinflow.lower.tflite.listed import Listed, Slot, items_of, merged
from thinflow.lower.tflite.program import Operator, Subgraph, Tensor

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
            if not same and isinstance(tensor := _tensor_of(result), Tensor):
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
        decision = _truth(test.builder, test.results[0])
        twins, decision = _without_twins(slots, fixed, test, turn, decision)
        used = [(made, made.reads()) for made in (test, turn)]
        # What never changes goes in only if it is read.
        kept = [
            n
            for n, form in enumerate(forms)
            if (not fixed[n] and n not in twins)
            or (not _is_constant(form) and any(_tensor_of(made.arguments[n]) in read for made, read in used))
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
            shapes=[t.shape for n in kept if isinstance(t := _tensor_of(forms[n]), Tensor)],
            elements=[t.dtype for t in first],
            **numbers,
        )
        results = list(slots)
        for number, output in zip(kept, outputs, strict=True):
            results[number] = _like(forms[number], output)
        for number, earlier in twins.items():
            results[number] = results[earlier]
        return results

    def _settled(
        self, body: Function, slots: Sequence[Slot], fixed: Sequence[bool]
    ) -> tuple[_Body, list[Slot]]:
        """The body for shapes of its variables that hold in every turn, and the variables."""
        forms: list[Slot] = [
            s if keep and _is_constant(s) else self._variable(s) for s, keep in zip(slots, fixed, strict=True)
        ]
        made = len(self.subgraphs)
        for _ in range(_MAX_TRIES):
            turn = self._subgraph("body", forms, lambda inner, given: inner.inlined(body, given))
            after = [
                form if keep else _joined(form, result, f"variable {n} of the loop")
                for n, (form, result, keep) in enumerate(zip(forms, turn.results, fixed, strict=True))
            ]
            if all(_shape(a) == _shape(b) for a, b in zip(forms, after, strict=True)):
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
        decision = _truth(self.builder, decision)
        forms: list[Slot] = [s if _is_constant(s) else self._variable(s) for s in slots]
        branches = [self._subgraph("then", forms, then), self._subgraph("else", forms, otherwise)]
        if len(branches[0].results) != len(branches[1].results):
            raise UnsupportedOp("the branches give different numbers of results")
        joined = [
            _joined(a, b, f"result {n} of the branches")
            for n, (a, b) in enumerate(zip(branches[0].results, branches[1].results, strict=True))
        ]
        for branch in branches:
            branch.results = [_described(r, j) for r, j in zip(branch.results, joined, strict=True)]
        used = [branch.reads() | {t for r in branch.results if (t := _tensor_of(r))} for branch in branches]
        kept = [
            n
            for n, form in enumerate(forms)
            if not _is_constant(form)
            and any(_tensor_of(b.arguments[n]) in u for b, u in zip(branches, used, strict=True))
        ]
        numbers = [
            self._finished(branch, kept, [_stored(branch, n) for n in range(len(joined))])
            for branch in branches
        ]
        outputs = self.builder.step_ports(
            "IF",
            decision,
            *(self._given(slots[n], forms[n]) for n in kept),
            shapes=[_stored_shape(j) for j in joined],
            elements=[j.element if isinstance(j, Listed) else j.dtype for j in joined],
            then_subgraph_index=numbers[0],
            else_subgraph_index=numbers[1],
        )
        return [_like(j, output) for j, output in zip(joined, outputs, strict=True)]

    # --- subgraphs ----------------------------------------------------------------------------------------

    def _subgraph(self, role: str, forms: Sequence[Slot], make: Maker) -> _Body:
        """What `make` emits for arguments of these forms, in a place of its own."""
        node = self.builder.node
        inner = ControlLowering(None, around=self)
        inner.builder.begin(node)
        arguments = [_argument(form, inner.builder, n) for n, form in enumerate(forms)]
        results = make(inner, list(arguments))
        inner.builder.begin(node)
        if any(isinstance(r, Listed) and r.tensor is None and r.shape is not None for r in results):
            results = [_filled(r, inner.builder) for r in results]
        outputs = [t for r in results if (t := _tensor_of(r)) is not None]
        subgraph = Subgraph(f"{node.name}/{role}", [], outputs, inner.builder.operators)
        remove_dead(subgraph)
        raise_refusals(subgraph.operators)
        inner.builder.operators = subgraph.operators
        return _Body(subgraph, inner.builder, arguments, results)

    def _finished(self, body: _Body, kept: Sequence[int], results: Sequence[Tensor]) -> int:
        """Close a subgraph; its number."""
        subgraph = body.subgraph
        subgraph.operators = body.builder.operators
        subgraph.inputs = [t for n in kept if (t := _tensor_of(body.arguments[n])) is not None]
        subgraph.outputs = list(results)
        remove_dead(subgraph)
        fuse(subgraph)
        _separate_outputs(subgraph)
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
    arguments, results = ([_tensor_of(s) for s in side] for side in (turn.arguments, turn.results))
    twins = twin_counters(starts, arguments, results, turn.subgraph)
    for body in (test, turn):
        by = {
            late: early
            for n, m in twins.items()
            if (late := _tensor_of(body.arguments[n])) and (early := _tensor_of(body.arguments[m]))
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


# ----------------------------------------------------------------------------------------------------- slots


def _is_constant(slot: Slot) -> bool:
    return isinstance(slot, Tensor) and slot.is_constant


def _tensor_of(slot: Slot) -> Tensor | None:
    return slot.tensor if isinstance(slot, Listed) else slot


def _shape(slot: Slot) -> Any:
    return slot.shape


def _stored_shape(slot: Slot) -> tuple[int | None, ...] | None:
    """The shape of the tensor that holds a value."""
    if isinstance(slot, Tensor):
        return slot.shape
    return None if slot.shape is None else (slot.count, *slot.shape)


def _stored(body: _Body, number: int) -> Tensor:
    """The tensor that holds a result of a subgraph."""
    slot = body.results[number]
    return items_of(body.builder, slot) if isinstance(slot, Listed) else slot


def _filled(slot: Slot, builder: Builder) -> Slot:
    """A list in which nothing was set, with its zeros if their shape is known."""
    is_empty = isinstance(slot, Listed) and slot.tensor is None
    if not is_empty or slot.shape is None or None in slot.shape:
        return slot
    return slot.with_tensor(items_of(builder, slot)) if isinstance(slot, Listed) else slot


def _like(form: Slot, tensor: Tensor) -> Slot:
    return form.with_tensor(tensor) if isinstance(form, Listed) else tensor


def _described(slot: Slot, form: Slot) -> Slot:
    """A list with what is known of its items by now."""
    if isinstance(slot, Listed) and isinstance(form, Listed) and slot.tensor is None:
        return replace(slot, shape=form.shape)
    return slot


def _argument(form: Slot, builder: Builder, number: int) -> Slot:
    """What stands for an argument inside of a subgraph."""
    tensor = _tensor_of(form)
    if tensor is None:
        return form
    own = Tensor(builder.unique(tensor.name or f"argument{number}"), tensor.shape, tensor.dtype, tensor.data)
    return replace(form, tensor=own) if isinstance(form, Listed) else own


def _joined(a: Slot, b: Slot, what: str) -> Slot:
    """What holds of both."""
    if isinstance(a, Listed) and isinstance(b, Listed):
        if (a.count, a.element) != (b.count, b.element):
            raise UnsupportedOp(f"{what} is a list of {a.count} items, or one of {b.count}")
        shape = merged(a.shape, b.shape)
        return replace(
            a, shape=shape, tensor=Tensor("items", None if shape is None else (a.count, *shape), a.element)
        )
    if isinstance(a, Listed) or isinstance(b, Listed):
        raise UnsupportedOp(f"{what} is a list, or none")
    if a.dtype is not b.dtype:
        raise UnsupportedOp(f"{what} is {a.dtype}, or {b.dtype}")
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return Tensor(a.name, None, a.dtype)
    sizes = tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True))
    return Tensor(a.name, sizes, a.dtype)


def _truth(b: Builder, slot: Slot) -> Tensor:
    """A decision as bool []."""
    if not isinstance(slot, Tensor):
        raise UnsupportedOp("a list decides")
    if slot.shape is None or any(n != 1 for n in slot.shape):
        raise UnsupportedOp(f"what decides has shape {shape_text(slot.shape)}; LiteRT wants a scalar")
    if slot.shape != ():
        raise UnsupportedOp("what decides is a vector, which TensorFlow takes for true whatever it holds")
    if slot.dtype is BOOL:
        return slot
    return b.step("NOT_EQUAL", slot, b.scalar(0, slot), shape=(), element=BOOL)


def _separate_outputs(subgraph: Subgraph) -> None:
    """Give each output a tensor of its own, unless it is the input of the same number.

    LiteRT copies results one by one into the inputs of the next turn, which may be what others are read from.
    """
    written = {t for operator in subgraph.operators for t in operator.outputs}
    settled = _settled(subgraph)
    taken: set[Tensor] = set()
    for number, tensor in enumerate(subgraph.outputs):
        same = number < len(subgraph.inputs) and subgraph.inputs[number] is tensor
        if tensor.is_constant:
            # A RESHAPE of a constant scalar in a subgraph makes LiteRT write where it should not.
            subgraph.outputs[number] = Tensor(tensor.name, tensor.shape, tensor.dtype, tensor.data)
        elif not same and (tensor not in written or tensor in taken):
            subgraph.outputs[number] = tensor = copied(subgraph, tensor, f"{tensor.name}/copy")
        elif tensor in settled:
            subgraph.outputs[number] = tensor = _fresh(subgraph, tensor)
        taken.add(tensor)


def _settled(subgraph: Subgraph) -> set[Tensor]:
    """What depends on sizes alone. LiteRT computes it ahead and keeps it, yet frees it where it leaves."""
    settled: set[Tensor] = set()
    for operator in subgraph.operators:
        read = [t for t in operator.inputs if t is not None]
        if operator.code in {"SHAPE", "RANK"} or all(t.is_constant or t in settled for t in read):
            settled.update(operator.outputs)
    return settled


def _fresh(subgraph: Subgraph, tensor: Tensor) -> Tensor:
    """A copy by a kernel that never runs ahead, as that of RESHAPE does."""
    code = "LOGICAL_OR" if tensor.dtype is BOOL else "MAXIMUM"
    fresh = Tensor(f"{tensor.name}/copy", tensor.shape, tensor.dtype)
    kernels.check(code, [tensor, tensor], [fresh])
    subgraph.operators.append(Operator(code, [tensor, tensor], [fresh], origin=fresh.name))
    return fresh


def copied(subgraph: Subgraph, tensor: Tensor, name: str) -> Tensor:
    """A copy of a tensor, made at the end of a subgraph by a RESHAPE to its own shape."""
    copy = Tensor(name, tensor.shape, tensor.dtype)
    operands: list[Tensor | None] = [tensor]
    options: dict[str, Any] = {}
    shape = tensor.shape
    if shape == ():
        options["new_shape"] = (0,)
    elif shape is not None and shape.count(None) <= 1:
        sizes = np.array([-1 if n is None else n for n in shape], np.int32)
        operands.append(Tensor(f"{name}/shape", sizes.shape, INT32, sizes))
    else:
        rank = None if shape is None else (len(shape),)
        sizes_now = Tensor(f"{name}/shape", rank, INT32)
        subgraph.operators.append(Operator("SHAPE", [tensor], [sizes_now], {"out_type": INT32}, origin=name))
        operands.append(sizes_now)
    subgraph.operators.append(Operator("RESHAPE", operands, [copy], options, origin=name))
    return copy
