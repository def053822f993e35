"""A softmax at the end of the model."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from thinflow.ir.graph import Node
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.ops.traits import Trait, has

_THROUGH = Trait.IDENTITY | Trait.RESHAPE
_CODES, _CODES_THROUGH = {"softmax"}, {"identity", "reshape", "flatten", "squeeze"}
_CODES_THROUGH |= {"quantize", "dequantize", "quantizelinear", "dequantizelinear"}
"""Of a file of a runtime, in lower case: in the translation of eight bits they are arithmetic."""


@rule("TF403", Severity.INFO)
def baked_in_softmax(c: Context) -> Iterator[LintFinding]:
    """An output that is a softmax.

    Why: the largest probability is that of the largest logit, so that an app which only wants the class needs
    no softmax; eight bits round probabilities near 0 to nothing; and training on needs the logits.

    Mend: ask for what the softmax reads: `thinflow transform MODEL OUT -t strip_unused_nodes --outputs
    LOGITS`.

    Ignore: an app that shows probabilities or compares them with a threshold.
    """
    for output in (c.file if c.file.vocabulary else c.graph).outputs:
        node = output.node
        while _is(node, _THROUGH, _CODES_THROUGH) and node.inputs and not node.inputs[0].is_graph_input:
            node = node.inputs[0].node
        if not _is_softmax(node) or not node.inputs:
            continue
        logits = node.inputs[0]
        yield LintFinding(
            f"the output '{output.name}' is a {node.op.rpartition('.')[2]} of '{logits.name}'",
            (node.name,),
            # Under that name the translation may have the end of its arithmetic.
            flops=c.flops([node.name]) if node.name in c.names and _is_softmax(c.node(node.name)) else None,
            mend=""
            if c.is_translated
            else f"thinflow transform MODEL OUT -t strip_unused_nodes --outputs {shlex.quote(logits.name)}",
        )


def _is_softmax(node: Node) -> bool:
    return _is(node, Trait.SOFTMAX, _CODES)


def _is(node: Node, trait: Trait, codes: set[str]) -> bool:
    return has(node.op, trait) or node.op.partition(".")[2].lower() in codes
