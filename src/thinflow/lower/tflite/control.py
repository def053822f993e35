"""Control flow: calls are lowered in place, loops become WHILE, branches IF, each with subgraphs of its own.

A subgraph sees nothing of its surroundings, so what a body reads from outside is one of its inputs, and in a
loop a variable that never changes; LiteRT hands such a variable on without a copy. Constants are put into
the subgraph instead, where kernels want them. Lists go in and out as the tensors that hold their items.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from thinflow.control_flow.steps import root_of
from thinflow.errors import UnsupportedOp
from thinflow.ir.function import Function
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import BOOL, FLOAT
from thinflow.lower.control import BodyMaker, FlowLowering
from thinflow.lower.lowering import Lowering, Specs, Vocabulary, raise_refusals
from thinflow.lower.slots import Complex, Listed, joined, like, stored_shape, variable
from thinflow.lower.tflite import quantized_context
from thinflow.lower.tflite.bodies import (
    Body,
    argument_of,
    described,
    filled,
    is_constant,
    separate_outputs,
    stored,
    tensor_of,
    truth,
    without_twins,
)
from thinflow.lower.tflite.builder import Builder
from thinflow.lower.tflite.counters import iterations
from thinflow.lower.tflite.fuse import fuse
from thinflow.lower.tflite.lists import LISTS, Slot, items_of, zeros_for
from thinflow.lower.tflite.lstm import fused_loop
from thinflow.lower.tflite.lstm_pattern import LoopBody
from thinflow.tflite.model import Subgraph, Tensor

TARGET = Vocabulary("tflite", "TFLite", Builder)


class ControlLowering(FlowLowering[Builder, Slot]):
    """A run that writes LiteRT's operators.

    Attributes:
        subgraphs: those made so far, number 1 first; the subgraph that runs is to be number 0.
        recurrent: one of `lstm.FORMS`: whether LSTMs become LiteRT's fused op.
    """

    has_complex = True

    def __init__(
        self,
        target: Vocabulary[Builder] = TARGET,
        specs: Specs | None = None,
        constants: Lowering[Builder, Slot] | None = None,
        *,
        around: FlowLowering[Builder, Slot] | None = None,
        recurrent: str = "auto",
    ) -> None:
        super().__init__(target, specs, constants, around=around)
        if constants is not None:
            # Parameters are inferred for a whole graph at a time: trials of its nodes share them.
            self.builder.quantized.inferred = constants.builder.quantized.inferred
        self.subgraphs: list[Subgraph] = []
        self.recurrent = recurrent
        self._is_nested = False  # it writes into a subgraph that is called
        if isinstance(around, ControlLowering):
            self.builder = around.builder.inside()
            self.subgraphs, self.recurrent = around.subgraphs, around.recurrent
            self._is_nested = around._is_nested

    def operand(self, node: Node, value: Value) -> Slot:
        """An operand as a rule is handed it: int8 values and 32-bit sums only where it knows them."""
        slot = self.read(value)
        if quantized_context.takes_quantized(node.op):
            return slot
        self.builder.begin(node)
        return self.stored(value, slot)

    def stored(self, value: Value, slot: Slot) -> Slot:
        found: Slot = quantized_context.stored(self.builder, value, slot)
        return found

    def hand_out(self, node: Node) -> None:
        for value in node.outputs:
            if value in self.tensors:
                self.stored(value, self.tensors[value])

    def units(self, graph: Graph) -> Iterable[Sequence[Node]]:
        return quantized_context.inner_groups(graph)

    def parts(self, slot: Slot) -> Complex[Tensor] | None:
        if isinstance(slot, Tensor) and slot.dtype.name == "complex64" and not slot.is_constant:
            real, imag = (
                self.builder.step(code, slot, shape=slot.shape, element=FLOAT) for code in ("REAL", "IMAG")
            )
            return Complex(real, imag)
        return super().parts(slot)

    def mark(self) -> tuple[int, ...]:
        return (*super().mark(), len(self.subgraphs))

    def undo(self, mark: tuple[int, ...]) -> None:
        super().undo(mark)
        self.builder.quantized.keep(self.builder.operators)
        # The last number in the mark is how many there were; numbers of those that stay do not move.
        del self.subgraphs[mark[1] :]

    def equal(self, x: Tensor, number: int) -> Tensor:
        return self.builder.step("EQUAL", x, self.builder.scalar(number, x), shape=x.shape, element=BOOL)

    # --- loops --------------------------------------------------------------------------------------------

    def lower_while(self, condition: Function, body: Function, slots: Sequence[Slot]) -> list[Slot]:
        """The arguments as they are once the condition is false, by a WHILE."""
        pairs = zip(body.inputs, body.outputs, strict=True)
        # A result that is its own argument, if through Identity and the like: the variable never changes.
        fixed = [root_of(result) is argument for argument, result in pairs]
        iteration, forms = self._settled(body, slots, fixed)
        test = self._subgraph("condition", forms, lambda inner, given: inner.inlined(condition, given))
        if len(test.results) != 1:
            raise UnsupportedOp("the condition of the loop is not one value")
        decision = truth(test.builder, test.results[0])
        twins, decision = without_twins(slots, fixed, test, iteration, decision)
        # Twins of a counter have no reader any more, so a fused op need not produce them.
        still = [keep or n in twins for n, keep in enumerate(fixed)]
        fused = self._fused(slots, forms, still, test, iteration, decision)
        if fused is not None:
            for number, earlier in twins.items():
                fused[number] = fused[earlier]
            return fused
        used = [(made, made.reads()) for made in (test, iteration)]
        # What never changes goes in only if it is read.
        kept = [
            n
            for n, form in enumerate(forms)
            if (not fixed[n] and n not in twins)
            or (not is_constant(form) and any(tensor_of(made.arguments[n]) in read for made, read in used))
        ]
        slots = self._filled(slots, forms, iteration, kept)
        first = [self._given(slots[n], forms[n]) for n in kept]
        if not kept:
            raise UnsupportedOp("the loop has no variables")
        numbers: dict[str, Any] = {
            "cond_subgraph_index": self._finished(test, kept, [decision]),
            "body_subgraph_index": self._finished(iteration, kept, [stored(iteration, n) for n in kept]),
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

    def _fused(
        self,
        slots: Sequence[Slot],
        forms: Sequence[Slot],
        fixed: Sequence[bool],
        test: Body,
        iteration: Body,
        decision: Tensor,
    ) -> list[Slot] | None:
        """The results of the loop by a fused op; None if it has to run."""
        # The op keeps its state in variable tensors of the subgraph it stands in; only the main one gets any.
        if self.recurrent == "loop" or self._is_nested:
            return None
        starts = [s if isinstance(s, Tensor) and s.is_constant else None for s in slots]
        arguments, results = (
            [tensor_of(s) for s in side] for side in (iteration.arguments, iteration.results)
        )
        body = LoopBody(iteration.builder.operators, arguments, results, fixed, starts)
        steps = iterations(test.builder.operators, decision, [tensor_of(s) for s in test.arguments], starts)
        return None if steps is None else fused_loop(self.builder, body, forms, slots, steps, self.recurrent)

    def _settled(
        self, body: Function, slots: Sequence[Slot], fixed: Sequence[bool]
    ) -> tuple[Body, list[Slot]]:
        """The body for shapes of its variables that hold in every iteration, and the variables."""
        forms: list[Slot] = [
            s if keep and is_constant(s) else variable(s, Tensor)
            for s, keep in zip(slots, fixed, strict=True)
        ]
        made = len(self.subgraphs)

        def attempt(forms: list[Slot]) -> tuple[Body, list[Slot]]:
            # Subgraphs of inner loops and branches belong to the body that was thrown away.
            del self.subgraphs[made:]
            iteration = self._subgraph("body", forms, lambda inner, given: inner.inlined(body, given))
            return iteration, [
                form if keep else joined(form, result, f"variable {n} of the loop", Tensor)
                for n, (form, result, keep) in enumerate(zip(forms, iteration.results, fixed, strict=True))
            ]

        return self.settled(forms, attempt)

    def _filled(
        self, slots: Sequence[Slot], forms: Sequence[Slot], iteration: Body, kept: Sequence[int]
    ) -> list[Slot]:
        """The first values of the variables; zeros for empty lists whose sizes the first iteration tells."""
        filled = list(slots)
        start = {
            argument: given
            for a, s in zip(iteration.arguments, slots, strict=True)
            if (argument := tensor_of(a)) is not None and (given := tensor_of(s)) is not None
        }
        for n in kept:
            slot, form, result = slots[n], forms[n], tensor_of(iteration.results[n])
            # Items of unknown size cannot be reserved by a constant; the first iteration computes them from
            # what is known then.
            open_ = form.shape is not None and None in form.shape
            if isinstance(slot, Listed) and slot.tensor is None and open_ and result is not None:
                values = replace(slot, shape=form.shape)
                filled[n] = values.with_tensor(
                    zeros_for(self.builder, values, result, iteration.builder.operators, start)
                )
        return filled

    def _given(self, slot: Slot, form: Slot) -> Tensor:
        """The operator's input for an argument of this form."""
        if isinstance(slot, Tensor):
            return slot
        known = LISTS.list_of(slot)
        return items_of(self.builder, replace(known, shape=form.shape) if isinstance(form, Listed) else known)

    # --- branches -----------------------------------------------------------------------------------------

    def lower_if(
        self, decision: Slot, slots: Sequence[Slot], then: BodyMaker[Slot], otherwise: BodyMaker[Slot]
    ) -> list[Slot]:
        """The results of one of two branches, by an IF."""
        decision = truth(self.builder, decision)
        forms: list[Slot] = [s if is_constant(s) else variable(s, Tensor) for s in slots]
        branches = [self._subgraph("then", forms, then), self._subgraph("else", forms, otherwise)]
        if len(branches[0].results) != len(branches[1].results):
            raise UnsupportedOp("the branches give different numbers of results")
        # Both branches have to hand out the same types and shapes: sizes that differ are unknown.
        common = [
            joined(a, b, f"result {n} of the branches", Tensor)
            for n, (a, b) in enumerate(zip(branches[0].results, branches[1].results, strict=True))
        ]
        for branch in branches:
            branch.results = [described(r, j) for r, j in zip(branch.results, common, strict=True)]
        # An argument that a branch only hands out has to come in as well.
        used = [branch.reads() | {t for r in branch.results if (t := tensor_of(r))} for branch in branches]
        kept = [
            n
            for n, form in enumerate(forms)
            if not is_constant(form)
            and any(tensor_of(b.arguments[n]) in u for b, u in zip(branches, used, strict=True))
        ]
        numbers = [
            self._finished(branch, kept, [stored(branch, n) for n in range(len(common))])
            for branch in branches
        ]
        outputs = self.builder.step_ports(
            "IF",
            decision,
            *(self._given(slots[n], forms[n]) for n in kept),
            shapes=[stored_shape(j) for j in common],
            elements=[j.element if isinstance(j, Listed) else j.dtype for j in common],
            then_subgraph_index=numbers[0],
            else_subgraph_index=numbers[1],
        )
        return [like(j, output) for j, output in zip(common, outputs, strict=True)]

    # --- subgraphs ----------------------------------------------------------------------------------------

    def _subgraph(self, role: str, forms: Sequence[Slot], make: BodyMaker[Slot]) -> Body:
        """The operators that `make` emits for arguments of these forms, in a subgraph of their own."""
        node = self.builder.node
        inner = ControlLowering(around=self)
        inner._is_nested = True
        inner.builder.begin(node)
        arguments = [argument_of(form, inner.builder, n) for n, form in enumerate(forms)]
        results = make(inner, list(arguments))
        inner.builder.begin(node)
        if any(isinstance(r, Listed) and r.tensor is None and r.shape is not None for r in results):
            results = [filled(r, inner.builder) for r in results]
        outputs = [t for r in results if (t := tensor_of(r)) is not None]
        subgraph = Subgraph([], outputs, inner.builder.operators, name=f"{node.name}/{role}")
        subgraph.remove_dead()
        # After dead operators are gone: a refusal counts only if somebody reads what could not be computed.
        raise_refusals(subgraph.operators)
        inner.builder.operators = subgraph.operators
        return Body(subgraph, inner.builder, arguments, results)

    def _finished(self, body: Body, kept: Sequence[int], results: Sequence[Tensor]) -> int:
        """Close a subgraph; its number."""
        subgraph = body.subgraph
        subgraph.operators = body.builder.operators
        subgraph.inputs = [t for n in kept if (t := tensor_of(body.arguments[n])) is not None]
        subgraph.outputs = list(results)
        subgraph.remove_dead()
        # Now that inputs and outputs are final: fusion looks at who reads a tensor.
        fuse(subgraph)
        separate_outputs(subgraph)
        self.subgraphs.append(subgraph)
        return len(self.subgraphs)
