"""Channels that have no influence on any result."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.dry_run import dry_run
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count

_PRUNING = "remove_dead_channels"


@rule("TF206", Severity.WARNING)
def dead_channels(c: Context) -> Iterator[LintFinding]:
    """Channels of convolutions and dense layers that are the same for every input, or that nobody weighs.

    Why: they are computed and stored for nothing. Pruned models and dead ReLUs have them.

    Mend: `--fix` removes them, from this layer and the next.

    Ignore: a model whose channels are to stay a multiple of 8.
    """
    pruned = dry_run(c.dry.graph, _PRUNING)
    changes = [e for e in pruned.changes(_PRUNING) if e.node in c.names]
    if changes:
        names = tuple(dict.fromkeys(e.node for e in changes))
        yield LintFinding(
            f"{count(len(names), 'layer')} with channels that influence nothing ({changes[0].text})",
            names,
            size_bytes=None if c.is_translated else pruned.saved_bytes(_PRUNING),
            fix=" ".join(["fold_old_batch_norms", _PRUNING]),
        )
