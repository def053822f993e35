"""Channel counts that leave parts of vector registers empty."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.ops.traits import Trait, has

_LANES = 4
"""Floats in the narrowest vector of a phone, 128 bits of NEON."""
_SHARE = 0.05
"""Of all operations. The last layer has as many channels as there are classes, and costs next to nothing."""


@rule("TF308", Severity.INFO)
def odd_channels(c: Context) -> Iterator[LintFinding]:
    """Convolutions with 5 % of the operations and more whose output channels are no multiple of 4.

    Why: kernels compute 4, 8 or 16 channels at a time; the last of them work on padding.

    Mend: choose multiples of 8 (or of 4) when the model is designed and trained.

    Ignore: a trained model: only training again changes it.
    """
    total = c.costs.total.flops
    odd: dict[str, int] = {}
    lost = 0.0
    for node in c.graph:
        if node not in c.needed or not has(node.op, Trait.CONV_2D):
            continue
        shape = node.output().spec.shape
        channels = shape[1 if str(node.get("data_format", b"")).find("NC") >= 0 else -1] if shape else None
        flops = c.flops([node.name]) or 0
        if channels is not None and channels % _LANES and flops >= _SHARE * total > 0:
            odd[node.name] = channels
            lost += flops * (-channels % _LANES) / channels
    if odd:
        counts = ", ".join(str(n) for n in dict.fromkeys(odd.values()))
        yield LintFinding(
            f"{count(len(odd), 'convolution')} with channels that are no multiple of {_LANES} ({counts})",
            tuple(odd),
            flops=round(lost),
            mend="choose multiples of 8 when it is trained the next time",
        )
