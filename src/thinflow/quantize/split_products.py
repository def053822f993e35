"""Products with joined inputs, taken apart: each part is rounded to eight bits by itself.

    fully_connected(concat(x, h), w, b)  ->  fully_connected(x, w[:, :n], b) + fully_connected(h, w[:, n:])

So cells of recurrent networks are written: what they read of the sequence may be 30 times as large as their
own state, of which then a few steps are left. LiteRT finds the range of each input while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

import numpy as np

from thinflow.quantize.kernels import is_float
from thinflow.tflite.model import Operator, Subgraph, Tensor
from thinflow.typing import Array


def with_split_products(subgraph: Subgraph, fewest: int) -> Subgraph:
    """A subgraph whose products of joined inputs are sums of products; operators that stay are shared.

    Args:
        fewest: weights, below which a product stays whole.
    """
    producers = subgraph.producers()
    parts: dict[tuple[int, ...], list[Tensor]] = {}
    operators: list[Operator] = []
    for operator in subgraph.operators:
        joined = _joined(operator, producers, fewest)
        operators += [operator] if joined is None else _sum(operator, joined, parts)
    if len(operators) == len(subgraph.operators):
        return subgraph
    return replace(subgraph, operators=_read(operators, subgraph.outputs))


def _joined(product: Operator, producers: dict[Tensor, Operator], fewest: int) -> list[Tensor] | None:
    """What the input of a product is joined of; None for a product that stays whole."""
    if (
        product.code != "FULLY_CONNECTED"
        or product.options.get("fused_activation_function", "NONE") != "NONE"
    ):
        return None
    x, w = product.inputs[0], product.inputs[1]
    made = None if x is None else producers.get(x)
    if made is None or made.code != "CONCATENATION" or w is None or not w.is_constant or not is_float(w):
        return None
    parts = [t for t in made.inputs if t is not None]
    # A constant part has no range of its own to gain.
    if len(parts) < 2 or any(t.is_constant or not t.shape or t.shape[-1] is None for t in parts):
        return None
    rank = len(parts[0].shape or ())
    is_last = made.options.get("axis", 0) in (rank - 1, -1)
    if not is_last or _activation(made) != "NONE":
        return None
    # A product of rows that are not those of what was joined reads across its parts.
    columns = [int((t.shape or (0,))[-1] or 0) for t in parts]
    rows, inner = w.array().shape
    return parts if sum(columns) == inner and inner * rows >= fewest else None


def _activation(operator: Operator) -> str:
    return str(operator.options.get("fused_activation_function", "NONE"))


def _sum(
    product: Operator, parts: list[Tensor], slices: dict[tuple[int, ...], list[Tensor]]
) -> list[Operator]:
    """Products of the parts, added one after the other; the last sum is what the product gave."""
    w, y = product.inputs[1], product.outputs[0]
    assert w is not None
    ends = np.cumsum([0, *((t.shape or (0,))[-1] for t in parts)])
    key = (id(w), *(int(n) for n in ends))
    # Layers that share weights share their parts, too.
    if key not in slices:
        slices[key] = [
            Tensor(f"{w.name}/part{n}", part.shape, w.dtype, part)
            for n, part in enumerate(_columns(w.array(), ends))
        ]
    made: list[Operator] = []
    total: Tensor | None = None
    for n, (x, columns) in enumerate(zip(parts, slices[key], strict=True)):
        # The bias goes with the first.
        bias = product.inputs[2] if n == 0 and len(product.inputs) > 2 else None
        term = Tensor(f"{y.name}/part{n}", y.shape, y.dtype)
        made.append(
            replace(product, inputs=[x, columns, bias], outputs=[term], options=dict(product.options))
        )
        if total is not None:
            whole = y if n == len(parts) - 1 else Tensor(f"{y.name}/sum{n}", y.shape, y.dtype)
            options = {"fused_activation_function": "NONE"}
            made.append(Operator("ADD", [total, term], [whole], options, origin=product.origin))
            term = whole
        total = term
    return made


def _columns(weights: Array, ends: Array) -> list[Array]:
    # Views have the same memory however often a product is taken apart, and roundings know weights by it.
    return [weights[:, a:b] for a, b in pairwise(ends.tolist())]


def _read(operators: list[Operator], outputs: Iterable[Tensor]) -> list[Operator]:
    """Operators without joints that nobody reads any more."""
    read = {*outputs, *(t for o in operators for t in o.reads())}
    return [o for o in operators if o.code != "CONCATENATION" or not read.isdisjoint(o.outputs)]
