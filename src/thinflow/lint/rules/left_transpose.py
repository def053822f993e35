"""Transposes that a converted model keeps."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.optimize.left_transposes import transpose_note


@rule("TF310", Severity.INFO)
def left_transpose(c: Context) -> Iterator[LintFinding]:
    """Transposes that stay when the model is converted for LiteRT, with the reason of each.

    Why: each moves every element through memory, and some delegates stop at it.

    Mend: the reason tells: inputs and outputs can be taken in the order that the model computes in
    (`--input-layout auto`, `--output-layout auto`).

    Ignore: an app that has its pictures in that order, or a transpose that is what the model is about.
    """
    # A .tflite file is converted already.
    if c.file.vocabulary == "tflite":
        return
    note = transpose_note(c.for_litert)
    kept = {n.name for n in c.for_litert if n.op == "Transpose"}
    # Lowering has no need of some, such as those around a recurrent layer.
    if note and c.written["TRANSPOSE"] >= len(kept):
        yield LintFinding(f"converted for LiteRT, {note}", tuple(n.name for n in c.graph if n.name in kept))
