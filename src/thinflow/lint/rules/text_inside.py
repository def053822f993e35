"""Text inside the model."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.ir.types import STRING
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has

_OTHERS = Trait.PLACEHOLDER | Trait.ASSERT | Trait.PRINT


@rule("TF402", Severity.WARNING)
def text_inside(c: Context) -> Iterator[LintFinding]:
    """Labels, vocabularies or other text that the model works with: string ops and lookup tables.

    Why: accelerators have no strings, and most runtimes of phones none either; labels in a graph cannot be
    translated or changed without a new model.

    Mend: give class numbers out and let the app look the labels up; split text into numbers before the model.

    Ignore: a model for a server, or a runtime that has these ops.
    """
    nodes = [n for n in c.graph if n in c.needed and _works_with_text(n.op, n.inputs, n.outputs)]
    words = [k for k in c.constants if k.is_needed and k.tensor.dtype is STRING and k.tensor.size > 1]
    if not nodes and not words:
        return
    ops = ", ".join(dict.fromkeys(n.op for n in nodes))
    told = [f"{count(len(nodes), 'node')} with text or tables ({ops})"] * bool(nodes)
    told += [f"{count(sum(k.tensor.size for k in words), 'word')} in constants"] * bool(words)
    yield LintFinding(
        " and ".join(told),
        (*(n.name for n in nodes), *(k.node.name for k in words)),
        size_bytes=sum(k.stored_bytes for k in words),
        mend="give numbers out, and let the app look up the words",
    )


def _works_with_text(op: str, inputs: tuple[object, ...], outputs: tuple[object, ...]) -> bool:
    """True if an op reads or makes strings, or is a table. What decodes files is another matter."""
    definition = registry.find(op)
    if (definition is not None and definition.decodes) or has(op, _OTHERS):
        return False
    texts = any(getattr(v, "dtype", None) is STRING for v in (*inputs, *outputs))
    return has(op, Trait.TABLE | Trait.TABLE_FIND) or (texts and bool(inputs))
