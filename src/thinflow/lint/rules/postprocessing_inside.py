"""Boxes that the model itself chooses."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.ops.traits import Trait, has


@rule("TF409", Severity.INFO)
def postprocessing_inside(c: Context) -> Iterator[LintFinding]:
    """Non-maximum suppression inside the model.

    Why: how many boxes come out is known when it has run, so that sizes behind it are open and accelerators
    stop before it.

    Mend: cut the model before it and choose in the app, or use LiteRT's op for detectors
    (`fuse_detection_postprocess`).

    Ignore: a model that is to come in one piece.
    """
    nodes = [n for n in c.graph if n in c.needed and has(n.op, Trait.NMS)]
    if nodes:
        yield LintFinding(
            f"{count(len(nodes), 'non-maximum suppression')} inside the model ({nodes[0].op})",
            tuple(n.name for n in nodes),
        )
