"""One node of a LiteRT, ONNX or PyTorch graph put into TensorFlow's ops by the rule of its op."""

from __future__ import annotations

import logging

from thinflow.analysis.foreign import is_in_runtime, is_of_extensions
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.graph import Node, Value, graph_of
from thinflow.ir.types import FLOAT
from thinflow.ir.vocabulary import DECOMPOSED, Vocabulary, vocabulary_of
from thinflow.lift.grids import codes, moved
from thinflow.lift.lifter import Call, Lifter
from thinflow.lift.rules import Entry, refuse_unread, rule_for
from thinflow.lift.tflite.integer_layers import integer_layer
from thinflow.lift.tflite.quantized import dequantized_operands, rounded_results
from thinflow.ops.registry import RULE_ERRORS

logger = logging.getLogger(__name__)

_COMPILED_FOR = {
    "ethos-u": "an Ethos-U, by Vela",
    "edgetpu-custom-op": "an Edge TPU, by its compiler",
    "NeutronGraph": "a Neutron, by NXP's converter",
    "DISPATCH_OP": "the NPU of a phone, by LiteRT's compiler",
}
"""Custom operators that hold a network in the form of a processor -> what that is."""


def compiled_for(node: Node) -> str | None:
    """The processor in whose form a node holds a network, and who put it there; None for other nodes."""
    return _COMPILED_FOR.get(node.op.rpartition(".")[2])


def lift_node(lifter: Lifter, node: Node) -> None:
    """Put what its op's rule makes of a node into the lifter's graph.

    Raises:
        UnsupportedOp: the op has no rule, or its rule refuses; names the node.
    """
    if vocabulary_of(node.op) is None:
        lifter.copy(node)
        return
    entry = rule_for(node.op, is_own=lifter.defines(node.op))
    device = compiled_for(node)
    if entry is None and device is not None:
        raise UnsupportedOp(
            f"it was compiled for {device}, which alone runs it",
            node.where,
            hint="take the .tflite file that it was made from",
        )
    if entry is None:
        raise _refusal(node, f"{node.op} has no counterpart among TensorFlow's ops here")
    try:
        lifter.place(node, _results(lifter.call(node), entry))
    except UnsupportedOp as error:
        raise _refusal(node, error.problem, error.hint) from error
    except (ThinflowError, *RULE_ERRORS) as error:
        # A mistake in a rule looks like a damaged file, but for this.
        logger.debug("the rule for %s failed", node.where, exc_info=True)
        raise _refusal(node, "its inputs or options are not as its op demands") from error


def _results(call: Call, entry: Entry) -> list[Value]:
    """Results of an op by its rule, which gets real numbers and whose own are quantized behind it."""
    whole = integer_layer(call, entry.rule)
    if whole is not None:
        refuse_unread(call, entry)
        return [whole]
    # So rules need not know of quantization.
    call.xs = dequantized_operands(call)
    grid = moved(call)
    results = entry.rule(call)
    refuse_unread(call, entry)
    every = results if isinstance(results, list) else [results]
    if grid is not None:
        return [codes(call, y, grid) if y.dtype is FLOAT else y for y in every]
    return rounded_results(call, every)


def _refusal(node: Node, problem: str, hint: str = "") -> UnsupportedOp:
    vocabulary = vocabulary_of(node.op)
    assert vocabulary is not None, "ops of TensorFlow are copied"
    return UnsupportedOp(problem, node.where, hint=hint or _advice(node, vocabulary))


def _advice(node: Node, vocabulary: Vocabulary) -> str:
    """What can be done with a file one of whose ops cannot be put into TensorFlow's."""
    found = []
    if is_of_extensions(node.op):
        found.append(
            "it is an op of onnxruntime-extensions: make a part, which begins behind it:"
            f" inputs=[...], such as '{node.output().name}'"
        )
    if before := _value_before(node):
        found.append(f"make a part, which ends in front of it: outputs=[...], such as '{before}'")
    # An extension's own op is not in the runtime as it is installed.
    if vocabulary.engine and is_in_runtime(node.op):
        found.append(f"run the file with its own engine: engine='{vocabulary.engine}'")
    elif not vocabulary.engine and ((graph := graph_of(node)) is None or DECOMPOSED not in graph.facts):
        found.append(vocabulary.advice)
    return "; or ".join(found) or "write a rule for it: see CONTRIBUTING.md"


def _value_before(node: Node) -> str:
    """The name of a value that is computed for a node; "" if it reads none but inputs and constants."""
    for value in node.inputs:
        if value.node.tensor is None and not value.node.op.startswith("Placeholder"):
            return value.name
    return ""
