"""The registry of decompositions: functions that write an op as simpler TensorFlow ops.

A target takes one for an op without a rule of its own, or whose rule refuses; see `lower.decomposing`.

    @decompose("Xlog1py")
    def xlog1py(x: Term, y: Term) -> Term:
        return where(x.equal(0.0), 0.0, x * y.apply("Log1p"))

A rule gets terms for the node's inputs as positional parameters, with types and shapes as far as they are
known; keyword-only parameters are the node's attributes, as in `ops.registry`. It returns a term for each
output, one or a tuple; None for one that nobody reads. What it cannot write it refuses with UnsupportedOp;
nothing of it is used then.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np

from thinflow.decompose.terms import Body, Term
from thinflow.errors import ThinflowError, UnsupportedOp
from thinflow.ir.discovery import Registered
from thinflow.ir.function import Function
from thinflow.ir.graph import Node
from thinflow.ir.types import INT32, DType, TensorSpec
from thinflow.ops._failures import in_words
from thinflow.ops.registry import RULE_ERRORS, select_attrs, signature

Rule = Callable[..., Any]
R = TypeVar("R", bound=Rule)

_rules: Registered[Rule] = Registered("thinflow.decompose", "decompose")


def decompose(*names: str) -> Callable[[R], R]:
    """Function decorator: the rule for these TensorFlow ops."""

    def register(rule: R) -> R:
        for name in names:
            other = _rules.add(name, rule, rule.__module__)
            if other is not rule:
                raise RuntimeError(f"{name} is decomposed in both {other.__module__} and {rule.__module__}")
        return rule

    return register


def find(op: str) -> Rule | None:
    """The rule for an op, None if there is none."""
    return _rules.find(op)


def decomposed() -> list[str]:
    """The ops that have a rule, sorted."""
    return sorted(_rules)


def decomposition_of(
    node: Node,
    specs: Sequence[TensorSpec],
    constants: Mapping[int, np.ndarray[Any, Any]],
    index: DType = INT32,
    ports: Collection[int] | None = None,
) -> tuple[Function, list[int]]:
    """A node whose op has a rule, as a function of simpler ops that takes the node's inputs.

    Beside it stand the numbers of the outputs that it gives: a rule may leave out what nobody reads.

    Args:
        node: not changed.
        specs: types and shapes of its inputs.
        constants: index of an input -> its elements, for those that are constant.
        index: the integer type of the target's indices.
        ports: the outputs that somebody reads; None for all.

    Raises:
        UnsupportedOp: the rule cannot express the node; placed at the node.
    """
    rule = find(node.op)
    assert rule is not None, f"{node.op} has no rule"
    # Formulas compare, or cut the line of numbers into parts; with complex ones they would be silently wrong.
    if any(spec.dtype is not None and spec.dtype.kind == "c" for spec in specs):
        raise UnsupportedOp(f"there is a form of {node.op} for real numbers only", node.where)
    body = Body(node.name, node, index, ports)
    with refusals_at(node):
        arguments = [body.argument(n, spec, constants.get(n)) for n, spec in enumerate(specs)]
        check_count(rule, len(arguments))
        result = rule(*arguments, **select_attrs(rule, node.attrs))
    results: tuple[Term | None, ...] = result if isinstance(result, tuple) else (result,)
    given = {port: term.value for port, term in enumerate(results) if term is not None}
    inputs = [a.value for a in arguments]
    return Function(f"{node.name}/parts", body.graph, inputs, list(given.values())), list(given)


@contextmanager
def refusals_at(node: Node) -> Iterator[None]:
    """Within the block, what a rule raises is a refusal of this node."""
    try:
        yield
    # Shape inference of what the rule adds has words of its own; the reader has to know which node it was.
    except ThinflowError as error:
        raise UnsupportedOp(error.problem, error.where or node.where, error.hint) from error
    except RULE_ERRORS as error:
        raise UnsupportedOp(f"the node is not well formed ({in_words(error)})", node.where) from error


def check_count(rule: Rule, given: int, *, first: int = 0) -> None:
    """Refuse another number of inputs than a rule has parameters for.

    Args:
        first: so many of its parameters, in front, are no inputs.

    Raises:
        UnsupportedOp: too few, or more than it takes.
    """
    expected = signature(rule)
    wanted = len(expected.positional) - first
    if given < wanted or (given > wanted and not expected.variadic):
        raise UnsupportedOp(f"{given} inputs, {wanted} are needed")
