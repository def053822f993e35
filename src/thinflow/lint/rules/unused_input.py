"""Inputs that change nothing."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count


@rule("TF406", Severity.WARNING)
def unused_input(c: Context) -> Iterator[LintFinding]:
    """Inputs that no output depends on.

    Why: the caller has to make and feed them, for nothing; a forgotten one is an error of its own.

    Mend: `--fix` with the other inputs named (`--inputs`) leaves it out.

    Ignore: an interface that several models share.
    """
    idle = [v.name for v in c.graph.inputs if v.node not in c.needed]
    if idle and c.graph.outputs:
        others = ",".join(v.name for v in c.graph.inputs if v.name not in idle)
        yield LintFinding(
            f"{count(len(idle), 'input')} that no output depends on",
            tuple(idle),
            mend=f"thinflow transform MODEL OUT -t strip_unused_nodes --inputs {shlex.quote(others)}"
            if others
            else "",
        )
