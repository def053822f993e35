"""Parts of a program: what some of its tensors are made of."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar, cast

from thinflow.analysis.foreign import ACTING
from thinflow.onnx import program as onnx
from thinflow.quantize.macs import main_block
from thinflow.tflite import model as tflite

P = TypeVar("P", bound=tflite.Program | onnx.Program)


def part_for(program: P, outputs: Iterable[Any]) -> P:
    """The program with other outputs, tensors of its main block, and without what they do not need.

    Inputs stay, those that are not read as well. The given program stays as it is.
    """
    main, outputs = main_block(program), list(outputs)
    needed = set(outputs)
    kept = []
    for operator in reversed(main.operators):
        if needed.intersection(operator.outputs) or f"tfl.{operator.code}" in ACTING:
            kept.append(operator)
            needed.update(t for t in operator.inputs if t is not None)
    kept.reverse()
    return _with_ends(program, outputs, kept)


def with_further_outputs(program: P, tensors: Iterable[Any]) -> P:
    """The whole program with tensors of its main block as outputs behind its own. The given one stays as it
    is.
    """
    main = main_block(program)
    return _with_ends(program, [*main.outputs, *tensors], main.operators)


def _with_ends(program: P, outputs: list[Any], operators: list[Any]) -> P:
    if isinstance(program, onnx.Program):
        return cast("P", replace(program, outputs=outputs, operators=operators))
    main = main_block(program)
    other = tflite.Subgraph(main.inputs, outputs, operators, name=main.name)
    # Signatures name the old outputs.
    whole = replace(program, subgraphs=[other, *program.subgraphs[1:]], signatures={})
    return cast("P", whole)


def part_making(program: P, tensors: Iterable[Any]) -> P:
    """As much of a program as some of its tensors need, with those that operators make as outputs.

    All of it where none is made, as of inputs: runtimes want to have something to run.
    """
    made = main_block(program).producers()
    wanted = list(dict.fromkeys(t for t in tensors if t in made))
    return part_for(program, wanted) if wanted else program
