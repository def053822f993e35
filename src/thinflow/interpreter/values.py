"""Values of a run: arrays, handles, and DEAD on a branch that was not taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from thinflow.errors import FeedError
from thinflow.ir.graph import Node, Value
from thinflow.ops import registry
from thinflow.ops._state import dereferenced
from thinflow.typing import Array

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
    result = dereferenced(result)
    return np.asarray(result) if not isinstance(result, registry.Handle) else np.asarray(result, object)
