"""Memory of activations in one arena."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from thinflow.ir.types import FLOAT, STRING, DType
from thinflow.program.arena import arena_bytes
from thinflow.program.model import Block, Operator, Span, Tensor


def tensor(name: str, size: int | None, dtype: DType = FLOAT) -> Tensor:
    return Tensor(name, (1, size), dtype)


def chain(*sizes: int) -> Block[Any, Any]:
    """Tensors of so many floats, each made from the one before it."""
    tensors = [tensor(f"t{i}", size) for i, size in enumerate(sizes)]
    steps = [Operator("RELU", [a], [b]) for a, b in pairwise(tensors)]
    return Block([tensors[0]], [tensors[-1]], steps)


def test_the_largest_neighbours_decide_in_a_chain() -> None:
    assert arena_bytes([chain(4, 100, 40, 8)]) == 4 * (100 + 40)


def test_what_is_read_later_stays() -> None:
    block = chain(4, 100, 40, 8)
    # A sum that reads the first tensor again keeps it alive to the end.
    last = tensor("sum", 8)
    block.operators.append(Operator("ADD", [block.outputs[0], block.inputs[0]], [last]))
    block.outputs = [last]
    assert arena_bytes([block]) == 4 * (4 + 100 + 40)


def test_weights_that_are_unpacked_last_from_run_to_run() -> None:
    block = chain(4, 100, 40, 8)
    packed = Tensor("packed", (200,), FLOAT, np.zeros(200, np.float32))
    unpacked = tensor("unpacked", 200)
    block.operators.insert(0, Operator("DEQUANTIZE", [packed], [unpacked]))
    block.operators[-1].inputs.append(unpacked)
    assert arena_bytes([block]) == 4 * (200 + 100 + 40)


def test_sizes_are_rounded_up_open_ones_count_as_one_and_text_as_nothing() -> None:
    x, y, text = tensor("x", None), tensor("y", 5), tensor("text", 7, STRING)
    assert arena_bytes([Block([x, text], [y], [Operator("F", [x, text], [y])])]) == 16 + 32


def test_each_block_has_an_arena_of_its_own() -> None:
    assert arena_bytes([chain(4, 8), chain(4, 8)]) == 2 * arena_bytes([chain(4, 8)])
    assert arena_bytes([]) == 0


@pytest.mark.parametrize("seed", range(5))
def test_nothing_overlaps_and_the_bound_is_near(seed: int) -> None:
    rng = np.random.default_rng(seed)
    tensors = [tensor(f"t{i}", int(rng.integers(1, 100)) * 4) for i in range(60)]
    steps = []
    for i in range(1, 60):
        read = [tensors[int(j)] for j in rng.integers(max(0, i - 6), i, 2)]
        steps.append(Operator("ADD", read, [tensors[i]]))
    block: Block[Any, Any] = Block([tensors[0]], [tensors[-1]], steps)
    spans = block.lifetimes()
    alive = max(
        sum(4 * (t.shape or (0, 0))[1] for t, s in spans.items() if meets(s, step))
        for step in range(-1, 60)  # type: ignore[operator, misc]
    )
    assert alive <= arena_bytes([block]) <= 1.3 * alive


def meets(span: Span, step: int) -> bool:
    return span.start <= step <= span.end
