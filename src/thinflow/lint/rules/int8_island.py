"""Float parts between eight-bit ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from thinflow.ir.graph import Node
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.quantize.kernels.onnx import INT8_KERNELS


@rule("TF601", Severity.WARNING)
def int8_island(c: Context) -> Iterator[LintFinding]:
    """Float parts in the middle of an eight-bit .tflite or .onnx file: dequantized before, quantized behind.

    Why: each border converts every element, delegates for integers stop there, and microcontrollers without
    floats do not run it at all. In an .onnx file every layer stands between such a pair, and ONNX Runtime
    makes one integer kernel of the three; that is no island. An op that it has no integer kernel for is one,
    and so are several between one pair.

    Mend: quantize the float model again with `thinflow quantize`, which keeps such ops in eight bits where
    the runtime can; the op named is what kept the part float.

    Ignore: an op that eight bits spoil, and was left float on purpose.
    """
    prefix = {"tflite": "tfl.", "onnx": "onnx."}.get(c.file.vocabulary, "")
    opening, closing = _PAIRS.get(prefix, ("", ""))
    leaving = [n for n in c.file if n.op == opening and n.inputs[0].node.tensor is None]
    entering = {n for n in c.file if n.op == closing}
    told: set[Node] = set()
    for start in leaving:
        inside, reached = _float_part(start, entering)
        # Two values that one op reads begin the same part.
        if not reached or not inside or told.issuperset(inside):
            continue
        told.update(inside)
        if prefix == "onnx." and _is_one_kernel(inside, entering):
            continue
        ops = ", ".join(op.partition(".")[2] for op, _ in Counter(n.op for n in inside).most_common(3))
        yield LintFinding(
            f"{count(len(inside), 'float op')} between eight-bit parts ({ops})",
            tuple(n.name for n in inside),
            flops=c.flops(n.name for n in inside),
            mend="thinflow quantize the float model again",
        )


_PAIRS = {
    "tfl.": ("tfl.DEQUANTIZE", "tfl.QUANTIZE"),
    "onnx.": ("onnx.DequantizeLinear", "onnx.QuantizeLinear"),
}


def _is_one_kernel(inside: list[Node], ends: set[Node]) -> bool:
    """True if ONNX Runtime computes the part between two pairs in integers: one op, and a clamp behind it."""
    # Weights are dequantized between the pairs as well, and become part of the kernel.
    codes = {node: node.op.partition(".")[2] for node in inside if node.op != _PAIRS["onnx."][0]}
    kernels = [(n, INT8_KERNELS.table.get(code)) for n, code in codes.items()]
    if any(kernel is None for _, kernel in kernels):
        return False
    # A clamp goes into the limits of the codes that are written behind it.
    clamps = [
        n for n, kernel in kernels if kernel is not None and kernel.is_clamp and ends.issuperset(n.readers)
    ]
    return len(kernels) - len(clamps) <= 1


def _float_part(start: Node, ends: set[Node]) -> tuple[list[Node], bool]:
    """The nodes behind a dequantization, and whether all that they lead to is quantized again."""
    inside: dict[Node, None] = {}
    pending = [*start.output().readers]
    closed = bool(pending) and not start.output().is_graph_output
    while pending:
        node = pending.pop()
        if node in ends or node in inside:
            continue
        inside[node] = None
        for value in node.outputs:
            closed &= not value.is_graph_output
            pending += value.readers
    return list(inside), closed
