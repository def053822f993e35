"""Small tensorflow.SequenceExample messages: a context, and lists with a feature for each step.

Source of the messages: TensorFlow's `example.proto`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from thinflow.ir.graph import Node, Value
from thinflow.ir.ports import flat_port, output_args
from thinflow.ir.types import DType
from thinflow.ops._example import sequence_example_bytes
from thinflow.synthetic.files import ANY_NUMBER, Maker, Wanted, feature_size, key_bytes, keys_of, made_values

_MOST_STEPS = 5


@dataclass(frozen=True)
class _Kind:
    """One kind of feature that the ops ask for.

    Attributes:
        keys: the name of its keys; an attribute, or its place among the inputs of ParseSequenceExampleV2.
        place: that place.
        types: the attribute with the types of its values.
        shapes: the attribute with their shapes; "" where there may be any number of them.
        results: the output with the values.
    """

    keys: str
    place: int
    types: str
    shapes: str
    results: str


_CONTEXT = (
    _Kind("context_sparse_keys", 2, "context_sparse_types", "", "context_sparse_values"),
    _Kind("context_dense_keys", 3, "Tcontext_dense", "context_dense_shapes", "context_dense_values"),
    _Kind("", 4, "context_ragged_value_types", "", "context_ragged_values"),
)
_LISTS = (
    _Kind("feature_list_sparse_keys", 5, "feature_list_sparse_types", "", "feature_list_sparse_values"),
    _Kind(
        "feature_list_dense_keys",
        6,
        "feature_list_dense_types",
        "feature_list_dense_shapes",
        "feature_list_dense_values",
    ),
    _Kind("", 7, "feature_list_ragged_value_types", "", "feature_list_ragged_values"),
)


def sequence_example_maker(node: Node, maker_for: Callable[[Value], Maker]) -> Maker | None:
    """Makes SequenceExamples for what parses them; None if it names no key.

    Args:
        maker_for: what makes the strings that a value holds.
    """
    context, lists = list(_wanted(node, _CONTEXT)), list(_wanted(node, _LISTS))
    if not context and not lists:
        return None

    def make(rng: np.random.Generator) -> bytes:
        steps = int(rng.integers(2, _MOST_STEPS + 1))
        return sequence_example_bytes(
            [(f.key, f.kind, made_values(f, rng, maker_for)) for f in context],
            [(f.key, f.kind, [made_values(f, rng, maker_for) for _ in range(steps)]) for f in lists],
        )

    return make


def _wanted(node: Node, kinds: Sequence[_Kind]) -> Iterator[Wanted]:
    for kind in kinds:
        types = [t for t in node.get(kind.types) or () if isinstance(t, DType)]
        shapes = node.get(kind.shapes) if kind.shapes else None
        for index, (key, element) in enumerate(zip(_keys(node, kind), types, strict=False)):
            count = ANY_NUMBER if not isinstance(shapes, tuple) else feature_size(shapes[index])
            yield Wanted(key, element, count, _result(node, kind.results, index))


def _keys(node: Node, kind: _Kind) -> list[bytes]:
    """The keys of a kind; empty where they are computed, and where an op has no such kind."""
    if node.op == "ParseSequenceExampleV2":
        return keys_of(node.inputs[kind.place])
    if node.op == "ParseSequenceExample":
        return [key_bytes(k) for k in node.get(kind.keys) or ()] if kind.keys else []
    # ParseSingleSequenceExample: one scalar for each key, kind after kind, behind what may be missing.
    first = 2
    for other in (k for k in (*_CONTEXT, *_LISTS) if k.keys):
        number = len(node.get(other.types) or ())
        if other is kind:
            return [key for v in node.inputs[first : first + number] for key in keys_of(v)]
        first += number
    return []


def _result(node: Node, name: str, index: int) -> Value | None:
    names = output_args(node.op)
    if name not in {a.name for a in names}:
        return None
    port = flat_port(names, node.attrs_view, name, index)
    return next((v for v in node.outputs if v.port == port), None)
