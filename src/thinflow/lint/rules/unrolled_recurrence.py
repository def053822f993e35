"""Recurrent layers that were unrolled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import listed

_FEWEST = 8
"""Equal steps in a row: shorter rows may be layers that happen to be alike."""


@rule("TF311", Severity.INFO)
def unrolled_recurrence(c: Context) -> Iterator[LintFinding]:
    """Eight layers and more that share their weights: the steps of a recurrent layer, written out one by one.

    Why: the graph grows with the number of steps, which is fixed for good, and opening it takes longer than
    running it; runtimes have one operator for the whole layer.

    Mend: export the layer as a loop (`dynamic_rnn`, Keras' LSTM), which converters know as one operator.

    Ignore: an accelerator that runs no loops, for which it was unrolled; a layer that several pictures share.
    """
    # What one operator of a file becomes is nobody's unrolling.
    if c.is_translated:
        return
    steps: dict[str, list[str]] = defaultdict(list)
    for layer in c.layers:
        steps[layer.weights.name].append(layer.node.name)
    # The gates of a GRU have weights of their own, and as many steps each: that is one layer.
    shared: dict[int, list[str]] = defaultdict(list)
    for weights, nodes in steps.items():
        shared[len(nodes)].append(weights)
    for number, weights_of in shared.items():
        if number >= _FEWEST:
            nodes = [name for weights in weights_of for name in steps[weights]]
            what = f"the weights {listed(weights_of)}"
            yield LintFinding(
                f"{number} steps share {what}: a recurrent layer, unrolled",
                tuple(nodes),
                flops=c.flops(nodes),
            )
