"""Batch norms that no convolution can take in, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from thinflow.analysis.training_mode import uses_batch_statistics
from thinflow.ir.graph import Node
from thinflow.ir.ledger import Entry
from thinflow.lint.context import Context
from thinflow.lint.dry_run import dry_run
from thinflow.lint.finding import LintFinding, Severity
from thinflow.lint.rules import rule
from thinflow.lint.words import count
from thinflow.ops.traits import Trait, has
from thinflow.rewrite.pattern import constant_tensor, source_of

_TRY = "fold_constants fold_old_batch_norms(fold_forward=true)"


@rule("TF303", Severity.INFO)
def unfolded_batch_norm(c: Context) -> Iterator[LintFinding]:
    """Batch norms that stay after folding, each with the reason: ops, and those written as a factor and an
    addend for each channel.

    Why: each reads and writes every activation once more, in each run.

    Mend: the reason tells: a norm in front of its convolution, as in ResNet v2, can be trained behind it; one
    whose input has other readers stays.

    Ignore: where the architecture wants it so. Norms in training mode are TF103's.
    """
    # Of a graph that was never frozen nothing is constant.
    if any(has(node.op, Trait.VARIABLE) for node in c.needed):
        return
    kinds: dict[str, tuple[str, list[str]]] = {}
    told = set()
    for entry in (*_left_ops(c), *_left_arithmetic(c)):
        # Towards the layer before and the one behind it: the first reason will do.
        if entry.node not in told:
            told.add(entry.node)
            # Reasons of one kind differ in the names of nodes.
            kind = re.sub(r"'[^']*'", "''", entry.text)
            kinds.setdefault(kind, (entry.text, []))[1].append(entry.node)
    for reason, names in kinds.values():
        yield LintFinding(
            f"{count(len(names), 'batch norm')} cannot be folded: {reason}",
            tuple(names),
            flops=c.flops(names),
        )


def _left_ops(c: Context) -> Iterator[Entry]:
    """The batch-norm ops that stay."""
    if not any(has(node.op, Trait.BATCH_NORM) for node in c.needed):
        return
    # The order "float" writes norms that stay as a factor and an addend, and tells no reason for those.
    for entry in dry_run(c.graph, _TRY).left("fold_old_batch_norms"):
        node = c.graph.node(entry.node) if entry.node in c.names else None
        is_norm = node is not None and node in c.needed and has(node.op, Trait.BATCH_NORM)
        if node is not None and is_norm and not uses_batch_statistics(node):
            yield entry


def _left_arithmetic(c: Context) -> Iterator[Entry]:
    """The factors for each channel that stay, where an addend for each channel is all that follows."""
    if not c.has_own_nodes:
        return
    reasons = {entry.node: entry for entry in c.dry.left("fold_batch_norms")}
    for factor in c.dry.graph:
        if (
            not has(factor.op, Trait.MULTIPLY)
            or factor.name not in c.names
            or c.node(factor.name).op != factor.op
        ):
            continue
        # What a translation spells out is no norm of the file's.
        if c.is_translated and not c.says_itself(factor.name):
            continue
        (*others, reader) = factor.readers or (None,)
        if others or reader is None or not has(reader.op, Trait.ADD | Trait.BIAS_ADD):
            continue
        channels = _channels(factor)
        if channels is None or channels != _channels(reader):
            continue
        (x,) = (v for v in factor.inputs if constant_tensor(v) is None)
        before = source_of(x).node
        # What was fed is preprocessing; what was divided by what it computes itself is another kind of norm.
        if not has(before.op, Trait.PLACEHOLDER) and not _is_divided(before):
            told = f"its input comes from '{before.name}' ({before.op}), not from a convolution"
            yield reasons.get(factor.name, Entry(factor.name, factor.op, told))


def _is_divided(node: Node) -> bool:
    return has(node.op, Trait.MULTIPLY | Trait.DIVIDE) and all(
        constant_tensor(v) is None for v in node.inputs
    )


def _channels(node: Node) -> int | None:
    """The elements of the constant that a node reads, one for each channel; None if it reads no such row."""
    for value in node.inputs:
        tensor = constant_tensor(value)
        if tensor is not None and tensor.shape and tensor.shape[-1] == prod(tensor.shape) > 1:
            return tensor.shape[-1]
    return None
