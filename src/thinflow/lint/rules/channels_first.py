"""Layers with channels first."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count


@rule("TF307", Severity.WARNING)
def channels_first(c: Context) -> Iterator[LintFinding]:
    """Layers of a TensorFlow graph that compute with channels first (NCHW).

    Why: TensorFlow and LiteRT convolve on processors with channels last only: such a layer fails there, or a
    converter puts transposes around it.

    Mend: `--fix` turns the layers, and takes out transposes that undo each other.

    Ignore: a model for GPUs of NVIDIA alone.
    """
    if c.is_translated:
        return
    nodes = [n.name for n in c.graph if n in c.needed and _is_first(n.get("data_format"))]
    if nodes:
        yield LintFinding(
            f"{count(len(nodes), 'layer')} with channels first",
            tuple(nodes),
            fix="to_nhwc cancel_transposes",
        )


def _is_first(layout: object) -> bool:
    text = layout.decode("ascii", "replace") if isinstance(layout, bytes) else str(layout)
    return text.startswith("NC")
