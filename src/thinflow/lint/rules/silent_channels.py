"""Channels that never differ from 0 on samples."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.ops.traits import Trait, has

_FEWEST_RUNS = 8
"""On fewer samples a channel may be silent by chance."""
_SHARE = 0.1
"""Of the channels of a layer, from which on leaving them out is worth a word."""


@rule("TF702", Severity.INFO, needs_runs=True)
def silent_channels(c: Context) -> Iterator[LintFinding]:
    """Rectified layers of which a tenth of the channels and more are 0 on all samples, of eight and more.

    Why: those channels are computed for nothing, if the samples are like those of the app; training with
    fewer would have done.

    Mend: prune them and train on a little; where they are dead for every input, TF206 says so and `--fix`
    removes them.

    Ignore: few or one-sided samples; made-up ones are never enough for this.
    """
    seen = c.activations
    if seen.made_up or seen.runs < _FEWEST_RUNS:
        return
    silent: dict[str, tuple[int, int]] = {}
    for value, one in seen.values.items():
        if has(value.node.op, Trait.RECTIFIER) and not one.has_nan and one.largest > 0:
            dead = int((one.high <= 0).sum())
            if dead >= _SHARE * one.high.size:
                silent[value.node.name] = dead, one.high.size
    if silent:
        total, channels = (sum(n) for n in zip(*silent.values(), strict=True))
        yield LintFinding(
            f"{total} of {channels} channels of {count(len(silent), 'layer')} were 0 on all {seen.origin}",
            tuple(silent),
        )
