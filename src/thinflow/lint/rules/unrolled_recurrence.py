"""Recurrent layers that were unrolled."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from thinflow.ir.ledger import Entry
from thinflow.ir.order import ancestors, execution_order
from thinflow.lint.context import Context
from thinflow.lint.dry_run import dry_run
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.own_ops import constant_behind
from thinflow.lint.rules import rule
from thinflow.lint.words import listed
from thinflow.ops.traits import Trait, has

_FEWEST = 8
"""Equal steps in a row: shorter rows may be layers that happen to be alike."""
_FIX = "reroll_recurrence"
_LAYERS = frozenset({"onnx.MatMul", "onnx.Gemm", "tfl.FULLY_CONNECTED", "tfl.BATCH_MATMUL"})
"""Of files of runtimes: their second operand is their weights."""


@rule("TF311", Severity.INFO)
def unrolled_recurrence(c: Context) -> Iterator[LintFinding]:
    """Eight layers and more that share their weights: the steps of a recurrent layer, written out one by one.

    Why: the graph grows with the number of steps, which is fixed for good, and opening it takes longer than
    running it; runtimes have one operator for the whole layer.

    Mend: `reroll_recurrence` makes one loop of the steps, which converters know as one operator; where it
    says why it cannot, export the layer as a loop (`dynamic_rnn`, Keras' LSTM).

    Ignore: an accelerator that runs no loops, for which it was unrolled.
    """
    # What a Keras layer becomes is nobody's unrolling.
    if not c.has_own_nodes:
        return
    steps: dict[str, list[str]] = defaultdict(list)
    for weights, node in _layers(c):
        steps[weights].append(node)
    # The gates of a GRU have weights of their own, and as many steps each: that is one layer.
    shared: dict[int, list[str]] = defaultdict(list)
    for weights, nodes in steps.items():
        shared[len(nodes)].append(weights)
    found = [
        (number, weights_of)
        for number, weights_of in shared.items()
        if number >= _FEWEST and any(_is_chain(c, steps[weights]) for weights in weights_of)
    ]
    # A trial of it tells whether it can be mended, and if not, why.
    trial = dry_run(c.graph, _FIX) if found and c.can_mend else None
    for number, weights_of in found:
        nodes = [name for weights in weights_of for name in steps[weights]]
        changed = [] if trial is None else [e for e in trial.changes(_FIX) if e.node in nodes]
        reason = "" if trial is None or changed else _reason([e for e in trial.left(_FIX) if e.node in nodes])
        yield LintFinding(
            f"{number} steps share the weights {listed(weights_of)}: a recurrent layer, unrolled{reason}",
            tuple(nodes),
            flops=c.flops(nodes),
            fix=_FIX if changed else "",
        )


def _reason(left: Sequence[Entry]) -> str:
    return f"; {_FIX} leaves it: {left[0].text}" if left else ""


def _layers(c: Context) -> Iterator[tuple[str, str]]:
    """Weights and the layers that read them; those of the file, where the translation has ops of its own."""
    if not c.file.vocabulary:
        products = (layer for layer in c.layers if has(layer.node.op, Trait.MATMUL))
        yield from ((layer.weights.name, layer.node.name) for layer in products)
        return
    for node in c.file:
        # Weights that are stored small are unpacked in between.
        behind = constant_behind(node.inputs[1]) if node.op in _LAYERS and len(node.inputs) > 1 else None
        if behind is not None and node.name in c.needed_names:
            yield behind.name, node.name


def _is_chain(c: Context, names: Sequence[str]) -> bool:
    """True if the last step needs the first; a layer that several inputs share is no recurrent one."""
    graph = c.file if c.file.vocabulary else c.graph
    steps = {graph.node(name) for name in names}
    in_order = [node for node in execution_order(graph) if node in steps]
    return in_order[0] in ancestors([in_order[-1]])
