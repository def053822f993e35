"""Dropout in a graph that is not trained any more."""

from __future__ import annotations

from collections.abc import Iterator

from thinflow.ir.graph import Node
from thinflow.ir.types import BOOL
from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.own_ops import constant_behind
from thinflow.lint.rules import rule
from thinflow.lint.words import count

_DROPS = "dropout that drops"


@rule("TF102", Severity.WARNING)
def dropout_left(c: Context) -> Iterator[LintFinding]:
    """Dropout left inside: random numbers that change nothing, or, worse, that do.

    Why: with nothing to drop it still draws a random number for every activation, which no runtime of phones
    has an op for. With something to drop the model gives another answer in each run.

    Mend: `--fix` takes out what drops nothing. What drops has to be exported again, in inference mode.

    Ignore: a model that is run several times to see how sure it is.
    """
    if nodes := c.changed("remove_dropout"):
        yield LintFinding(
            f"{count(len(nodes), 'dropout')} that drop{'s' if len(nodes) == 1 else ''} nothing",
            nodes,
            flops=c.flops(nodes),
            fix="remove_dropout",
        )
    if idle := tuple(n.name for n in _of_onnx(c) if not _trains(n)):
        yield LintFinding(
            f"{count(len(idle), 'Dropout')} left inside, out of training mode: all numbers go through",
            idle,
            fix="remove_nodes(op=Identity)",
            severity=Severity.INFO,
        )
    told = {e.node: e.text for e in c.dry.left("remove_dropout") if e.text.startswith(_DROPS)}
    told |= {n.name: f"{_DROPS}: a Dropout in training mode" for n in _of_onnx(c) if _trains(n)}
    for name, text in told.items():
        if name in c.needed_names:
            mend = "export the model again in inference mode"
            yield LintFinding(text, (name,), mend=mend, severity=Severity.ERROR)


def _of_onnx(c: Context) -> list[Node]:
    return [n for n in c.file if n.op == "onnx.Dropout" and n.name in c.needed_names]


def _trains(node: Node) -> bool:
    """Whether a Dropout of ONNX drops: it is told that it is training, and of no ratio that is 0."""
    told = [n.tensor for v in node.inputs[1:] if (n := constant_behind(v)) and n.tensor is not None]
    flags, ratios = (
        [bool(t.numpy().any()) for t in told if (t.dtype is BOOL) is wanted] for wanted in (True, False)
    )
    return any(flags) and all(ratios)
