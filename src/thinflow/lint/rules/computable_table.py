"""Large constants that could be computed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from thinflow.ir.tensor import Tensor
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule

_SMALLEST_BYTES = 16_384
"""Smaller tables are not worth an operator more."""


@rule("TF208", Severity.WARNING)
def computable_table(c: Context) -> Iterator[LintFinding]:
    """Constants of 16 kB and more that hold one number all over, or count in even steps.

    Why: they are stored in full, mostly because somebody folded a Fill, a Tile or a Range.

    Mend: store the one number and let it broadcast, or count when the model runs; `exclude_op=Fill` keeps
    `fold_constants` from writing such tables.

    Ignore: a runtime that has neither broadcasting nor Range.
    """
    for known in c.constants:
        ends = c.extremes.get(known.node)
        if ends is None or known.stored_bytes < _SMALLEST_BYTES:
            continue
        how = f"{ends[0]:g} all over" if ends[0] == ends[1] else _counting(known.tensor, *ends)
        if how:
            yield LintFinding(
                f"'{known.node.name}' of {'x'.join(map(str, known.tensor.shape))} is {how}",
                (known.node.name,),
                size_bytes=known.stored_bytes,
                mend="store one number, or compute it with Fill or Range",
            )


def _counting(tensor: Tensor, low: float, high: float) -> str:
    """How a tensor counts in even steps, in words; "" if it does not."""
    flat = tensor.numpy().reshape(-1)
    step = (high - low) / (flat.size - 1)
    # The first few tell of nearly all others that they do not.
    if abs(float(flat[1]) - float(flat[0])) != abs(step) or {float(flat[0]), float(flat[-1])} != {low, high}:
        return ""
    is_even = bool((np.diff(flat) == flat[1] - flat[0]).all())
    return f"{flat[0]:g} to {flat[-1]:g} in steps of {float(flat[1]) - float(flat[0]):g}" if is_even else ""
