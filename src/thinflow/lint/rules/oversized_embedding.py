"""Tables of embeddings that are most of the file."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.ops.traits import Trait, has
from thinflow.program.amounts import bytes_text
from thinflow.rewrite.pattern import constant_node

_SMALLEST_BYTES = 100_000
_SHARE = 0.3
"""Of all constants: a smaller table is not what makes the file large. Both are chosen, not measured."""


@rule("TF207", Severity.WARNING)
def oversized_embedding(c: Context) -> Iterator[LintFinding]:
    """A table of float rows that are looked up, of 100 kB and more, and 30 % of the file or more.

    Why: each run reads a few rows, and everybody downloads all of them.

    Mend: eight bits a number (`thinflow quantize MODEL OUT.tflite --scheme int8_weights`), a smaller
    vocabulary, or two thin factors instead of the table.

    Ignore: a vocabulary that has to be so large.
    """
    stored = {k.node.name: k for k in c.constants}
    seen = set()
    for node in c.graph:
        table = constant_node(node.inputs[0]) if node in c.needed and has(node.op, Trait.GATHER) else None
        known = stored.get(table.name) if table is not None else None
        if known is None or known.node.name in seen or not known.tensor.dtype.is_floating:
            continue
        seen.add(known.node.name)
        size = known.stored_bytes
        if size < _SMALLEST_BYTES or size < _SHARE * c.stored_bytes:
            continue
        yield LintFinding(
            f"the table '{known.node.name}' of {'x'.join(map(str, known.tensor.shape))} numbers is "
            f"{100 * size // c.stored_bytes} % of all constants ({bytes_text(size)})",
            (known.node.name, node.name),
            size_bytes=size * 3 // 4,
            mend="thinflow quantize MODEL OUT.tflite --scheme int8_weights",
        )
