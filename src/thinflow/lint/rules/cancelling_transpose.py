"""Transposes that need not be."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule


@rule("TF302", Severity.WARNING)
def cancelling_transpose(c: Context) -> Iterator[LintFinding]:
    """Transposes that undo each other, or that are a Reshape, since they move axes of size 1 only.

    Why: a transpose computes nothing and moves every element through memory. Between two that undo each other
    there may be ops that work in any order of axes.

    Mend: `--fix` takes them out.

    Ignore: never, unless the file is for a runtime that does it itself when it loads.
    """
    # A translation has transposes of its own, and those of the file go along with them.
    if c.is_translated:
        return
    before = [n for n in c.graph if n.op == "Transpose" and n in c.needed]
    after = {n.name for n in c.dry.graph if n.op == "Transpose"}
    # What became constant, or the same as another, is told by other rules.
    elsewhere = {*c.changed("fold_constants", text="folded"), *c.changed("merge_duplicate_nodes")}
    gone = [n for n in before if n.name not in after and n.name not in elsewhere]
    if not gone:
        return
    size = c.given_bytes(n.name for n in gone)
    moving = f"; {'it moves' if len(gone) == 1 else 'they move'} {size:,} bytes in each run" if size else ""
    which = "the transpose" if len(before) == 1 else f"{len(gone)} of {len(before)} transposes"
    yield LintFinding(
        f"{which} can go, undone by others or moving axes of size 1 only{moving}",
        tuple(n.name for n in gone),
        fix="cancel_transposes",
    )
