"""Layers whose weights are all zero."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count

_SMALL = 1e-7
"""Of a weight. Times any activation that fits eight or sixteen bits it is less than a rounding error."""


@rule("TF205", Severity.WARNING)
def zero_weights(c: Context) -> Iterator[LintFinding]:
    """Layers whose weights are all 0, or below 1e-7.

    Why: the layer gives its bias, whatever comes in: it was never trained, never loaded, or died. What stands
    before it is computed for nothing.

    Mend: look at the checkpoint and at how it was loaded; a layer that is to be silent can be cut out.

    Ignore: the last convolution of a residual branch that starts at zero, in a model yet to be trained.
    """
    silent = [
        layer
        for layer in c.layers
        if (ends := c.extremes_of(layer.weights.name)) and max(map(abs, ends)) <= _SMALL
    ]
    if silent:
        names = tuple(layer.node.name for layer in silent)
        yield LintFinding(
            f"{count(len(silent), 'layer')} whose weights are all 0",
            names,
            size_bytes=sum(x.weights.tensor.storage.stored_bytes for x in silent if x.weights.tensor),
            flops=c.flops(names),
        )
