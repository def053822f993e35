"""Values that are no numbers."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule


@rule("TF703", Severity.ERROR, needs_runs=True)
def not_finite_activation(c: Context) -> Iterator[LintFinding]:
    """Outputs that were NaN or infinite on a sample, with the first node that made such a number.

    Why: a division by 0, a logarithm of 0, or weights that overflow; the app gets no answer.

    Mend: look at the node named and what it reads; clamp what is divided by.

    Ignore: inputs that were made up and mean nothing to the model.
    """
    seen = c.activations
    bad = [v for v in seen.values if seen.values[v].has_nan]
    ends = [v for v in c.graph.outputs if v in bad]
    if ends:
        yield LintFinding(
            f"the output '{ends[0].name}' was NaN or infinite on {seen.origin}; the first such value was "
            f"that of '{bad[0].node.name}' ({bad[0].node.op})",
            (bad[0].node.name, *(v.node.name for v in ends)),
        )
