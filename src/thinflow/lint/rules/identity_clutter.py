"""Nodes that hand on what they read."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule

_FEWEST = 5
"""A few are in every graph."""


@rule("TF106", Severity.INFO)
def identity_clutter(c: Context) -> Iterator[LintFinding]:
    """Identities, five or more, such as freezing leaves behind each variable.

    Why: they cost a little of the file and of the time to open it, and hide patterns from simple converters.

    Mend: `--fix` takes them out; inputs and outputs keep their names.

    Ignore: a graph in which people know nodes by these names.
    """
    if not c.has_own_nodes:
        return
    nodes = c.changed_own("remove_nodes") if c.file.vocabulary else c.changed("remove_nodes")
    if len(nodes) < _FEWEST:
        return
    yield LintFinding(
        f"{len(nodes)} of {len(c.own)} nodes hand on what they read",
        nodes,
        size_bytes=None if c.file.vocabulary else c.dry.saved_bytes("remove_nodes"),
        fix=" ".join(step.transform for step in c.dry.of("remove_nodes")),
    )
