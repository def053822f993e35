"""Dropout in a graph that is not trained any more."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count

_DROPS = "dropout that drops"


@rule("TF102", Severity.WARNING)
def dropout_left(c: Context) -> Iterator[LintFinding]:
    """Dropout left inside: random numbers that change nothing, or, worse, that do.

    Why: with nothing to drop it still draws a random number for every activation, which no runtime of phones
    has an op for. With something to drop the model gives another answer in each run.

    Mend: `--fix` takes out what drops nothing. What drops has to be exported again, in inference mode.

    Ignore: a model that is run several times to see how sure it is.
    """
    if nodes := c.changed("remove_dropout"):
        yield LintFinding(
            f"{count(len(nodes), 'dropout')} that drop{'s' if len(nodes) == 1 else ''} nothing",
            nodes,
            flops=c.flops(nodes),
            fix="remove_dropout",
        )
    for entry in c.dry.left("remove_dropout"):
        if entry.text.startswith(_DROPS) and entry.node in c.needed_names:
            yield LintFinding(
                entry.text,
                (entry.node,),
                mend="export the model again in inference mode",
                severity=Severity.ERROR,
            )
