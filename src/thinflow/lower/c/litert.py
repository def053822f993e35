"""One operator at a time, run by LiteRT itself while a network is written."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.runtime import interpreter
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

_UNTOLD = (1,) * 7
"""Sizes in a file that no operator has: what still has them when all is allocated gets its own in a run."""


def kernel_sets(rounding: str) -> list[Any]:
    """LiteRT's sets of kernels that have a rounding, those in front first, where they run a program.

    The reference kernels lack some operators; where nothing is rounded to codes, others tell as well.
    """
    from ai_edge_litert.interpreter import OpResolverType

    if rounding == "xnnpack":
        return [OpResolverType.BUILTIN]
    return [OpResolverType.BUILTIN_REF, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES]


def take_sizes(block: Subgraph, content: bytes) -> None:
    """Give what operators make the sizes that LiteRT finds, where a file says others; memory goes by them.

    Args:
        block: the first subgraph of the file; changed.
        content: of the file. Nothing is done if LiteRT refuses it.
    """
    from ai_edge_litert.interpreter import OpResolverType

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine = interpreter(
                model_content=content,
                experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
            )
    except (ValueError, RuntimeError):
        return
    for operator, details in zip(block.operators, engine._get_ops_details(), strict=False):
        for tensor, number in zip(operator.outputs, details["outputs"], strict=True):
            # Of what a loop only hands on LiteRT keeps no tensor.
            if number < 0 or tensor.is_variable:
                continue
            found = tuple(int(n) for n in engine._get_tensor_details(number, 0)["shape"])
            # What is open stays so: whoever gives sizes gives all of them.
            if tensor.shape is not None and None not in tensor.shape:
                tensor.shape = found


def answers(operator: Operator) -> list[Array] | None:
    """What an operator makes of constants; None if LiteRT does not run it alone."""
    # An input by itself has to be there: the file format has none without.
    engine, outputs = _opened(operator, [])
    if engine is None:
        return None
    try:
        engine.invoke()
    except RuntimeError:
        return None
    return [
        np.array(engine.get_tensor(d["index"])).astype(t.dtype.numpy(), copy=False)
        for d, t in zip(engine.get_output_details(), outputs, strict=True)
    ]


def shapes(operator: Operator) -> list[tuple[int, ...] | None] | None:
    """The sizes of what an operator makes, None for those that depend on numbers; None if LiteRT does not run
    it alone."""
    fed = [t for t in dict.fromkeys(operator.reads()) if not t.is_constant]
    engine, outputs = _opened(operator, fed, _UNTOLD)
    if engine is None:
        return None
    found: list[tuple[int, ...] | None] = []
    # Of two runs with other numbers: what differs depends on them.
    for details, value in zip(engine.get_input_details(), fed, strict=True):
        engine.set_tensor(
            details["index"], np.zeros([n or 0 for n in value.shape or ()], value.dtype.numpy())
        )
    static = [tuple(d["shape"].tolist()) for d in engine.get_output_details()]
    for number, _ in enumerate(outputs):
        # What has no sizes before the run gets them during it.
        is_told = static[number] != _UNTOLD and _is_allocated(engine, number)
        found.append(static[number] if is_told else None)
    return found


def _is_allocated(engine: Any, number: int) -> bool:
    """Whether an output has its memory, and so its sizes, before the run."""
    try:
        engine.get_tensor(engine.get_output_details()[number]["index"])
    except ValueError:
        return False
    return True


def _opened(
    operator: Operator, fed: Sequence[Tensor], made: tuple[int, ...] | None = None
) -> tuple[Any, list[Tensor]]:
    """An interpreter of one operator; `made` are sizes of its outputs in the file, by default their own."""
    from ai_edge_litert.interpreter import OpResolverType

    inputs = {t: replace(t) if t in fed else t for t in operator.reads()}
    outputs = [replace(t, shape=made or tuple(n or 1 for n in t.shape or ())) for t in operator.outputs]
    alone = replace(
        operator, inputs=[None if t is None else inputs[t] for t in operator.inputs], outputs=outputs
    )
    program = Program([Subgraph([inputs[t] for t in fed], outputs, [alone])])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine = interpreter(
                model_content=to_bytes(program),
                experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
                num_threads=1,
            )
    except (ValueError, RuntimeError):
        return None, outputs
    return engine, outputs
