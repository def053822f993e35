"""Switches that tell a graph whether it is being trained."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from thinflow.analysis.training_mode import inference_setting, setting_text
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule


@rule("TF101", Severity.WARNING)
def training_switch(c: Context) -> Iterator[LintFinding]:
    """A placeholder such as `is_training` or `keep_prob`, by which the caller says that it is no training.

    Why: whoever runs the model must know it and feed the right number; a wrong one drops activations or
    takes the statistics of the batch, and nothing fails. Behind it batch norms and dropout cannot go.

    Mend: `--fix` makes it the constant that inference wants.

    Ignore: a model that is trained on, or whose dropout is there to be sampled from.
    """
    fed = {v.node.name for v in c.graph.inputs}
    for node in c.file:
        setting = inference_setting(node) if node.op == "Placeholder" else None
        # One that only training reads is gone with it.
        if setting is None or not any(reader.name in c.needed_names for reader in node.readers):
            continue
        is_fed = node.name in fed
        others = ",".join(v.name for v in c.graph.inputs if v.node.name != node.name)
        yield LintFinding(
            f"'{node.name}' is for training: inference has to feed {setting_text(setting)}",
            (node.name,),
            fix="" if is_fed else "set_training_switches",
            mend=f"thinflow lint MODEL --fix OUT --inputs {shlex.quote(others)}" if is_fed and others else "",
        )
