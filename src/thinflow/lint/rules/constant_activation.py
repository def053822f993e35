"""Activations that never differ."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.ops.traits import Trait, has

_NEAR = 1e-4
"""Of the largest number: what a run differs by that is next to nothing."""
_LAYERS = Trait.CONVOLUTION | Trait.MATMUL | Trait.RECTIFIER | Trait.BATCH_NORM | Trait.SOFTMAX
_FEWEST_RUNS = 2
"""One run differs from no other."""


@rule("TF701", Severity.WARNING, needs_runs=True)
def constant_activation(c: Context) -> Iterator[LintFinding]:
    """Layers whose results are the same number, up to 1e-4 of it, everywhere and for every sample.

    Why: the layer tells nothing of its input, and all in front of it is for nothing: it died in training, or
    the samples are not what it was trained on.

    Mend: look at the samples first, then at the layer's weights and at how they were loaded.

    Ignore: made-up inputs that a real one never looks like.
    """
    seen = c.activations
    if seen.runs < _FEWEST_RUNS:
        return
    # One that is 0 all over is among them: no spread, and nothing to compare it with. What starts from a
    # state of zeros, as the first step of a recurrent layer, cannot give anything else.
    dead = {
        v.node.name: s
        for v, s in seen.values.items()
        if v.node in c.fed and has(v.node.op, _LAYERS) and not s.has_nan and s.spread <= _NEAR * s.largest
    }
    if dead:
        first = next(iter(dead.values())).high.max()
        yield LintFinding(
            f"{count(len(dead), 'layer')} gave one number on {seen.origin} (the first {first:.4g})",
            tuple(dead),
            flops=c.flops(dead),
        )
