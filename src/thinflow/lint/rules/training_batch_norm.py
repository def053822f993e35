"""Batch norms in training mode."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.analysis.training_mode import in_training_branch, is_sample_norm, uses_batch_statistics
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count


@rule("TF103", Severity.WARNING)
def training_batch_norm(c: Context) -> Iterator[LintFinding]:
    """Batch norms that take the statistics of the batch at hand.

    Why: the answer for a picture depends on the others it is fed with; the norm cannot be folded into its
    convolution; and its range is another one for each batch, which eight bits do not forgive.

    Mend: `thinflow transform MODEL OUT -t freeze_batch_norms --calibration SAMPLES` measures statistics on
    samples and keeps them, which changes the answers; or export in inference mode.

    Ignore: a model that was published so, and is meant to normalize each picture by itself.
    """
    nodes = [
        n.name
        for n in c.graph
        if n in c.needed and uses_batch_statistics(n) and not is_sample_norm(n) and not in_training_branch(n)
    ]
    if nodes:
        yield LintFinding(
            f"{count(len(nodes), 'batch norm')} in training mode: the statistics are those of each batch",
            tuple(nodes),
            mend="thinflow transform MODEL OUT -t freeze_batch_norms --calibration SAMPLES",
        )
