"""Named orders of transforms, as data."""

from __future__ import annotations

PIPELINES: dict[str, str] = {
    # What every later step wants: only what the outputs need, constants folded, norms in the weights.
    "float": """
        strip_unused_nodes
        remove_nodes(op=Identity, op=CheckNumerics, op=StopGradient, op=Snapshot, op=PreventGradient)
        fold_constants
        remove_dropout
        fold_constants
        fold_batch_norms
        fold_old_batch_norms(lower_unfoldable=true)
        merge_duplicate_nodes
    """,
}
"""Name -> transform string."""
