"""Nodes computed by the numpy kernel of their op; and the values of a run: arrays, handles, and DEAD ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from thinflow.errors import FeedError, NodeError, ThinflowError
from thinflow.interpreter.calls import Runner
from thinflow.ir.function import ARGUMENT
from thinflow.ir.graph import Node, Value
from thinflow.ops import registry
from thinflow.ops._failures import in_words, missing_kernel
from thinflow.ops._state import dereferenced
from thinflow.typing import Array


def _feeding_hint(node: Node) -> str:
    """The hint for a placeholder that is not fed."""
    name = node.name
    if node.op == ARGUMENT or node.get("shape") not in (None, ()):
        return f"pass a value for '{name}'"
    return (
        f"pass a value for '{name}'; a training switch can be set for good: "
        f"`thinflow transform MODEL OUT -t 'set_training_switches(name={name}, value=...)'`"
    )


def kernel_runner(node: Node) -> Runner:
    if node.op in {"Placeholder", "PlaceholderV2", ARGUMENT}:
        raise FeedError("nothing was fed for it", node.where, hint=_feeding_hint(node))
    tensor = node.tensor
    if tensor is not None:
        # Decoded once, for all runs of the plan.
        constant = (tensor.numpy(),)
        return lambda inputs: constant
    definition = registry.find(node.op)
    if definition is None or definition.kernel is None:
        raise missing_kernel(node)
    try:
        # Attributes are selected once; a run passes the inputs only.
        kernel = partial(definition.kernel, **registry.select_attrs(definition.kernel, node.attrs))
    except ThinflowError as error:
        raise error.at(node.where) from error

    def run(inputs: Sequence[Any]) -> Sequence[Any]:
        try:
            results = kernel(*inputs)
        except ThinflowError as error:
            raise error.at(node.where) from error
        except registry.RULE_ERRORS as error:
            shapes = ", ".join(
                f"{x.dtype}{list(x.shape)}" if isinstance(x, np.ndarray) else str(x) for x in inputs
            )
            raise NodeError(
                f"{in_words(error)} (inputs: {shapes})", node.where, hint="the graph does not fit its inputs"
            ) from error
        if not isinstance(results, tuple):
            results = (results,)
        return [_as_value(r) for r in results]

    return run


def _as_value(result: Any) -> Any:
    """A kernel's result as an array, or the handle that it is or that a scalar array of objects holds."""
    if not isinstance(result, np.ndarray):
        # numpy makes scalars of 0-d arrays in most operations.
        return result if isinstance(result, registry.Handle) else np.asarray(result)
    is_wrapped = result.dtype.hasobject and result.ndim == 0 and isinstance(result[()], registry.Handle)
    return result[()] if is_wrapped else result


def run_node(node: Node, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Outputs of one node, by its kernel.

    Raises:
        NodeError: placed at the node.
    """
    with np.errstate(all="ignore"):  # infinities and NaN are results like others
        return tuple(kernel_runner(node)(inputs))


Observer = Callable[[Value, Array], None]


class Dead:
    """The value on a branch that was not taken."""

    def __repr__(self) -> str:
        return "DEAD"


DEAD = Dead()
Values: TypeAlias = dict[Value | Node, Any]
"""The values of a run so far, and DEAD for each node that did not run."""


def as_array(value: Value, result: Any) -> Array:
    """A result of `Plan.compute` as an array; a handle becomes a scalar array of objects.

    Raises:
        FeedError: there is nothing, as its branch was not taken or its op has no such output.
    """
    if result is None:
        raise FeedError(
            f"'{value.name}' is not computed", value.node.where, hint="this op has no such output"
        )
    if result is DEAD:
        raise FeedError(
            f"'{value.name}' lies on a branch that was not taken",
            value.node.where,
            hint="feed the other case",
        )
    # A variable that is asked for itself is asked for what it holds.
    result = dereferenced(result)
    return np.asarray(result) if not isinstance(result, registry.Handle) else np.asarray(result, object)
