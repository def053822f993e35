"""The constants of a model: the range of each, their sizes, and the layers that compute with them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from thinflow.ir.graph import Graph, Node
from thinflow.ir.tensor import Tensor
from thinflow.ops import registry
from thinflow.rewrite.pattern import constant_node


@dataclass(frozen=True)
class Constant:
    """A constant of the file.

    Attributes:
        is_needed: whether an output needs it.
    """

    node: Node
    tensor: Tensor
    is_needed: bool

    @property
    def stored_bytes(self) -> int:
        """Its bytes in the file."""
        return self.tensor.storage.stored_bytes

    @property
    def place(self) -> int:
        """The address of its elements, which two constants of a file may share."""
        return int(self.tensor.numpy().__array_interface__["data"][0])


def extremes(tensor: Tensor) -> tuple[float, float] | None:
    """The smallest and the largest number of a tensor, NaN if one is; None if it holds no real numbers.

    Reads every element once, and copies none.
    """
    if not tensor.size or not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        return None
    # A splat stands for all of its copies.
    array = tensor.numpy().flat[:1] if tensor.is_splat else tensor.numpy()
    with np.errstate(invalid="ignore"):
        return float(array.min()), float(array.max())


@dataclass(frozen=True)
class Layer:
    """A layer whose weights are a constant, in TensorFlow's ops.

    Attributes:
        weights: the constant's node.
        outputs: output channels.
    """

    node: Node
    weights: Node
    outputs: int


def layers(graph: Graph) -> Iterator[Layer]:
    """The layers of a graph whose weights are constants as they are stored."""
    for node in graph:
        definition = registry.find(node.op)
        places = definition.weights if definition is not None else None
        if places is None or not places.axes or len(node.inputs) <= places.input:
            continue
        weights = constant_node(node.inputs[places.input])
        if weights is None or weights.tensor is None or len(weights.tensor.shape) != places.rank:
            continue
        # Matrices may be stored the other way round.
        turned = places.rank == 2 and bool(node.get("transpose_b") or node.get("adj_y"))
        axes = (1 - places.axes[0],) if turned else places.axes
        sizes = [weights.tensor.shape[axis] for axis in axes]
        yield Layer(node, weights, int(np.prod(sizes)))
