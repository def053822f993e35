"""Replaces float constants of a program by smaller ones, operator by operator, in every subgraph.

x, w [float] -> CONV_2D     ->     DEQUANTIZE(w [half]) -> CONV_2D(x, w [float])
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from thinflow.quantize.kernels import is_float
from thinflow.quantize.recipe import Decision, Quantized, Recipe, require_float
from thinflow.quantize.rounding import NEAREST, Rounding
from thinflow.quantize.weights import memory_key
from thinflow.tflite import schema
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor


class Reading(Enum):
    """Ways in which an operator reads a smaller constant."""

    DIRECT = "its kernel reads it as it is"
    BEFORE = "DEQUANTIZE stands in front of the operator"
    BEHIND = "the operator moves the integers, and DEQUANTIZE stands behind it"


class Smaller(NamedTuple):
    """The replacement of a constant.

    Attributes:
        make: the smaller tensor; asked for only where it is used, since it records what was decided.
        options: that the operator must have to read it.
    """

    make: Callable[[], Tensor]
    reading: Reading
    options: tuple[tuple[str, Any], ...] = ()


@dataclass
class Storing:
    """A scheme that stores constants smaller; `choose` is all that differs.

    Attributes:
        choose: operator, input number, constant -> what replaces it; or why it stays, "" for no good reason.
        rounding: of weights, and what their biases become.
    """

    recipe: Recipe
    decisions: list[Decision] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    rounding: Rounding = NEAREST
    # With the constants' arrays: while one is held, no other can come to lie where it does.
    _made: dict[tuple[Any, ...], tuple[Tensor, Any]] = field(default_factory=dict)

    def choose(self, operator: Operator, number: int, constant: Tensor) -> Smaller | str:
        """The replacement of an input of an operator; or why it stays, "" if that is not worth a word."""
        raise NotImplementedError

    def bias(self, operator: Operator, stored: Tensor) -> tuple[int, Tensor] | None:
        """Input number and float bias of an operator that go with its stored weights; None for its own."""
        del operator, stored
        return None

    def once(self, constant: Tensor, *how: Any, make: Callable[[], tuple[Tensor, Decision]]) -> Tensor:
        """The smaller form of a constant, made once for all operators that share its memory."""
        data = np.asarray(constant.array())
        key = (*memory_key(data), *how)
        if key not in self._made:
            smaller, decision = make()
            self._made[key] = smaller, data
            self.decisions.append(decision)
        return self._made[key][0]

    def apply(self, program: Program) -> Quantized[Program]:
        """The program with smaller constants; the given one stays as it is.

        Raises:
            GraphError: it is quantized already.
        """
        require_float(program)
        kept: list[tuple[Operator, str]] = []
        made: dict[Operator, Operator] = {}
        subgraphs = [_Rewriter(self, subgraph, kept, made).result for subgraph in program.subgraphs]
        return Quantized(replace(program, subgraphs=subgraphs), self.decisions, kept, self.warnings, made)

    def stored_in(
        self, subgraph: Subgraph, operators: Collection[Operator]
    ) -> tuple[Subgraph, dict[Operator, Operator]]:
        """The subgraph with smaller constants of some operators alone, and what each that changed became."""
        made: dict[Operator, Operator] = {}
        return _Rewriter(self, subgraph, [], made, operators).result, made


class _Rewriter:
    """One subgraph; `kept` collects operators with constants that stay, and why, `made` those changed.

    Args:
        only: operators that are looked at; None for all.
    """

    def __init__(
        self,
        scheme: Storing,
        subgraph: Subgraph,
        kept: list[tuple[Operator, str]],
        made: dict[Operator, Operator],
        only: Collection[Operator] | None = None,
    ) -> None:
        self.scheme = scheme
        self.kept, self.made = kept, made
        self.result = replace(subgraph, operators=[])
        self._float: dict[Tensor, Tensor] = {}  # smaller constant -> what DEQUANTIZE makes of it
        for operator in subgraph.operators:
            if only is None or operator in only:
                self._add(operator)
            else:
                self.result.operators.append(operator)

    def _add(self, operator: Operator) -> None:
        chosen, reasons = self._choices(operator)
        inputs, outputs, options = list(operator.inputs), list(operator.outputs), dict(operator.options)
        behind: list[Operator] = []
        for number, smaller in chosen.items():
            options.update(smaller.options)
            tensor = inputs[number] = smaller.make()
            beside = self.scheme.bias(operator, tensor)
            if beside is not None:
                inputs[beside[0]] = beside[1]
            if smaller.reading is Reading.BEFORE:
                inputs[number] = self._dequantized(tensor, operator.inputs[number])
            elif smaller.reading is Reading.BEHIND:
                # The operator's old output becomes DEQUANTIZE's, so that its readers stay as they are. Behind
                # a GATHER only the rows that were looked up are unpacked, in front of it all of them would
                # be.
                wide = outputs[0]
                name = f"{wide.name}/{tensor.dtype.name}"
                outputs[0] = Tensor(name, wide.shape, tensor.dtype, None, tensor.quantization)
                behind.append(Operator("DEQUANTIZE", [outputs[0]], [wide], origin=operator.origin))
        new = replace(operator, inputs=inputs, outputs=outputs, options=options)
        self.result.operators += [new, *behind]
        if chosen:
            self.made[operator] = new
        self.kept += [(new, why) for why in dict.fromkeys(reasons) if why]

    def _choices(self, operator: Operator) -> tuple[dict[int, Smaller], list[str]]:
        """Smaller constants by input number, and why others stay."""
        chosen: dict[int, Smaller] = {}
        reasons: list[str] = []
        # Custom kernels may read constants when they prepare; called subgraphs want the types they declare.
        if operator.code == "CUSTOM" or schema.SUBGRAPH_OPTIONS & operator.options.keys():
            return chosen, reasons
        skipped = self.scheme.recipe.why_skipped(operator)
        for number, tensor in enumerate(operator.inputs):
            if tensor is None or not tensor.is_constant or not is_float(tensor):
                continue
            # The scheme is asked first: a constant that it would not touch has its own reason to stay.
            found = self.scheme.choose(operator, number, tensor)
            if isinstance(found, str):
                reasons.append(found)
            elif skipped:
                reasons.append(skipped)
            else:
                chosen[number] = found
        return chosen, reasons

    def _dequantized(self, smaller: Tensor, constant: Tensor | None) -> Tensor:
        # In front of the first reader, and so in front of all of them: one DEQUANTIZE serves the whole
        # subgraph.
        if smaller not in self._float:
            assert constant is not None, "only constants are replaced"
            wide = Tensor(constant.name, constant.shape, constant.dtype)
            self._float[smaller] = wide
            self.result.operators.append(Operator("DEQUANTIZE", [smaller], [wide]))
        return self._float[smaller]
