"""The same weights under other names: digests of weights that do not depend on names, formats or layouts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from thinflow.ir.graph import Graph
from thinflow.survey.entry import Looked
from thinflow.typing import Array

LEAST_ELEMENTS = 64
"""Smaller constants (shapes, axes, a scale) are in many models, and tell nothing."""
LEAST_SHARE = 0.5
"""Of the bytes of the larger model, from which on two are called alike."""
# A weight that is in so many models, such as a table of a spectrogram, is not compared pair by pair.
_MOST_OWNERS = 200
_CHUNK = 1 << 20


def weight_digests(graph: Graph) -> Counter[str]:
    """Digest of each larger constant of a graph and of its functions -> its bytes. Reads every weight."""
    found: Counter[str] = Counter()
    for body in (graph, *(function.graph for function in graph.functions.values())):
        for node in body:
            tensor = node.tensor
            if (
                tensor is not None
                and tensor.size >= LEAST_ELEMENTS
                and not tensor.is_splat
                and tensor.dtype.itemsize
            ):
                found[unordered_digest(tensor.numpy())] += tensor.size_bytes
    return found


def unordered_digest(array: Array) -> str:
    """A digest of the numbers of an array that does not depend on their order or on the shape.

    So a kernel has the same one in OIHW (ONNX), HWIO (TensorFlow) and OHWI (LiteRT). Two sums over the bits
    of the elements as integers, modulo 2^64: of the integers mixed well, so that small changes do not cancel,
    and of their squares.
    """
    flat = array.reshape(-1) if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(-1)
    bits = flat.view(f"u{flat.dtype.itemsize}") if flat.dtype.itemsize in (1, 2, 4, 8) else flat.view("u1")
    first = second = 0
    for start in range(0, len(bits), _CHUNK):
        mixed = bits[start : start + _CHUNK].astype(np.uint64)
        # The finalizer of MurmurHash3: https://github.com/aappleby/smhasher
        mixed ^= mixed >> np.uint64(33)
        mixed *= np.uint64(0xFF51AFD7ED558CCD)
        mixed ^= mixed >> np.uint64(33)
        first += int(mixed.sum(dtype=np.uint64))
        second += int((mixed * mixed).sum(dtype=np.uint64))
    mask = (1 << 64) - 1
    return f"{array.dtype.str[1:]}:{array.size}:{first & mask:x}:{second & mask:x}"


def mark_likeness(found: Sequence[Looked]) -> None:
    """Write into each entry which others have the same bytes, the same weights, or most of them."""
    firsts: dict[str, Looked] = {}
    distinct: list[Looked] = []
    for one in found:
        # Two empty files have little in common.
        if one.content and one.entry.is_model:
            first = firsts.setdefault(one.content, one)
            if first is not one:
                one.entry.same_as = first.entry.name
                continue
        distinct.append(one)
    for a, b, share in _alike([one for one in distinct if one.weights]):
        if share == 1.0:
            a.entry.same_weights.append(b.entry.name)
            b.entry.same_weights.append(a.entry.name)
        else:
            a.entry.like[b.entry.name] = b.entry.like[a.entry.name] = round(share, 3)


def _alike(models: Sequence[Looked]) -> list[tuple[Looked, Looked, float]]:
    """Pairs that share weights, with the share of the larger one's bytes; in the order of the models."""
    owners: dict[str, list[int]] = defaultdict(list)
    for number, model in enumerate(models):
        for digest in model.weights:
            owners[digest].append(number)
    pairs = {
        pair
        for numbers in owners.values()
        if len(numbers) <= _MOST_OWNERS
        for pair in combinations(numbers, 2)
    }
    result = []
    for a, b in sorted(pairs):
        if (share := shared(models[a].weights, models[b].weights)) >= LEAST_SHARE:
            result.append((models[a], models[b], share))
    return result


def shared(a: Mapping[str, int], b: Mapping[str, int]) -> float:
    """The part of the bytes of the larger one that both have; 1.0 only if nothing is in one alone."""
    if not a or not b:
        return 0.0
    both = sum(min(size, b[digest]) for digest, size in a.items() if digest in b)
    return both / max(sum(a.values()), sum(b.values()))
