"""Outputs that never differ, or are another one again."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.ir.order import ancestors
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import source_of

_VARIES = Trait.PLACEHOLDER | Trait.VARIABLE | Trait.RANDOM | Trait.STATEFUL | Trait.DEQUEUE


@rule("TF408", Severity.WARNING)
def constant_output(c: Context) -> Iterator[LintFinding]:
    """Outputs that depend on no input, or that are another output or an input under a second name.

    Why: they are handed over in each run, and tell nothing.

    Mend: ask for the others only: `--outputs`.

    Ignore: a table of anchors or labels that the app takes from the model on purpose; an interface that wants
    a state to come in and go out, of a model that has none.
    """
    fed = {v.node for v in c.graph.inputs}
    seen: dict[object, str] = {}
    for output in c.graph.outputs:
        behind = ancestors([output.node])
        if not behind & fed and not any(has(n.op, _VARIES) for n in behind):
            yield LintFinding(f"the output '{output.name}' depends on no input", (output.node.name,))
        source = source_of(output)
        if source in seen:
            yield LintFinding(f"the output '{output.name}' is '{seen[source]}' again", (output.node.name,))
        if source in c.graph.inputs and source is not output:
            told = f"the output '{output.name}' is the input '{source.name}', handed on"
            yield LintFinding(told, (output.node.name,), severity=Severity.INFO)
        seen.setdefault(source, output.name)
