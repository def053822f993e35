"""The cheapest cut is the cheapest of all, and takes no more to the sink's side than it must."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from thinflow.ir.min_cut import sink_side

Edges = list[tuple[str, str, int]]


def cost(edges: Edges, sink: set[str]) -> int:
    return sum(c for a, b, c in edges if a not in sink and b in sink)


@pytest.mark.parametrize("seed", range(40))
def test_no_cut_is_cheaper(seed: int) -> None:
    rng = np.random.default_rng(seed)
    inner = [f"n{i}" for i in range(6)]
    names = ["s", *inner, "t"]
    pairs = [(str(a), str(b)) for a, b in rng.choice(names, (16, 2)) if a != b]
    edges = [(a, b, int(c)) for (a, b), c in zip(pairs, rng.integers(0, 6, len(pairs)), strict=True)]
    found = sink_side(edges, "s", "t")
    assert "t" in found
    assert "s" not in found
    every = [{"t", *chosen} for n in range(7) for chosen in combinations(inner, n)]
    least = min(cost(edges, one) for one in every)
    assert cost(edges, found) == least
    assert len(found) == min(len(one) for one in every if cost(edges, one) == least)


def test_a_chain_as_long_as_an_unrolled_network() -> None:
    names = ["s", *map(str, range(5000)), "t"]
    edges = [(a, b, 7) for a, b in pairwise(names)]
    edges[3000] = (*edges[3000][:2], 2)
    assert len(sink_side(edges, "s", "t")) == 5001 - 3000
