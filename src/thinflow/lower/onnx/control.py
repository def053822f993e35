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
from thinflow.lower.control import BodyMaker, FlowLowering
from thinflow.lower.lowering import Specs, Vocabulary, raise_refusals
from thinflow.lower.onnx.bodies import close, gathered_rows
from thinflow.lower.onnx.builder import END, Builder, shape_of
from thinflow.lower.onnx.cells import Turning, recurrent_loop
from thinflow.lower.onnx.lists import LISTS, Slot, items_of
from thinflow.lower.onnx.strings import TEXT_OPS
from thinflow.lower.onnx.terms import Term
from thinflow.lower.slots import Complex, Listed, joined, like, stored_shape, variable
from thinflow.onnx.program import Operator, Program, Tensor


@dataclass
class Body:
    """A program under construction, with its results as values of their own.

    Attributes:
        pairs: which of the results are complex, and pairs of numbers here.
    """

    builder: Builder
    results: list[Slot]
    operators: list[Operator]
    pairs: list[bool]


class OnnxLowering(FlowLowering[Builder, Slot]):
    """A run that writes ONNX."""

    def feed(self, value: Value) -> None:
        """Make a value an input of the program; a complex one with a last axis of two."""
        super().feed(value)
        self.tensors[value] = taken_apart(self.builder, value, self.tensors[value])

    def provide(self, value: Value) -> None:
        super().provide(value)
        self.tensors[value] = taken_apart(self.builder, value, self.tensors[value])

    def stored(self, value: Value, slot: Slot) -> Slot:
        both = self.parts(slot)
        return slot if both is None else put_together(self.builder, value, both)

    def _paired(self, slot: Slot) -> Slot:
        """Complex numbers as the one tensor that a loop or a branch needs; anything else as it is."""
        both = self.parts(slot)
        return slot if both is None else paired(self.builder, both)

    def _apply(self, node: Node) -> tuple[Any, ...]:
        texts = any(v.dtype is STRING for v in (*node.inputs, *node.outputs))
        if texts and node.op not in TEXT_OPS and rules.find(node.op, "onnx") is not None:
            raise UnsupportedOp(
                f"TensorFlow's strings are bytes, ONNX's are text: no form of {node.op}", node.where
            )
        return super()._apply(node)

    def equal(self, x: Tensor, number: int) -> Tensor:
        return self.builder.step("Equal", x, self.builder.scalar(number, x), shape=x.shape)

    # --- loops --------------------------------------------------------------------------------------------

    def lower_while(self, condition: Function, body: Function, slots: Sequence[Slot]) -> list[Slot]:
        """The arguments once the condition is false, by a Loop."""
        ends = zip(body.inputs, body.outputs, strict=True)
        # What an iteration hands on as it came is no variable: the body captures it from outside.
        changing = [n for n, (argument, result) in enumerate(ends) if root_of(result) is not argument]
        decision = self._decision(condition, slots)
        if decision.is_constant and not decision.array().reshape(()):
            return list(slots)
        # Complex numbers are two tensors, and a variable is one.
        pairs = [n for n in changing if slots[n].dtype.kind == "c"]
        slots = [self._paired(s) if n in pairs else s for n, s in enumerate(slots)]
        iteration, forms, arguments = self._settled(condition, body, slots, changing, pairs)
        first = [self._given(slots[n], forms[n]) for n in changing]
        after = _tensors(iteration)
        # A list that gets one row in each iteration becomes a scan output of Loop, which is not copied each
        # time.
        scans = gathered_rows(iteration.operators, arguments, first, after)
        fused = recurrent_loop(
            self.builder, Turning(iteration.operators, arguments, first, after[:-1], after[-1], scans)
        )
        if fused is not None:
            last = {changing[n]: t for n, t in fused.items()}
            return self._unpaired(self._after_fusing(slots, last, forms), pairs)
        kept = [n for n in range(len(changing)) if n not in scans]
        outputs = self._loop_operator(decision, iteration, arguments, first, forms, changing, scans)
        results = list(slots)
        for n, output in zip([*kept, *scans], outputs, strict=True):
            number = changing[n]
            if n in scans:
                output = _completed(self.builder, output, first[n])
            results[number] = like(forms[number], output)
        return self._unpaired(results, pairs)

    def _unpaired(self, slots: Sequence[Slot], pairs: Sequence[int]) -> list[Slot]:
        """Values of which some are pairs of numbers that stand for complex ones."""
        return [
            parted(self.builder, s) if n in pairs and isinstance(s, Tensor) else s
            for n, s in enumerate(slots)
        ]

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
            results[n] = like(forms[n], end)
        return results

    def _decision(self, condition: Function, slots: Sequence[Slot]) -> Tensor:
        results = self.inlined(condition, slots)
        if len(results) != 1:
            raise UnsupportedOp("the condition of the loop is not one value")
        return _truth(self.builder, results[0])

    def _settled(
        self,
        condition: Function,
        body: Function,
        slots: Sequence[Slot],
        changing: Sequence[int],
        pairs: Sequence[int],
    ) -> tuple[Body, list[Slot], list[Tensor]]:
        """The body for shapes of its variables that hold in every iteration, their forms and tensors.

        Its results are those of the variables, and last whether to run once more.
        """

        def iteration(lowering: FlowLowering[Builder, Slot], given: list[Slot]) -> list[Slot]:
            assert isinstance(lowering, OnnxLowering)
            given = lowering._unpaired(given, pairs)
            after = lowering.inlined(body, given)
            following = [after[n] if n in changing else slot for n, slot in enumerate(given)]
            return [*(after[n] for n in changing), lowering._decision(condition, following)]

        def attempt(forms: list[Slot]) -> tuple[tuple[Body, list[Tensor]], list[Slot]]:
            given = list(forms)
            for n in changing:
                given[n] = self._argument(forms[n], n)
            made = self._body(iteration, given)
            after = list(forms)
            for n, result in zip(changing, made.results[:-1], strict=True):
                after[n] = joined(forms[n], result, f"variable {n} of the loop", Tensor)
            return (made, [self.tensor_of(given[n]) for n in changing]), after

        forms = [variable(s, Tensor) if n in changing else s for n, s in enumerate(slots)]
        (made, arguments), forms = self.settled(forms, attempt)
        return made, forms, arguments

    def _argument(self, form: Slot, number: int) -> Slot:
        """The slot that stands for a variable inside of a body."""
        tensor = self.tensor_of(form)
        name = self.builder.unique(f"{self.builder.node.name}/variable{number}")
        own = Tensor(name, tensor.shape, tensor.dtype)
        return like(form, own)

    def _given(self, slot: Slot, form: Slot) -> Tensor:
        """The operand for an argument of this form."""
        if isinstance(slot, Tensor):
            return slot
        return self._items(self.builder, slot, form)

    def _loop_operator(
        self,
        decision: Tensor,
        iteration: Body,
        arguments: Sequence[Tensor],
        first: Sequence[Tensor],
        forms: Sequence[Slot],
        changing: Sequence[int],
        scans: dict[int, Tensor],
    ) -> list[Tensor]:
        """The Loop, whose outputs are the variables and then what each iteration adds to the lists."""
        b = self.builder
        node = b.node.name
        kept = [n for n in range(len(arguments)) if n not in scans]
        counter = Tensor(b.unique(f"{node}/turn"), (), INT64)
        going_on = Tensor(b.unique(f"{node}/going_on"), (), BOOL)
        after = _tensors(iteration)
        program = Program(
            # The order of Loop's body: iteration, condition, variables; then condition, variables, scan
            # outputs.
            [counter, going_on, *(arguments[n] for n in kept)],
            [after[-1], *(after[n] for n in kept), *scans.values()],
            iteration.operators,
            opset=b.opset,
            name=f"{node}/body",
        )
        captured = close([program])
        shapes = [stored_shape(forms[changing[n]]) for n in kept]
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

    def lower_if(
        self, decision: Slot, slots: Sequence[Slot], then: BodyMaker[Slot], otherwise: BodyMaker[Slot]
    ) -> list[Slot]:
        """The results of one of two branches, by an If."""
        b = self.builder
        decision = _truth(b, decision)
        if decision.is_constant:
            return self.select_branch(decision, slots, then, otherwise)
        branches = [self._body(make, list(slots)) for make in (then, otherwise)]
        if len(branches[0].results) != len(branches[1].results):
            raise UnsupportedOp("the branches give different numbers of results")
        forms = [
            joined(x, y, f"result {n} of the branches", Tensor)
            for n, (x, y) in enumerate(zip(branches[0].results, branches[1].results, strict=True))
        ]
        node = b.node.name
        programs = []
        for branch, name in zip(branches, ("then", "else"), strict=True):
            results = [self._held(branch, r, form) for r, form in zip(branch.results, forms, strict=True)]
            programs.append(Program([], results, branch.operators, opset=b.opset, name=f"{node}/{name}"))
        captured = close(programs)
        outputs = [b.own("chosen", stored_shape(form), self.tensor_of(form).dtype) for form in forms]
        bodies = {"then_branch": programs[0], "else_branch": programs[1]}
        b.operators.append(
            Operator("If", [decision, *captured], outputs, {}, node, bodies=bodies, captured=len(captured))
        )
        chosen: list[Slot] = [like(form, output) for form, output in zip(forms, outputs, strict=True)]
        return self._unpaired(chosen, [n for n, is_pair in enumerate(branches[0].pairs) if is_pair])

    def _held(self, body: Body, slot: Slot, form: Slot) -> Tensor:
        """The tensor that holds a result of a body."""
        if isinstance(slot, Tensor):
            return slot
        body.builder.begin(self.builder.node)
        return self._items(body.builder, slot, form)

    def _items(self, b: Builder, slot: Slot, form: Slot) -> Tensor:
        known = LISTS.list_of(slot)
        return items_of(b, replace(known, shape=form.shape) if isinstance(form, Listed) else known)

    # --- bodies -------------------------------------------------------------------------------------------

    def _body(self, make: BodyMaker[Slot], slots: list[Slot]) -> Body:
        """The body that `make` emits for these arguments, in a place of its own."""
        node = self.builder.node
        inner = OnnxLowering(self.target, around=self)
        inner.builder = self.builder.inside()
        inner.builder.begin(node)
        results = make(inner, slots)
        inner.builder.begin(node)
        pairs = [r.dtype.kind == "c" for r in results]
        results = [inner._paired(r) for r in results]
        # Lists without items become zeros here: an operator's output must be a tensor.
        filled = [
            r.with_tensor(items_of(inner.builder, r)) if isinstance(r, Listed) and r.shape is not None else r
            for r in results
        ]
        held = [t for r in filled if (t := _tensor(r)) is not None]
        program = Program([], held, inner.builder.operators)
        # Before refusals count: what nobody reads may be refused.
        program.remove_dead()
        raise_refusals(program.operators)
        inner.builder.operators = program.operators
        return Body(inner.builder, filled, program.operators, pairs)


def lowering(opset: int, specs: Specs | None) -> OnnxLowering:
    """A run for a version of ONNX's op set."""
    return OnnxLowering(Vocabulary("onnx", "ONNX", lambda specs: Builder(specs, opset)), specs)


def _tensor(slot: Slot) -> Tensor | None:
    """The tensor that holds a value; None for a list in which nothing was set."""
    return slot if isinstance(slot, Tensor) else LISTS.list_of(slot).tensor


def _tensors(body: Body) -> list[Tensor]:
    """The tensors that hold the results of the body of a loop."""
    found = []
    for slot in body.results:
        tensor = _tensor(slot)
        if tensor is None:
            raise UnsupportedOp("the rank of a list's items is not known", hint="give the input shapes")
        found.append(tensor)
    return found


def _completed(b: Builder, rows: Tensor, first: Tensor) -> Tensor:
    """A list whose first items a loop has set, one in each iteration; the others are as before."""
    iterations = b.sliced(b.sizes_of(rows), [0], [1], [0], shape=(1,))
    shape = None if first.shape is None else (None, *first.shape[1:])
    rest = b.step("Slice", first, iterations, b.ints([END]), b.ints([0]), shape=shape)
    if first.shape is None or None in first.shape[1:] or rows.shape is None or None in rows.shape[1:]:
        sizes = b.sliced(b.sizes_of(rows), [1], [END], [0], shape=None)
        rest = b.step("Expand", rest, b.joined(b.ints([1]), sizes), shape=shape)
    return b.step("Concat", rows, rest, shape=first.shape, axis=0)


def _truth(b: Builder, slot: Any) -> Tensor:
    """A decision as bool []. TensorFlow takes anything but a scalar for true unless it is empty."""
    if not isinstance(slot, Tensor):
        raise UnsupportedOp("a list decides")
    if slot.shape is None or (slot.shape and None in slot.shape):
        raise UnsupportedOp(f"what decides has shape {shape_text(slot.shape)}; a scalar is needed")
    # A shape without a 0 has elements, so the decision is known whatever they are.
    if slot.shape:
        return b.const(np.array(0 not in slot.shape), "decision", BOOL)
    return b.cast(slot, BOOL)


# ---- Complex numbers that go into a program or out of it: with a last axis of two, as ONNX's own DFT has
# it.
#
# Inside, a complex value is two tensors: ONNX Runtime does not compute with complex numbers.


def taken_apart(b: Builder, value: Value, slot: Any) -> Any:
    """A complex value that came in as [...,2], as two tensors; anything else as it is."""
    if not isinstance(slot, Tensor) or slot.is_constant or slot not in b.pairs:
        return slot
    b.begin(value.node)
    return parted(b, slot)


def parted(b: Builder, pair: Tensor) -> Complex[Tensor]:
    """Complex numbers [...,2] as two tensors."""
    rank = len(shape_of(pair)) - 1
    # Gather by a number takes the axis away.
    return Complex(*(Term(b, pair).gathered(b.int64(n), rank).tensor for n in (0, 1)))


def put_together(b: Builder, value: Value, slot: Complex[Tensor]) -> Tensor:
    """A complex value as a tensor [...,2] with its name."""
    pair = paired(b, slot)
    pair.name = b.unique(value.name)
    return pair


def paired(b: Builder, slot: Complex[Tensor]) -> Tensor:
    """Complex numbers as a tensor [...,2]."""
    rank = len(shape_of(slot.real, "a complex value that is handed on"))
    columns = [b.unsqueezed(t, [rank]) for t in (slot.real, slot.imag)]
    return b.step("Concat", *columns, shape=(*shape_of(slot.real), 2), axis=rank)
