"""Loops become Loop and branches If, each with programs of their own.

What a body reads from outside it captures. While it is made a body reads outer tensors as they are; once it
is complete each gets an input that stands for it, so that every program can be worked on by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from thinflow.control_flow.steps import root_of
from thinflow.errors import UnsupportedOp
from thinflow.ir.function import Function
from thinflow.ir.graph import Node, Value
from thinflow.ir.types import BOOL, INT64, STRING, shape_text
from thinflow.lower import rules
from thinflow.lower.control import FlowLowering, Maker, called
from thinflow.lower.decomposing import Complex
from thinflow.lower.lowering import Lowering, Specs, Vocabulary, raise_refusals
from thinflow.lower.onnx.bodies import close
from thinflow.lower.onnx.builder import END, Builder
from thinflow.lower.onnx.cells import Turning, recurrent_loop
from thinflow.lower.onnx.complex import put_together, taken_apart
from thinflow.lower.onnx.listed import Listed, Slot, items_of
from thinflow.lower.onnx.scans import gathered_rows
from thinflow.lower.onnx.strings import TEXT_OPS
from thinflow.lower.operands import merged
from thinflow.onnx.program import Operator, Program, Tensor

_MAX_TRIES = 6  # to find shapes that the variables of a loop keep


@dataclass
class Body:
    """A program under construction, with its results as values of their own."""

    builder: Builder
    results: list[Slot]
    operators: list[Operator]


class OnnxLowering(FlowLowering):
    """A run that writes ONNX.

    Attributes:
        fed: value -> the input of the program that it is.
    """

    def __init__(
        self,
        target: Vocabulary,
        specs: Specs | None,
        constants: Lowering | None = None,
        *,
        around: FlowLowering | None = None,
    ) -> None:
        super().__init__(target, specs, constants, around=around)
        self.fed: dict[Value, Tensor] = {}

    def feed(self, value: Value) -> None:
        """Make a value an input of the program; a complex one with a last axis of two."""
        super().feed(value)
        self.fed[value] = self.tensors[value]
        self.tensors[value] = taken_apart(self.builder, value, self.tensors[value])

    def provide(self, value: Value) -> None:
        super().provide(value)
        self.tensors[value] = taken_apart(self.builder, value, self.tensors[value])

    def output(self, value: Value) -> Slot:
        """The slot that stands for an output of the program."""
        self.builder.begin(value.node)
        slot = self.read(value)
        both = self.parts(slot)
        return slot if both is None else put_together(self.builder, value, both)

    def _apply(self, node: Node) -> tuple[Any, ...]:
        texts = any(v.dtype is STRING for v in (*node.inputs, *node.outputs))
        if texts and node.op not in TEXT_OPS and rules.find(node.op, "onnx") is not None:
            raise UnsupportedOp(
                f"TensorFlow's strings are bytes, ONNX's are text: no form of {node.op}", node.where
            )
        return super()._apply(node)

    def within(self) -> OnnxLowering:
        inner = OnnxLowering(self.target, None, around=self)
        inner.builder = self.builder
        return inner

    def tensor_of(self, slot: Slot) -> Tensor:
        if isinstance(slot, Tensor):
            return slot
        if isinstance(slot, Complex):
            return slot.real
        return slot.tensor or Tensor("", None, slot.element, np.zeros(0))

    def stand_in(self, slot: Slot) -> Any:
        # Who else reads a complex value needs both of its parts.
        return slot if isinstance(slot, Complex) else self.tensor_of(slot)

    def equals(self, x: Slot, number: int) -> Tensor:
        if not isinstance(x, Tensor):
            raise UnsupportedOp("its index is a list")
        if x.is_constant:
            return self.builder.const(x.array() == number, "chosen", BOOL)
        return self.builder.step("Equal", x, self.builder.scalar(number, x), shape=x.shape)

    # --- loops --------------------------------------------------------------------------------------------

    def turned(self, condition: Function, body: Function, slots: Sequence[Slot]) -> list[Slot]:
        """The arguments once the condition is false, by a Loop."""
        pairs = zip(body.inputs, body.outputs, strict=True)
        # What a turn hands on as it came is no variable: the body captures it from outside.
        changing = [n for n, (argument, result) in enumerate(pairs) if root_of(result) is not argument]
        decision = self._decision(condition, slots)
        if decision.is_constant and not decision.array().reshape(()):
            return list(slots)
        turn, forms, arguments = self._settled(condition, body, slots, changing)
        first = [self._given(slots[n], forms[n]) for n in changing]
        after = _tensors(turn)
        # A list that gets one row in each turn becomes a scan output of Loop, which is not copied from turn
        # to turn.
        scans = gathered_rows(turn.operators, arguments, first, after)
        fused = recurrent_loop(
            self.builder, Turning(turn.operators, arguments, first, after[:-1], after[-1], scans)
        )
        if fused is not None:
            return self._after_fusing(slots, {changing[n]: t for n, t in fused.items()}, forms)
        kept = [n for n in range(len(changing)) if n not in scans]
        outputs = self._loop_operator(decision, turn, arguments, first, forms, changing, scans)
        results = list(slots)
        for n, output in zip([*kept, *scans], outputs, strict=True):
            number = changing[n]
            if n in scans:
                output = _completed(self.builder, output, first[n])
            results[number] = _like(forms[number], output)
        return results

    def _after_fusing(
        self, slots: Sequence[Slot], ends: dict[int, Tensor], forms: Sequence[Slot]
    ) -> list[Slot]:
        """The arguments, with what recurrent ops left of the variables; lists may be too short."""
        results = list(slots)
        for n, end in ends.items():
            first = self._given(slots[n], forms[n])
            sizes = [(t.shape or (None,))[0] for t in (end, first)]
            if isinstance(forms[n], Listed) and (None in sizes or sizes[0] != sizes[1]):
                end = _completed(self.builder, end, first)
            results[n] = _like(forms[n], end)
        return results

    def _decision(self, condition: Function, slots: Sequence[Slot]) -> Tensor:
        results = self.inlined(condition, slots)
        if len(results) != 1:
            raise UnsupportedOp("the condition of the loop is not one value")
        return _truth(self.builder, results[0])

    def _settled(
        self, condition: Function, body: Function, slots: Sequence[Slot], changing: Sequence[int]
    ) -> tuple[Body, list[Slot], list[Tensor]]:
        """The body for shapes of its variables that hold in every turn, the variables, and their tensors.

        Its results are those of the variables, and last whether to turn once more.
        """

        def turn(lowering: FlowLowering, given: list[Slot]) -> list[Slot]:
            after = lowering.inlined(body, given)
            following = [after[n] if n in changing else slot for n, slot in enumerate(given)]
            assert isinstance(lowering, OnnxLowering)
            return [*(after[n] for n in changing), lowering._decision(condition, following)]

        forms: list[Slot] = [_variable(s) if n in changing else s for n, s in enumerate(slots)]
        # Joining only ever forgets sizes, so that this settles: a size that grows is open from the second try
        # on.
        for _ in range(_MAX_TRIES):
            given = list(forms)
            for n in changing:
                given[n] = self._argument(forms[n], n)
            made = self._body(turn, given)
            after = list(forms)
            for n, result in zip(changing, made.results[:-1], strict=True):
                after[n] = _joined(forms[n], result, f"variable {n} of the loop")
            if all(_shape(a) == _shape(b) for a, b in zip(forms, after, strict=True)):
                return made, forms, [self.tensor_of(given[n]) for n in changing]
            forms = after
        raise UnsupportedOp("the variables of the loop do not keep their shapes")

    def _argument(self, form: Slot, number: int) -> Slot:
        """The slot that stands for a variable inside of a body."""
        tensor = self.tensor_of(form)
        name = self.builder.unique(f"{self.builder.node.name}/variable{number}")
        own = Tensor(name, tensor.shape, tensor.dtype)
        return replace(form, tensor=own) if isinstance(form, Listed) else own

    def _given(self, slot: Slot, form: Slot) -> Tensor:
        """The operand for an argument of this form."""
        if isinstance(slot, Tensor):
            return slot
        known = replace(slot, shape=form.shape) if isinstance(form, Listed) else slot
        return items_of(self.builder, known)

    def _loop_operator(
        self,
        decision: Tensor,
        turn: Body,
        arguments: Sequence[Tensor],
        first: Sequence[Tensor],
        forms: Sequence[Slot],
        changing: Sequence[int],
        scans: dict[int, Tensor],
    ) -> list[Tensor]:
        """The Loop, whose outputs are the variables and then what each turn adds to the lists."""
        b = self.builder
        node = b.node.name
        kept = [n for n in range(len(arguments)) if n not in scans]
        counter = Tensor(b.unique(f"{node}/turn"), (), INT64)
        going_on = Tensor(b.unique(f"{node}/going_on"), (), BOOL)
        after = _tensors(turn)
        program = Program(
            # The order of Loop's body: number of the turn, condition, variables; then condition, variables,
            # scan outputs.
            [counter, going_on, *(arguments[n] for n in kept)],
            [after[-1], *(after[n] for n in kept), *scans.values()],
            turn.operators,
            opset=b.opset,
            name=f"{node}/body",
        )
        captured = close([program])
        shapes = [_shape(forms[changing[n]]) for n in kept]
        shapes += [None if row.shape is None else (None, *row.shape) for row in scans.values()]
        types = [first[n].dtype for n in kept] + [row.dtype for row in scans.values()]
        outputs = [b.own("loop", shape, element) for shape, element in zip(shapes, types, strict=True)]
        # No trip count: the condition alone ends the loop.
        inputs = [None, decision, *(first[n] for n in kept), *captured]
        b.operators.append(
            Operator("Loop", inputs, outputs, {}, node, bodies={"body": program}, captured=len(captured))
        )
        return outputs

    # --- branches -----------------------------------------------------------------------------------------

    def branched(self, decision: Slot, slots: Sequence[Slot], then: Maker, otherwise: Maker) -> list[Slot]:
        """The results of one of two branches, by an If."""
        b = self.builder
        decision = _truth(b, decision)
        if decision.is_constant:
            return self.chosen(decision, slots, then, otherwise)
        branches = [self._body(make, list(slots)) for make in (then, otherwise)]
        if len(branches[0].results) != len(branches[1].results):
            raise UnsupportedOp("the branches give different numbers of results")
        joined = [
            _joined(x, y, f"result {n} of the branches")
            for n, (x, y) in enumerate(zip(branches[0].results, branches[1].results, strict=True))
        ]
        node = b.node.name
        programs = []
        for branch, name in zip(branches, ("then", "else"), strict=True):
            results = [self._held(branch, r, form) for r, form in zip(branch.results, joined, strict=True)]
            programs.append(Program([], results, branch.operators, opset=b.opset, name=f"{node}/{name}"))
        captured = close(programs)
        outputs = [b.own("chosen", _shape(form), self.tensor_of(form).dtype) for form in joined]
        bodies = {"then_branch": programs[0], "else_branch": programs[1]}
        b.operators.append(
            Operator("If", [decision, *captured], outputs, {}, node, bodies=bodies, captured=len(captured))
        )
        return [_like(form, output) for form, output in zip(joined, outputs, strict=True)]

    def _held(self, body: Body, slot: Slot, form: Slot) -> Tensor:
        """The tensor that holds a result of a body."""
        if isinstance(slot, Tensor):
            return slot
        body.builder.begin(self.builder.node)
        known = replace(slot, shape=form.shape) if isinstance(form, Listed) else slot
        return items_of(body.builder, known)

    # --- bodies -------------------------------------------------------------------------------------------

    def _body(self, make: Maker, slots: list[Slot]) -> Body:
        """The body that `make` emits for these arguments, in a place of its own."""
        node = self.builder.node
        inner = OnnxLowering(self.target, None, around=self)
        inner.builder = self.builder.inside()
        inner.builder.begin(node)
        results = make(inner, slots)
        inner.builder.begin(node)
        # Lists without items become zeros here: an operator's output must be a tensor.
        filled = [
            r.with_tensor(items_of(inner.builder, r)) if isinstance(r, Listed) and r.shape is not None else r
            for r in results
        ]
        held = [t for r in filled if (t := r if isinstance(r, Tensor) else r.tensor) is not None]
        program = Program([], held, inner.builder.operators)
        # Before refusals count: what nobody reads may be refused.
        program.remove_dead()
        raise_refusals(program.operators)
        inner.builder.operators = program.operators
        return Body(inner.builder, filled, program.operators)


def target(opset: int) -> Vocabulary:
    """ONNX at some version of its op set."""
    return Vocabulary("onnx", "ONNX", lambda specs: Builder(specs, opset), INT64)


def lowering(opset: int, specs: Specs | None, constants: Lowering | None = None) -> OnnxLowering:
    """A run for a version of ONNX's op set."""
    return OnnxLowering(target(opset), specs, constants)


def _tensors(body: Body) -> list[Tensor]:
    """The tensors that hold the results of the body of a loop."""
    found = []
    for slot in body.results:
        tensor = slot if isinstance(slot, Tensor) else slot.tensor
        if tensor is None:
            raise UnsupportedOp("the rank of a list's items is not known", hint="give the input shapes")
        found.append(tensor)
    return found


def _completed(b: Builder, rows: Tensor, first: Tensor) -> Tensor:
    """A list whose first items a loop has set, one in each turn; the others are as before."""
    turns = b.sliced(b.sizes_of(rows), [0], [1], [0], shape=(1,))
    shape = None if first.shape is None else (None, *first.shape[1:])
    rest = b.step("Slice", first, turns, b.ints([END]), b.ints([0]), shape=shape)
    if first.shape is None or None in first.shape[1:] or rows.shape is None or None in rows.shape[1:]:
        sizes = b.sliced(b.sizes_of(rows), [1], [END], [0], shape=None)
        rest = b.step("Expand", rest, b.joined(b.ints([1]), sizes), shape=shape)
    return b.step("Concat", rows, rest, shape=first.shape, axis=0)


def _variable(slot: Slot) -> Slot:
    """The form of a loop variable that starts with this."""
    if isinstance(slot, Tensor):
        return Tensor(slot.name, slot.shape, slot.dtype)
    return replace(slot, tensor=Tensor("items", slot.stored_shape, slot.element), size=None)


def _like(form: Slot, tensor: Tensor) -> Slot:
    """A value of some form, held by a tensor."""
    return replace(form, tensor=tensor, size=None) if isinstance(form, Listed) else tensor


def _shape(slot: Slot) -> tuple[int | None, ...] | None:
    """The shape of the tensor that holds a value."""
    return slot.shape if isinstance(slot, Tensor) else slot.stored_shape


def _joined(a: Slot, b: Slot, what: str) -> Slot:
    """The form that both have: what holds of one alone is left open."""
    if isinstance(a, Listed) and isinstance(b, Listed):
        if a.element is not b.element:
            raise UnsupportedOp(f"{what} is a list of {a.element}, or of {b.element}")
        count = a.count if a.count == b.count else None
        form = Listed(count, a.element, merged(a.shape, b.shape))
        return replace(form, tensor=Tensor("items", form.stored_shape, a.element))
    if isinstance(a, Listed) or isinstance(b, Listed):
        raise UnsupportedOp(f"{what} is a list, or none")
    if a.dtype is not b.dtype:
        raise UnsupportedOp(f"{what} is {a.dtype}, or {b.dtype}")
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return Tensor(a.name, None, a.dtype)
    sizes = tuple(x if x == y else None for x, y in zip(a.shape, b.shape, strict=True))
    return Tensor(a.name, sizes, a.dtype)


def _truth(b: Builder, slot: Any) -> Tensor:
    """A decision as bool []. TensorFlow takes anything but a scalar for true unless it is empty."""
    if not isinstance(slot, Tensor):
        raise UnsupportedOp("a list decides")
    if slot.shape is None or (slot.shape and None in slot.shape):
        raise UnsupportedOp(f"what decides has shape {shape_text(slot.shape)}; a scalar is needed")
    if slot.shape:
        return b.const(np.array(0 not in slot.shape), "decision", BOOL)
    return b.cast(slot, BOOL)


__all__ = ["OnnxLowering", "called", "lowering", "target"]
