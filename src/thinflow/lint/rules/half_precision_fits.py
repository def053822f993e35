"""Float weights that half precision could hold."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.ir.types import FLOAT
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count

_SMALLEST_BYTES = 1_000_000
"""Of constants, from which on half of them is worth a word. Chosen, not measured."""
_LARGEST_HALF = 65504.0
"""The largest finite number of half precision."""


@rule("TF209", Severity.INFO)
def half_precision_fits(c: Context) -> Iterator[LintFinding]:
    """A megabyte and more of float weights, all of which half precision can hold.

    Why: half precision halves the file and hardly ever changes an answer; GPUs compute in it anyway.

    Mend: `thinflow quantize MODEL OUT.tflite --scheme float16`, or eight bits, which need samples.

    Ignore: a model for a runtime without half precision, or one that goes to eight bits.
    """
    floats = [k for k in c.constants if k.is_needed and k.tensor.dtype is FLOAT and k.node in c.extremes]
    size = sum(k.stored_bytes for k in floats)
    largest = max((max(map(abs, c.extremes[k.node])) for k in floats), default=0.0)
    # A comparison with NaN is false.
    if size >= _SMALLEST_BYTES and largest <= _LARGEST_HALF:
        yield LintFinding(
            f"{count(len(floats), 'float constant')}, none beyond {largest:.3g}, would fit half precision",
            size_bytes=size // 2,
            mend="thinflow quantize MODEL OUT.tflite --scheme float16",
        )
