"""Ops that the runtimes of phones do not have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from thinflow.lint.context import Context
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.placement import Objection, objections, suited
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has


@rule("TF501", Severity.WARNING)
def unsupported_op(c: Context) -> Iterator[LintFinding]:
    """Nodes that a .tflite file, and mostly an .onnx file as well, has no form for, with the reason.

    Why: a converted model leaves them out, so that the app has to compute them, or the model is no whole one.

    Mend: the reason tells; `thinflow optimize` cuts the model around them.

    Ignore: a model that TensorFlow runs.
    """
    # A file of a runtime runs there.
    if c.file.vocabulary:
        return
    refused = objections(c.for_litert, "LiteRT")
    elsewhere = {o.node for o in objections(suited(c.graph, "ONNX"), "ONNX")} if refused else set()
    kinds: dict[tuple[str, str, bool], list[Objection]] = defaultdict(list)
    for objection in refused:
        # What a transform made of a node is no node that anybody knows; other rules tell of variables and of
        # what decodes.
        if objection.node in c.names and not _is_elsewhere(objection.op):
            kinds[objection.op, objection.why, objection.node in elsewhere].append(objection)
    for (op, why, nowhere), found in kinds.items():
        where = "neither LiteRT nor ONNX has a place" if nowhere else "LiteRT has no place"
        names = tuple(o.node for o in found)
        yield LintFinding(f"{where} for {count(len(names), 'node')} {op}: {why}", names, flops=c.flops(names))


def _is_elsewhere(op: str) -> bool:
    definition = registry.find(op)
    return has(op, Trait.VARIABLE) or bool(definition is not None and definition.decodes)
