"""The graph that grows from a model's layers: nodes with their shapes, named as Keras would name them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from thinflow.errors import ShapeError, ThinflowError
from thinflow.ir.attrs import Attr
from thinflow.ir.graph import Function, Graph, Node, Value
from thinflow.ir.names import LEGAL_NAME
from thinflow.ir.tensor import Tensor
from thinflow.ir.types import BOOL, DType, TensorSpec
from thinflow.ops import registry
from thinflow.ops._failures import in_words
from thinflow.typing import Array

_ILLEGAL = re.compile(r"[^A-Za-z0-9_.\\/>\-]+")
_MAX_ELEMENTS = 64
"""Integer constants up to this size take part in shape arithmetic, as in `analysis.shapes`."""


def legal(name: str) -> str:
    """A name that a node may have, as close to the wished one as can be."""
    if LEGAL_NAME.match(name):
        return name
    cleaned = _ILLEGAL.sub("_", name).strip("/_")
    return cleaned if LEGAL_NAME.match(cleaned) else "layer"


class Writer:
    """A graph while it grows.

    Attributes:
        graph: the graph.
        functions: the library that its loops call, which those of bodies share.
        scope: prefix of the names of nodes, with a slash at its end; "" at first.
    """

    def __init__(self, functions: dict[str, Function] | None = None) -> None:
        self.graph = Graph()
        self.functions = {} if functions is None else functions
        self.graph.functions = self.functions
        self.scope = ""
        self._constants: dict[tuple[int, ...], Value] = {}

    def add(
        self, op: str, inputs: Sequence[Value], name: str = "", attrs: Mapping[str, Attr | None] | None = None
    ) -> Node:
        """A new node. Attributes that are None are left out; `T` is that of the first input unless given.

        Raises:
            ShapeError: the inputs do not fit the op.
        """
        element = inputs[0].spec.dtype if inputs else None
        given: dict[str, Attr | None] = {"T": element, **(attrs or {})} if element else dict(attrs or {})
        known = {key: attr for key, attr in given.items() if attr is not None}
        node = self.graph.add(op, inputs, f"{self.scope}{name or op}", attrs=known)
        for port, spec in enumerate(_inferred(node)):
            node.output(port).spec = spec
        return node

    def constant(self, array: Array, name: str = "Const") -> Value:
        """A new constant."""
        tensor = Tensor.from_array(array)
        value = self.graph.constant(tensor, f"{self.scope}{name}")
        value.spec = TensorSpec(tensor.dtype, tensor.shape, _elements(tensor))
        return value

    def placeholder(self, name: str, spec: TensorSpec) -> Value:
        """A new input."""
        from thinflow.ir.attrs import ShapeAttr

        attrs: dict[str, Attr] = {"shape": ShapeAttr(spec.shape)}
        if spec.dtype is not None:
            attrs["dtype"] = spec.dtype
        value = self.graph.add("Placeholder", name=legal(name), attrs=attrs).output()
        value.spec = spec
        return value


def _elements(tensor: Tensor) -> tuple[int, ...] | None:
    if tensor.size > _MAX_ELEMENTS or not (tensor.dtype.is_integer or tensor.dtype is BOOL):
        return None
    return tuple(int(v) for v in tensor.numpy().ravel().tolist())


def _inferred(node: Node) -> tuple[TensorSpec, ...]:
    definition = registry.get(node.op)
    try:
        return registry.call_infer(definition, [v.spec for v in node.inputs], node.attrs)
    except ThinflowError:
        raise
    except registry.RULE_ERRORS as error:
        raise ShapeError(f"its shapes do not fit the op {node.op} ({in_words(error)})") from error


def element_type(value: Value) -> DType:
    """The element type of a value.

    Raises:
        ShapeError: it is not known.
    """
    found: DType | None = value.spec.dtype
    if found is None:
        raise ShapeError("the type of its input is not known")
    return found


def typed(content: Any, element: DType) -> Array:
    """Numbers as an array of an element type."""
    import numpy as np

    array: Array = np.asarray(content, element.numpy())
    return array
