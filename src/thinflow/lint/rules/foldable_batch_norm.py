"""Batch norms that a convolution could take in."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.ops.traits import Trait, has

FOLDS = ("fold_batch_norms", "fold_old_batch_norms")


@rule("TF301", Severity.WARNING)
def foldable_batch_norm(c: Context) -> Iterator[LintFinding]:
    """Batch norms, factors or addends that a convolution or matrix product could take into its weights.

    Why: in inference a batch norm is a factor and an addend for each channel. Left in the graph it reads and
    writes every activation once more, and keeps eight-bit conversion from fusing the layer.

    Mend: `--fix` folds them and compares the outputs.

    Ignore: a file that goes to a converter which folds them itself. Of a Keras file, which nobody ships as it
    is, it is only a note.
    """
    nodes = c.changed(*FOLDS, text="folded")
    # What quantized files are translated to has factors and biases that are none of theirs.
    if c.is_translated:
        nodes = tuple(n for n in nodes if has(c.node(n).op, Trait.BATCH_NORM) or c.says_itself(n))
    if not nodes:
        return
    yield LintFinding(
        f"{count(len(nodes), 'node')} of batch norms, factors or biases can go into the weights beside them",
        nodes,
        size_bytes=None if c.is_translated else c.dry.saved_bytes(*FOLDS),
        flops=c.flops(nodes),
        fix=" ".join(step.transform for step in c.dry.of(*FOLDS)),
        severity=None if c.has_own_nodes else Severity.INFO,
    )
