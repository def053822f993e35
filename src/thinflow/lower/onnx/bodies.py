"""Programs inside of operators: what they read from outside, and what they hand out."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.lower.onnx.fuse import fuse
from thinflow.lower.onnx.layout import settle_layout
from thinflow.onnx.program import Operator, Program, Tensor


def close(programs: Sequence[Program]) -> list[Tensor]:
    """Finish the bodies of one operator: what they read from outside, for which each has a last input then.

    Args:
        programs: what they read from outside they read as it is.
    """
    for program in programs:
        program.remove_dead()
    outer = _capture(programs)
    for program in programs:
        settle_layout(program)
        fuse(program)
        _separate_outputs(program)
    return outer


def _capture(programs: Sequence[Program]) -> list[Tensor]:
    """The tensors that bodies read from outside, for which each has a last input then. O(operators)."""
    outer: dict[Tensor, None] = {}
    for program in programs:
        written = {t for o in program.operators for t in o.outputs} | set(program.inputs)
        read = [t for o in program.operators for t in o.inputs] + list(program.outputs)
        outer.update(dict.fromkeys(t for t in read if t and not t.is_constant and t not in written))
    for program in programs:
        own = {t: Tensor(t.name, t.shape, t.dtype) for t in outer}
        for operator in program.operators:
            operator.inputs = [t if t is None else own.get(t, t) for t in operator.inputs]
        program.outputs = [own.get(t, t) for t in program.outputs]
        program.inputs = [*program.inputs, *own.values()]
    return list(outer)


def _separate_outputs(program: Program) -> None:
    """Give each output of a body a tensor of its own that an operator writes."""
    written = {t for operator in program.operators for t in operator.outputs}
    for number, tensor in enumerate(program.outputs):
        # What is handed through, or handed out twice, has no name of its own as an output.
        if tensor in written and tensor not in program.outputs[:number]:
            continue
        copy = Tensor(f"{tensor.name}/copy", tensor.shape, tensor.dtype)
        program.operators.append(Operator("Identity", [tensor], [copy], origin=copy.name))
        program.outputs[number] = copy
