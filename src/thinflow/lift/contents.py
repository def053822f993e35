"""Elements of values that follow from constants and from sizes that are known, while a graph is lifted.

Exporters compute sizes in the graph: shape(x)[2] * 2, cast to float, rounded and cast back. Rules that must
know them get them here, wherever the sizes of the inputs settle them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from thinflow.errors import ThinflowError
from thinflow.ir.graph import Node, Value
from thinflow.ops import registry
from thinflow.ops.traits import Trait, has
from thinflow.typing import Array

_MOST = 4096
"""Elements of operands and results that are computed here. Sizes, scales and tables of them have fewer;
weights that are computed from weights are left to whoever runs the graph."""
_NEVER = (
    Trait.STATEFUL | Trait.RESOURCE | Trait.CONTROL_FLOW | Trait.WHILE | Trait.IF | Trait.CASE | Trait.CALL
)

Computed = dict[Value, Array]
"""Values that were computed, beside those that are constants or whose elements shape inference knows."""


def content_of(value: Value, computed: Mapping[Value, Array]) -> Array | None:
    """The elements of a value, in its type and shape; None if they depend on what is fed."""
    tensor, spec = value.node.tensor, value.spec
    if tensor is not None:
        return tensor.numpy()
    if value in computed:
        return computed[value]
    if spec.ints is None or spec.shape is None or None in spec.shape:
        return None
    kind = spec.dtype.numpy() if spec.dtype is not None else np.dtype(np.int64)
    return np.array(spec.ints, kind).reshape([n or 0 for n in spec.shape])


def compute(node: Node, computed: Computed) -> None:
    """Note the result of a node if it follows from what is known, and is small."""
    value = node.output()
    size = value.spec.size
    # A result of unknown size is not tried: a damaged file may ask for any.
    if (
        size is None
        or size > _MOST
        or len(node.outputs) > 1
        or value.spec.ints is not None
        or not node.inputs
    ):
        return
    definition = registry.find(node.op)
    if definition is None or definition.kernel is None or has(node.op, _NEVER):
        return
    if any((v.spec.size or 0) > _MOST for v in node.inputs):
        return
    operands = [content_of(v, computed) for v in node.inputs]
    if any(x is None for x in operands):
        return
    try:
        with np.errstate(all="ignore"):
            result: Any = registry.call_kernel(definition, operands, node.attrs)[0]
    except (ThinflowError, *registry.RULE_ERRORS):  # the run will say so
        return
    if isinstance(result, np.ndarray | np.generic):
        computed[value] = np.asarray(result)
