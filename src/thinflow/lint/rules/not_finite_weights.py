"""Weights that are no numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count


@rule("TF204", Severity.ERROR)
def not_finite_weights(c: Context) -> Iterator[LintFinding]:
    """Constants with NaN in them, or layers with infinite weights.

    Why: whatever is computed from them is NaN or infinite, for every input. Training diverged.

    Mend: take an earlier checkpoint.

    Ignore: never. A lone NaN, which may stand for no answer, and infinite numbers that mask or bound, being
    no weights of a layer, are not reported.
    """
    several = {node: ends for node, ends in c.extremes.items() if node.tensor is None or node.tensor.size > 1}
    bad = [node.name for node, ends in several.items() if any(map(math.isnan, ends))]
    infinite = [
        layer.weights.name for layer in c.layers if any(map(math.isinf, c.extremes_of(layer.weights.name)))
    ]
    for names, what in ((bad, "NaN"), (infinite, "infinite numbers")):
        if names:
            yield LintFinding(
                f"{count(len(names), 'constant')} with {what}",
                tuple(dict.fromkeys(names)),
                mend="take an earlier checkpoint, training diverged",
            )
