"""Preprocessing of pictures inside the model."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule


@rule("TF404", Severity.INFO)
def own_preprocessing(c: Context) -> Iterator[LintFinding]:
    """A model that scales its pictures itself.

    Why: an app that scales them as well, as most examples do, feeds numbers that are far too small, and the
    answers are wrong without any error.

    Mend: feed pixels as the message says.

    Ignore: never; it is only told.
    """
    for value in c.graph.inputs:
        usage = c.graph.usage.input(value.name)
        if usage is not None and usage.own:
            yield LintFinding(
                f"the model itself computes {usage.own} of '{value.name}': feed the x, not the result",
                (value.node.name,),
            )
