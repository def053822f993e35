"""Files and sounds that the model itself decodes."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.ops import registry


@rule("TF401", Severity.WARNING)
def embedded_decoding(c: Context) -> Iterator[LintFinding]:
    """Decoding of pictures, sounds or records inside the model.

    Why: the runtimes of phones have no such ops, so that a converted model begins behind them, and an app
    decodes faster with what its system has.

    Mend: `thinflow optimize MODEL OUT` writes a model that begins behind it; the app decodes.

    Ignore: a model that only TensorFlow or thinflow runs.
    """
    found = {n: d.decodes for n in c.graph if n in c.needed and (d := registry.find(n.op)) and d.decodes}
    if not found:
        return
    yield LintFinding(
        f"the model decodes {' and '.join(dict.fromkeys(found.values()))} itself",
        tuple(n.name for n in found),
        mend="thinflow optimize MODEL OUT writes a model that begins behind it",
    )
