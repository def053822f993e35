"""Transposes that need not be."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule


@rule("TF302", Severity.WARNING)
def cancelling_transpose(c: Context) -> Iterator[LintFinding]:
    """Transposes that undo each other, that what reads them can take in, or that move axes of size 1 only.

    Why: a transpose computes nothing and moves every element through memory. Between two that undo each other
    there may be ops that work in any order of axes.

    Mend: `--fix` takes them out.

    Ignore: never, unless the file is for a runtime that does it itself when it loads.
    """
    # The nodes that Keras layers become are nobody's.
    if not c.has_own_nodes:
        return
    before = [n for n in c.own if n.op == "Transpose" and n.name in c.needed_names]
    after = {n.name for n in c.own_dry.graph if n.op in ("Transpose", "GatherV2")}
    # What became constant, or the same as another, is told by other rules.
    elsewhere = {*c.changed_own("fold_constants", text="folded"), *c.changed_own("merge_duplicate_nodes")}
    gone = [n for n in before if n.name not in after and n.name not in elsewhere]
    # Some go because others come further down, or because something picks in another order there.
    number = len(gone) - len(after - {n.name for n in c.own})
    if number <= 0:
        return
    size = c.given_bytes(n.name for n in gone) if number == len(gone) else None
    moving = f"; {'it moves' if number == 1 else 'they move'} {size:,} bytes in each run" if size else ""
    which = "the transpose" if len(before) == 1 else f"{number} of {len(before)} transposes"
    yield LintFinding(
        f"{which} can go, undone by others, taken in by a reader or moving axes of size 1 only{moving}",
        tuple(n.name for n in gone),
        fix="cancel_transposes",
        # Sizes that change places are worth a word, and no warning.
        severity=Severity.INFO if c.is_trifle([n.name for n in gone]) else None,
    )
